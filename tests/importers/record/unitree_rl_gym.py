"""How data/unitree_rl_gym was made: by unitree_rl_gym's own deploy_real.py and deploy_mujoco.py, with the robot and the simulator
replaced.

unitree_rl_gym of 2025-07-25 (github.com/unitreerobotics/unitree_rl_gym, 276801e), a checkout of which is the first argument;
python 3.11, torch 2.13.0, numpy 2.4.6, scipy, pyyaml: `python unitree_rl_gym.py <checkout> ../data/unitree_rl_gym`. Its
`Controller.run` reads a low state and writes a low command, which is all that is replaced; its deploy_mujoco.py runs whole
against a simulator that plays rows back. Networks and numbers are made up here, the recurrent one in the form that
legged_gym/utils/helpers.py exports.
"""

import contextlib
import runpy
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
import yaml

ROWS = 120
LEGS = [f"{side}_{part}" for side in ("left", "right") for part in ("hip_yaw", "hip_pitch", "knee", "ankle")]
MOTORS = [LEGS[i] for i in (3, 2, 1, 0, 7, 6, 5, 4)] + ["waist_yaw", "left_arm", "right_arm"]
COMMON = {
    "kps": [100, 110, 150, 40, 100, 110, 150, 40],
    "kds": [2, 2, 4, 1.5, 2, 2, 4, 1.5],
    "default_angles": [0.0, -0.1, 0.3, -0.2, 0.0, -0.1, 0.3, -0.2],
    "ang_vel_scale": 0.25,
    "dof_pos_scale": 1.0,
    "dof_vel_scale": 0.05,
    "action_scale": 0.25,
    "cmd_scale": [2.0, 2.0, 0.25],
    "num_actions": 8,
    "num_obs": 35,
}
REAL = {
    "control_dt": 0.02,
    "msg_type": "hg",
    "imu_type": "pelvis",
    "lowcmd_topic": "rt/lowcmd",
    "lowstate_topic": "rt/lowstate",
    "policy_path": "{LEGGED_GYM_ROOT_DIR}/policy_lstm_1.pt",
    "leg_joint2motor_idx": [3, 2, 1, 0, 7, 6, 5, 4],
    **COMMON,
    "arm_waist_joint2motor_idx": [8, 9, 10],
    "arm_waist_kps": [300, 100, 100],
    "arm_waist_kds": [3, 2, 2],
    "arm_waist_target": [0, 0.2, -0.2],
    "max_cmd": [0.8, 0.5, 1.57],
}
MUJOCO = {
    "policy_path": "{LEGGED_GYM_ROOT_DIR}/policy_1.pt",
    "xml_path": "{LEGGED_GYM_ROOT_DIR}/scene.xml",
    "simulation_duration": 60.0,
    "simulation_dt": 0.002,
    "control_decimation": 10,
    **COMMON,
    "cmd_init": [0.5, 0.1, -0.2],
}


class PolicyExporterLSTM(torch.nn.Module):
    """The form of legged_gym/utils/helpers.py: the memory's state is kept in buffers of the module."""

    def __init__(self, observations: int, hidden: int, actions: int) -> None:
        super().__init__()
        self.actor = torch.nn.Sequential(torch.nn.Linear(hidden, 32), torch.nn.ELU(), torch.nn.Linear(32, actions))
        self.is_recurrent = True
        self.memory = torch.nn.LSTM(input_size=observations, hidden_size=hidden, num_layers=1)
        self.register_buffer("hidden_state", torch.zeros(1, 1, hidden))
        self.register_buffer("cell_state", torch.zeros(1, 1, hidden))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out, (h, c) = self.memory(x.unsqueeze(0), (self.hidden_state, self.cell_state))
        self.hidden_state[:] = h
        self.cell_state[:] = c
        return self.actor(out.squeeze(0))

    @torch.jit.export
    def reset_memory(self):
        self.hidden_state[:] = 0.0
        self.cell_state[:] = 0.0


def waves(rng: np.random.Generator, n: int, size: float) -> np.ndarray:
    time_s = np.arange(ROWS)[:, None] * 0.02
    return np.float32(np.round(256 * size * np.sin(time_s * rng.uniform(1, 9, n) + rng.uniform(0, 6, n))) / 256)


