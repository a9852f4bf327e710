"""A robot.toml that is malformed or does not fit its model is an error that names the key."""

# pyright: reportAttributeAccessIssue=false
# MuJoCo's compiled modules carry no type information.

import re
import shutil
import tomllib
from pathlib import Path

import mujoco
import numpy as np
import pytest

from isthmus.hardware.robot import ROBOTS_DIR, load_robot, robot_names
from isthmus.hardware.structure import FormatError


def test_the_so101_ships() -> None:
    assert "so101" in robot_names()


def test_load_robot_takes_a_path_too() -> None:
    assert load_robot(ROBOTS_DIR / "so101" / "robot.toml") == load_robot("so101")


# Malformed files ----------------------------------------------------------------------------------------------------


def malformed(tmp_path: Path, old: str, new: str) -> Path:
    """A copy of the SO-101 with one text changed."""
    folder = tmp_path / "so101"
    shutil.copytree(ROBOTS_DIR / "so101", folder)
    path = folder / "robot.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    return path


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('tip_site = "tip"', "", "tip_site"),
        ("baudrate = 1000000", 'baudrate = "fast"', "baudrate"),
        ("baudrate = 1000000", "baudrate = 1e6", "baudrate"),
        ("baudrate = 1000000", "baudrate = true", "baudrate"),
        ("counts_per_turn = 4096", "counts_per_turn = 4096\nbaud = 9600", "baud"),
        ("kp = 17.8 ", "", "kp"),
        ("kp = 17.8 ", "kpp = 17.8 ", "kpp"),
        ("kp = 17.8 ", "kp = -1.0 ", "'shoulder_pan': kp = -1.0; expected 0.5 < kp < 500 N m/rad"),
        ("effort_limit = 2.94", "effort_limit = 0", "effort_limit = 0.0; expected 0 < effort_limit <= 500 N m"),
        (
            "velocity_limit = 3.0",
            "velocity_limit = nan",
            "velocity_limit = nan; expected 0 < velocity_limit <= 20 rad/s",
        ),
        ("direction = 1 ", "direction = 2 ", "direction = 2; expected 1 or -1"),
        ("bus_id = 2", "bus_id = 1", "bus_id of the joints must be unique"),
        ("bus_id = 2", "bus_id = 2.0", "bus_id"),
        ('name = "elbow_flex"', 'name = "gripper"', "name of the joints must be unique"),
        (
            "range = [-1.69, 1.69]",
            "range = [1.69, -1.69]",
            "'elbow_flex': range = [1.69, -1.69] rad; expected the lower end first",
        ),
        ("range = [-1.69, 1.69]", "range = [-1.69]", "range"),
        ("default_pos = -0.6", "default_pos = -60.0", "'shoulder_lift': default_pos = -60.0"),
        ('model = "model.xml"', 'model = "nowhere.xml"', "nowhere.xml does not exist"),
        ("[defaults]", "[defaults", "cannot be read as TOML"),
    ],
)
def test_a_malformed_file_names_the_key(tmp_path: Path, old: str, new: str, expected: str) -> None:
    path = malformed(tmp_path, old, new)
    with pytest.raises(FormatError) as caught:
        load_robot(path)
    assert expected in str(caught.value)
    assert str(path) in str(caught.value)


