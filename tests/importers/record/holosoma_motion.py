"""How data/holosoma/motion was made: by holosoma-inference's WholeBodyTrackingPolicy, over a robot that plays rows back.

holosoma-inference 0.1.3 and pin 4.1.0 from PyPI (python 3.11): `python -P holosoma_motion.py ../data/holosoma/motion`, after
`python -P holosoma_motion.py networks ../data/holosoma/motion` with torch 2.13.0 exported network and motion as holosoma's export does
(opset 13; obs, time_step -> actions and the frame). Network, motion and robot are made up here; the motion starts with the policy.
"""

import json
import sys
import types
from dataclasses import replace
from pathlib import Path

import numpy as np

JOINTS = ["left_hip", "left_knee", "waist_yaw", "waist_roll", "right_hip", "right_knee"]
PARENTS = {
    "left_hip": "pelvis",
    "left_knee": "left_hip",
    "waist_yaw": "pelvis",
    "waist_roll": "waist_yaw",
    "right_hip": "pelvis",
    "right_knee": "right_hip",
}
AXES = {"waist_yaw": "0 0 1", "waist_roll": "1 0 0"}
N, ROWS, FRAMES = len(JOINTS), 104, 80
DIMS = {"motion_command": 2 * N, "motion_ref_ori_b": 6, "base_ang_vel": 3, "dof_pos": N, "dof_vel": N, "actions": N}
SCALES = dict.fromkeys(DIMS, 1.0) | {"dof_vel": 0.5}
DEFAULT, ACTION_SCALE = [-0.3, 0.6, 0.0, 0.0, -0.3, 0.6], [0.55, 0.35, 0.44, 0.44, 0.55, 0.35]


def urdf() -> str:
    """The robot's tree: links are named as the joints that move them, the torso is that of waist_roll."""
    links = "".join(f'<link name="{name}_link"/>' for name in ("pelvis", *JOINTS))
    joint = (
        '<joint name="{0}" type="revolute"><origin xyz="0 0 0.1" rpy="0 0 0"/><parent link="{1}_link"/><child link="{0}_link"/>'
        '<axis xyz="{2}"/><limit effort="1" velocity="1" lower="-3" upper="3"/></joint>'
    )
    joints = "".join(joint.format(name, PARENTS[name], AXES.get(name, "0 1 0")) for name in JOINTS)
    return f'<robot name="made_up">{links}{joints}</robot>'


def waves(rng: np.random.Generator, rows: int, n: int, size: float) -> np.ndarray:
    time = np.arange(rows)[:, None] * 0.02
    return np.float32(np.round(256 * size * np.sin(time * rng.uniform(1, 9, n) + rng.uniform(0, 6, n))) / 256)


def unit(quat: np.ndarray) -> np.ndarray:
    return (quat / np.linalg.norm(quat, axis=1, keepdims=True)).astype(np.float32)