def signals(rng: np.random.Generator, joints: int) -> dict[str, np.ndarray]:
    quat = np.concatenate([1 + waves(rng, 1, 0.1), waves(rng, 3, 0.3)], axis=1)
    return {
        "joint_pos": waves(rng, joints, 0.6),
        "joint_vel": waves(rng, joints, 8.0),
        "gyro": waves(rng, 3, 3.0),
        "base_quat": (quat / np.linalg.norm(quat, axis=1, keepdims=True)).astype(np.float32),
        "sticks": waves(rng, 3, 1.0),
    }


def module(name: str, **content: object) -> None:
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__dict__.update(content)


def replace_sdk() -> None:
    def motor() -> SimpleNamespace:
        return SimpleNamespace(q=0.0, qd=0.0, dq=0.0, kp=0.0, kd=0.0, tau=0.0, mode=0)

    def command() -> SimpleNamespace:
        return SimpleNamespace(motor_cmd=[motor() for _ in range(35)], mode_pr=0, mode_machine=0, crc=0)

    def state() -> SimpleNamespace:
        motors = [motor() for _ in range(35)]
        return SimpleNamespace(tick=1, mode_machine=0, wireless_remote=b"", motor_state=motors, imu_state=None)

    def channel(*_: object) -> SimpleNamespace:
        return SimpleNamespace(Init=lambda *_: None, Write=lambda _: None)

    channels = {"ChannelPublisher": channel, "ChannelSubscriber": channel, "ChannelFactoryInitialize": lambda *_: None}
    for name in (
        "",
        ".core",
        ".utils",
        ".idl",
        ".idl.unitree_hg",
        ".idl.unitree_hg.msg",
        ".idl.unitree_go",
        ".idl.unitree_go.msg",
    ):
        module(f"unitree_sdk2py{name}")
    module("unitree_sdk2py.core.channel", **channels)
    module("unitree_sdk2py.utils.crc", CRC=lambda: SimpleNamespace(Crc=lambda _: 0))
    kinds = {
        f"unitree_{kind}_msg_dds__Low{what}_": {"Cmd": command, "State": state}[what]
        for kind in ("hg", "go")
        for what in ("Cmd", "State")
    }
    module("unitree_sdk2py.idl.default", **kinds)
    for kind in ("hg", "go"):
        module(f"unitree_sdk2py.idl.unitree_{kind}.msg.dds_", LowCmd_=object, LowState_=object)


def record_real(checkout: Path, folder: Path, rng: np.random.Generator) -> None:
    """Everything by deploy_real.Controller."""
    policy = PolicyExporterLSTM(REAL["num_obs"], 24, REAL["num_actions"]).eval()
    torch.jit.script(policy).save(str(folder / "policy_lstm_1.pt"))
    (folder / "real.yaml").write_text(yaml.safe_dump(REAL, sort_keys=False, default_flow_style=None))
    replace_sdk()
    sys.path.insert(0, str(checkout / "deploy/deploy_real"))
    import deploy_real

    controller = deploy_real.Controller(deploy_real.Config(str(folder / "real.yaml")))
    rows, out = (
        signals(rng, len(MOTORS)),
        {"observation": [], "action": [], "target": [], "command.velocity": [], "gravity": []},
    )
    for row in range(ROWS):
        state = controller.low_state
        for index, motor in enumerate(state.motor_state[: len(MOTORS)]):
            motor.q, motor.dq = rows["joint_pos"][row, index], rows["joint_vel"][row, index]
        state.imu_state = SimpleNamespace(quaternion=rows["base_quat"][row], gyroscope=rows["gyro"][row])
        ly, lx, rx = rows["sticks"][row]
        controller.remote_controller.ly, controller.remote_controller.lx, controller.remote_controller.rx = ly, lx, rx
        controller.run()
        out["observation"].append(controller.obs.copy())
        out["action"].append(controller.action.copy())
        out["target"].append([motor.q for motor in controller.low_cmd.motor_cmd[: len(MOTORS)]])
        out["command.velocity"].append(controller.cmd * controller.config.max_cmd)
        out["gravity"].append(deploy_real.get_gravity_orientation(rows["base_quat"][row]))
    save(folder / "real.npz", MOTORS, {**rows, **out})


