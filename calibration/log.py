"""A log of joints and targets on one clock: what identification reads."""

import hashlib
from dataclasses import dataclass

import numpy as np

from isthmus.hardware.errors import IsthmusError


class LogError(IsthmusError, ValueError):
    """A joint log cannot be used; the text says why and what to do."""


@dataclass(frozen=True, kw_only=True)
class JointLog:
    """T control ticks of n joints, unevenly spaced in real time. Checked on construction.

    Raises:
        LogError: shapes that do not fit, values that are not finite, or time that does not increase.
    """

    time_s: np.ndarray  # (T,) s, when the joints were read, at the start of a tick
    joint_pos: np.ndarray  # (T, n) rad, measured
    joint_target: np.ndarray  # (T, n) rad, executed at the tick
    written_s: np.ndarray  # (T,) s, when the last byte of the target had been handed to the bus
    joint_names: tuple[str, ...]

    def __post_init__(self) -> None:
        ticks, joints = len(self.time_s), len(self.joint_names)
        shapes = dict.fromkeys(("time_s", "written_s"), (ticks,))
        shapes |= dict.fromkeys(("joint_pos", "joint_target"), (ticks, joints))
        for name, shape in shapes.items():
            array = getattr(self, name)
            if array.shape != shape:
                raise LogError(
                    f"{name} has shape {array.shape}, expected {shape} for {joints} joints; record the log again"
                )
            if not np.isfinite(array).all():
                row = int(np.argwhere(~np.isfinite(array))[0, 0])
                raise LogError(f"{name} is not finite at tick {row}; cut the log there or record it again")
        for name in ("time_s", "written_s"):
            steps = np.diff(getattr(self, name))
            if (steps <= 0).any():
                row = int(np.argmax(steps <= 0)) + 1
                raise LogError(f"{name} does not increase at tick {row}; use a monotonic clock and one episode per log")
        if (self.written_s < self.time_s).any():
            row = int(np.argmax(self.written_s < self.time_s))
            raise LogError(f"tick {row} was written before it was read; the two stamps need the same clock")

    @property
    def duration_s(self) -> float:
        """Time from the first reading to the last."""
        return float(self.time_s[-1] - self.time_s[0]) if len(self.time_s) else 0.0

    @property
    def log_id(self) -> str:
        """sha256 over names and values: the same log has the same id."""
        digest = hashlib.sha256("\n".join(self.joint_names).encode())
        for array in (self.time_s, self.joint_pos, self.joint_target, self.written_s):
            digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
        return digest.hexdigest()


def from_ticks(ticks: np.ndarray, joint_names: tuple[str, ...]) -> JointLog:
    """Build a log from an episode's ticks (`policies.episode.TICK_FIELDS`).

    Ticks before the first write are dropped. A later tick that wrote nothing repeats the target
    that the servos still hold.

    Raises:
        LogError: nothing was written, or the ticks are not one consistent recording.
    """
    written = np.flatnonzero(ticks["written_ns"] > 0)
    if len(written) == 0:
        raise LogError("no tick of the episode wrote a target; nothing moved, so there is nothing to identify")
    ticks = ticks[written[0] :]
    wrote = ticks["written_ns"] > 0
    source = np.maximum.accumulate(np.where(wrote, np.arange(len(ticks)), 0))
    start_ns = ticks["monotonic_ns"][0]
    written_ns = np.where(wrote, ticks["written_ns"], ticks["monotonic_ns"])
    return JointLog(
        time_s=(ticks["monotonic_ns"] - start_ns) * 1e-9,
        joint_pos=np.array(ticks["joint_pos"], dtype=np.float64),
        joint_target=np.array(ticks["executed_target"], dtype=np.float64)[source],
        written_s=(written_ns - start_ns) * 1e-9,
        joint_names=tuple(joint_names),
    )