def write_network(path: Path) -> None:
    import torch

    rng = np.random.default_rng(9)
    quat = unit(np.concatenate([waves(rng, FRAMES, 3, 0.3), 0.8 + waves(rng, FRAMES, 1, 0.1)], axis=1))
    tables = [waves(rng, FRAMES, N, 0.5), waves(rng, FRAMES, N, 3.0), waves(rng, FRAMES, 3, 0.4), quat]

    class Exported(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.actor = torch.nn.Sequential(
                torch.nn.Linear(sum(DIMS.values()), 32), torch.nn.ELU(), torch.nn.Linear(32, N)
            )
            self.tables = [torch.from_numpy(table) for table in tables]

        def forward(self, obs: torch.Tensor, time_step: torch.Tensor) -> tuple[torch.Tensor, ...]:
            frame = torch.clamp(time_step.long().squeeze(-1), max=FRAMES - 1)
            return self.actor(obs), *(table[frame] for table in self.tables)

    torch.manual_seed(9)
    names = ["actions", "joint_pos", "joint_vel", "ref_pos_xyz", "ref_quat_xyzw"]
    path.parent.mkdir(parents=True, exist_ok=True)
    args = (torch.zeros(1, sum(DIMS.values())), torch.zeros(1, 1))
    torch.onnx.export(
        Exported().eval(),
        args,
        str(path),
        input_names=["obs", "time_step"],
        output_names=names,
        opset_version=13,
        dynamo=False,
    )


def attach_metadata(path: Path) -> None:
    import onnx

    model = onnx.load(str(path))
    del model.metadata_props[:]
    gains = {"kp": [40.0 + i for i in range(N)], "kd": [1.0 + 0.1 * i for i in range(N)]}
    metadata = {
        "dof_names": JOINTS,
        **gains,
        "action_scale": ACTION_SCALE,
        "robot_urdf": urdf(),
        "robot_urdf_path": "made_up.urdf",
    }
    for key, value in metadata.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, json.dumps(value)
    onnx.save(model, str(path))


class Robot:
    """What the policy takes for the robot's interface."""

    backend, kp_level = "played", 1.0

    def __init__(self, rows: dict[str, np.ndarray]) -> None:
        self.rows, self.row, self.targets = rows, 0, []

    def update_config(self, config: object) -> None: ...

    def get_low_state(self) -> np.ndarray:
        r, i = self.rows, self.row
        parts = [np.zeros(3), r["base_quat"][i], r["joint_pos"][i], np.zeros(3), r["gyro"][i], r["joint_vel"][i]]
        return np.concatenate(parts)[None].astype(np.float64)

    def send_low_command(self, q: np.ndarray, *_: object, **__: object) -> None:
        self.targets.append(q.copy())
        self.row += 1


def made_policy(path: Path, played: Robot) -> object:
    sys.modules.setdefault("wandb", types.ModuleType("wandb"))
    from holosoma_inference.config.config_types.inference import InferenceConfig
    from holosoma_inference.config.config_types.observation import ObservationConfig
    from holosoma_inference.config.config_values import robot as robots
    from holosoma_inference.config.config_values import task as tasks
    from holosoma_inference.policies import WholeBodyTrackingPolicy, base, wbt

    order, pose = tuple(range(N)), tuple(DEFAULT)
    robot = replace(
        robots.g1_29dof, robot_type="made_up", robot="made_up", num_motors=N, num_joints=N, dof_names=tuple(JOINTS)
    )
    robot = replace(robot, default_dof_angles=pose, default_motor_angles=pose, motor2joint=order, joint2motor=order)
    robot = replace(robot, dof_names_upper_body=(), dof_names_lower_body=tuple(JOINTS), motor_kp=None, motor_kd=None)
    stiff = {"stiff_startup_pos": pose, "stiff_startup_kp": (1.0,) * N, "stiff_startup_kd": (1.0,) * N}
    robot = replace(robot, **stiff, motion={"body_name_ref": ["waist_roll_link"]}, default_per_joint_action_scale=None)
    observation = ObservationConfig(
        obs_dict={"actor_obs": list(DIMS)}, obs_dims=DIMS, obs_scales=SCALES, history_length_dict={"actor_obs": 1}
    )
    task = replace(tasks.wbt, model_path=str(path), rl_rate=50, skip_stiff_prompt=True)
    task = replace(task, velocity_input="injected", state_input="injected")
    base.create_interface = lambda *_: played
    wbt.ClockSub = lambda: types.SimpleNamespace(start=lambda: None, reset_origin=lambda: None, get_clock=lambda: 0)
    nothing = types.SimpleNamespace(
        start=lambda: None, zero=lambda: None, poll_velocity=lambda: None, poll_commands=list
    )
    WholeBodyTrackingPolicy._injected_velocity_input = WholeBodyTrackingPolicy._injected_command_provider = nothing
    policy = WholeBodyTrackingPolicy(InferenceConfig(robot=robot, observation=observation, task=task))
    policy._handle_start_policy()
    policy._handle_start_motion_clip()
    return policy


def main(folder: Path) -> None:
    rng = np.random.default_rng(10)
    attach_metadata(folder / "policy.onnx")
    quat = np.concatenate([0.7 + waves(rng, ROWS, 1, 0.1), waves(rng, ROWS, 3, 0.4)], axis=1)
    rows = {"joint_pos": np.float32(DEFAULT) + waves(rng, ROWS, N, 0.5), "joint_vel": waves(rng, ROWS, N, 6.0)}
    played = Robot({**rows, "gyro": waves(rng, ROWS, 3, 3.0), "base_quat": unit(quat)})
    policy = made_policy(folder / "policy.onnx", played)
    out: dict[str, list[np.ndarray]] = {"observation": [], "action": []}
    for _ in range(ROWS):
        policy.policy_action()
        out["observation"].append(policy.obs_buf_dict["actor_obs"][0].copy())
        out["action"].append(policy.last_policy_action[0].copy())
    arrays = {
        key: np.asarray(value, np.float32) for key, value in {**played.rows, "target": played.targets, **out}.items()
    }
    np.savez_compressed(folder / "rows.npz", joint_names=np.array(JOINTS), **arrays)
    scales = "".join(f"{term} = {scale}\n" for term, scale in SCALES.items())
    head = f"rl_rate = 50.0\npolicy_action_scale = 1.0\nterms = {json.dumps(list(DIMS))}\n"
    (folder / "holosoma.toml").write_text(f"{head}default_dof_angles = {DEFAULT}\n\n[obs_scales]\n{scales}")


if __name__ == "__main__":
    write_network(Path(sys.argv[2]) / "policy.onnx") if sys.argv[1] == "networks" else main(Path(sys.argv[1]))
