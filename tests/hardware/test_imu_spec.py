"""The [imu] table of a robot.toml: what it may say, and what it is told when it does not."""

import math
import shutil
from pathlib import Path

import pytest

from isthmus.hardware.imu_spec import ImuSpec
from isthmus.hardware.robot import ROBOTS_DIR, load_robot
from isthmus.hardware.structure import FormatError

LINE = "gyro_range = 34.9066"


def with_imu(tmp_path: Path, old: str, new: str, name: str = "crazyflie") -> Path:
    """A copy of a robot with one text changed."""
    shutil.copytree(ROBOTS_DIR / name, tmp_path / name)
    path = tmp_path / name / "robot.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    return path


@pytest.mark.parametrize("name", ["go2", "crazyflie"])
def test_gyros_reach_2000_degrees_a_second(name: str) -> None:
    imu = load_robot(name).imu
    assert imu is not None
    assert imu.gyro_range == pytest.approx(math.radians(2000.0), rel=1e-5)


def test_a_robot_may_leave_its_imu_out(tmp_path: Path) -> None:
    assert load_robot(with_imu(tmp_path, f"[imu]\n{LINE}", "")).imu is None
    assert load_robot("so101").imu is None


def test_a_range_at_the_edge_is_accepted(tmp_path: Path) -> None:
    assert load_robot(with_imu(tmp_path, LINE, "gyro_range = 100")).imu == ImuSpec(gyro_range=100.0)


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        ("gyro_range = -34.9", "[imu] gyro_range = -34.9; expected 0 < gyro_range <= 100 rad/s"),
        ("gyro_range = 0", "[imu] gyro_range = 0.0; expected 0 < gyro_range"),
        (
            "gyro_range = 2000",
            "[imu] gyro_range = 2000.0; expected 0 < gyro_range <= 100 rad/s; it looks like degrees/s",
        ),
        ("gyro_range = nan", "[imu] gyro_range = nan"),
        ("gyro_range = inf", "[imu] gyro_range = inf"),
        ('gyro_range = "wide"', "expected float, got 'wide'"),
        ("", "gyro_range"),
        (f"{LINE}\naccelerometer_range = 235.0", "accelerometer_range"),
    ],
)
def test_an_imu_that_cannot_be_is_refused_by_key(tmp_path: Path, new: str, expected: str) -> None:
    path = with_imu(tmp_path, LINE, new)
    with pytest.raises(FormatError) as caught:
        load_robot(path)
    assert expected in str(caught.value)
    assert str(path) in str(caught.value)


def test_an_imu_on_a_base_that_is_fixed_is_refused(tmp_path: Path) -> None:
    path = with_imu(tmp_path, "[defaults]", f"[imu]\n{LINE}\n[defaults]", name="so101")
    with pytest.raises(FormatError, match=r"\[imu\] is for a base that moves, but floating = false"):
        load_robot(path)
