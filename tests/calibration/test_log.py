import dataclasses

import numpy as np
import pytest

from isthmus.calibration.log import JointLog, LogError, from_ticks
from isthmus.policies.episode import tick_dtype

NAMES = ("a", "b")


def log(**changes) -> JointLog:
    time = np.arange(5) * 0.02
    values = {
        "time_s": time,
        "joint_pos": np.ones((5, 2)),
        "joint_target": np.ones((5, 2)),
        "written_s": time + 0.001,
        "joint_names": NAMES,
    }
    return JointLog(**(values | changes))


def ticks() -> np.ndarray:
    rows = np.zeros(6, dtype=tick_dtype(2, 3))
    rows["monotonic_ns"] = 7_000_000_000 + np.array([0, 20, 41, 60, 80, 103]) * 1_000_000
    rows["written_ns"] = rows["monotonic_ns"] + 2_000_000
    rows["written_ns"][[0, 3]] = 0
    rows["joint_pos"] = np.arange(12).reshape(6, 2)
    rows["executed_target"] = 0.1 * np.arange(12).reshape(6, 2)
    rows["executed_target"][[0, 3]] = np.nan
    return rows


def test_ticks_become_a_log_with_their_own_stamps_and_held_targets():
    made = from_ticks(ticks(), NAMES)
    np.testing.assert_allclose(made.time_s, [0.0, 0.021, 0.040, 0.060, 0.083])
    np.testing.assert_allclose(made.written_s, [0.002, 0.023, 0.040, 0.062, 0.085])
    np.testing.assert_allclose(made.joint_target[:, 0], [0.2, 0.4, 0.4, 0.8, 1.0])
    assert made.duration_s == pytest.approx(0.083)


def test_ticks_that_wrote_nothing_are_refused():
    rows = ticks()
    rows["written_ns"] = 0
    with pytest.raises(LogError, match="no tick of the episode wrote a target"):
        from_ticks(rows, NAMES)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"joint_pos": np.full((5, 2), np.nan)}, "joint_pos is not finite at tick 0"),
        ({"time_s": np.array([0.0, 0.02, 0.02, 0.04, 0.06])}, "time_s does not increase at tick 2"),
        ({"joint_target": np.ones((5, 3))}, r"joint_target has shape \(5, 3\), expected \(5, 2\)"),
        ({"written_s": np.arange(5) * 0.02 - 0.01}, "tick 0 was written before it was read"),
    ],
)
def test_a_broken_log_is_refused_and_the_text_says_where(changes, text):
    with pytest.raises(LogError, match=text):
        log(**changes)


def test_the_id_of_a_log_changes_with_any_value():
    first = log()
    assert first.log_id == log().log_id
    moved = first.joint_pos.copy()
    moved[3, 1] += 1e-12
    assert dataclasses.replace(first, joint_pos=moved).log_id != first.log_id
