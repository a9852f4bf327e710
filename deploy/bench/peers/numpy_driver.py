"""The least that people write themselves: sleep to a deadline, read, the network in numpy, write. No safety, no record."""

import sys
import time
from pathlib import Path

import numpy as np

from .peer import ACTION_SCALE, DEFAULT, LOWER, NAMES, UPPER, Job, Joints, f32


def load_layers(path: Path) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weights (inputs, outputs) and bias (outputs,) of each layer."""
    with np.load(path, allow_pickle=False) as layers:
        return [(layers[f"w{k}"], layers[f"b{k}"]) for k in range(len(layers.files) // 2)]


def infer(layers: list[tuple[np.ndarray, np.ndarray]], value: np.ndarray) -> np.ndarray:
    """Action (12,) of an observation (45,): ELU between the layers."""
    for weight, bias in layers[:-1]:
        value = value @ weight + bias
        value = np.where(value > 0.0, value, np.expm1(np.minimum(value, 0.0)))
    return value @ layers[-1][0] + layers[-1][1]


def main(job: Job) -> None:
    """Run it."""
    layers, joints = load_layers(job.network.with_suffix(".npz")), Joints(job)
    action, still = np.zeros(len(NAMES), np.float32), f32([0, 0, 0, 0, 0, -1, 0.5, 0, 0])
    period, deadline = 1.0 / job.rate_hz, time.monotonic()
    for _ in range(job.ticks):
        time.sleep(max(0.0, deadline - time.monotonic()))
        joints.read()
        seen = np.concatenate([still, joints.position - DEFAULT, 0.05 * joints.velocity, action])
        action = infer(layers, seen)
        joints.write(np.clip(DEFAULT + ACTION_SCALE * action, LOWER, UPPER))
        deadline += period
    joints.save(f"numpy {np.__version__}")


if __name__ == "__main__":
    main(Job.from_words(sys.argv))