DEGREES = "it looks like degrees, this file is in rad"
MM = "it looks like mm, this file is in m"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        # angles
        ("range = [-1.69, 1.69]", "range = [-96.8, 96.8]", ("'elbow_flex': range = -96.8", DEGREES)),
        ("range = [-1.69, 1.69]", "range = [-1.69, 96.8]", ("'elbow_flex': range = 96.8", DEGREES)),
        ("default_pos = -0.6", "default_pos = -34.0", ("'shoulder_lift': default_pos = -34.0", DEGREES)),
        (
            "default_pos = -0.6",
            "default_pos = -1.8",
            ("default_pos = -1.8; expected -1.74533 <= default_pos <= 1.74533",),
        ),
        ("rest_pos = 1.65", "rest_pos = 94.5", ("'elbow_flex': rest_pos = 94.5", DEGREES)),
        ("rest_pos = 1.65", "rest_pos = 1.7", ("rest_pos = 1.7; expected -1.69 <= rest_pos <= 1.69 rad",)),
        # the model
        ("range = [-1.69, 1.69]", "range = [-1.692, 1.69]", ("'elbow_flex': range = [-1.692, 1.69]", "[-1.69, 1.69]")),
        ("range = [-1.69, 1.69]", "range = [-1.69, 1.692]", ("'elbow_flex': range = [-1.69, 1.692]", "model.xml")),
        ('name = "elbow_flex"', 'name = "elbow"', ("'elbow'", "no such hinge", "elbow_flex", "model.xml")),
        ('tip_site = "tip"', 'tip_site = "toe"', ("tip_site = 'toe'", "no site 'toe'")),
        # gains and limits
        ("velocity_limit = 3.0", "velocity_limit = 172.0", ("velocity_limit = 172.0", "looks like degrees/s")),
        (
            "velocity_limit = 3.0",
            "velocity_limit = 0",
            ("velocity_limit = 0.0; expected 0 < velocity_limit <= 20 rad/s",),
        ),
        ("velocity_limit = 3.0", "velocity_limit = -3", ("velocity_limit = -3.0",)),
        ("kp = 17.8 ", "kp = 0.5 ", ("kp = 0.5; expected 0.5 < kp < 500 N m/rad",)),
        ("kp = 17.8 ", "kp = 500.0 ", ("kp = 500.0",)),
        ("kd = 0.0 ", "kd = -0.1 ", ("kd = -0.1; expected 0 <= kd <= 50 N m s/rad",)),
        ("kd = 0.0 ", "kd = 50.1 ", ("kd = 50.1",)),
        ("effort_limit = 2.94", "effort_limit = 501", ("effort_limit = 501.0",)),
        ("p_gain = 16", "p_gain = -1", ("p_gain = -1; expected 0 <= p_gain <= 254",)),
        ("p_gain = 16", "p_gain = 255", ("p_gain = 255",)),
        # the bus
        ("bus_id = 6", "bus_id = 253", ("'gripper': bus_id = 253; expected 0 <= bus_id <= 252",)),
        ("bus_id = 6", "bus_id = -1", ("'gripper': bus_id = -1",)),
        ("baudrate = 1000000", "baudrate = 0", ("baudrate = 0; expected 1 <= baudrate <= 100000000 bit/s",)),
        ("counts_per_turn = 4096", "counts_per_turn = 0", ("counts_per_turn = 0; expected 1 <= counts_per_turn",)),
        ("counts_per_turn = 4096", "counts_per_turn = 1048577", ("counts_per_turn = 1048577; expected", "1048576")),
        # the workspace
        ("azimuth = [-1.0, 1.0]", "azimuth = [-57, 57]", ("[workspace] azimuth = -57.0", DEGREES)),
        ("azimuth = [-1.0, 1.0]", "azimuth = [-1.0, 3.2]", ("azimuth = 3.2; expected -3.14159",)),
        ("azimuth = [-1.0, 1.0]", "azimuth = [1.0, -1.0]", ("azimuth = [1.0, -1.0] rad", "lower end first")),
        ("radius = [0.14, 0.34]", "radius = [140, 340]", ("radius = 140.0; expected 0 <= radius < 3 m", MM)),
        ("radius = [0.14, 0.34]", "radius = [0.14, 3.0]", ("radius = 3.0",)),
        ("radius = [0.14, 0.34]", "radius = [-0.14, 0.34]", ("radius = -0.14",)),
        ("radius = [0.14, 0.34]", "radius = [0.34, 0.34]", ("radius = [0.34, 0.34] m", "lower end first")),
        ("height = [0.05, 0.28]", "height = [50, 280]", ("height = 50.0; expected -3 < height < 3 m", MM)),
        ("height = [0.05, 0.28]", "height = [-3, 0.28]", ("height = -3.0",)),
        ("height = [0.05, 0.28]", "height = [0.28, 0.05]", ("height = [0.28, 0.05] m",)),
        (
            "joint_margin = 0.15",
            "joint_margin = -0.15",
            ("joint_margin = -0.15; expected 0 <= joint_margin < 1.65806",),
        ),
        ("joint_margin = 0.15", "joint_margin = 8.6", ("joint_margin = 8.6", DEGREES)),
        ("joint_margin = 0.15", "joint_margin = 1.66", ("joint_margin = 1.66",)),
        ("clearance = 0.03", "clearance = -0.03", ("clearance = -0.03; expected 0 <= clearance < 3 m",)),
        ("clearance = 0.03", "clearance = 30", ("clearance = 30.0", MM)),
    ],
)
def test_a_number_that_cannot_be_is_refused(tmp_path: Path, old: str, new: str, expected: tuple[str, ...]) -> None:
    path = malformed(tmp_path, old, new)
    with pytest.raises(FormatError) as caught:
        load_robot(path)
    for words in (str(path), *expected):
        assert words in str(caught.value)


TEXT = re.sub(r" *#.*", "", (ROBOTS_DIR / "so101" / "robot.toml").read_text())
NUMBERS = [match.span() for match in re.finditer(r"(?<=[\[ ])-?\d[\d.]*(?=[,\]\n])", TEXT)]


