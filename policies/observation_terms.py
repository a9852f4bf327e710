"""The registry of observation terms: what blocks of an observation can be computed from a robot's signals."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class TermSpec:
    """An observation term before scale, clip and lags."""

    # Number of values; each: of the term's own joints, else of the driven ones; joints: of every joint; own: of what the term names.
    width: int | Literal["each", "joints", "command", "clock", "own"]
    unit: str
    signals: tuple[str, ...]  # beside the command
    description: str
    command: str | None = None  # the one command that it can be computed from; None: any, or none

    @property
    def of_joints(self) -> bool:
        """Whether it is computed from joints."""
        return any(name.startswith("joint_") for name in self.signals)


OBSERVATION_TERMS: dict[str, TermSpec] = {
    "joint_pos": TermSpec(width="each", unit="rad", signals=("joint_pos",), description="joint_pos - default_pos"),
    "joint_pos_abs": TermSpec(width="each", unit="rad", signals=("joint_pos",), description="joint_pos itself"),
    "joint_vel": TermSpec(width="each", unit="rad/s", signals=("joint_vel",), description="joint_vel"),
    "all_joint_pos": TermSpec(
        width="joints", unit="rad or m", signals=("joint_pos",), description="joint_pos - default_pos of every joint"
    ),
    "all_joint_vel": TermSpec(
        width="joints", unit="rad/s or m/s", signals=("joint_vel",), description="joint_vel of every joint"
    ),
    "joint_target": TermSpec(
        width="each", unit="rad", signals=("joint_target",), description="the executed target of the tick before"
    ),
    "joint_target_offset": TermSpec(
        width="each", unit="rad", signals=("joint_target",), description="joint_target - default_pos"
    ),
    "joint_lead": TermSpec(
        width="each", unit="rad", signals=("joint_pos", "joint_target"), description="joint_target - joint_pos"
    ),
    "last_action": TermSpec(width="each", unit="1", signals=(), description="the network's previous action, clipped"),
    "last_action_raw": TermSpec(width="each", unit="1", signals=(), description="the network's previous action"),
    "gyro": TermSpec(width=3, unit="rad/s", signals=("gyro",), description="angular velocity, body frame"),
    "gravity": TermSpec(width=3, unit="1", signals=("gravity",), description="direction of gravity, body frame"),
    "accelerometer": TermSpec(
        width=3, unit="m/s^2", signals=("accelerometer",), description="specific force, body frame"
    ),
    "base_lin_vel": TermSpec(
        width=3, unit="m/s", signals=("base_lin_vel",), description="linear velocity of the base, body frame"
    ),
    "base_quat": TermSpec(width=4, unit="1", signals=("base_quat",), description="attitude body -> world, wxyz"),
    "base_rotation": TermSpec(
        width=9, unit="1", signals=("base_quat",), description="rotation matrix body -> world, row by row"
    ),
    "base_rpy": TermSpec(
        width=3, unit="rad", signals=("base_quat",), description="roll, pitch, yaw of base_quat (z-y'-x'')"
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
    "phase_sin": TermSpec(width="clock", unit="1", signals=(), description="sin of each of the clock's phases"),
    "phase_cos": TermSpec(width="clock", unit="1", signals=(), description="cos of each of the clock's phases"),
    "phase": TermSpec(width="clock", unit="cycles", signals=(), description="each of the clock's phases, 0 .. 1"),
    "time": TermSpec(width=1, unit="s", signals=(), description="time since an episode's first tick"),
    "signal": TermSpec(width="own", unit="of the signal", signals=(), description="the signal that the term names"),
    "constant": TermSpec(width="own", unit="1", signals=(), description="the numbers that the term gives"),
}
