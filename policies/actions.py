"""Action spaces, as data: what a network's numbers become. Numbers given one for all or one for each driven joint."""

from dataclasses import dataclass
from typing import Literal

PerJoint = float | tuple[float, ...]  # one for all, or one for each driven joint or rotor


@dataclass(frozen=True, kw_only=True)
class _Action:
    """u = scale * smooth(clip(action)); what u is, the kinds below say."""

    scale: PerJoint
    clip: PerJoint | None  # highest action, and lowest with a minus unless `clip_low` is given; None: as it comes
    clip_low: PerJoint | None = None  # lowest action
    smoothing: float = 1.0  # share of the new action in an exponential mean that begins at 0; 1: none
    chunk: int = 1  # actions that the network gives at a time, one tick's after the other


@dataclass(frozen=True, kw_only=True)
class _JointAction(_Action):
    joints: tuple[str, ...]  # the policy drives these; every other joint keeps its executed target


@dataclass(frozen=True, kw_only=True)
class JointPosition(_JointAction):
    """target = offset + u rad, within the joint limits, or within others."""

    offset: PerJoint | None = None  # rad; None: default_pos, 0: absolute positions
    limited: bool = True  # within the joint limits; what a robot executes is so in any case
    lowest: PerJoint | None = None  # rad, instead of the joint limits
    highest: PerJoint | None = None  # rad, likewise
    others: Literal["keep", "default"] = (
        "keep"  # joints that are not driven keep their executed target, or go to default_pos
    )
    kind: Literal["joint-position"] = "joint-position"

    @property
    def target(self) -> str:
        """The signal that the action becomes."""
        return "joint_target"


@dataclass(frozen=True, kw_only=True)
class JointIncrement(_JointAction):
    """target = previous executed target + u rad, kept within `max_lead` of the measured angle and within the joint limits.

    Whoever gave the previous target: after a takeover there is nothing to reconcile.
    """

    max_lead: float  # rad
    kind: Literal["joint-increment"] = "joint-increment"

    @property
    def target(self) -> str:
        """The signal that the action becomes."""
        return "joint_target"


@dataclass(frozen=True, kw_only=True)
class JointIntegral(_JointAction):
    """target = offset + the sum of all u so far rad, the sum kept where the target stays within the joint limits.

    The policy's own integrator: what was executed instead of its target does not come back to it.
    """

    offset: PerJoint | None = None  # rad; None: default_pos
    kind: Literal["joint-integral"] = "joint-integral"

    @property
    def target(self) -> str:
        """The signal that the action becomes."""
        return "joint_target"


@dataclass(frozen=True, kw_only=True)
class JointVelocity(_JointAction):
    """velocity = u rad/s, within the joints' velocity limits; joints that are not driven get 0."""

    kind: Literal["joint-velocity"] = "joint-velocity"

    @property
    def target(self) -> str:
        """The signal that the action becomes."""
        return "joint_velocity_target"


@dataclass(frozen=True, kw_only=True)
class JointEffort(_JointAction):
    """effort = u N m or N; joints that are not driven get 0."""

    kind: Literal["joint-effort"] = "joint-effort"

    @property
    def target(self) -> str:
        """The signal that the action becomes."""
        return "joint_effort_target"


@dataclass(frozen=True, kw_only=True)
class RotorSpeed(_Action):
    """speed = hover + u rad/s, within 0 .. max_speed."""

    rotors: tuple[str, ...]
    hover: float  # rad/s
    max_speed: float  # rad/s
    kind: Literal["rotor-speed"] = "rotor-speed"

    @property
    def joints(self) -> tuple[str, ...]:
        """What is driven: the rotors."""
        return self.rotors

    @property
    def target(self) -> str:
        """The signal that the action becomes."""
        return "rotor_speed_target"


Action = JointPosition | JointIncrement | JointIntegral | JointVelocity | JointEffort | RotorSpeed
