"""The registry of observation terms: what blocks of an observation can be computed from a robot's signals."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class TermSpec:
    """An observation term before history, scale and clip; `learning/graph.py` computes each in torch."""

    width: int | Literal["driven", "joints", "command"]  # number of values; driven: one for each driven joint or rotor
    unit: str
    signals: tuple[str, ...]  # beside the command
    description: str
    command: str | None = None  # the one command that it can be computed from; None: any, or none

    @property
    def of_joints(self) -> bool:
        """Whether it is computed from joints."""
        return any(name.startswith("joint_") for name in self.signals)


OBSERVATION_TERMS: dict[str, TermSpec] = {
    "joint_pos": TermSpec(
        width="driven", unit="rad", signals=("joint_pos",), description="joint_pos - default_pos of the driven joints"
    ),
    "joint_vel": TermSpec(
        width="driven", unit="rad/s", signals=("joint_vel",), description="joint_vel of the driven joints"
    ),
    "all_joint_pos": TermSpec(
        width="joints", unit="rad or m", signals=("joint_pos",), description="joint_pos - default_pos of every joint"
    ),
    "all_joint_vel": TermSpec(
        width="joints", unit="rad/s or m/s", signals=("joint_vel",), description="joint_vel of every joint"
    ),
    "joint_lead": TermSpec(
        width="driven", unit="rad", signals=("joint_pos", "joint_target"), description="joint_target - joint_pos"
    ),
    "last_action": TermSpec(width="driven", unit="1", signals=(), description="the network's previous action, clipped"),
    "gyro": TermSpec(width=3, unit="rad/s", signals=("gyro",), description="angular velocity, body frame"),
    "gravity": TermSpec(width=3, unit="1", signals=("gravity",), description="direction of gravity, body frame"),
    "base_lin_vel": TermSpec(
        width=3, unit="m/s", signals=("base_lin_vel",), description="linear velocity of the base, body frame"
    ),
    "base_rotation": TermSpec(
        width=9, unit="1", signals=("base_quat",), description="rotation matrix body -> world, row by row"
    ),
    "base_pos_error": TermSpec(
        width=3,
        unit="m",
        signals=("base_pos",),
        description="command.position - base_pos, world frame",
        command="command.position",
    ),
    "command": TermSpec(width="command", unit="of the command", signals=(), description="the command itself"),
    "tip_error": TermSpec(
        width=3,
        unit="m",
        signals=("joint_pos",),
        description="command.target - tip(joint_pos), in the frame of the first joint's link",
        command="command.target",
    ),
    "tip_rotation": TermSpec(
        width=9,
        unit="1",
        signals=("joint_pos",),
        description="rotation matrix of the chain's last link -> base frame, row by row",
    ),
    "target": TermSpec(
        width=3, unit="m", signals=(), description="command.target in the base frame", command="command.target"
    ),
}
