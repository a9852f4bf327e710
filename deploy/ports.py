"""What a runtime is told, and where its records go."""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from .messages import ControlCommand, OperatorCommand
from .safety import MonitorLimits
from .takeover import TakeoverConfig


@dataclass(frozen=True, kw_only=True)
class RuntimeConfig:
    """What the runtime may do and how long it waits."""

    period_ns: int = 20_000_000
    ready_speed: float = 0.7  # rad/s of each joint on the way to the start pose
    start_pose: tuple[float, ...] | None = None  # rad, robot order; None: the robot's default_pos
    torque_factor: float = 2.0  # see safety.robot_limits
    operator_timeout_s: float = 0.3  # s without a sign of life from a person who drives
    supervisor_timeout_s: float | None = 1.0  # s; None in lockstep, where the supervisor is the loop itself
    following_timeout_s: float = 1.0  # s that a joint may stay as far from its target as limits allow
    fault_hold_s: float = 2.0  # s of holding after a fault before damping, where nobody reacts
    takeover: TakeoverConfig = field(default_factory=TakeoverConfig)
    monitor: MonitorLimits = field(default_factory=MonitorLimits)


class Inbox(Protocol):
    """Where commands come from; each call returns a message that is new, or None."""

    def control(self) -> ControlCommand | None:
        """From the supervisor."""
        ...

    def operator(self) -> OperatorCommand | None:
        """From the person."""
        ...


class Sink(Protocol):
    """Where records go. The records are reused: copy what is kept."""

    def tick(self, record: np.ndarray) -> None:
        """One control tick, dtype `tick_dtype`."""
        ...

    def event(self, record: np.ndarray) -> None:
        """Something that happened, dtype EVENT_DTYPE."""
        ...
