"""Sensor errors against their bounds, their statistics and what they must leave alone."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from isthmus.sim.sensors import (
    InertialErrors,
    InertialSpec,
    differenced_velocity,
    draw_inertial_errors,
    encoder_reading,
    gravity_reading,
    inertial_reading,
    quantised,
    rotated,
    velocity_estimate,
)

PERFECT = {"noise_std": 0.0, "bias_std": 0.0, "misalignment_std": 0.0, "scale_std": 0.0, "resolution": 0.0}


def _vectors(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, 3, generator=torch.Generator().manual_seed(seed))


def _read(true_b: torch.Tensor, spec: InertialSpec, seed: int = 1) -> tuple[torch.Tensor, InertialErrors]:
    generator = torch.Generator().manual_seed(seed)
    errors = draw_inertial_errors(spec, len(true_b), generator)
    return inertial_reading(true_b, errors, spec, torch.randn(true_b.shape, generator=generator)), errors


def test_a_perfect_sensor_reports_the_truth():
    true_b = _vectors(100)
    reading, _ = _read(true_b, InertialSpec(**PERFECT, saturation=1e3))
    torch.testing.assert_close(reading, true_b)


def test_rounding_is_off_by_half_a_count_at_most():
    values = torch.linspace(-3.0, 3.0, 10_001, dtype=torch.float64)
    rounded = quantised(values, 0.01)
    assert (rounded - values).abs().max() == pytest.approx(0.005, rel=0.02)
    torch.testing.assert_close(rounded / 0.01, (rounded / 0.01).round())
    assert torch.equal(quantised(values, 0.0), values)


def test_a_differenced_velocity_is_off_by_a_count_over_the_interval_at_most():
    """Two readings, each off by half a count: at 4096 counts and 10 ms a servo's velocity is coarse by 0.15 rad/s."""
    start = torch.linspace(0.0, 1.0, 5001, dtype=torch.float64)
    now, earlier = (
        encoder_reading(start + 0.7 * time, None, torch.tensor(2 * math.pi / 4096), None) for time in (0.01, 0.0)
    )
    velocity = differenced_velocity(now, earlier, 0.01)
    count = 2 * math.pi / 4096 / 0.01
    assert 0.5 * count < (velocity - 0.7).abs().max() <= count
    assert velocity.mean() == pytest.approx(0.7, abs=0.01)
    coarse = differenced_velocity(now, earlier, 0.01, resolution=0.5)
    torch.testing.assert_close(coarse * 2, (coarse * 2).round())


def test_noise_and_bias_have_the_stated_spread():
    spec = InertialSpec(**PERFECT | {"noise_std": 0.02, "bias_std": 0.1}, saturation=1e3)
    reading, errors = _read(torch.zeros(100_000, 3), spec)
    assert (reading - errors.bias).std() == pytest.approx(0.02, rel=0.01)
    assert errors.bias.std() == pytest.approx(0.1, rel=0.01)
    assert reading.std() == pytest.approx(math.hypot(0.02, 0.1), rel=0.01)
    assert abs(reading.mean()) < 0.001


def test_a_reading_saturates_and_counts():
    spec = InertialSpec(**PERFECT | {"resolution": 0.25}, saturation=4.0)
    reading, _ = _read(torch.tensor([[100.0, -100.0, 1.1]]), spec)
    torch.testing.assert_close(reading, torch.tensor([[4.0, -4.0, 1.0]]))


def test_misalignment_turns_by_its_angle_and_keeps_the_norm():
    true_b = 9.81 * torch.nn.functional.normalize(_vectors(100_000), dim=-1)
    reading, _ = _read(true_b, InertialSpec(**PERFECT | {"misalignment_std": 0.03}, saturation=1e3))
    torch.testing.assert_close(reading.norm(dim=-1), true_b.norm(dim=-1), rtol=1e-5, atol=0)
    off = (reading - true_b).norm(dim=-1) / 9.81  # two of the three axes of rotation count
    assert (off**2).mean().sqrt() == pytest.approx(math.sqrt(2) * 0.03, rel=0.02)


def test_scale_errors_are_proportional_and_one_per_axis():
    spec = InertialSpec(**PERFECT | {"scale_std": 0.05}, saturation=1e3)
    once, errors = _read(torch.ones(100_000, 3), spec)
    twice = inertial_reading(2 * torch.ones(100_000, 3), errors, spec, torch.zeros(100_000, 3))
    torch.testing.assert_close(twice, 2 * once)
    assert (once - 1).std() == pytest.approx(0.05, rel=0.01)
    assert np.abs(np.corrcoef(once.T.numpy()) - np.eye(3)).max() < 0.02


@given(st.lists(st.floats(-3.0, 3.0), min_size=3, max_size=3))
def test_a_rotation_is_the_exponential_of_its_cross_product_matrix(vector):
    x, y, z = vector
    columns = rotated(torch.eye(3, dtype=torch.float64), torch.tensor(vector, dtype=torch.float64))
    cross = torch.tensor([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(columns.T, torch.linalg.matrix_exp(cross), atol=1e-9, rtol=0)


def test_a_tilt_error_turns_gravity_and_a_heading_error_does_not():
    gravity = torch.tensor([[0.0, 0.0, -1.0]]).repeat(3, 1)
    tilt = torch.tensor([[0.02, 0.0, 0.0], [0.0, -0.02, 0.0], [0.0, 0.0, 0.5]])
    s, c = math.sin(0.02), math.cos(0.02)
    torch.testing.assert_close(
        gravity_reading(gravity, tilt), torch.tensor([[0.0, s, -c], [s, 0.0, -c], [0.0, 0.0, -1.0]])
    )
    many = gravity_reading(torch.nn.functional.normalize(_vectors(1000), dim=-1), 0.1 * _vectors(1000, seed=2))
    torch.testing.assert_close(many.norm(dim=-1), torch.ones(1000))


def test_a_velocity_estimate_by_hand():
    estimate = velocity_estimate(
        torch.tensor([[1.0, -2.0, 0.0]]),
        scale_error=torch.tensor([[-0.1]]),
        bias=torch.tensor([[0.05, 0.0, 0.0]]),
        noise=torch.tensor([[0.0, 0.0, 0.01]]),
    )
    torch.testing.assert_close(estimate, torch.tensor([[0.95, -1.8, 0.01]]))


def test_the_same_seed_draws_the_same_sensors():
    spec = InertialSpec(
        noise_std=0.1, bias_std=0.1, misalignment_std=0.1, scale_std=0.1, saturation=10.0, resolution=0.01
    )
    first, again, other = (_read(torch.ones(10, 3), spec, seed)[0] for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
