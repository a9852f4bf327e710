"""Counts and radians, and the files that say how they belong together."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.hardware.errors import CalibrationError
from isthmus.hardware.joint_calibration import NOMINAL_MARGIN, ArmCalibration, encoder_map
from isthmus.hardware.robot import load_robot

SPEC = load_robot("so101")
NOMINAL = ArmCalibration.nominal(SPEC)
N = len(SPEC.joints)

# As LeRobot writes it for a follower; ranges as people measure them, wrist_roll free to turn.
LEROBOT: dict[str, dict[str, Any]] = {
    "shoulder_pan": {"id": 1, "drive_mode": 0, "homing_offset": -1470, "range_min": 758, "range_max": 3292},
    "shoulder_lift": {"id": 2, "drive_mode": 0, "homing_offset": 157, "range_min": 860, "range_max": 3234},
    "elbow_flex": {"id": 3, "drive_mode": 1, "homing_offset": 1021, "range_min": 900, "range_max": 3100},
    "wrist_flex": {"id": 4, "drive_mode": 0, "homing_offset": -7, "range_min": 950, "range_max": 3150},
    "wrist_roll": {"id": 5, "drive_mode": 0, "homing_offset": 0, "range_min": 0, "range_max": 4095},
    "gripper": {"id": 6, "drive_mode": 0, "homing_offset": 1400, "range_min": 2000, "range_max": 3250},
}


def lerobot_file(tmp_path: Path, **changes: dict[str, Any]) -> Path:
    path = tmp_path / "arm.json"
    path.write_text(json.dumps({name: {**joint, **changes.get(name, {})} for name, joint in LEROBOT.items()}))
    return path


def test_the_nominal_zero_is_half_a_turn_and_a_quarter_turn_is_1024_counts() -> None:
    encoders = encoder_map(NOMINAL, SPEC)
    np.testing.assert_allclose(encoders.to_rad(np.full(N, 2048.0)), 0.0)
    np.testing.assert_allclose(encoders.to_rad(np.full(N, 3072.0)), math.pi / 2)
    np.testing.assert_allclose(encoders.to_rad_per_s(np.full(N, -4096.0)), -2 * math.pi)
    assert encoders.to_counts(np.full(N, math.pi / 2)).tolist() == [3072] * N


def test_the_nominal_range_holds_the_models_and_its_margin() -> None:
    encoders = encoder_map(NOMINAL, SPEC)
    assert (encoders.lower <= SPEC.array("lower") - NOMINAL_MARGIN).all()
    assert (encoders.upper >= SPEC.array("upper") + NOMINAL_MARGIN).all()


def test_offset_rad_is_subtracted_from_the_angle() -> None:
    encoders = encoder_map(NOMINAL.with_offsets({"elbow_flex": 0.05, "gripper": -0.02}), SPEC)
    np.testing.assert_allclose(encoders.to_rad(np.full(N, 2048.0)), [0, 0, -0.05, 0, 0, 0.02])


def test_with_offsets_replaces_and_keeps_the_others() -> None:
    calibration = NOMINAL.with_offsets({"elbow_flex": 0.05}).with_offsets({"gripper": 0.01})
    assert calibration.joints["elbow_flex"].offset_rad == 0.05
    assert calibration.with_offsets({"elbow_flex": 0.0, "gripper": 0.0}) == NOMINAL


def test_the_direction_of_the_robot_turns_the_sign() -> None:
    mirrored = replace(SPEC, joints=tuple(replace(joint, direction=-1) for joint in SPEC.joints))
    encoders = encoder_map(ArmCalibration.nominal(mirrored), mirrored)
    np.testing.assert_allclose(encoders.to_rad(np.full(N, 3072.0)), -math.pi / 2)
    assert (encoders.lower <= mirrored.array("lower")).all()
    assert (encoders.upper >= mirrored.array("upper")).all()


@given(
    q=st.lists(st.floats(-1.5, 1.5), min_size=N, max_size=N),
    offsets=st.lists(st.floats(-0.1, 0.1), min_size=N, max_size=N),
    flipped=st.lists(st.integers(0, 1), min_size=N, max_size=N),
)
def test_rad_to_counts_and_back_loses_half_a_count_at_most(
    q: list[float], offsets: list[float], flipped: list[int]
) -> None:
    joints = {
        name: replace(joint, offset_rad=offset, drive_mode=mode)
        for (name, joint), offset, mode in zip(NOMINAL.joints.items(), offsets, flipped, strict=True)
    }
    encoders = encoder_map(replace(NOMINAL, joints=joints), SPEC)
    back = encoders.to_rad(encoders.to_counts(np.array(q)))
    np.testing.assert_allclose(back, q, atol=0.5 * 2 * math.pi / 4096 + 1e-12)


def test_a_lerobot_file_puts_the_middle_of_the_range_at_the_middle_of_the_models(tmp_path: Path) -> None:
    encoders = encoder_map(ArmCalibration.from_lerobot(lerobot_file(tmp_path), SPEC), SPEC)
    middle = np.array([(j["range_min"] + j["range_max"]) / 2 for j in LEROBOT.values()])
    expected = [0.0, 0.0, 0.0, 0.0, 0.0, (1.74533 - 0.174533) / 2]  # wrist_roll turns freely: its own middle
    np.testing.assert_allclose(encoders.to_rad(middle), expected, atol=1e-9)


def test_a_lerobot_angle_in_degrees_is_ours(tmp_path: Path) -> None:
    """LeRobot's degrees are (raw - middle) * 360 / 4095; ours has 4096 counts in a turn, as the encoder has."""
    encoders = encoder_map(ArmCalibration.from_lerobot(lerobot_file(tmp_path), SPEC), SPEC)
    raw = np.full(N, 2500.0)
    joint = LEROBOT["shoulder_pan"]
    degrees = (2500 - (joint["range_min"] + joint["range_max"]) / 2) * 360 / 4095
    assert math.degrees(encoders.to_rad(raw)[0]) == pytest.approx(degrees, rel=1 / 4000)


