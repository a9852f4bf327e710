"""Every robot that ships agrees with its own model; a malformed robot.toml is an error that names the key."""

# pyright: reportAttributeAccessIssue=false
# MuJoCo's compiled modules carry no type information.

import shutil
from pathlib import Path

import mujoco
import numpy as np
import pytest

from isthmus.hardware.robot import ROBOTS_DIR, RobotSpec, load_robot, robot_names
from isthmus.hardware.structure import FormatError


@pytest.fixture(scope="module", params=robot_names())
def spec(request: pytest.FixtureRequest) -> RobotSpec:
    return load_robot(request.param)


@pytest.fixture(scope="module")
def model(spec: RobotSpec) -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_path(str(spec.model_path))


def test_the_so101_ships() -> None:
    assert "so101" in robot_names()


def test_joints_are_those_of_the_model_in_its_order(spec: RobotSpec, model: mujoco.MjModel) -> None:
    hinges = [model.joint(i).name for i in range(model.njnt) if model.jnt_type[i] == mujoco.mjtJoint.mjJNT_HINGE]
    assert list(spec.joint_names) == hinges


def test_ranges_are_those_of_the_model(spec: RobotSpec, model: mujoco.MjModel) -> None:
    ranges = np.array([model.joint(name).range for name in spec.joint_names])
    np.testing.assert_allclose(spec.array("lower"), ranges[:, 0], atol=1e-9)
    np.testing.assert_allclose(spec.array("upper"), ranges[:, 1], atol=1e-9)


def test_each_joint_has_one_torque_motor_in_robot_order(spec: RobotSpec, model: mujoco.MjModel) -> None:
    driven = [model.joint(int(model.actuator_trnid[i, 0])).name for i in range(model.nu)]
    assert driven == list(spec.joint_names)
    np.testing.assert_allclose(model.actuator_gainprm[:, 0], 1.0)


def test_the_tip_site_exists(spec: RobotSpec, model: mujoco.MjModel) -> None:
    assert spec.tip_site in [model.site(i).name for i in range(model.nsite)]


def test_masses_and_inertias_are_positive(model: mujoco.MjModel) -> None:
    assert (model.body_mass[1:] > 0).all()
    assert (model.body_inertia[1:] > 0).all()


def test_gains_and_limits_are_positive(spec: RobotSpec) -> None:
    for field in ("kp", "effort_limit", "velocity_limit", "p_gain"):
        assert (spec.array(field) > 0).all(), field
    assert (spec.array("kd") >= 0).all()


def test_default_poses_lie_inside_the_range(spec: RobotSpec) -> None:
    assert (spec.array("lower") <= spec.array("default_pos")).all()
    assert (spec.array("default_pos") <= spec.array("upper")).all()


def test_the_travel_fits_into_one_turn_of_the_encoder(spec: RobotSpec) -> None:
    assert (spec.array("upper") - spec.array("lower") < 2 * np.pi).all()


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
        ("kp = 17.8 ", "kp = -1.0 ", "kp must be positive"),
        ("effort_limit = 2.94", "effort_limit = 0", "effort_limit must be positive"),
        ("velocity_limit = 3.0", "velocity_limit = nan", "velocity_limit must be positive"),
        ("direction = 1 ", "direction = 2 ", "direction must be 1 or -1"),
        ("bus_id = 2", "bus_id = 1", "bus_id of the joints must be unique"),
        ("bus_id = 2", "bus_id = 2.0", "bus_id"),
        ('name = "elbow_flex"', 'name = "gripper"', "name of the joints must be unique"),
        ("range = [-1.69, 1.69]", "range = [1.69, -1.69]", "'elbow_flex': range 1.69 .. -1.69"),
        ("range = [-1.69, 1.69]", "range = [-1.69]", "range"),
        ("default_pos = -0.6", "default_pos = -60.0", "'shoulder_lift': default_pos -60.0"),
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


def test_an_unknown_robot_names_the_known_ones() -> None:
    with pytest.raises(FormatError, match=r"unknown robot 'so102'; available: .*so101"):
        load_robot("so102")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"nothing\.toml"):
        load_robot(tmp_path / "nothing.toml")
