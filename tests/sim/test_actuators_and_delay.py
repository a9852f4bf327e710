"""Servo law and command delay against closed forms."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from isthmus.sim.actuators import position_servo_effort
from isthmus.sim.latency import CommandDelay
from isthmus.sim.sensors import encoder_reading

PERIOD, DT, LONGEST = 0.02, 0.005, 0.045


def test_servo_torque_is_proportional_and_saturates():
    effort = position_servo_effort(
        torch.tensor([0.1, 1.0, -1.0]),
        torch.zeros(3),
        torch.tensor([0.5, 0.0, 0.0]),
        kp=torch.tensor(10.0),
        kd=torch.tensor(0.2),
        effort_limit=torch.tensor(2.94),
    )
    torch.testing.assert_close(effort, torch.tensor([0.9, 2.94, -2.94]))


@given(st.floats(0.0, LONGEST))
def test_a_step_arrives_delay_seconds_later(delay):
    """The mean of the targets over each physics step integrates to the step function delayed by exactly `delay`."""
    line = CommandDelay(1, 1, period=PERIOD, dt=DT, max_delay=LONGEST)
    line.set_delay(torch.tensor([delay]), torch.arange(1))
    line.reset(torch.zeros(1, 1), torch.arange(1))
    seen = []
    for _ in range(4):
        line.write(torch.ones(1, 1))
        seen += [float(line.in_force(substep)) for substep in range(4)]
    lost = sum(1.0 - value for value in seen) * DT
    assert math.isclose(lost, delay, abs_tol=1e-6)
    assert all(a <= b + 1e-6 for a, b in itertools.pairwise(seen))


def test_whole_and_fractional_delays_by_hand():
    line = CommandDelay(2, 1, period=PERIOD, dt=DT, max_delay=LONGEST)
    line.set_delay(torch.tensor([0.012, 0.020]), torch.arange(2))
    line.reset(torch.zeros(2, 1), torch.arange(2))
    line.write(torch.ones(2, 1))
    first = [line.in_force(k)[:, 0].tolist() for k in range(4)]
    np.testing.assert_allclose([row[0] for row in first], [0, 0, 0.6, 1], atol=1e-6)
    np.testing.assert_allclose([row[1] for row in first], [0, 0, 0, 0], atol=1e-6)
    line.write(2 * torch.ones(2, 1))
    np.testing.assert_allclose([float(line.in_force(k)[1]) for k in range(4)], [1, 1, 1, 1], atol=1e-6)


def test_delays_outside_the_range_are_refused():
    line = CommandDelay(1, 1, period=PERIOD, dt=DT, max_delay=LONGEST)
    for delay in (-0.001, 0.046):
        with pytest.raises(ValueError, match="delay must lie in"):
            line.set_delay(torch.tensor([delay]), torch.arange(1))


def test_an_encoder_rounds_to_whole_counts():
    angles = torch.linspace(-1.5, 1.5, 1001, dtype=torch.float64)
    reading = encoder_reading(
        angles, torch.tensor(0.02, dtype=torch.float64), 4096, torch.zeros(1, dtype=torch.float64)
    )
    counts = reading * 4096 / (2 * math.pi)
    torch.testing.assert_close(counts, counts.round())
    assert (reading - angles - 0.02).abs().max() <= math.pi / 4096 + 1e-12
