"""How data/holosoma was made: by holosoma-inference's own LocomotionPolicy, with the robot replaced by one that plays rows back.

holosoma-inference 0.1.3 and holosoma 0.0.3 from PyPI (python 3.11): `python -P holosoma.py ../data/holosoma`, after `python -P
holosoma.py networks ../data/holosoma` with torch 2.13.0 exported the networks as holosoma's export does (opset 13, actor_obs ->
action). Networks and numbers are made up here. "walk" carries the experiment_config that holosoma writes, its g1_29dof cut down
to a smaller robot; "history" does not, as files of before, and its holosoma.toml is what a user then writes down of the
configuration that holosoma-inference has in Python.
"""

import json
import sys
import types
from dataclasses import replace
from pathlib import Path

import numpy as np

JOINTS = [
    "left_hip_joint",
    "left_knee_joint",
    "left_ankle_joint",
    "right_hip_joint",
    "right_knee_joint",
    "right_ankle_joint",
]
N, ROWS, SCALE = len(JOINTS), 112, 0.25
TERMS = [
    "base_ang_vel",
    "projected_gravity",
    "command_lin_vel",
    "command_ang_vel",
    "dof_pos",
    "dof_vel",
    "actions",
    "sin_phase",
    "cos_phase",
]
DIMS = {
    "base_ang_vel": 3,
    "projected_gravity": 3,
    "command_lin_vel": 2,
    "command_ang_vel": 1,
    "dof_pos": N,
    "dof_vel": N,
    "actions": N,
    "sin_phase": 2,
    "cos_phase": 2,
}
SCALES = dict.fromkeys(DIMS, 1.0) | {"base_ang_vel": 0.25, "dof_vel": 0.05}
PLAIN = [term for term in TERMS if "phase" not in term]
CASES = {
    "walk": {"terms": TERMS, "history": 1, "gait_period": 0.9, "use_phase": True},
    "history": {"terms": PLAIN, "history": 4, "gait_period": 1.0, "use_phase": False},
}
DEFAULT = [-0.312, 0.669, -0.363, -0.312, 0.669, -0.363]
KP, KD = [40.179, 99.098, 28.501, 40.179, 99.098, 28.501], [2.558, 6.309, 1.814, 2.558, 6.309, 1.814]


def write_networks(folder: Path) -> None:
    """As holosoma/utils/inference_helpers.py exports."""
    import torch

    torch.manual_seed(5)
    for name, case in CASES.items():
        width = case["history"] * sum(DIMS[term] for term in case["terms"])
        network = torch.nn.Sequential(
            torch.nn.Linear(width, 32), torch.nn.ELU(), torch.nn.Linear(32, 32), torch.nn.ELU(), torch.nn.Linear(32, N)
        ).eval()
        with torch.no_grad():
            network[4].weight *= 4.0
        path = folder / name / "policy.onnx"
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.onnx.export(
            network,
            (torch.zeros(1, width),),
            str(path),
            input_names=["actor_obs"],
            output_names=["action"],
            opset_version=13,
            dynamo=False,
        )


def attach_metadata(path: Path, name: str) -> None:
    """As holosoma/utils/inference_helpers.py and holosoma/agents/ppo/ppo.py attach it."""
    import onnx

    metadata = {
        "dof_names": JOINTS,
        "kp": KP,
        "kd": KD,
        "command_ranges": {
            "lin_vel_x": [-1.0, 1.0],
            "lin_vel_y": [-0.6, 0.6],
            "ang_vel_yaw": [-1.2, 1.2],
            "heading": [-3.14, 3.14],
        },
        "robot_urdf": "<robot name='biped'/>",
        "robot_urdf_path": "biped.urdf",
        "iteration": 100,
    }
    if name == "walk":
        metadata["experiment_config"] = experiment_config()
    model = onnx.load(str(path))
    del model.metadata_props[:]
    for key, value in metadata.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, json.dumps(value)
    onnx.save(model, str(path))


def experiment_config() -> dict:
    """The configuration of holosoma's own g1_29dof, of a smaller robot."""
    from holosoma.config_values import experiment

    config = experiment.g1_29dof.to_serializable_dict()
    robot = config["robot"]
    for key, value in robot.items():
        if isinstance(value, list):
            robot[key] = value[:0]
    limits = {"lower": [-1.5] * N, "upper": [1.6] * N}
    robot |= {f"dof_pos_{side}_limit_list": numbers for side, numbers in limits.items()}
    robot |= {
        "dof_names": JOINTS,
        "dof_vel_limit_list": [32.0] * N,
        "dof_effort_limit_list": [88.0] * N,
        "actions_dim": N,
        "dof_obs_size": N,
    }
    robot["init_state"]["default_joint_angles"] = dict(zip(JOINTS, DEFAULT, strict=True))
    parts = ("hip", "knee", "ankle")
    robot["control"] |= {"stiffness": dict(zip(parts, KP, strict=False)), "damping": dict(zip(parts, KD, strict=False))}
    config["command"]["setup_terms"]["locomotion_gait"]["params"]["gait_period"] = CASES["walk"]["gait_period"]
    del config["observation"]["groups"]["critic_obs"]
    return config


