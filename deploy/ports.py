"""What a runtime is told, and where its records go."""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from .messages import ControlCommand, OperatorCommand
from .monitors import MonitorLimits
from .takeover import TakeoverConfig


@dataclass(frozen=True, kw_only=True)
class RuntimeConfig:
    """What the runtime may do and how long it waits."""

    period_ns: int = 20_000_000  # of reading and writing; a policy's own is a whole number of these
    ready_speed: float = 0.7  # rad/s of each joint on the way to the start pose
    start_pose: tuple[float, ...] | None = None  # rad, robot order; None: the robot's default_pos
    torque_factor: float = 2.0  # see safety.robot_limits
    operator_timeout_s: float = 0.3  # s without a sign of life from a person who drives
    supervisor_timeout_s: float | None = 1.0  # s; None in lockstep, where the supervisor is the loop itself
    conflict_timeout_s: float = (
        0.25  # s that no target may keep all limits, as when a joint is pushed away, before damping
    )
    stall_s: float = (
        0.5  # s that the runtime may stand still while it drives; longer is a fault, and the policy starts over
    )
    slow_policy_s: float = 0.2  # s that a policy may take for one proposal
    fault_hold_s: float = 2.0  # s of holding after a fault before damping, where nobody reacts
    help_after_s: float | None = None  # s for which the policy's gate is open before a person is asked for; None: never
    rewind_speed: float = 0.5  # of the speed at which the path was driven
    rewind_least_s: float = 1.0  # s of the path that going back covers at least
    rewind_most_s: float = 30.0  # s of the path that are remembered
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
