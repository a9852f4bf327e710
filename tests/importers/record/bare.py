"""How data/bare was made: a recurrent network as stock exporters write it, and what its trainer would compute.

There is no tool here: the rules stand below in numpy, and again in walk.toml, which is written by hand.
torch 2.13.0: `python -P bare.py ../data/bare`.
"""

import sys
from pathlib import Path

import numpy as np
import torch

JOINTS = ["hip", "knee", "ankle"]
DEFAULT, SCALE = np.float32([0.2, -0.5, 0.3]), np.float32([0.4, 0.5, 0.6])
ROWS, HIDDEN, PERIOD = 120, 16, 0.025
WIDTH = 3 + 2 * 6 + 3 + 2 + 4


class Recurrent(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.memory, self.out = torch.nn.LSTM(WIDTH, HIDDEN), torch.nn.Linear(HIDDEN, 3)

    def forward(self, obs: torch.Tensor, h_in: torch.Tensor, c_in: torch.Tensor) -> tuple[torch.Tensor, ...]:
        seen, (h_out, c_out) = self.memory(obs.unsqueeze(0), (h_in, c_in))
        return 6.0 * self.out(seen.squeeze(0)), h_out, c_out


def signals(rng: np.random.Generator) -> dict[str, np.ndarray]:
    time = np.arange(ROWS)[:, None] * PERIOD

    def waves(n: int, size: float) -> np.ndarray:
        sines = np.sin(time * rng.uniform(1, 9, n) + rng.uniform(0, 6, n))
        return np.float32(np.round(256 * size * sines) / 256)

    return {
        "joint_pos": DEFAULT + waves(3, 0.5),
        "joint_vel": waves(3, 8.0),
        "gyro": waves(3, 3.0),
        "sensor.foot": waves(2, 90.0),
    }


def main(folder: Path) -> None:
    torch.manual_seed(8)
    network, folder_rows = Recurrent().eval(), signals(np.random.default_rng(8))
    folder.mkdir(parents=True, exist_ok=True)
    state = (torch.zeros(1, 1, HIDDEN), torch.zeros(1, 1, HIDDEN))
    names = {"input_names": ["obs", "h_in", "c_in"], "output_names": ["actions", "h_out", "c_out"]}
    torch.onnx.export(network, (torch.zeros(1, WIDTH), *state), str(folder / "walk.onnx"), dynamo=False, **names)
    last, out, past = np.zeros(3, np.float32), {"observation": [], "action": [], "target": []}, []
    for row in range(ROWS):
        now = {key: values[row] for key, values in folder_rows.items()}
        joints = np.concatenate([now["joint_pos"] - DEFAULT, 0.1 * now["joint_vel"]])
        past = [joints, *(past or [joints] * 2)][:3]
        foot = np.clip(now["sensor.foot"] - 20.0, -50.0, 50.0) * 0.02
        phase = 2 * np.pi * (0.0 + row * PERIOD * 1.6)
        phases = [np.sin(phase), np.sin(phase + np.pi), np.cos(phase), np.cos(phase + np.pi)]
        # the joints' positions now and two ticks ago, then their velocities likewise
        history = np.concatenate([past[0][:3], past[2][:3], past[0][3:], past[2][3:]])
        observation = np.concatenate([0.25 * now["gyro"], history, last, foot, phases]).astype(np.float32)
        with torch.no_grad():
            action, *state = network(torch.from_numpy(observation)[None], *state)
        action = action.numpy()[0]
        last = np.clip(action, -1.0, 1.0)
        for key, value in zip(out, (observation, action, DEFAULT + SCALE * last), strict=True):
            out[key].append(value.copy())
    arrays = {**folder_rows, **{key: np.asarray(value, np.float32) for key, value in out.items()}}
    np.savez_compressed(folder / "walk.npz", joint_names=np.array(JOINTS), **arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
