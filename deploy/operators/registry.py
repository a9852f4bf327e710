"""Every operator by name, and how names make one: `leader+pedal` is a leader arm for the motion and a pedal to take over with."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from isthmus.hardware.robot import RobotSpec, load_robot
from isthmus.policies.contract import CommandSpec

from .device import DeviceConfig, DeviceFactory
from .gamepad import GamepadConfig
from .hand_drive import HandDrive, hand_drive
from .keyboard import TIP_SPEED, KeyboardConfig
from .leader_arm import LeaderConfig, Mapping
from .null import NullOperator
from .operator import OperatorError, OperatorFactory
from .pedal import PedalConfig
from .ros2 import Ros2Config
from .scripted import scripted_on_virtual_arm
from .spacemouse import SpaceMouseConfig


@dataclass(frozen=True, kw_only=True)
class OperatorOptions:
    """What a command line says of a person's devices."""

    tip_speed: float = TIP_SPEED
    """Tip speed at full deflection of a key, stick or puck, m/s."""
    joint_speed: float = 0.3
    """Joint speed where joints are driven one by one, rad/s."""
    gamepad: Path | None = None
    """Gamepad, /dev/input/by-id/...; without it the only one."""
    spacemouse: Path | None = None
    """SpaceMouse, /dev/input/by-id/...; without it the only one."""
    pedal: Path | None = None
    """Foot pedal, /dev/input/by-id/...-event-kbd."""
    pedal_keys: tuple[int, int, int] = (30, 48, 46)
    """Codes of the pedal's keys to take over, to go back, to say done; 0 for one that it does not have."""
    pedal_toggle: bool = False
    """Press the pedal to take over and press it to give back, instead of holding it."""
    leader: str = "so101"
    """Robot that the leader arm is."""
    leader_port: str | None = None
    """Serial port of the leader arm."""
    leader_calibration: Path | None = None
    """Calibration of the leader arm, as `isthmus` or LeRobot stores it; its own, not the follower's."""
    leader_mapping: Mapping = "clutch"
    """clutch: the robot moves as far as the leader since you took over; absolute: it goes where the leader is, once both agree."""
    ros2: Literal["twist", "joints"] = "twist"
    """What the ROS 2 operator sends."""
    ros2_namespace: str = "/operator"
    """Of the ROS 2 operator's topics."""
    ros2_frame: str = "base"
    """frame_id of the ROS 2 operator's twists: the robot's base frame."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What is to be operated, and how."""

    spec: RobotSpec
    command: CommandSpec | None  # that the policy takes
    options: OperatorOptions
    control_path: Path | None = None  # of a virtual arm
    seed: int = 0  # of a scripted operator

    def hand_drive(self) -> HandDrive:
        """What hands move; raises OperatorError."""
        return hand_drive(
            self.spec, self.command, tip_speed=self.options.tip_speed, joint_speed=self.options.joint_speed
        )


@dataclass(frozen=True, kw_only=True)
class OperatorEntry:
    """An operator that can be asked for; a device, which can be joined to others, or a whole one."""

    help: str
    device: Callable[[Setting], DeviceConfig] | None = None
    whole: Callable[[Setting], OperatorFactory] | None = None


def operator_factory(names: str, setting: Setting) -> OperatorFactory:
    """The operator for one name, or for devices joined by +; the first device that can moves the robot.

    Raises:
        OperatorError: an unknown name, devices that cannot be joined or lack an option; says what there is.
    """
    entries: list[OperatorEntry] = []
    for name in names.split("+"):
        if name not in OPERATORS:
            raise OperatorError(
                f"unknown operator {name!r}; available: {', '.join(OPERATORS)}, and devices joined by +, e.g. leader+pedal"
            )
        entries.append(OPERATORS[name])
    if len(entries) == 1 and entries[0].whole is not None:
        return entries[0].whole(setting)
    if len(set(names.split("+"))) != len(entries) or any(entry.device is None for entry in entries):
        raise OperatorError(f"{names} cannot be joined: each device once, and neither none nor scripted with others")
    return DeviceFactory(tuple(entry.device(setting) for entry in entries if entry.device is not None))


def _scripted(setting: Setting) -> OperatorFactory:
    if setting.control_path is None:
        raise OperatorError("the scripted operator can only watch a virtual arm; use --operator keyboard")
    return partial(scripted_on_virtual_arm, control_path=setting.control_path, seed=setting.seed)


def _pedal(setting: Setting) -> PedalConfig:
    options = setting.options
    engage, rewind, done = options.pedal_keys
    return PedalConfig(
        device=options.pedal, engage=engage, rewind=rewind or None, done=done or None, toggle=options.pedal_toggle
    )


def _leader(setting: Setting) -> LeaderConfig:
    options = setting.options
    if options.leader_port is None or options.leader_calibration is None:
        missing = "--leader-port" if options.leader_port is None else "--leader-calibration"
        raise OperatorError(f"a leader arm needs {missing}: its own serial port and its own calibration file")
    from ..commands.arm import read_calibration  # knows both forms

    leader = load_robot(options.leader)
    return LeaderConfig(
        leader=leader,
        follower=setting.spec,
        port=options.leader_port,
        calibration=read_calibration(options.leader_calibration, leader),
        mapping=options.leader_mapping,
    )


def _ros2(setting: Setting) -> Ros2Config:
    options = setting.options
    return Ros2Config(
        source=options.ros2,
        drive=setting.hand_drive() if options.ros2 == "twist" else None,
        joint_names=setting.spec.joint_names,
        namespace=options.ros2_namespace,
        frame=options.ros2_frame,
    )


OPERATORS: dict[str, OperatorEntry] = {
    "none": OperatorEntry(help="nobody takes over", whole=lambda setting: NullOperator),
    "keyboard": OperatorEntry(
        help="keys of this terminal; space takes over and gives back",
        device=lambda setting: KeyboardConfig(drive=setting.hand_drive()),
    ),
    "gamepad": OperatorEntry(
        help="two sticks; hold the right trigger to drive",
        device=lambda setting: GamepadConfig(drive=setting.hand_drive(), device=setting.options.gamepad),
    ),
    "spacemouse": OperatorEntry(
        help="a 3Dconnexion puck; hold its left button to drive",
        device=lambda setting: SpaceMouseConfig(drive=setting.hand_drive(), device=setting.options.spacemouse),
    ),
    "pedal": OperatorEntry(help="hold a foot pedal to drive with another device, e.g. leader+pedal", device=_pedal),
    "leader": OperatorEntry(
        help="an SO-101 moved by hand; needs a switch to take over with, e.g. leader+pedal or leader+keyboard",
        device=_leader,
    ),
    "ros2": OperatorEntry(
        help="twists or joint states on ROS 2 topics; publish true on engage, over and over, to drive", device=_ros2
    ),
    "scripted": OperatorEntry(help="stands in for a person in tests; watches a virtual arm", whole=_scripted),
}
