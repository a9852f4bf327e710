"""How data/motrix was made: by motrix-deploy, but for the task go2_walk/v1, whose code is worked out again.

motrix-deploy 0.4.0 from PyPI (python 3.11): `python -P motrix.py ../data/motrix`, after `python -P motrix.py networks <folder>`
with torch 2.13.0. The tasks are a package that is not published; the rules of go2_walk/v1 are those of
github.com/Motphys/MotrixLab, b8b54d4, motrix_deploy_tasks/src/motrix_deploy_tasks/tasks/go2_walk.py:
Go2WalkPolicyProcessor.build_observation (rates, gravity, joints, velocities, last action, command, phases: all 0 at the first
step and while |command| is below standing_threshold, though time goes on) and .process_action (the action within action_lower
.. upper, which is the last action; the target within the robot's limits). Networks and numbers are made up here.
"""

import sys
from pathlib import Path
from typing import ClassVar

import numpy as np

JOINTS = [f"{leg}_{part}_joint" for leg in ("FL", "RR") for part in ("hip", "thigh", "calf")]
N, ROWS, PERIOD = len(JOINTS), 130, 0.02
DEFAULT = [0.1, 0.9, -1.8] * 2
CONFIG = {
    "action_scale": [0.25, 0.5, 0.5] * 2,
    "kp": [35.0, 36.0, 37.0] * 2,
    "kd": [0.5, 0.6, 0.7] * 2,
    "action_lower": [-1.0, -0.8, -0.9] * 2,
    "action_upper": [1.0, 0.9, 0.8] * 2,
    "command_lower": [-0.6, -0.4, -0.8],
    "command_upper": [1.0, 0.4, 0.8],
    "command_scale": [1.0, 1.0, 0.5],
    "feet_phase_offsets": [0.0, 0.5, 0.5, 0.0],
    "gait_frequency_hz": 1.7,
    "standing_threshold": 0.1,
    "termination_min_up_z": 0.3,
}


def write_network(path: Path) -> None:
    import torch

    torch.manual_seed(7)
    network = torch.nn.Sequential(torch.nn.Linear(13 + 3 * N, 32), torch.nn.ELU(), torch.nn.Linear(32, N))
    with torch.no_grad():
        network[2].weight *= 4.0
    path.parent.mkdir(parents=True, exist_ok=True)
    names = {"input_names": ["obs"], "output_names": ["actions"]}
    torch.onnx.export(network.eval(), (torch.zeros(1, 13 + 3 * N),), str(path), dynamo=False, **names)


def write(folder: Path):
    from motrix_deploy.artifact.io import sha256_bytes, write_artifact
    from motrix_deploy.artifact.schema import ControlSpec, DeploymentManifest, PolicySpec, SourceSpec, TaskSpec
    from motrix_deploy.contracts import RobotSpec, TensorSpec
    from motrix_deploy.task import DeployTask
    from pydantic import create_model

    base = create_model("Spec", __base__=TaskSpec, **{key: (type(value), ...) for key, value in CONFIG.items()})

    class Spec(base):
        task_name: ClassVar[str] = "go2_walk/v1"

    class Task(DeployTask):
        spec_type = Spec

    import motrix_deploy.task

    motrix_deploy.task.load_task_type = lambda _: Task  # the package of tasks is not published
    network = folder / "policy.onnx"
    data = network.read_bytes()
    robot = RobotSpec(
        base_link_name="base",
        joint_names=tuple(JOINTS),
        default_joint_position=np.float32(DEFAULT),
        position_lower=np.float32([-0.3, 0.6, -2.2] * 2),
        position_upper=np.float32([0.5, 1.25, -1.5] * 2),
        torque_limit=np.float32([23.7, 23.7, 35.5] * 2),
    )
    policy = PolicySpec(
        component_version="onnx/v1",
        payload_path="policy/policy.onnx",
        sha256=sha256_bytes(data),
        input=TensorSpec("obs", (1, 13 + 3 * N)),
        output=TensorSpec("actions", (1, N)),
    )
    manifest = DeploymentManifest(
        schema_version="motrix-deploy/v1",
        source=SourceSpec(framework="made up", run_id="1", checkpoint="1"),
        policy=policy,
        robot=robot,
        task=Spec(**CONFIG),
        control=ControlSpec(period_s=PERIOD, state_timeout_s=0.1),
    )
    artifact = write_artifact(folder / "walk.deploy", manifest, {"policy/policy.onnx": data})
    network.unlink()
    return artifact


def gravity(xyzw: np.ndarray) -> np.ndarray:
    x, y, z, w = xyzw
    return -np.float32([2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)])


def signals(rng: np.random.Generator) -> dict[str, np.ndarray]:
    time = np.arange(ROWS)[:, None] * PERIOD

    def waves(n: int, size: float) -> np.ndarray:
        sines = np.sin(time * rng.uniform(1, 9, n) + rng.uniform(0, 6, n))
        return np.float32(np.round(256 * size * sines) / 256)

    quat = np.concatenate([1 + waves(1, 0.1), waves(3, 0.3)], axis=1)
    command = waves(3, 0.35)
    command[40:60] = [0.02, -0.03, 0.04]  # stands; time goes on
    return {
        "joint_pos": np.float32(DEFAULT) + waves(N, 0.4),
        "joint_vel": waves(N, 8.0),
        "gyro": waves(3, 3.0),
        "base_quat": (quat / np.linalg.norm(quat, axis=1, keepdims=True)).astype(np.float32),
        "command.velocity": command,
    }


def main(folder: Path) -> None:
    from motrix_deploy.policy import OnnxPolicy

    artifact = write(folder)
    manifest, rows = artifact.manifest, signals(np.random.default_rng(7))
    policy = OnnxPolicy(artifact.policy_path, manifest.policy.input, manifest.policy.output)
    robot, spec = manifest.robot, CONFIG
    last, out = np.zeros(N, np.float32), {"observation": [], "action": [], "target": [], "gravity": []}
    for row in range(ROWS):
        velocity, phase = rows["command.velocity"][row], np.zeros(4, np.float32)
        if row > 0 and np.linalg.norm(velocity) >= spec["standing_threshold"]:
            phase = np.mod(row * PERIOD * spec["gait_frequency_hz"] + np.float32(spec["feet_phase_offsets"]), 1.0)
        down = gravity(rows["base_quat"][row][[1, 2, 3, 0]])
        joints = rows["joint_pos"][row] - robot.default_joint_position, rows["joint_vel"][row]
        observation = np.concatenate([rows["gyro"][row], down, *joints, last, velocity, phase]).astype(np.float32)
        action = policy.infer(observation)
        last = np.clip(action, np.float32(spec["action_lower"]), np.float32(spec["action_upper"]))
        target = robot.default_joint_position + np.float32(spec["action_scale"]) * last
        target = np.clip(target, robot.position_lower, robot.position_upper)
        for key, value in zip(out, (observation, action, target, down), strict=True):
            out[key].append(value.copy())
    arrays = {**rows, **{key: np.asarray(value, np.float32) for key, value in out.items()}}
    np.savez_compressed(folder / "walk.npz", joint_names=np.array(JOINTS), **arrays)


if __name__ == "__main__":
    write_network(Path(sys.argv[2]) / "policy.onnx") if sys.argv[1] == "networks" else main(Path(sys.argv[1]))
