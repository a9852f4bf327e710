"""How far a hand moves -> numbers that drive the robot."""

from collections.abc import Sequence
from dataclasses import dataclass

from isthmus.hardware.robot import RobotSpec
from isthmus.policies.contract import CommandSpec

from ..messages import MAX_VALUES, Drive
from .operator import OperatorError

VELOCITY_COMMAND = "command.velocity"


@dataclass(frozen=True, kw_only=True)
class HandDrive:
    """What full deflection means, value by value, in the drive's unit."""

    drive: Drive
    names: tuple[str, ...]  # of the values, towards positive
    low: tuple[float, ...]  # at deflection -1
    high: tuple[float, ...]  # at deflection +1

    def values(self, deflection: Sequence[float]) -> tuple[float, ...]:
        """Values for deflections, each -1 .. 1; what is beyond counts as the end."""
        ends = zip(deflection, self.low, self.high, strict=True)
        return tuple(min(d, 1.0) * high if d >= 0.0 else -max(d, -1.0) * low for d, low, high in ends)

    @property
    def rest(self) -> tuple[float, ...]:
        """Values of hands that do nothing."""
        return (0.0,) * len(self.names)


def tip_drive(speed: float) -> HandDrive:
    """Tip velocity along each axis of the robot's base frame, at most `speed` m/s."""
    return HandDrive(drive=Drive.TIP_VELOCITY, names=("forward", "left", "up"), low=(-speed,) * 3, high=(speed,) * 3)


def joint_drive(spec: RobotSpec, speed: float) -> HandDrive:
    """Joint velocity, at most `speed` rad/s; raises OperatorError for a robot without joints that follow targets."""
    speeds = tuple(speed if joint.drive == "position" else 0.0 for joint in spec.joints)
    if not any(speeds):
        raise OperatorError(
            f"robot {spec.name!r} has no joint that follows a position, and its policy takes no {VELOCITY_COMMAND}: "
            "nobody can drive it by hand"
        )
    if len(speeds) > MAX_VALUES:
        raise OperatorError(f"robot {spec.name!r} has {len(speeds)} joints, a person can drive at most {MAX_VALUES}")
    return HandDrive(drive=Drive.JOINT_VELOCITY, names=spec.joint_names, low=tuple(-v for v in speeds), high=speeds)


def command_drive(command: CommandSpec) -> HandDrive:
    """The policy's velocity command, in the range that it was trained for.

    Raises:
        OperatorError: another command, or a range without zero, in which a policy could not be told to stand.
    """
    if command.signal != VELOCITY_COMMAND:
        raise OperatorError(f"hands can give {VELOCITY_COMMAND}, and this policy takes {command.signal}")
    if not all(low <= 0.0 <= high for low, high in zip(command.low, command.high, strict=True)):
        raise OperatorError(
            f"the policy was trained for {command.signal} from {command.low} to {command.high}, expected ranges with zero in them: "
            "it cannot be told to stand"
        )
    names = ("forward", "left", "turn left")
    return HandDrive(drive=Drive.COMMAND, names=names, low=command.low, high=command.high)


def hand_drive(spec: RobotSpec, command: CommandSpec | None, *, tip_speed: float, joint_speed: float) -> HandDrive:
    """What suits a robot and its policy: the velocity command where it takes one, else the tip, else joint by joint.

    Args:
        spec: the robot.
        command: what the policy is told; None for nothing.
        tip_speed: m/s.
        joint_speed: rad/s.
    """
    if command is not None and command.signal == VELOCITY_COMMAND:
        return command_drive(command)
    return tip_drive(tip_speed) if spec.tip_site is not None else joint_drive(spec, joint_speed)


def need_three(drive: HandDrive, device: str) -> None:
    """Refuse to drive joint by joint with a device that has three directions; raises OperatorError."""
    if len(drive.names) != 3 or drive.drive is Drive.JOINT_VELOCITY:
        raise OperatorError(
            f"a {device} gives three directions, and this robot is driven joint by joint ({len(drive.names)} joints); use keyboard"
        )
