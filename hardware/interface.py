"""The protocol that every robot driver implements. The runtime knows nothing else of hardware."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np

from .robot import RobotSpec


@dataclass(kw_only=True)
class JointState:
    """One reading of all joints, in robot order; the arrays belong to the driver and are overwritten by the next read."""

    joint_pos: np.ndarray  # (n,) rad, float64, encoder offsets of the calibration already removed
    joint_vel: np.ndarray  # (n,) rad/s, float64
    temperature: np.ndarray  # (n,) deg C; NaN where the device does not say
    stamp_ns: int  # monotonic time of the reading
    errors: int  # bus errors so far that a retry repaired
    signals: Mapping[str, np.ndarray] = field(default_factory=dict)  # the driver's `senses`, (width,) float64 each


@dataclass(frozen=True, kw_only=True)
class Silence:
    """What the device itself does when commands stop coming, whatever became of this computer."""

    after_s: float  # s without a command
    then: Literal["hold", "damp"]  # keep the last target position, or stop driving


class Robot(Protocol):
    """A connected machine. Nothing moves before `write`; every method raises a HardwareError on failure."""

    spec: RobotSpec
    senses: Mapping[str, int]  # further signals that `read` gives, such as gyro and gravity, and their widths
    silence: Silence  # every device must have an answer: the last command is never executed for ever

    def connect(self) -> None:
        """Open the bus, check that every joint answers and set gains. Torque stays off."""
        ...

    def read(self) -> JointState:
        """Read all joints once."""
        ...

    def write(self, joint_target: np.ndarray) -> None:
        """Command joint targets, shape (n,), rad. Refuses values that are not finite. Switches torque on at first use."""
        ...

    def hold(self) -> None:
        """Stay: keep the last target, or take the measured pose where torque was off. Repeating it changes nothing."""
        ...

    def damp(self) -> None:
        """Stop driving the joints (torque off), the state in which the robot is safe to touch."""
        ...

    def close(self) -> None:
        """Release the bus; may be called twice. Does not change torque: call `damp` or `hold` first."""
        ...
