# pyright: reportAttributeAccessIssue=false
# MuJoCo's compiled modules carry no type information.

import mujoco
import numpy as np
import pytest

from isthmus.calibration.touchoff import TouchOffError, fit_offsets, fit_offsets_at_stops, points_from_episodes
from isthmus.calibration.touchoff_plan import touch_off_points
from isthmus.hardware.kinematics import chain_from_mjcf
from isthmus.policies.episode import Episode, tick_dtype

PRIOR = np.deg2rad(1.7)


@pytest.fixture(scope="module")
def chain(robot):
    return chain_from_mjcf(robot.model_path, robot.tip_site)


@pytest.fixture(scope="module")
def touch(robot):
    """True tip by mujoco's kinematics, and what the encoders read: an arm that is not ours to compute."""
    model = mujoco.MjModel.from_xml_path(str(robot.model_path))
    data = mujoco.MjData(model)

    def at(poses: np.ndarray) -> np.ndarray:
        tips = []
        for pose in poses:
            data.qpos[:5] = pose
            mujoco.mj_kinematics(model, data)
            tips.append(data.site(robot.tip_site).xpos.copy())
        return np.array(tips)

    return at


def draws(chain, robot, touch, count: int, outliers: int, seed: int):
    rng = np.random.default_rng(seed)
    plan = touch_off_points(chain, robot, count, seed=0)
    tips = touch(plan.joint_pos)
    for _ in range(50):
        offset = np.deg2rad(rng.uniform(-3.0, 3.0, 5))
        points = tips + rng.normal(0.0, 1e-3, tips.shape)
        points[:outliers] += 0.05 * np.array([0.6, 0.64, 0.48])
        fit = fit_offsets(chain, plan.joint_pos + offset, points, noise_m=1e-3, prior_std_rad=PRIOR)
        yield fit, fit.offset_rad - offset


@pytest.mark.parametrize(("count", "within"), [(6, 0.75), (12, 0.9), (24, 0.98)])
def test_offsets_of_the_four_joints_with_a_lever_are_found(chain, robot, touch, count, within):
    """One millimetre of noise allows 0.17 deg of standard deviation with 12 points and 0.12 deg with 24."""
    errors = np.rad2deg([error[:4] for _, error in draws(chain, robot, touch, count, 0, seed=1)])
    assert (np.abs(errors) < 0.3).mean() >= within


def test_wrist_roll_with_its_lever_of_12_mm_is_said_to_be_unknown(chain, robot, touch):
    fit, _ = next(draws(chain, robot, touch, 12, 0, seed=2))
    assert fit.identifiable.tolist() == [True, True, True, True, False]
    assert [o.identifiable for o in fit.joint_offsets()] == fit.identifiable.tolist()


def test_the_posterior_standard_deviation_is_the_error_that_is_seen(chain, robot, touch):
    scores = np.array([error[:4] / fit.std_rad[:4] for fit, error in draws(chain, robot, touch, 12, 0, seed=3)])
    assert 0.8 < np.sqrt(np.mean(scores**2)) < 1.25


def test_points_recorded_5_cm_off_do_not_count(chain, robot, touch):
    for fit, error in draws(chain, robot, touch, 12, 2, seed=4):
        assert fit.used.tolist() == [False, False] + [True] * 10
        assert np.rad2deg(np.abs(error[:4])).max() < 0.8


def test_readings_at_the_stops_give_every_offset(robot):
    offset = np.deg2rad([2.0, -1.0, 0.5, 3.0, -3.0, 1.0])
    lower, upper = robot.array("lower") + offset, robot.array("upper") + offset
    lower[3] = np.nan
    fit = fit_offsets_at_stops(robot, lower, upper)
    np.testing.assert_allclose(fit.offset_rad, offset, atol=1e-12)
    assert fit.std_rad[3] > fit.std_rad[0]
    with pytest.raises(TouchOffError, match="elbow_flex: measured travel differs"):
        fit_offsets_at_stops(robot, lower, upper - np.array([0, 0, 0.2, 0, 0, 0]))
    with pytest.raises(TouchOffError, match="wrist_flex: no reading"):
        fit_offsets_at_stops(robot, lower, np.where(np.isnan(lower), np.nan, upper))


def test_stops_as_a_prior_make_all_five_joints_known(chain, robot, touch):
    rng = np.random.default_rng(5)
    plan = touch_off_points(chain, robot, 12, seed=0)
    offset = np.deg2rad([2.0, -1.0, 0.5, 3.0, -3.0])
    stops = offset + rng.normal(0.0, 0.0035, 5)
    points = touch(plan.joint_pos) + rng.normal(0.0, 1e-3, (12, 3))
    fit = fit_offsets(chain, plan.joint_pos + offset, points, noise_m=1e-3, prior_std_rad=0.0035, prior_mean_rad=stops)
    assert np.rad2deg(np.abs(fit.offset_rad - offset)).max() < 0.5


def episode(pose: np.ndarray, target: np.ndarray, *, success: bool, intervention: int) -> Episode:
    ticks = np.zeros(50, dtype=tick_dtype(6, 5))
    ticks["monotonic_ns"] = np.arange(50) * 20_000_000
    ticks["joint_pos"] = 9.0
    ticks["joint_pos"][-15:, :5] = pose
    ticks["target"], ticks["intervention"][20:] = target, intervention
    names = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")
    return Episode(
        ticks=ticks,
        joint_names=names,
        period_ns=20_000_000,
        success=success,
        policy_id="x",
        robot="so101",
        operator="y",
    )


def test_corrected_episodes_that_succeeded_are_touch_offs(chain):
    pose, target = np.arange(5) * 0.1, np.array([0.2, 0.1, 0.1])
    good = episode(pose, target, success=True, intervention=1)
    others = [episode(pose, target, success=False, intervention=1), episode(pose, target, success=True, intervention=0)]
    poses, points = points_from_episodes([good, *others], chain)
    np.testing.assert_allclose(poses, [pose])
    np.testing.assert_allclose(points, [target])
    with pytest.raises(TouchOffError, match="none of 2 episodes"):
        points_from_episodes(others, chain)


def test_points_that_cannot_be_used_are_refused(chain, robot):
    plan = touch_off_points(chain, robot, 8, seed=0)
    fit = {"noise_m": 1e-3, "prior_std_rad": PRIOR}
    with pytest.raises(TouchOffError, match="at least 4 are needed"):
        fit_offsets(chain, plan.joint_pos[:3], plan.tip_points[:3], **fit)
    with pytest.raises(TouchOffError, match="not finite"):
        fit_offsets(chain, plan.joint_pos, np.where(plan.tip_points > 0.3, np.nan, plan.tip_points) * np.nan, **fit)
    with pytest.raises(TouchOffError, match=r"expected \(p, 5\)"):
        fit_offsets(chain, plan.joint_pos[:, :4], plan.tip_points, **fit)
    with pytest.raises(TouchOffError, match="points agree"):
        fit_offsets(chain, plan.joint_pos, plan.tip_points[::-1].copy(), **fit)


def test_planned_points_are_where_mujoco_says_and_reachable(chain, robot, touch):
    plan = touch_off_points(chain, robot, 10, seed=3)
    np.testing.assert_allclose(plan.tip_points, touch(plan.joint_pos), atol=1e-6)
    assert len(np.unique(plan.joint_pos, axis=0)) == 10
    assert (plan.tip_points[:, 2] > 0.05).all()
