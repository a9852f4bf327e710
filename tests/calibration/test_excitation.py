# pyright: reportAttributeAccessIssue=false
# MuJoCo's compiled modules carry no type information.

import dataclasses

import mujoco
import numpy as np
import pytest

from isthmus.calibration.excitation import ExcitationError, check_excitation, excitation
from isthmus.calibration.prior import Prior
from isthmus.hardware.virtual.hidden import RANGES


def test_an_excitation_starts_and_ends_at_rest_in_the_ready_pose(robot, targets):
    ready = robot.array("default_pos")
    assert targets.shape == (1000, 6)
    np.testing.assert_allclose(targets[[0, -1]], [ready, ready], atol=1e-12)
    assert np.abs(np.diff(targets, axis=0)[[0, -1]]).max() < 1e-3


def test_every_joint_moves_slowly_and_fast_and_stays_below_its_limits(robot, targets):
    speed = np.abs(np.diff(targets, axis=0)) * 50
    assert (speed.max(axis=0) < robot.array("velocity_limit")).all()
    assert (np.median(speed[50:300], axis=0) < 0.7).all()  # friction shows in slow motion
    assert (speed[:, :5].max(axis=0) > 0.8).all()  # latency in fast motion
    assert (targets > robot.array("lower") + 0.05).all()
    assert (targets < robot.array("upper") - 0.05).all()


def test_the_commanded_tip_stays_high_by_mujocos_own_kinematics(robot, targets):
    model = mujoco.MjModel.from_xml_path(str(robot.model_path))
    data = mujoco.MjData(model)
    heights = []
    for pose in targets[::5]:
        data.qpos[:] = pose
        mujoco.mj_kinematics(model, data)
        heights.append(data.site(robot.tip_site).xpos[2])
    assert min(heights) > 0.05


def test_the_same_seed_gives_the_same_motion_and_another_seed_another(robot, targets):
    np.testing.assert_array_equal(excitation(robot, seed=0), targets)
    assert np.abs(excitation(robot, seed=1) - targets).max() > 0.05


def test_the_last_quarter_is_another_waveform(targets):
    spectrum = np.abs(np.fft.rfft(np.diff(targets[:, 0])[250:750])), np.abs(np.fft.rfft(np.diff(targets[:, 0])[750:]))
    assert spectrum[0].argmax() / 10.0 != pytest.approx(spectrum[1].argmax() / 5.0, abs=0.05)


def test_a_ready_pose_near_the_table_is_refused(robot):
    low = tuple(
        dataclasses.replace(j, default_pos=0.5 if j.name == "shoulder_lift" else j.default_pos) for j in robot.joints
    )
    with pytest.raises(ExcitationError, match=r"tip comes down to .* raise default_pos"):
        excitation(dataclasses.replace(robot, joints=low), seed=0)


def test_too_fast_or_too_far_targets_are_refused_with_the_joints_name(robot, targets):
    jump = targets.copy()
    jump[500:, 2] += 0.1
    with pytest.raises(ExcitationError, match=r"elbow_flex: commanded .* rad/s"):
        check_excitation(robot, jump, prior=Prior(), samples=1, seed=0)
    far = targets.copy()
    far[:, 5] -= 0.15
    with pytest.raises(ExcitationError, match=r"gripper: commanded .* limits"):
        check_excitation(robot, far, prior=Prior(), samples=1, seed=0)


@pytest.mark.parametrize("arguments", [{"duration_s": 5.0}, {"amplitude": 0.0}, {"amplitude": 1.5}])
def test_arguments_out_of_range_are_refused(robot, arguments):
    with pytest.raises(ExcitationError, match="need at least 10 s and 0 < amplitude <= 1"):
        excitation(robot, seed=0, **arguments)


def test_a_prior_that_is_no_range_is_refused():
    with pytest.raises(ValueError, match="latency_s: expected 0 <= low < high"):
        Prior(latency_s=(0.02, 0.01))


def test_the_default_prior_holds_every_virtual_arm():
    prior = Prior()
    for name in ("friction_scale", "gain_scale", "payload_kg"):
        assert getattr(prior, name)[0] <= RANGES[name][0] < RANGES[name][1] < getattr(prior, name)[1]
    assert 1e3 * prior.latency_s[0] <= RANGES["latency_ms"][0] < RANGES["latency_ms"][1] < 1e3 * prior.latency_s[1]
    assert np.rad2deg(prior.encoder_offset_rad) > RANGES["encoder_offset_deg"][1]


@pytest.mark.slow
def test_a_thousand_robots_of_the_prior_range_keep_their_tips_above_the_table(robot, targets):
    assert check_excitation(robot, targets, prior=Prior(), samples=1000, seed=123) > 0.04
