"""Every operator that can be asked for, and how devices are joined."""

from dataclasses import replace
from multiprocessing import Pipe
from pathlib import Path
from typing import TypeVar

import pytest
from operator_bench import Stage

from isthmus.deploy.attempt import operator_name
from isthmus.deploy.messages import MAX_VALUES, Drive
from isthmus.deploy.operators.device import DeviceConfig, DeviceFactory
from isthmus.deploy.operators.hand_drive import command_drive, hand_drive, joint_drive, tip_drive
from isthmus.deploy.operators.null import NullOperator
from isthmus.deploy.operators.operator import OperatorError
from isthmus.deploy.operators.registry import OPERATORS, OperatorOptions, Setting, operator_factory
from isthmus.hardware.joint_calibration import ArmCalibration
from isthmus.hardware.robot import load_robot, robot_names
from isthmus.policies.contract import CommandSpec

T = TypeVar("T")
SPEC = load_robot("so101")
WALK = CommandSpec(signal="command.velocity", workspace=None, low=(-0.5, -0.4, -2.0), high=(1.0, 0.4, 2.0))
PAGE = (Path(__file__).parents[2] / "docs" / "operators.md").read_text()
DEVICES = [name for name, entry in OPERATORS.items() if entry.device is not None]


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    """Everything that any operator asks for."""
    path = tmp_path / "leader.json"
    ArmCalibration.nominal(SPEC).save(path)
    options = OperatorOptions(
        pedal=Path("/dev/input/by-id/pedal"), leader_port="/dev/serial/by-id/leader", leader_calibration=path
    )
    return Setting(spec=SPEC, command=None, options=options, control_path=tmp_path / "control")


def crossed(thing: T) -> T:
    """As another process gets it."""
    ours, theirs = Pipe()
    ours.send(thing)
    return theirs.recv()


def config_of(name: str, setting: Setting) -> DeviceConfig:
    device = OPERATORS[name].device
    assert device is not None
    return device(setting)


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_is_whole_or_a_device_and_has_a_line_of_help(name: str):
    entry = OPERATORS[name]
    assert (entry.device is None) != (entry.whole is None)
    assert 10 < len(entry.help) < 120 and "\n" not in entry.help
    assert "+" not in name and name == name.lower()
    assert f"`{name}`" in PAGE


@pytest.mark.parametrize("name", DEVICES)
def test_a_device_describes_itself_and_crosses_to_another_process(name: str, setting: Setting):
    config = config_of(name, setting)
    assert config.name == name
    assert len(config.first_line) > 30
    assert crossed(config) == config


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_can_be_asked_for_by_name(name: str, setting: Setting):
    asked = name if name not in DEVICES else {"pedal": "leader+pedal", "leader": "leader+keyboard"}.get(name, name)
    factory = operator_factory(asked, setting)
    crossed(factory)
    assert len(operator_name(factory)) <= 40  # a log's field
    if isinstance(factory, DeviceFactory):
        assert operator_name(factory) == asked and len(factory.first_lines) == len(asked.split("+"))


@pytest.mark.parametrize("name", DEVICES)
def test_who_must_hold_something_is_told_so_loudly(name: str, setting: Setting):
    line = config_of(name, setting).first_line
    assert ("HOLD" in line or "HELD" in line) == (name in ("gamepad", "spacemouse", "pedal", "ros2"))


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ("joystick", "unknown operator 'joystick'; available: none, keyboard, .*leader.pedal"),
        ("leader+", "unknown operator ''"),
        ("", "unknown operator ''"),
        ("leader", r"leader has no switch to take over with; add one, e.g. leader\+pedal"),
        ("pedal", r"pedal has nothing that moves the robot; add a device that does, e.g. pedal\+leader"),
        ("keyboard+keyboard", "cannot be joined: each device once"),
        ("keyboard+scripted", "cannot be joined: .*neither none nor scripted"),
        ("none+pedal", "cannot be joined"),
    ],
)
def test_what_makes_no_operator_is_refused(names: str, says: str, setting: Setting):
    with pytest.raises(OperatorError, match=says):
        operator_factory(names, setting)


@pytest.mark.parametrize(
    ("name", "changes", "says"),
    [
        ("leader+pedal", {"leader_port": None}, "needs --leader-port"),
        ("leader+pedal", {"leader_calibration": None}, "needs --leader-calibration"),
    ],
)
def test_a_leader_needs_its_port_and_calibration(name: str, changes: dict[str, None], says: str, setting: Setting):
    options = replace(setting.options, **changes)  # pyright: ignore[reportArgumentType]
    with pytest.raises(OperatorError, match=says):
        operator_factory(name, replace(setting, options=options))


def test_a_scripted_operator_needs_a_virtual_arm(setting: Setting):
    with pytest.raises(OperatorError, match="can only watch a virtual arm"):
        operator_factory("scripted", replace(setting, control_path=None))


def test_nobody_is_an_operator_too(setting: Setting):
    assert isinstance(operator_factory("none", setting)(Stage().view), NullOperator)


@pytest.mark.parametrize("name", robot_names())
def test_every_robot_is_driven_by_what_suits_it_or_refused(name: str):
    spec = load_robot(name)
    walking = hand_drive(spec, WALK, tip_speed=0.1, joint_speed=0.3)
    assert walking.drive is Drive.COMMAND and walking.values((1.0, -1.0, 2.0)) == (1.0, -0.4, 2.0)
    try:
        drive = hand_drive(spec, None, tip_speed=0.1, joint_speed=0.3)
    except OperatorError as error:
        assert not any(joint.drive == "position" for joint in spec.joints), error
        return
    if spec.tip_site is not None:
        assert drive.drive is Drive.TIP_VELOCITY and len(drive.rest) == 3
    else:
        assert drive.drive is Drive.JOINT_VELOCITY and len(drive.rest) == len(spec.joints) <= MAX_VALUES
    assert drive.values([2.0] * len(drive.rest)) == drive.high
    assert drive.values([-2.0] * len(drive.rest)) == drive.low
    assert not any(drive.values(drive.rest))


def test_joints_that_follow_no_position_are_not_moved_by_hand():
    joints = (replace(SPEC.joints[0], drive="passive"), *SPEC.joints[1:])
    assert joint_drive(replace(SPEC, joints=joints), 0.3).high == (0.0, 0.3, 0.3, 0.3, 0.3, 0.3)


def test_a_command_that_cannot_stand_still_or_is_no_velocity_is_refused():
    with pytest.raises(OperatorError, match="ranges with zero in them: it cannot be told to stand"):
        command_drive(replace(WALK, low=(0.2, -0.4, -2.0)))
    with pytest.raises(OperatorError, match=r"this policy takes command.spin"):
        command_drive(replace(WALK, signal="command.spin"))


def test_half_a_deflection_is_half_of_what_its_side_means():
    drive = command_drive(WALK)
    assert drive.values((0.5, 0.5, -0.5)) == (0.5, 0.2, -1.0)
    assert drive.values((-0.5, 0.0, 0.0)) == (-0.25, 0.0, 0.0)
    assert tip_drive(0.2).values((-1.0, 0.5, 0.0)) == (-0.2, 0.1, 0.0)
