"""How tests/importers/data/leapp was made: leapp 0.7.2, safetensors, torch 2.13.0, onnxruntime 1.31.1.

A policy annotated as Isaac Lab 3.0's exporter annotates a velocity task (isaaclab/utils/leapp/export_annotator.py and proxy.py: names of
inputs, kinds, connections, states, gains as static outputs), traced and exported by LEAPP, and run by LEAPP's own InferenceManager.

    pip install --no-deps leapp==0.7.2 safetensors fast-sugiyama
    python -P tests/importers/record/leapp.py
"""

import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import torch
from leapp import (
    GraphConfigs,
    InferenceManager,
    InputKindEnum,
    OutputKindEnum,
    TensorSemantics,
    annotate,
    compile_graph,
    start,
    stop,
)

OUT = Path(__file__).parents[1] / "data" / "leapp"
ROWS, HISTORY = 125, 3
NAMES = [f"{leg}_{part}_joint" for part in ("hip", "thigh", "calf") for leg in ("FL", "FR", "RL", "RR")]
TASK = "Isaac-Velocity-Flat-Go2-v0"
ORDER = ("root_ang_vel_b", "root_quat_w", "base_velocity", "joint_pos", "joint_vel")
GAINS = ((25.0, "kp", "stiffness"), (0.5, "kd", "damping"))


def state(name: str, ref: torch.Tensor, kind: InputKindEnum, elements: list[str]) -> TensorSemantics:
    """proxy.py: `robot_<property>`, connection `state:robot:<property>`."""
    link = {"isaaclab_connection": f"state:robot:{name}"}
    return TensorSemantics(name=f"robot_{name}", ref=ref, kind=kind, element_names=[elements], extra=link)


def gravity(quat: torch.Tensor) -> torch.Tensor:
    """export_annotator.py, _wrap_projected_gravity: of a quaternion xyzw."""
    down = torch.zeros((*quat.shape[:-1], 3))
    down[..., 2] = -1.0
    xyz, w = quat[..., :3], quat[..., 3:4]
    t = torch.cross(xyz, down, dim=-1) * 2.0
    return down - w * t + torch.cross(xyz, t, dim=-1)


def trace() -> None:
    torch.manual_seed(4)
    default = torch.tensor([[0.1, -0.1, 0.1, -0.1, 0.8, 0.8, 1.0, 1.0, -1.5, -1.5, -1.5, -1.5]])
    width = 3 * HISTORY + 3 + 3 + 36
    net = torch.nn.Sequential(torch.nn.Linear(width, 16), torch.nn.ELU(), torch.nn.Linear(16, 12))
    axes = ["x", "y", "z"]
    velocity = TensorSemantics(
        name="base_velocity",
        ref=torch.zeros(1, 3),
        kind=InputKindEnum.COMMAND_BODY_VELOCITY,
        element_names=[["lin_vel_x", "lin_vel_y", "ang_vel_z"]],
        extra={"isaaclab_connection": "command:base_velocity"},
    )
    gyro = annotate.input_tensors(
        TASK, state("root_ang_vel_b", torch.zeros(1, 3), InputKindEnum.BODY_ANGULAR_VELOCITY, axes)
    )
    past = annotate.state_tensors(TASK, {"h_policy_base_ang_vel": torch.full((HISTORY, 1, 3), 0.05)})
    past = torch.cat([past[1:], gyro.unsqueeze(0) * 0.25], dim=0)
    past = annotate.update_state(TASK, {"h_policy_base_ang_vel": past})
    upright = torch.tensor([[0.0, 0.0, 0.0, 1.0]])
    quat = annotate.input_tensors(
        TASK, state("root_quat_w", upright, InputKindEnum.BODY_ROTATION, ["qx", "qy", "qz", "qw"])
    )
    command = annotate.input_tensors(TASK, velocity)
    pos = annotate.input_tensors(TASK, state("joint_pos", torch.zeros(1, 12), InputKindEnum.JOINT_POSITION, NAMES))
    vel = annotate.input_tensors(TASK, state("joint_vel", torch.zeros(1, 12), InputKindEnum.JOINT_VELOCITY, NAMES))
    last = annotate.state_tensors(TASK, {"last_action": torch.zeros(1, 12)})
    history = past.permute(1, 0, 2).reshape(1, -1)
    parts = [history, gravity(quat), command, pos - default, vel * 0.05, last]
    action = net(torch.cat(parts, dim=-1))
    target = action * 0.25 + default
    annotate.update_state(TASK, {"last_action": action})
    write = {"isaaclab_connection": "write:robot:set_joint_position_target_index"}
    output = TensorSemantics(
        name="joint_pos", ref=target, kind=OutputKindEnum.JOINT_POSITION, element_names=[NAMES], extra=write
    )
    gains = [
        TensorSemantics(
            name=f"joint_pos_{kind}_gains",
            ref=torch.full((1, 12), value) + torch.arange(12) * value / 50,
            kind=kind,
            element_names=[NAMES],
            extra={"isaaclab_connection": f"write:robot:write_joint_{long}_to_sim_index"},
        )
        for value, kind, long in GAINS
    ]
    annotate.output_tensors(TASK, [output], static_outputs=gains, export_with="onnx")


def signals() -> dict[str, np.ndarray]:
    random = np.random.default_rng(6)
    t = np.arange(ROWS)[:, None] * 0.02
    waves = random.uniform(0.5, 3.0, 12) * t + random.uniform(0, 6, 12)
    quat = np.cumsum(random.normal(0.0, 0.03, (ROWS, 4)), axis=0) + np.array([0.1, -0.1, 0.3, 0.9])
    given = {
        "root_ang_vel_b": random.normal(0, 0.5, (ROWS, 3)),
        "root_quat_w": quat / np.linalg.norm(quat, axis=1, keepdims=True),  # xyzw
        "joint_pos": np.linspace(0.3, -1.4, 12) + 0.5 * np.sin(waves),
        "joint_vel": 4.0 * np.cos(waves),
        "base_velocity": np.concatenate([np.sin(t), np.cos(2 * t), -np.sin(3 * t)], axis=1),
    }
    return {key: value.astype(np.float32) for key, value in given.items()}


def main() -> None:
    os.chdir(tempfile.mkdtemp())
    start(name="go2")
    trace()
    stop()
    compile_graph(visualize=False, graph_configs=GraphConfigs(frequency=50.0))
    made = Path("go2")
    shutil.rmtree(OUT, ignore_errors=True)
    shutil.copytree(made, OUT, ignore=shutil.ignore_patterns("*.log", "*.png", "*.txt"))
    manager = InferenceManager(str(next(OUT.glob("*.yaml"))))
    given, found = signals(), {}
    for row in range(ROWS):
        inputs = {
            f"{TASK}/{'' if key == 'base_velocity' else 'robot_'}{key}": torch.tensor(value[row : row + 1])
            for key, value in given.items()
        }
        for key, value in manager.run_policy(inputs).items():
            found.setdefault(key.split("/")[1], []).append(value.numpy()[0].copy())
    target = np.array(found["joint_pos"])
    inputs = np.concatenate(
        [given[key] for key in ORDER], axis=1
    )  # LEAPP has no single observation: what its graph takes
    gains = {key: np.array(found[f"joint_pos_{key}_gains"][0]) for key in ("kp", "kd")}
    np.savez_compressed(
        OUT / "rows.npz", **given, **gains, observation=inputs, action=target, target=target, joints=np.array(NAMES)
    )


if __name__ == "__main__":
    main()
