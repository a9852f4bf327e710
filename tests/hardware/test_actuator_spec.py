"""The [actuator] table of a robot.toml: what it may say, and what it is told when it does not."""

import tomllib
from pathlib import Path

import pytest

from isthmus.hardware.actuator_spec import ActuatorSpec, per_joint, resolve_actuator
from isthmus.hardware.structure import FormatError, structure

WHOLE = """
law = "dc_motor"
[motor]
stall_effort = [2.94, 1.5]
no_load_speed = [4.7]
[friction]
coulomb = [0.05, 0.02]
viscous = [0.03]
inertia = [0.028]
stribeck = [0.02]
stribeck_speed = [0.2]
load = [0.1]
[play]
width = [0.01]
crossing_speed = [4.7]
"""


def _read(text: str, path: Path = Path("robot.toml")) -> ActuatorSpec:
    return resolve_actuator(structure(tomllib.loads(text), ActuatorSpec, source="robot.toml"), 2, path)


def test_a_whole_table_is_read_with_one_number_for_all_joints_or_one_for_each():
    spec = _read(WHOLE)
    assert spec.motor is not None
    assert spec.friction is not None
    assert spec.motor.stall_effort == (2.94, 1.5)
    assert per_joint(spec.motor.no_load_speed, 2) == (4.7, 4.7)
    assert spec.friction.load_stribeck == (0.0,)


def test_no_table_is_a_position_servo_and_nothing_else():
    assert _read("") == ActuatorSpec(law="pd", motor=None, net=None, friction=None, play=None)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[2.94, 1.5]", "[2.94, 1.5, 1.0]", r"motor.stall_effort has 3 numbers; expected one, or one for each of 2"),
        ("[2.94, 1.5]", "[]", "motor.stall_effort has 0 numbers"),
        ("[2.94, 1.5]", "[0.0]", r"motor.stall_effort = \[0.0\]; expected positive numbers"),
        ("viscous = [0.03]", "viscous = [-0.03]", "friction.viscous = .*; expected non-negative"),
        ("viscous = [0.03]", "viscous = [nan]", "friction.viscous = .*; expected non-negative"),
        ("viscous = [0.03]", "", "viscous"),
        ("viscous = [0.03]", "viscous = 0.03", "viscous"),
        ('law = "dc_motor"', 'law = "pd"', r'law = "pd"; law "dc_motor" and a table \[actuator.motor\] go together'),
        ('law = "dc_motor"', 'law = "net"', "go together"),
        ('law = "dc_motor"', 'law = "hydraulic"', "hydraulic"),
        ("crossing_speed = [4.7]", "crossing_speed = [inf]", "play.crossing_speed"),
    ],
)
def test_a_wrong_table_is_refused_with_what_is_wrong(old, new, message):
    with pytest.raises(FormatError, match=message):
        _read(WHOLE.replace(old, new))


def test_a_networks_file_lies_beside_the_robots_file(tmp_path):
    text = 'law = "net"\n[net]\nfile = "actuator.onnx"\ninterval = 0.005\n'
    with pytest.raises(FormatError, match=r"net.file = 'actuator.onnx'; .* does not exist"):
        _read(text, tmp_path / "robot.toml")
    (tmp_path / "actuator.onnx").touch()
    spec = _read(text, tmp_path / "robot.toml")
    assert spec.net is not None
    assert spec.net.file == str(tmp_path / "actuator.onnx")
    with pytest.raises(FormatError, match=r"net.interval = 0.0; expected a positive number"):
        _read(text.replace("0.005", "0.0"), tmp_path / "robot.toml")
