"""How data/kinfer was made: packed by kinfer's own function, and run by its own runner (the Rust one, by its Python bindings).

kinfer 0.6.1 from PyPI (onnxruntime 1.20.0), with torch 2.13.0: `python -P kinfer.py ../data/kinfer`. Its export_fn does not
work with this torch, which exports here. The provider gives what kinfer-sim's gives: joints by name, gravity in m/s^2. The
network and the numbers are made up here; the carry is a GRU's memory and a counter, which begin at other values than 0.
"""

import datetime
import io
import sys
from pathlib import Path

import numpy as np
import onnx
import torch
from kinfer.export.serialize import pack
from kinfer.rust_bindings import ModelProviderABC, PyModelMetadata, PyModelRunner

JOINTS = ["left_hip", "left_knee", "right_hip", "right_knee"]
COMMANDS = ["xvel", "yvel", "yawrate", "baseheight"]
ROWS, PERIOD_S, HIDDEN = 130, 0.02, 24
INPUTS = 2 * len(JOINTS) + 3 + 3 + 3 + len(COMMANDS) + 1


class Init(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(4)
        self.start = torch.cat([0.1 * torch.randn(HIDDEN, generator=generator), torch.tensor([0.25])])

    def forward(self) -> torch.Tensor:
        return self.start + 0.0


class Step(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ih, self.hh = torch.nn.Linear(INPUTS, 3 * HIDDEN), torch.nn.Linear(HIDDEN, 3 * HIDDEN)
        self.out = torch.nn.Linear(HIDDEN, len(JOINTS))

    def forward(
        self, joint_angles, joint_angular_velocities, projected_gravity, accelerometer, gyroscope, command, time, carry
    ):
        hidden, counter = carry[:-1], carry[-1:]
        clock = torch.sin(6.2831853 * 1.25 * time)
        sensed = (
            joint_angles,
            0.05 * joint_angular_velocities,
            projected_gravity / 9.81,
            accelerometer / 9.81,
            gyroscope,
        )
        x = torch.cat([*sensed, command, clock])
        ri, zi, ni = torch.split(self.ih(x), HIDDEN)
        rh, zh, nh = torch.split(self.hh(hidden), HIDDEN)
        reset, update = torch.sigmoid(ri + rh), torch.sigmoid(zi + zh)
        hidden = (1 - update) * torch.tanh(ni + reset * nh) + update * hidden
        action = 0.8 * torch.tanh(self.out(hidden)) + 0.1 * torch.sin(counter) + 0.2
        return action, torch.cat([hidden, counter + 0.05])


def export(module: torch.nn.Module, names: list[str], sizes: list[int]) -> onnx.ModelProto:
    buffer = io.BytesIO()
    args = tuple(torch.zeros(size) for size in sizes)
    torch.onnx.export(module.eval(), args, buffer, input_names=names, dynamo=False)
    return onnx.load_model_from_string(buffer.getvalue())


class Provider(ModelProviderABC):
    """Gives row after row."""

    def __new__(cls, rows: dict[str, np.ndarray]) -> "Provider":
        self = super().__new__(cls)
        self.rows, self.row, self.targets = rows, 0, []
        return self

    def pre_fetch_inputs(self, input_types, metadata) -> None: ...

    def get_inputs(self, input_types, metadata) -> dict[str, np.ndarray]:
        return {name: self.rows[name][self.row] for name in input_types}

    def take_action(self, action, metadata) -> None:
        self.targets.append(action.copy())
        self.row += 1


def rows(rng: np.random.Generator) -> dict[str, np.ndarray]:
    time = np.arange(ROWS)[:, None] * PERIOD_S

    def waves(n: int, size: float) -> np.ndarray:
        sines = np.sin(time * rng.uniform(1, 9, n) + rng.uniform(0, 6, n))
        return np.float32(np.round(256 * size * sines) / 256)

    gravity = np.concatenate([waves(2, 0.3), -1 + waves(1, 0.1)], axis=1)
    return {
        "joint_angles": waves(4, 0.6),
        "joint_angular_velocities": waves(4, 6.0),
        "projected_gravity": (9.81 * gravity / np.linalg.norm(gravity, axis=1, keepdims=True)).astype(np.float32),
        "accelerometer": waves(3, 3.0) + np.float32([0, 0, 9.81]),
        "gyroscope": waves(3, 2.0),
        "command": waves(4, 0.8),
        "time": time.astype(np.float32),
    }


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(4)
    metadata = PyModelMetadata(JOINTS, COMMANDS, [HIDDEN + 1])
    names = [
        "joint_angles",
        "joint_angular_velocities",
        "projected_gravity",
        "accelerometer",
        "gyroscope",
        "command",
        "time",
        "carry",
    ]
    step = export(Step(), names, [len(JOINTS), len(JOINTS), 3, 3, 3, len(COMMANDS), 1, HIDDEN + 1])
    path = folder / "walk.kinfer"
    path.write_bytes(pack(export(Init(), [], []), step, metadata))
    provider = Provider(rows(np.random.default_rng(4)))
    runner = PyModelRunner(str(path), provider, None)
    runner.run(datetime.timedelta(seconds=PERIOD_S), total_steps=ROWS)
    targets = provider.targets
    given = provider.rows
    np.savez_compressed(
        folder / "rows.npz",
        joint_names=np.array(JOINTS),
        joint_pos=given["joint_angles"],
        joint_vel=given["joint_angular_velocities"],
        gravity=given["projected_gravity"] / np.float32(9.81),
        accelerometer=given["accelerometer"],
        gyro=given["gyroscope"],
        observation=np.concatenate([given[name] for name in names[:-1]], axis=1),
        action=np.stack(targets),
        target=np.stack(targets),
        **{"command.kinfer": given["command"]},
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
