"""Servo law and command delay against closed forms."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from isthmus.sim.actuators import dc_motor_effort, dc_motor_voltage_effort, position_servo_effort
from isthmus.sim.latency import CommandDelay, ObservationDelay
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


def test_a_dc_motor_runs_up_with_its_mechanical_time_constant_to_its_no_load_speed():
    kt, ohm, volt, inertia, dt = 0.8, 2.0, 12.0, 0.02, 1e-5
    constants = {"torque_constant": torch.tensor(kt), "resistance": torch.tensor(ohm)}
    speed, seen = torch.zeros((), dtype=torch.float64), []
    for _ in range(40_000):
        effort = dc_motor_voltage_effort(torch.tensor(volt), speed, **constants, voltage_limit=torch.tensor(volt))
        speed = speed + dt / inertia * effort.double()
        seen.append(float(speed))
    time_constant = inertia * ohm / kt**2  # 62.5 ms
    time = dt * np.arange(1, 40_001)
    np.testing.assert_allclose(seen, volt / kt * (1 - np.exp(-time / time_constant)), atol=2e-3)
    assert seen[-1] == pytest.approx(volt / kt, rel=2e-3)


def test_the_torque_speed_line_is_the_motor_under_the_voltage_that_the_torque_needs():
    generator = torch.Generator().manual_seed(0)
    wanted = 20 * torch.randn(1000, 3, generator=generator)
    speed = 20 * torch.randn(1000, 3, generator=generator)
    kt, ohm, volt = torch.tensor([0.5, 0.8, 1.1]), torch.tensor([2.0, 1.0, 3.0]), torch.tensor([12.0, 7.4, 24.0])
    line = dc_motor_effort(
        wanted, speed, stall_effort=kt * volt / ohm, no_load_speed=volt / kt, effort_limit=torch.tensor(math.inf)
    )
    voltage = ohm / kt * wanted + kt * speed
    electric = dc_motor_voltage_effort(voltage, speed, torque_constant=kt, resistance=ohm, voltage_limit=volt)
    torch.testing.assert_close(line, electric, rtol=1e-5, atol=2e-5)
    assert (voltage.abs() > volt).float().mean() > 0.2  # both sides of the clip were tried
    assert (voltage.abs() < volt).float().mean() > 0.2


def test_a_dc_motor_by_hand():
    """Stall 2 N m, no-load 10 rad/s, current limit 2.5 N m."""
    cases = [  # wanted, speed, given
        (5.0, 0.0, 2.0),  # stall
        (5.0, 5.0, 1.0),  # half the no-load speed leaves half the torque
        (0.4, 5.0, 0.4),
        (5.0, 10.0, 0.0),  # no-load
        (5.0, 12.0, -0.4),  # driven faster than it can run: it brakes
        (-5.0, 1.0, -2.2),  # braking is helped by the back-EMF
        (-5.0, 5.0, -2.5),  # until the current limit
        (-5.0, -5.0, -1.0),
    ]
    wanted, speed, given_effort = torch.tensor(cases).T
    effort = dc_motor_effort(
        wanted,
        speed,
        stall_effort=torch.tensor(2.0),
        no_load_speed=torch.tensor(10.0),
        effort_limit=torch.tensor(2.5),
    )
    torch.testing.assert_close(effort, given_effort)


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


def test_whole_steps_of_delay_and_constant_targets_keep_every_bit():
    generator = torch.Generator().manual_seed(1)
    line = CommandDelay(10, 3, period=PERIOD, dt=DT, max_delay=LONGEST)
    whole = torch.arange(10) * DT
    line.set_delay(whole, torch.arange(10))
    line.reset(torch.zeros(10, 3), torch.arange(10))
    written, seen = [], []
    for _ in range(6):
        written.append(torch.randn(10, 3, generator=generator))
        line.write(written[-1])
        seen += list(line.all_substeps().clone().unbind(1))
    for env in range(10):
        for step in range(env, 24):
            assert torch.equal(seen[step][env], written[(step - env) // 4][env])
    line.set_delay(torch.rand(10, generator=generator) * LONGEST, torch.arange(10))
    line.reset(written[0], torch.arange(10))
    line.write(written[0])
    assert torch.equal(line.all_substeps(), written[0][:, None].expand(-1, 4, -1))


def _mean_in_force(arrivals: list[float], values: list[float], start: float) -> float:
    """Mean over [start, start + DT] of the newest value that has arrived, by cutting the step at every arrival."""
    cuts = sorted({start, start + DT, *(a for a in arrivals if start < a < start + DT)})
    total = 0.0
    for left, right in itertools.pairwise(cuts):
        arrived = [k for k, a in enumerate(arrivals) if a <= (left + right) / 2]
        total += (right - left) * values[arrived[-1]]
    return total / DT


@given(st.floats(0.0, LONGEST), st.floats(0.0, 0.06), st.sampled_from([0.0, 0.3]), st.integers(0, 2**31))
def test_jitter_and_losses_give_the_mean_of_what_an_event_queue_has_in_force(delay, jitter, loss, seed):
    line = CommandDelay(
        1, 1, period=PERIOD, dt=DT, max_delay=LONGEST, max_jitter=0.06, generator=torch.Generator().manual_seed(seed)
    )
    one = torch.arange(1)
    line.set_delay(torch.tensor([delay]), one)
    line.set_jitter(torch.tensor([jitter]), one)
    line.set_loss(torch.tensor([loss]), one)
    line.reset(torch.zeros(1, 1), one)
    same = torch.Generator().manual_seed(seed)  # the line draws losses, where there are any, before jitter
    arrivals, values = [-math.inf], [0.0]
    last = delay - PERIOD  # the target of the reset was written at every tick before
    for tick in range(12):
        lost = loss > 0 and float(torch.rand(1, generator=same)) < loss
        late = jitter * float(torch.rand(1, generator=same))
        if not lost:
            last = max(tick * PERIOD + delay + late, last)
            arrivals.append(last)
            values.append(math.sin(3.0 * tick))
        line.write(torch.full((1, 1), math.sin(3.0 * tick)))
        expected = [_mean_in_force(arrivals, values, tick * PERIOD + k * DT) for k in range(4)]
        np.testing.assert_allclose(line.all_substeps()[0, :, 0], expected, atol=1e-4)
        assert torch.equal(line.all_substeps()[0], torch.cat([line.in_force(k) for k in range(4)]))


def test_jitter_delays_each_write_by_a_uniform_time_of_its_own():
    everyone = torch.arange(20_000)
    line = CommandDelay(
        20_000, 1, period=PERIOD, dt=DT, max_delay=0.01, max_jitter=0.008, generator=torch.Generator().manual_seed(2)
    )
    line.set_delay(torch.full((20_000,), 0.01), everyone)
    line.set_jitter(torch.full((20_000,), 0.008), everyone)
    line.reset(torch.zeros(20_000, 1), everyone)
    for value in (1.0, 2.0):
        line.write(torch.full((20_000, 1), value))
        late = DT * (value - line.all_substeps()).sum((1, 2))  # each target arrives within its own tick
        assert 0.01 - 1e-6 <= late.min() < 0.01001
        assert 0.01799 < late.max() <= 0.018 + 1e-6
        assert late.mean() == pytest.approx(0.014, abs=1e-4)
        assert late.std() == pytest.approx(0.008 / math.sqrt(12), rel=0.02)


def test_a_later_command_never_overtakes_an_earlier_one():
    everyone = torch.arange(500)
    line = CommandDelay(
        500, 1, period=PERIOD, dt=DT, max_delay=LONGEST, max_jitter=0.1, generator=torch.Generator().manual_seed(3)
    )
    line.set_jitter(torch.full((500,), 0.1), everyone)
    line.reset(torch.zeros(500, 1), everyone)
    seen = []
    for tick in range(1, 20):
        line.write(torch.full((500, 1), float(tick)))
        seen.append(line.all_substeps()[:, :, 0].clone())
    rise = torch.diff(torch.cat(seen, dim=1), dim=1)
    assert rise.min() >= -1e-5
    assert rise.max() > 1.5  # several arrive at once


def test_the_first_command_after_a_reset_does_not_queue_behind_those_before_it():
    everyone = torch.arange(200)
    line = CommandDelay(
        200, 1, period=PERIOD, dt=DT, max_delay=0.0, max_jitter=0.1, generator=torch.Generator().manual_seed(6)
    )
    line.set_jitter(torch.full((200,), 0.1), everyone)
    line.write(torch.ones(200, 1))  # on its way for up to 100 ms
    line.set_jitter(torch.zeros(100), everyone[:100])
    line.reset(torch.zeros(50, 1), everyone[:50])
    line.write(torch.full((200, 1), 2.0))
    assert (line.all_substeps()[:50] == 2.0).all()
    assert (line.all_substeps()[50:100] < 2.0).any()


def test_lost_commands_leave_the_one_before_in_force():
    everyone = torch.arange(20_000)
    line = CommandDelay(20_000, 1, period=PERIOD, dt=DT, max_delay=0.0, generator=torch.Generator().manual_seed(4))
    chance = torch.full((20_000,), 0.25)
    chance[:10] = 1.0
    line.set_loss(chance, everyone)
    line.reset(torch.zeros(20_000, 1), everyone)
    line.write(torch.ones(20_000, 1))
    line.write(torch.full((20_000, 1), 2.0))
    held = line.all_substeps()
    assert (held[:, :1] == held).all()
    assert (held[:10] == 0).all()
    shares = [float((held[10:, 0] == value).float().mean()) for value in (0.0, 1.0, 2.0)]
    np.testing.assert_allclose(shares, [0.25**2, 0.25 * 0.75, 0.75], atol=0.01)


def test_random_delays_without_a_generator_are_refused():
    line = CommandDelay(1, 1, period=PERIOD, dt=DT, max_delay=LONGEST, max_jitter=0.01)
    with pytest.raises(ValueError, match="jitter > 0 needs random numbers"):
        line.set_jitter(torch.tensor([0.01]), torch.arange(1))
    with pytest.raises(ValueError, match="loss > 0 needs random numbers"):
        line.set_loss(torch.tensor([0.5]), torch.arange(1))
    with pytest.raises(ValueError, match=r"probability of a loss must lie in \[0, 1.0\]"):
        line.set_loss(torch.tensor([1.5]), torch.arange(1))
    with pytest.raises(ValueError, match="no whole number of physics steps"):
        CommandDelay(1, 1, period=0.02, dt=0.003, max_delay=0.0)


@given(st.floats(0.0, LONGEST), st.sampled_from([DT, PERIOD]))
def test_a_reading_is_the_signal_of_delay_seconds_ago(delay, interval):
    line = ObservationDelay(1, 2, interval=interval, max_delay=LONGEST)
    line.set_delay(torch.tensor([delay]), torch.arange(1))
    slope = torch.tensor([[1.0, -3.0]])
    line.reset(torch.zeros(1, 2), torch.arange(1))
    for sample in range(1, 20):
        line.push(slope * sample * interval)
        expected = slope * max(sample * interval - delay, 0.0)  # linear interpolation of a ramp is exact
        torch.testing.assert_close(line.read(), expected, atol=2e-6, rtol=0)


def test_a_reset_forgets_older_readings_and_only_its_own():
    line = ObservationDelay(2, 1, interval=DT, max_delay=LONGEST)
    line.set_delay(torch.tensor([0.0125, 0.0125]), torch.arange(2))
    for sample in range(10):
        line.push(torch.full((2, 1), float(sample)))
    line.reset(torch.tensor([[5.0]]), torch.tensor([1]))
    torch.testing.assert_close(line.read(), torch.tensor([[6.5], [5.0]]))


def test_jitter_of_readings_is_bounded_and_never_runs_back_in_time():
    everyone = torch.arange(1000)
    line = ObservationDelay(
        1000, 1, interval=DT, max_delay=0.01, max_jitter=0.03, generator=torch.Generator().manual_seed(5)
    )
    line.set_delay(torch.full((1000,), 0.01), everyone)
    line.set_jitter(torch.full((1000,), 0.03), everyone)
    line.reset(torch.zeros(1000, 1), everyone)
    ages = []
    for sample in range(1, 60):
        line.push(torch.full((1000, 1), sample * DT))
        if sample >= 20:
            ages.append(sample * DT - line.read()[:, 0])
    assert torch.stack(ages).min() >= 0.01 - 1e-6
    assert torch.stack(ages).max() <= 0.04 + 1e-6
    assert torch.stack(ages).max() > 0.03
    assert torch.diff(torch.stack(ages), dim=0).max() <= DT + 1e-6  # the time that a reading shows never falls


def test_an_encoder_rounds_to_whole_counts():
    angles = torch.linspace(-1.5, 1.5, 1001, dtype=torch.float64)
    reading = encoder_reading(
        angles, torch.tensor(0.02, dtype=torch.float64), torch.tensor([2 * math.pi / 4096], dtype=torch.float64), None
    )
    counts = reading * 4096 / (2 * math.pi)
    torch.testing.assert_close(counts, counts.round())
    assert (reading - angles - 0.02).abs().max() <= math.pi / 4096 + 1e-12
