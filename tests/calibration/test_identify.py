import dataclasses

import numpy as np
import pytest

from isthmus.calibration.identified import Estimate, load_identified
from isthmus.calibration.identify import identify
from isthmus.calibration.log import JointLog, LogError
from isthmus.calibration.plot import calibration_png
from isthmus.calibration.rollout import PARAMETERS, ServoRollout, Targets
from isthmus.calibration.uncertainty import Linearisation, covariance, ratio_estimate
from isthmus.hardware.structure import FormatError
from isthmus.hardware.virtual.hidden import load_hidden

COUNT = 2 * np.pi / 4096


@pytest.fixture(scope="session")
def hard(record):
    return record("hard")


@pytest.fixture(scope="session")
def found(hard, robot):
    return identify(hard, robot)


def truth(hidden) -> np.ndarray:
    return np.array([hidden.friction_scale, hidden.gain_scale, hidden.payload_kg, hidden.latency_ms * 1e-3])


def values(found) -> np.ndarray:
    return np.array([getattr(found, name).value for name in PARAMETERS])


def test_true_parameters_reproduce_another_simulators_motion_to_the_encoders_resolution(record, robot, specimen):
    """The twin has its own model, step and servo law: without play and offsets only quantisation and steps differ."""
    zero = dict.fromkeys(robot.joint_names, 0.0)
    hidden = dataclasses.replace(load_hidden("hard"), backlash_deg=zero, encoder_offset_deg=zero)
    log = record(hidden)
    rollout = ServoRollout(robot, physics_dt_s=0.002)
    path = rollout(truth(hidden)[None], Targets(log.written_s, log.joint_target), log.joint_pos[0], log.time_s)[0]
    error = (path - log.joint_pos)[25:]
    assert np.sqrt(np.mean(error**2)) < 1.5 * COUNT


def test_the_hard_arm_is_found(found):
    hidden = load_hidden("hard")
    assert abs(found.latency_s.value - hidden.latency_ms * 1e-3) < 0.003
    assert abs(found.payload_kg.value - hidden.payload_kg) < 0.015
    assert abs(found.gain_scale.value / hidden.gain_scale - 1.0) < 0.06
    assert abs(found.friction_scale.value / hidden.friction_scale - 1.0) < 0.08
    assert found.heldout_after_rad < 0.5 * found.heldout_before_rad
    assert found.payload_per_gain is None
    assert found.physics_dt_s == 0.005


def test_encoder_offsets_are_said_to_be_unknown(found):
    assert found.encoder_offset is None
    assert "not identifiable from joint logs" in found.encoder_offset_text


@pytest.mark.slow
def test_random_specimens_are_found_and_their_intervals_cover_the_truth(record, robot, specimen):
    covered = []
    for seed in range(8):
        hidden = specimen(100 + seed, robot.joint_names)
        found = identify(record(hidden, jitter=seed % 2 == 1), robot)
        error = values(found) - truth(hidden)
        assert abs(error[3]) < 0.003
        assert abs(error[2]) < 0.02
        assert abs(error[1]) < 0.08 * hidden.gain_scale
        assert abs(error[0]) < 0.1 * hidden.friction_scale
        assert found.heldout_after_rad < 0.5 * found.heldout_before_rad
        for name, value in zip(PARAMETERS, truth(hidden), strict=True):
            estimate = getattr(found, name)
            covered.append(estimate.lower <= value <= estimate.upper)
    assert np.mean(covered) >= 0.8


def still(log: JointLog, amplitude: float) -> JointLog:
    middle = log.joint_target[0]
    return dataclasses.replace(log, joint_target=middle + amplitude * (log.joint_target - middle))


def test_logs_that_show_nothing_are_refused(hard, robot):
    cut = {name: getattr(hard, name)[:300] for name in ("time_s", "joint_pos", "joint_target", "written_s")}
    with pytest.raises(LogError, match=r"lasts 6\.0 s, at least 8 s"):
        identify(dataclasses.replace(hard, **cut), robot)
    with pytest.raises(LogError, match="no excitation"):
        identify(still(hard, 0.01), robot)
    with pytest.raises(LogError, match="did not follow"):
        identify(dataclasses.replace(hard, joint_pos=np.tile(hard.joint_pos[:1], (len(hard.time_s), 1))), robot)
    with pytest.raises(LogError, match="order matters"):
        identify(dataclasses.replace(hard, joint_names=hard.joint_names[::-1]), robot)


def test_the_result_survives_its_file_and_a_wrong_file_is_refused(found, tmp_path):
    path = tmp_path / "identified.json"
    found.save(path)
    assert load_identified(path) == found
    path.write_text(path.read_text().replace('"robot"', '"robott"'))
    with pytest.raises(FormatError, match="robott"):
        load_identified(path)


def test_randomisation_is_centred_on_the_result_and_never_a_point(found):
    sharp = Estimate(value=1.2, lower=1.2, upper=1.2, std=0.0, identifiable=True)
    spreads = {s.parameter: s for s in dataclasses.replace(found, friction_scale=sharp).randomization()}
    assert spreads["friction_scale"].centre == 1.2
    assert spreads["friction_scale"].lower < 1.1 < 1.3 < spreads["friction_scale"].upper
    assert spreads["latency_s"].centre == pytest.approx(found.latency_s.value + 0.0025)
    assert found.simulator_latency_s == spreads["latency_s"].centre
    assert all(s.half_width > 0 and s.lower >= 0 for s in spreads.values())


def test_the_covariance_of_independent_noise_is_that_of_ordinary_least_squares():
    rng = np.random.default_rng(0)
    jacobian = rng.normal(size=(40_000, 2)) @ np.array([[1.0, 0.5], [0.0, 1.0]])
    fit = Linearisation(jacobian, rng.normal(0.0, 0.3, 40_000), np.ones(40_000), np.arange(40_000) // 20)
    np.testing.assert_allclose(covariance(fit), 0.09 * np.linalg.inv(jacobian.T @ jacobian), rtol=0.1, atol=2e-7)


def test_parameters_that_cannot_be_told_apart_are_reported_as_their_ratio():
    tied = np.array([[0.04, 0.0], [0.0, 1.0]]) @ (np.ones((2, 2)) + 1e-4 * np.eye(2)) @ np.array([[0.04, 0], [0, 1.0]])
    ratio = ratio_estimate(np.array([0.04, 1.0]), tied, 0, 1)
    assert ratio is not None
    assert ratio.value == pytest.approx(0.04)
    assert ratio.std < 0.002  # each of the two is uncertain by its own value
    assert ratio_estimate(np.array([0.04, 1.0]), np.diag([0.01, 0.01]), 0, 1) is None


def test_the_picture_is_a_png(hard, robot, found):
    assert calibration_png(hard, robot, found).startswith(b"\x89PNG")
