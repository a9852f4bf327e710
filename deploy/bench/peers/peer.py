"""What the drivers of other tools share: a robot of first order, and time stamps of its readings. Needs numpy only.

A driver is called as `python -m peers.<tool>_driver NETWORK RATE_HZ SECONDS OUT` in the Python of its tool. It runs the tool's own
loop on the network, and writes to OUT (npz) when the robot was read, the CPU time and the tool's version.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

N = 12


def f32(values: Sequence[float]) -> np.ndarray:
    """As an array."""
    return np.array(values, np.float32)


DEFAULT = np.tile(f32([0.0, 0.9, -1.8]), 4)
LOWER, UPPER = DEFAULT - 1.0, DEFAULT + 1.0
NAMES = tuple(f"{leg}_{part}_joint" for leg in ("FL", "FR", "RL", "RR") for part in ("hip", "thigh", "calf"))
KP, KD, EFFORT = 40.0, 1.0, 45.0
ACTION_SCALE = 0.25
LEAST_TICKS = 8
CPU_EVERY = 50  # ticks
_TIME_CONSTANT_S = 0.05


class Finished(KeyboardInterrupt):
    """As many ticks as wanted: ends a loop that would run until Ctrl-C."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """The command line."""

    network: Path
    rate_hz: float
    ticks: int
    out: Path

    @classmethod
    def from_words(cls, words: list[str]) -> "Job":
        """Of sys.argv."""
        network, rate, seconds, out = words[1:]
        return cls(network=Path(network), rate_hz=float(rate), ticks=round(float(rate) * float(seconds)), out=Path(out))


class Joints:
    """Joints that follow their targets, read with a stamp."""

    def __init__(self, job: Job, *, endless: bool = False) -> None:
        """`endless`: raise Finished at the reading after the last."""
        self.position, self.velocity = DEFAULT.copy(), np.zeros(N, np.float32)
        self._stamps, self._job, self._endless = np.zeros(job.ticks, np.int64), job, endless
        self._share = np.float32(1.0 - np.exp(-1.0 / job.rate_hz / _TIME_CONSTANT_S))
        self._ticks, self._first_cpu, self._cpu_s = 0, 0.0, 0.0

    def read(self) -> None:
        """Stamp a reading. CPU time is looked at now and then, so that a loop that ends early has it too."""
        now, tick = time.monotonic_ns(), self._ticks
        if tick >= len(self._stamps):
            if self._endless:
                raise Finished
            return
        self._stamps[tick] = now
        self._ticks += 1
        if tick == 0:
            self._first_cpu = time.process_time()
        elif self._ticks % CPU_EVERY == 0 or self._ticks == len(self._stamps):
            self._cpu_s = time.process_time() - self._first_cpu

    def write(self, target: np.ndarray) -> None:
        """Let a period pass; target (12,) rad."""
        step = self._share * (target - self.position)
        self.velocity = step * np.float32(self._job.rate_hz)
        self.position = self.position + step

    def save(self, about: str, *, stopped: str = "") -> None:
        """Write what was measured; `stopped`: why the loop ended before all ticks. Ends the process where there is next to nothing."""
        if self._ticks < LEAST_TICKS or (self._ticks < len(self._stamps) and not stopped):
            sys.exit(f"the loop ended after {self._ticks} of {len(self._stamps)} ticks {stopped}")
        texts = {"about": np.array(about), "stopped": np.array(stopped)}
        np.savez(
            self._job.out,
            allow_pickle=False,
            stamps_ns=self._stamps[: self._ticks],
            cpu_s=np.array(self._cpu_s),
            **texts,
        )