def replace_simulator(rows: dict[str, np.ndarray], out: dict[str, list]) -> None:
    """A simulator that plays rows back, and notes the targets that torques were made of."""
    joints, decimation = len(LEGS), MUJOCO["control_decimation"]
    model = SimpleNamespace(opt=SimpleNamespace(timestep=0.0))
    sizes = {"qpos": np.zeros(7 + joints, np.float32), "qvel": np.zeros(6 + joints, np.float32)}
    data = SimpleNamespace(**sizes, ctrl=np.zeros(joints), steps=0)

    def mj_step(_: object, d: SimpleNamespace) -> None:
        row, d.steps = d.steps // decimation, d.steps + 1
        if d.steps > 1 and d.steps % decimation == 1:  # torques of the targets that the policy gave the tick before
            kp, kd = np.float32(MUJOCO["kps"]), np.float32(MUJOCO["kds"])
            out["target"].append((d.ctrl + kd * d.qvel[6:]) / kp + d.qpos[7:])
        row = min(row, ROWS - 1)
        d.qpos[3:7], d.qpos[7:] = rows["base_quat"][row], rows["joint_pos"][row]
        d.qvel[3:6], d.qvel[6:] = rows["gyro"][row], rows["joint_vel"][row]

    class Viewer(contextlib.AbstractContextManager):
        def __exit__(self, *_: object) -> None: ...
        def sync(self) -> None: ...
        def is_running(self) -> bool:
            return data.steps <= ROWS * decimation

    viewer = types.ModuleType("mujoco.viewer")
    viewer.launch_passive = lambda *_: Viewer()
    models = SimpleNamespace(from_xml_path=lambda _: model)
    module("mujoco", viewer=viewer, MjModel=models, MjData=lambda _: data, mj_step=mj_step)
    sys.modules["mujoco.viewer"] = viewer


def listening(load: Callable[[str], Callable], out: dict[str, list]) -> Callable:
    """torch.jit.load whose policies tell what they saw and gave."""

    def loaded(path: str) -> Callable:
        policy = load(path)

        def run(observation: torch.Tensor) -> torch.Tensor:
            action = policy(observation)
            out["observation"].append(observation[0].numpy().copy())
            out["action"].append(action[0].detach().numpy().copy())
            return action

        return run

    return loaded


def record_mujoco(checkout: Path, folder: Path, rng: np.random.Generator) -> None:
    """Everything by deploy_mujoco.py, whose simulator gives row after row."""
    sizes = (MUJOCO["num_obs"], 32, MUJOCO["num_actions"])
    policy = torch.nn.Sequential(torch.nn.Linear(*sizes[:2]), torch.nn.ELU(), torch.nn.Linear(*sizes[1:])).eval()
    torch.jit.script(policy).save(str(folder / "policy_1.pt"))
    configs = folder / "deploy/deploy_mujoco/configs"
    configs.mkdir(parents=True, exist_ok=True)
    (configs / "mujoco.yaml").write_text(yaml.safe_dump(MUJOCO, sort_keys=False, default_flow_style=None))
    rows, out = signals(rng, len(LEGS)), {"observation": [], "action": [], "target": []}
    replace_simulator(rows, out)
    load, torch.jit.load = torch.jit.load, listening(torch.jit.load, out)
    sys.argv = ["deploy_mujoco.py", "mujoco.yaml"]
    names = runpy.run_path(str(checkout / "deploy/deploy_mujoco/deploy_mujoco.py"), run_name="__main__")
    torch.jit.load = load
    (configs / "mujoco.yaml").rename(folder / "mujoco.yaml")
    for empty in (configs, configs.parent, configs.parent.parent):
        empty.rmdir()
    out |= {"command.velocity": [MUJOCO["cmd_init"]] * ROWS}
    out |= {"gravity": [names["get_gravity_orientation"](quat) for quat in rows["base_quat"]]}
    save(folder / "mujoco.npz", LEGS, {**rows, **{key: value[:ROWS] for key, value in out.items()}})


def save(path: Path, joints: list[str], arrays: dict) -> None:
    np.savez_compressed(
        path, joint_names=np.array(joints), **{key: np.asarray(value, np.float32) for key, value in arrays.items()}
    )


def main(checkout: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(2)
    time.sleep = lambda _: None
    module("legged_gym", LEGGED_GYM_ROOT_DIR=str(folder))
    record_real(checkout, folder, np.random.default_rng(2))
    record_mujoco(checkout, folder, np.random.default_rng(3))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
