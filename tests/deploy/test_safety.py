"""The limiter against everything that floats can be."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from isthmus.deploy.safety import Flag, Limits, MonitorLimits, complaint, leak, limit_targets, robot_limits
from isthmus.hardware.robot import load_robot

SPEC = load_robot("so101")
LIMITS = robot_limits(SPEC, period_s=0.02, torque_factor=2.0)
N = len(SPEC.joints)
ANY = st.floats(allow_nan=True, allow_infinity=True, width=64)
ROUNDING = 1e-12  # rad


def check(safe: np.ndarray, previous: np.ndarray) -> None:
    assert np.isfinite(safe).all()
    assert (np.abs(safe - previous) <= LIMITS.step + ROUNDING).all()
    outside_before = np.maximum(0.0, np.maximum(LIMITS.lower - previous, previous - LIMITS.upper))
    outside = np.maximum(0.0, np.maximum(LIMITS.lower - safe, safe - LIMITS.upper))
    assert (outside <= outside_before).all()


def test_the_limits_of_the_so101_are_those_of_its_sources():
    np.testing.assert_allclose(LIMITS.step, 3.0 * 0.02)
    np.testing.assert_allclose(LIMITS.lead, 2.0 * 2.94 / 17.8)


@settings(max_examples=300, deadline=None)
@given(arrays(np.float64, N, elements=ANY), arrays(np.float64, N, elements=ANY), st.integers(0, 2**32 - 1))
def test_any_proposal_and_any_reading_give_a_safe_target(proposed: np.ndarray, joint_pos: np.ndarray, seed: int):
    previous = np.random.default_rng(seed).uniform(LIMITS.lower, LIMITS.upper)
    safe, flags = limit_targets(proposed, previous, joint_pos, LIMITS)
    check(safe, previous)
    if not (np.isfinite(proposed).all() and np.isfinite(joint_pos).all()):
        assert flags == Flag.REJECTED
        np.testing.assert_array_equal(safe, previous)


def test_two_million_random_targets_are_safe():
    rng = np.random.default_rng(0)
    rows = 350_000
    previous = rng.uniform(LIMITS.lower, LIMITS.upper, (rows, N))
    proposed = previous + rng.normal(0.0, 1.0, (rows, N)) * 10.0 ** rng.uniform(-6, 30, (rows, 1))
    joint_pos = previous + rng.normal(0.0, 0.2, (rows, N))
    proposed[::7, 2] = np.nan
    proposed[::11, 0] = np.inf
    proposed[::13, 5] = -1e300
    joint_pos[::17, 1] = np.nan
    safe, flags = limit_targets(proposed, previous, joint_pos, LIMITS)
    check(safe, previous)
    rejected = ~(np.isfinite(proposed) & np.isfinite(joint_pos)).all(axis=1)
    np.testing.assert_array_equal(flags == Flag.REJECTED, rejected)
    untouched = flags == 0
    assert 0 < untouched.sum() < rows
    np.testing.assert_array_equal(safe[untouched], proposed[untouched])


def test_a_target_within_all_limits_is_not_changed():
    previous = SPEC.array("default_pos")
    proposed = previous + 0.9 * LIMITS.step
    safe, flags = limit_targets(proposed, previous, previous, LIMITS)
    np.testing.assert_array_equal(safe, proposed)
    assert flags == 0


def simple(**fields: float) -> Limits:
    values = {"lower": -1.0, "upper": 1.0, "step": 0.1, "lead": 0.3, **fields}
    return Limits(**{name: np.array([value]) for name, value in values.items()})


@pytest.mark.parametrize(
    ("proposed", "previous", "joint_pos", "expected", "flag"),
    [
        (0.5, 0.0, 0.4, 0.1, Flag.RATE),
        (-0.5, 0.0, -0.4, -0.1, Flag.RATE),
        (1.05, 0.98, 0.98, 1.0, Flag.POSITION),
        (0.55, 0.5, 0.2, 0.5, Flag.TORQUE),
        (9.0, 0.95, 0.9, 1.0, Flag.TORQUE | Flag.POSITION),
        (
            0.5,
            1.5,
            1.5,
            1.4,
            Flag.TORQUE | Flag.POSITION | Flag.RATE,
        ),  # outside its range: comes back at the rate limit
        (0.0, 0.9, -0.5, 0.8, Flag.TORQUE | Flag.RATE),  # pushed away by hand: follows at the rate limit
    ],
)
def test_each_limit_by_hand(proposed: float, previous: float, joint_pos: float, expected: float, flag: Flag):
    safe, flags = limit_targets(np.array([proposed]), np.array([previous]), np.array([joint_pos]), simple())
    assert safe[0] == pytest.approx(expected, abs=1e-12)
    assert flags == flag


def test_bus_errors_leak_away_in_about_a_second():
    level = 0.0
    for _ in range(50):
        level = leak(level, 1, 0.02)
    assert 25 < level < 50
    for _ in range(150):
        level = leak(level, 0, 0.02)
    assert level < 2.0


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"age_s": 0.2}, "0.200 s old"),
        ({"age_s": float("nan")}, "old"),
        ({"temperature": 80.0}, "80 deg C"),
        ({"bus_errors": 20.0}, "20 bus errors"),
        ({}, ""),
        ({"temperature": float("nan")}, ""),
    ],
)
def test_a_monitor_says_what_is_wrong(change: dict[str, float], text: str):
    values = {"age_s": 0.01, "temperature": 40.0, "bus_errors": 1.0, **change}
    said = complaint(limits=MonitorLimits(), **values)
    assert text in said if text else said == ""
