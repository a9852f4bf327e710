"""The limiter against everything that floats can be."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from isthmus.deploy.safety import NOTHING_WRITTEN, AccelerationLimit, Flag, Limiter, Limits, robot_limits
from isthmus.hardware.robot import load_robot, robot_names

SPEC = load_robot("so101")
LIMITS = robot_limits(SPEC, period_s=0.02, torque_factor=2.0)
N = len(SPEC.joints)
ANY = st.floats(allow_nan=True, allow_infinity=True, width=64)
ROUNDING = 1e-12  # rad
POSITION_DRIVEN = [
    name
    for name in robot_names()
    if load_robot(name).joints and all(j.drive == "position" for j in load_robot(name).joints)
]


def violation(
    safe: np.ndarray, previous: np.ndarray, joint_pos: np.ndarray, joint_vel: np.ndarray, limits: Limits
) -> np.ndarray:
    """By how much targets break the limits, said again in other words, rad; of the torque that a PD loop would give over kp."""
    outside = np.maximum(limits.lower - safe, safe - limits.upper)
    too_fast = np.abs(safe - previous) - limits.step
    torque = (
        np.abs((safe - joint_pos) - limits.damping * joint_vel) - limits.lead
    )  # tau / kp = (target - q) - kd / kp dq
    return np.maximum(np.maximum(outside, too_fast), torque)


def test_the_limits_of_the_so101_are_those_of_its_sources():
    np.testing.assert_allclose(LIMITS.step, 3.0 * 0.02)
    np.testing.assert_allclose(LIMITS.lead, 2.0 * 2.94 / 17.8)


def test_the_limits_of_the_go2_take_its_damping_into_account():
    limits = robot_limits(load_robot("go2"), period_s=0.005, torque_factor=1.0)
    np.testing.assert_allclose(limits.damping, 1.0 / 40.0)
    np.testing.assert_allclose(limits.lead[0], 23.7 / 40.0)


@settings(max_examples=300, deadline=None)
@given(arrays(np.float64, (3, N), elements=ANY), st.integers(0, 2**32 - 1))
def test_any_proposal_and_any_reading_give_a_safe_target_or_none(rows: np.ndarray, seed: int):
    proposed, joint_pos, joint_vel = rows
    previous = np.random.default_rng(seed).uniform(LIMITS.lower, LIMITS.upper)
    with np.errstate(all="ignore"):
        safe, flags = Limiter(LIMITS).apply(proposed, previous, joint_pos, joint_vel)
    assert np.isfinite(safe).all()
    if flags & NOTHING_WRITTEN:
        np.testing.assert_array_equal(safe, previous)
        assert (
            flags == Flag.CONFLICT or not np.isfinite(rows).all() or np.abs(rows).max() > 1e150
        )  # as good as infinite
    else:
        assert violation(safe, previous, joint_pos, joint_vel, LIMITS).max() <= ROUNDING


@pytest.mark.parametrize("robot", POSITION_DRIVEN)
def test_ten_million_random_targets_are_safe(robot: str):
    """Most of them of the robot with the fewest joints. Among the states are ones that cannot be: then nothing may be written."""
    spec = load_robot(robot)
    limits = robot_limits(spec, period_s=0.002, torque_factor=1.5)
    n, rows, total = len(spec.joints), 50_000, 8_500_000 if robot == "so101" else 500_000
    rng, limiter, written = np.random.default_rng(0), Limiter(limits, (rows,)), 0
    for _ in range(-(-total // rows)):
        previous = rng.uniform(limits.lower, limits.upper, (rows, n))
        proposed = previous + rng.normal(0.0, 1.0, (rows, n)) * 10.0 ** rng.uniform(-6, 30, (rows, 1))
        joint_pos = previous + rng.normal(0.0, 1.0, (rows, n)) * limits.lead * 10.0 ** rng.uniform(-3, 0.5, (rows, 1))
        joint_vel = rng.normal(0.0, 1.0, (rows, n)) * 10.0 ** rng.uniform(-3, 2, (rows, 1))
        proposed[::7, n // 2], proposed[::11, 0], proposed[::13, -1] = np.nan, np.inf, -1e300
        joint_pos[::17, 0], joint_vel[::19, -1] = np.nan, np.inf
        with np.errstate(all="ignore"):
            safe, flags = limiter.apply(proposed, previous, joint_pos, joint_vel)
            broken = violation(safe, previous, joint_pos, joint_vel, limits).max(axis=1)
        none = (np.asarray(flags) & NOTHING_WRITTEN) != 0
        assert np.isfinite(safe).all() and (broken[~none] <= ROUNDING).all()
        np.testing.assert_array_equal(safe[none], previous[none])
        untouched = np.asarray(flags) == 0
        np.testing.assert_array_equal(safe[untouched], proposed[untouched])
        written += int((~none).sum())
    assert 0.2 * total < written < total


@settings(max_examples=200, deadline=None)
@given(arrays(np.float64, (4, N), elements=ANY))
def test_one_row_and_many_rows_are_limited_alike(rows: np.ndarray):
    proposed, joint_pos, joint_vel, start = rows
    previous = np.clip(np.nan_to_num(start), LIMITS.lower, LIMITS.upper)
    with np.errstate(all="ignore"):
        one, flag = Limiter(LIMITS).apply(proposed, previous, joint_pos, joint_vel)
        many, flags = Limiter(LIMITS, (2,)).apply(
            *(np.stack([row, row]) for row in (proposed, previous, joint_pos, joint_vel))
        )
    np.testing.assert_array_equal(many[1], one)
    assert np.asarray(flags)[1] == flag


def test_a_target_within_all_limits_is_not_changed():
    previous = SPEC.array("default_pos")
    proposed = previous + 0.9 * LIMITS.step
    safe, flags = Limiter(LIMITS).apply(proposed, previous, previous, np.zeros(N))
    np.testing.assert_array_equal(safe, proposed)
    assert flags == 0


def simple(**fields: float) -> Limits:
    values = {"lower": -1.0, "upper": 1.0, "step": 0.1, "lead": 0.3, "damping": 0.0, "acceleration": np.inf, **fields}
    return Limits(**{name: np.array([value]) for name, value in values.items()})


@pytest.mark.parametrize(
    ("proposed", "previous", "joint_pos", "joint_vel", "expected", "flag"),
    [
        (0.5, 0.0, 0.35, 0.0, 0.1, Flag.RATE),
        (-0.5, 0.0, -0.35, 0.0, -0.1, Flag.RATE),
        (1.05, 0.98, 0.98, 0.0, 1.0, Flag.POSITION),
        (0.55, 0.5, 0.2, 0.0, 0.5, Flag.TORQUE),
        (0.55, 0.5, 0.2, 1.0, 0.52, Flag.TORQUE),  # damping 0.02 s: a joint that moves up needs more of a lead
        (9.0, 0.95, 0.9, 0.0, 1.0, Flag.TORQUE | Flag.POSITION | Flag.RATE),
        (0.0, 0.9, 0.5, 0.0, 0.8, Flag.TORQUE | Flag.RATE),
        (0.0, 0.9, -0.5, 0.0, 0.9, Flag.CONFLICT),  # pushed away by hand, faster than the target may follow
        (np.nan, 0.9, 0.9, 0.0, 0.9, Flag.REJECTED),
        (0.9, 0.9, np.nan, 0.0, 0.9, Flag.REJECTED),
        (0.9, 0.9, 0.9, np.inf, 0.9, Flag.REJECTED),
    ],
)
def test_each_limit_by_hand(
    proposed: float, previous: float, joint_pos: float, joint_vel: float, expected: float, flag: Flag
):
    rows = [np.array([value]) for value in (proposed, previous, joint_pos, joint_vel)]
    with np.errstate(all="ignore"):
        safe, flags = Limiter(simple(damping=0.02)).apply(*rows)
    assert safe[0] == pytest.approx(expected, abs=1e-12)
    assert flags == flag


def test_a_joint_of_limited_acceleration_stops_at_the_end_of_its_range_without_breaking_the_limit():
    limits = simple(step=0.1, acceleration=0.004)
    shaped, limiter = AccelerationLimit(limits), Limiter(limits)
    rng, previous, step = np.random.default_rng(1), np.zeros(1), np.zeros(1)
    steps = []
    for tick in range(5000):
        wanted = np.array([(-1.0) ** (tick // 400) * 2.0]) if tick < 3000 else rng.normal(0.0, 3.0, 1)
        safe, flags = limiter.apply(shaped.apply(wanted, previous, step), previous, previous, np.zeros(1))
        assert not flags & NOTHING_WRITTEN
        step, previous = safe - previous, safe.copy()
        steps.append(step.copy())
    changes = np.abs(np.diff(np.array(steps), axis=0))
    assert changes.max() <= 0.004 + 1e-12
    assert np.abs(previous) <= 1.0 and np.abs(np.array(steps)).max() > 0.06  # and it does move


def test_without_a_limit_acceleration_shapes_nothing():
    assert not AccelerationLimit(LIMITS).active