def test_drive_mode_one_turns_the_sign(tmp_path: Path) -> None:
    encoders = encoder_map(ArmCalibration.from_lerobot(lerobot_file(tmp_path), SPEC), SPEC)
    assert encoders.sign.tolist() == [1, 1, -1, 1, 1, 1]
    assert encoders.to_rad(np.full(N, 3000.0))[2] == pytest.approx(-(3000 - 2000) * 2 * math.pi / 4096)


def test_a_lerobot_file_comes_out_as_it_went_in(tmp_path: Path) -> None:
    calibration = ArmCalibration.from_lerobot(lerobot_file(tmp_path), SPEC)
    calibration.to_lerobot(tmp_path / "out.json")
    written = json.loads((tmp_path / "out.json").read_text())
    assert written == LEROBOT
    assert list(written["gripper"]) == ["id", "drive_mode", "homing_offset", "range_min", "range_max"]


def test_lerobots_form_cannot_hold_offsets_and_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match=r"no place for the offset_rad of elbow_flex"):
        NOMINAL.with_offsets({"elbow_flex": 0.01}).to_lerobot(tmp_path / "out.json")
    assert not (tmp_path / "out.json").exists()


def test_our_own_file_keeps_everything(tmp_path: Path) -> None:
    calibration = ArmCalibration.from_lerobot(lerobot_file(tmp_path), SPEC).with_offsets({"elbow_flex": 0.1 + 0.2})
    calibration.save(tmp_path / "own.json")
    assert ArmCalibration.load(tmp_path / "own.json", SPEC) == calibration


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"range_min": 3300}, r"'shoulder_pan': range_max is 3292, expected more than range_min 3300"),
        ({"range_max": 4096}, r"'shoulder_pan': range_max is 4096"),
        ({"range_min": -5}, r"'shoulder_pan': range_min is -5, expected 0 .. 4095"),
        ({"homing_offset": 2048}, r"'shoulder_pan': homing_offset is 2048, expected -2047 .. 2047"),
        ({"homing_offset": -2048}, r"homing_offset is -2048"),
        ({"id": 9}, r"'shoulder_pan': id is 9, expected 1"),
        ({"drive_mode": 2}, r"'shoulder_pan': drive_mode is 2, expected 0 or 1"),
        ({"range_min": 758.5}, r"expected int, got 758.5"),
        ({"surplus": 1}, r"surplus"),
    ],
)
def test_a_wrong_value_is_named(tmp_path: Path, change: dict[str, Any], text: str) -> None:
    with pytest.raises(CalibrationError, match=text):
        ArmCalibration.from_lerobot(lerobot_file(tmp_path, shoulder_pan=change), SPEC)


def test_missing_and_extra_joints_are_named(tmp_path: Path) -> None:
    path = lerobot_file(tmp_path)
    data = json.loads(path.read_text())
    data["elbow"] = data.pop("elbow_flex")
    path.write_text(json.dumps(data))
    with pytest.raises(CalibrationError, match=r"missing \['elbow_flex'\], not of this robot \['elbow'\]"):
        ArmCalibration.from_lerobot(path, SPEC)


def test_a_missing_value_in_our_file_is_named(tmp_path: Path) -> None:
    NOMINAL.save(tmp_path / "own.json")
    data = json.loads((tmp_path / "own.json").read_text())
    del data["joints"]["gripper"]["zero_count"]
    (tmp_path / "own.json").write_text(json.dumps(data))
    with pytest.raises(CalibrationError, match=r"zero_count"):
        ArmCalibration.load(tmp_path / "own.json", SPEC)


@pytest.mark.parametrize("text", ["", "{", "[]", "\x00", '{"robot": "go2", "joints": {}}'])
def test_an_unreadable_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "own.json").write_text(text)
    for read in (ArmCalibration.load, ArmCalibration.from_lerobot):
        with pytest.raises(CalibrationError, match=r"own\.json"):
            read(tmp_path / "own.json", SPEC)


def test_a_calibration_of_another_robot_is_refused() -> None:
    with pytest.raises(CalibrationError, match=r"'go2', expected 'so101'"):
        encoder_map(replace(NOMINAL, robot="go2"), SPEC)


@pytest.mark.parametrize("offset", [math.nan, math.inf])
def test_an_offset_that_is_not_finite_is_refused(offset: float) -> None:
    with pytest.raises(CalibrationError, match=r"elbow_flex.*offset_rad"):
        NOMINAL.with_offsets({"elbow_flex": offset})


def test_an_offset_for_an_unknown_joint_is_refused() -> None:
    with pytest.raises(CalibrationError, match=r"no joint elbow in this calibration; joints: shoulder_pan"):
        NOMINAL.with_offsets({"elbow": 0.1})