def test_the_table_of_numbers_holds_every_number_of_the_file() -> None:
    def count(value: object) -> int:
        if isinstance(value, dict):
            return sum(map(count, value.values()))
        return sum(map(count, value)) if isinstance(value, list) else isinstance(value, int | float)

    assert len(NUMBERS) == count(tomllib.loads(TEXT))


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1" + 30 * "0", "-1e30"])
@pytest.mark.parametrize("span", NUMBERS, ids=lambda span: TEXT[: span[0]].splitlines()[-1].split()[0] + f"-{span[0]}")
def test_no_number_of_the_file_may_be_absurd(tmp_path: Path, span: tuple[int, int], value: str) -> None:
    (tmp_path / "model.xml").write_bytes((ROBOTS_DIR / "so101" / "model.xml").read_bytes())
    path = tmp_path / "robot.toml"
    path.write_text(TEXT)
    assert load_robot(path).joint_names == load_robot("so101").joint_names
    path.write_text(TEXT[: span[0]] + value + TEXT[span[1] :])
    key = TEXT[: span[0]].splitlines()[-1].split()[0]
    with pytest.raises(FormatError) as caught:
        load_robot(path)
    assert str(path) in str(caught.value)
    assert key in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("range = [-1.69, 1.69]", "range = [-1.6909, 1.6909]"),  # rounded
        ("range = [-1.69, 1.69]", "range = [-1.0, 1.65]"),  # narrower
        ("kd = 0.0 ", "kd = 50 "),
        ("p_gain = 16", "p_gain = 254"),
        ("bus_id = 1\n", "bus_id = 0\n"),
        ("counts_per_turn = 4096", "counts_per_turn = 1048576"),
        ("velocity_limit = 3.0", "velocity_limit = 20"),
        ("joint_margin = 0.15", "joint_margin = 0"),
        ("height = [0.05, 0.28]", "height = [-0.1, 2.9]"),
    ],
)
def test_a_number_at_the_edge_is_accepted(tmp_path: Path, old: str, new: str) -> None:
    load_robot(malformed(tmp_path, old, new))


# Models that do not fit ---------------------------------------------------------------------------------------------


def with_model(tmp_path: Path, old: str, new: str) -> Path:
    """A copy of the SO-101 with one text of its model changed."""
    path = malformed(tmp_path, "", "")
    model = path.with_name("model.xml")
    assert old in model.read_text()
    model.write_text(model.read_text().replace(old, new, 1))
    return path


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("</mujoco>", "", ("model.xml: cannot be read as XML",)),
        ('name="elbow_flex" axis', 'name="elbow_flex" type="slide" axis', ("'elbow_flex'", "no such hinge")),
        ('<joint name="elbow_flex" axis', "<joint axis", ("'elbow_flex'", "no such hinge")),
        (' range="-1.69 1.69"', "", ("model.xml", "'elbow_flex'", "range = ''; expected two numbers")),
        ('range="-1.69 1.69"', 'range="-1.69 wide"', ("model.xml", "'elbow_flex'", "range = '-1.69 wide'")),
        ('angle="radian"', 'angle="degree"', ("'shoulder_pan': range", "model.xml")),
        ('<compiler angle="radian" autolimits="true"/>', "", ("'shoulder_pan': range", "model.xml")),
        ('name="upper_arm" pos', 'name="upper_arm" euler="0 0 0" pos', ("tip_site = 'tip'", "'upper_arm'")),
    ],
)
def test_a_model_that_does_not_fit_is_refused(tmp_path: Path, old: str, new: str, expected: tuple[str, ...]) -> None:
    path = with_model(tmp_path, old, new)
    with pytest.raises(FormatError) as caught:
        load_robot(path)
    for words in (str(tmp_path), *expected):
        assert words in str(caught.value)


def test_a_model_in_degrees_is_read_as_mujoco_reads_it(tmp_path: Path) -> None:
    path = malformed(tmp_path, "", "")
    model = path.with_name("model.xml")
    ranges = re.compile(r' range="(\S+) (\S+)"')
    text = ranges.sub(lambda m: f' range="{np.rad2deg(float(m[1]))} {np.rad2deg(float(m[2]))}"', model.read_text())
    model.write_text(text.replace(' angle="radian"', ""))
    compiled = mujoco.MjModel.from_xml_path(str(model))
    spec = load_robot(path)
    np.testing.assert_allclose(compiled.jnt_range[:, 1], spec.array("upper"), atol=1e-9)
    path.write_text(path.read_text().replace("1.69]", "1.692]"))
    with pytest.raises(FormatError, match="elbow_flex"):
        load_robot(path)


def test_a_joint_of_the_chain_that_the_file_lacks_is_named(tmp_path: Path) -> None:
    joint = re.search(r'\[\[joints\]\]\nname = "elbow_flex"\n(.+\n)+', TEXT)
    assert joint is not None
    path = malformed(tmp_path, "", "")
    path.write_text(TEXT.replace(joint[0], ""))
    with pytest.raises(FormatError, match=r"joints \['elbow_flex'\] move tip_site 'tip'"):
        load_robot(path)


def test_a_robot_without_joints_is_refused(tmp_path: Path) -> None:
    path = malformed(tmp_path, "", "")
    path.write_text("joints = []\n" + TEXT[: TEXT.index("[[joints]]")])
    with pytest.raises(FormatError, match="at least one"):
        load_robot(path)


def test_an_unknown_robot_names_the_known_ones() -> None:
    with pytest.raises(FormatError, match=r"unknown robot 'so102'; available: .*so101"):
        load_robot("so102")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"nothing\.toml"):
        load_robot(tmp_path / "nothing.toml")