def signals(rng: np.random.Generator) -> dict[str, np.ndarray]:
    time = np.arange(ROWS)[:, None] * 0.02

    def waves(n: int, size: float) -> np.ndarray:
        sines = np.sin(time * rng.uniform(1, 9, n) + rng.uniform(0, 6, n))
        return np.float32(np.round(256 * size * sines) / 256)

    quat = np.concatenate([1 + waves(1, 0.1), waves(3, 0.3)], axis=1)
    command = waves(3, 0.8)
    command[30:50] = 0.0  # stands, and walks again
    command[90:95] = [0.005, 0.004, -0.009]  # small in both parts
    return {
        "joint_pos": waves(N, 0.5) + np.float32(DEFAULT),
        "joint_vel": waves(N, 8.0),
        "gyro": waves(3, 3.0),
        "base_quat": (quat / np.linalg.norm(quat, axis=1, keepdims=True)).astype(np.float32),
        "command.velocity": command,
    }


class Robot:
    """What the policy takes for the robot's interface."""

    backend, kp_level = "played", 1.0

    def __init__(self, rows: dict[str, np.ndarray]) -> None:
        self.rows, self.row, self.targets = rows, 0, []

    def update_config(self, config: object) -> None: ...

    def get_low_state(self) -> np.ndarray:
        r, i = self.rows, self.row
        return np.concatenate(
            [np.zeros(3), r["base_quat"][i], r["joint_pos"][i], np.zeros(3), r["gyro"][i], r["joint_vel"][i]]
        )[None].astype(np.float64)

    def send_low_command(self, q: np.ndarray, *_: object, **__: object) -> None:
        self.targets.append(q.copy())
        self.row += 1


def made_robot(robots: types.ModuleType) -> object:
    """The tool's configuration of a G1, of a smaller robot."""
    order, none = tuple(range(N)), ("default_per_joint_action_scale", "joint_offsets_deg")
    return replace(
        robots.g1_29dof,
        robot_type="biped",
        robot="biped",
        num_motors=N,
        num_joints=N,
        default_dof_angles=tuple(DEFAULT),
        default_motor_angles=tuple(DEFAULT),
        motor2joint=order,
        joint2motor=order,
        dof_names=tuple(JOINTS),
        dof_names_upper_body=(),
        dof_names_lower_body=tuple(JOINTS),
        motor_kp=None,
        motor_kd=None,
        **{key: None for key in none if hasattr(robots.g1_29dof, key)},
    )


def made_policy(case: dict, path: Path, played: Robot) -> object:
    """The tool's policy, told to start."""
    for unused in ("pinocchio", "wandb"):  # of motion tracking, and of downloads
        sys.modules.setdefault(unused, types.ModuleType(unused))
    from holosoma_inference.config.config_types.inference import InferenceConfig
    from holosoma_inference.config.config_types.observation import ObservationConfig
    from holosoma_inference.config.config_values import robot as robots
    from holosoma_inference.config.config_values import task as tasks
    from holosoma_inference.policies import base
    from holosoma_inference.policies.locomotion import LocomotionPolicy

    history = {"actor_obs": case["history"]}
    observation = ObservationConfig(
        obs_dict={"actor_obs": case["terms"]}, obs_dims=DIMS, obs_scales=SCALES, history_length_dict=history
    )
    same = {key: case[key] for key in ("gait_period", "use_phase")}
    task = replace(tasks.locomotion, model_path=str(path), rl_rate=50, policy_action_scale=SCALE, **same)
    task = replace(task, velocity_input="injected", state_input="injected")
    base.create_interface = lambda *_: played
    nothing = types.SimpleNamespace(
        start=lambda: None, zero=lambda: None, poll_velocity=lambda: None, poll_commands=list
    )
    LocomotionPolicy._injected_velocity_input = LocomotionPolicy._injected_command_provider = nothing
    policy = LocomotionPolicy(InferenceConfig(robot=made_robot(robots), observation=observation, task=task))
    policy.stand_command[0, 0] = 1
    policy._handle_start_policy()
    return policy


def record(name: str, case: dict, folder: Path, rng: np.random.Generator) -> None:
    played = Robot(signals(rng))
    policy = made_policy(case, folder / name / "policy.onnx", played)
    from holosoma_inference.inputs.api.commands import VelCmd

    out: dict[str, list[np.ndarray]] = {"observation": [], "action": [], "gravity": []}
    for row in range(ROWS):  # what `run` does in a tick
        x, y, turn = (float(value) for value in played.rows["command.velocity"][row])
        policy._apply_velocity(VelCmd(lin_vel=(x, y), ang_vel=turn))
        if policy.use_phase:
            policy.update_phase_time()
        seen = policy.get_current_obs_buffer_dict(played.get_low_state())
        policy.policy_action()
        out["observation"].append(policy.obs_buf_dict["actor_obs"][0].copy())
        out["action"].append(policy.last_policy_action[0].copy())
        out["gravity"].append(seen["projected_gravity"][0].copy())
    arrays = {
        key: np.asarray(value, np.float32) for key, value in {**played.rows, "target": played.targets, **out}.items()
    }
    np.savez_compressed(folder / name / "rows.npz", joint_names=np.array(JOINTS), **arrays)
    if name == "history":
        scales = "".join(f"{term} = {SCALES[term]}\n" for term in case["terms"])
        head = f"rl_rate = 50.0\npolicy_action_scale = {SCALE}\n"
        head += f"terms = {json.dumps(case['terms'])}\nhistory_length = {case['history']}\n"
        (folder / name / "holosoma.toml").write_text(f"{head}default_dof_angles = {DEFAULT}\n\n[obs_scales]\n{scales}")


def main(folder: Path) -> None:
    rng = np.random.default_rng(5)
    for name, case in CASES.items():
        attach_metadata(folder / name / "policy.onnx", name)
        record(name, case, folder, rng)


if __name__ == "__main__":
    write_networks(Path(sys.argv[2])) if sys.argv[1] == "networks" else main(Path(sys.argv[1]))
