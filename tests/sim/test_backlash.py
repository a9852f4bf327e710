"""Gear play against what it must lose, and where it must lose nothing."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from isthmus.sim.actuators import position_servo_effort
from isthmus.sim.backlash import Backlash

DT = 0.005


def _play(width: float, *, crossing_speed: float = 5.0, full_effort: float = 3.0, num_envs: int = 1) -> Backlash:
    return Backlash(
        num_envs,
        width=torch.tensor([width]),
        crossing_speed=torch.tensor([crossing_speed]),
        full_effort=torch.tensor([full_effort]),
        dt=DT,
    )


def test_without_play_every_bit_passes():
    play = Backlash(50, width=torch.zeros(4), crossing_speed=torch.ones(4), full_effort=torch.ones(4), dt=DT)
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        effort = torch.randn(50, 4, generator=generator)
        effort[torch.rand(50, 4, generator=generator) < 0.2] = 0.0
        assert torch.equal(play.transmit(effort), effort)
    tiny = torch.full((50, 4), 1e-44)  # whose travel is zero in float32
    assert torch.equal(play.transmit(tiny), tiny)


@pytest.mark.parametrize("effort", [3.0, 1.0, 0.37])
def test_a_reversal_loses_exactly_the_gap(effort):
    """The motor's side travels the width; the impulse lost meanwhile is width full_effort / crossing_speed at any torque."""
    play = _play(0.02)
    forward, back = torch.tensor([[effort]]), torch.tensor([[-effort]])
    for _ in range(40):
        play.transmit(forward)
    assert torch.equal(play.transmit(forward), forward)  # in contact, all of it passes
    before = float(play.gap)
    given = [float(play.transmit(back)) for _ in range(40)]
    assert before - float(play.gap) == pytest.approx(0.02, rel=1e-6)
    lost = sum(effort + passed for passed in given) * DT
    assert lost == pytest.approx(0.02 * 3.0 / 5.0, rel=1e-4)
    assert given[-1] == float(back)
    assert np.diff(given).max() <= 0.0  # zero, then part of one step, then all


def test_the_gap_is_crossed_at_the_motors_own_speed():
    play = _play(0.04)
    effort = torch.tensor([[1.5]])  # half of full effort: 2.5 rad/s, 12.5 mrad a step, from the middle 20 mrad to go
    assert float(play.transmit(effort)) == 0.0
    assert float(play.gap) == pytest.approx(0.0125)
    assert float(play.transmit(effort)) == pytest.approx(1.5 * (25.0 - 20.0) / 12.5)
    assert float(play.transmit(effort)) == 1.5


@given(st.lists(st.floats(-3.0, 3.0, width=32), min_size=1, max_size=30), st.floats(0.0, 0.2))
def test_the_joint_never_gets_more_than_the_motor_gives_nor_against_it(efforts, width):
    play = _play(width)
    for effort in efforts:
        passed = float(play.transmit(torch.tensor([[effort]])))
        assert 0.0 <= passed * np.sign(effort) <= abs(effort)
        assert abs(float(play.gap)) <= width / 2 + 1e-7


def _swing(width: float) -> np.ndarray:
    """Position of an undisturbed servo with kp = 20, kd = 0.3 on 0.02 kg m^2, from 0.2 rad, over 6 s."""
    play = _play(width)
    pos, vel, seen = torch.full((1, 1), 0.2), torch.zeros(1, 1), []
    numbers = {"kp": torch.tensor(20.0), "kd": torch.tensor(0.3), "effort_limit": torch.tensor(3.0)}
    for _ in range(1200):
        effort = position_servo_effort(torch.zeros(1, 1), pos, vel, **numbers)
        vel = vel + DT / 0.02 * play.transmit(effort)
        pos = pos + DT * vel
        seen.append(float(pos))
    return np.array(seen)


def test_a_servo_around_play_hunts_and_one_without_comes_to_rest():
    assert np.abs(_swing(0.0)[-400:]).max() < 1e-6
    hunting = _swing(0.02)[-400:]
    assert 1e-3 < np.abs(hunting).max() < 0.2  # goes on, and does not grow
    assert (np.diff(np.sign(hunting)) != 0).sum() >= 4
    assert np.abs(_swing(0.04)[-400:]).max() > np.abs(hunting).max()


def test_width_and_reset_are_each_environments_own():
    play = _play(0.02, num_envs=3)
    play.set_width(torch.tensor([[0.0]]), torch.tensor([1]))
    effort = torch.full((3, 1), 1.0)
    first = play.transmit(effort)[:, 0].tolist()
    assert first[1] == 1.0
    assert first[0] == first[2] < 1.0
    for _ in range(10):
        play.transmit(effort)
    play.reset(torch.tensor([2]))
    assert play.transmit(effort)[:, 0].tolist() == [1.0, 1.0, first[2]]


def test_a_joint_without_a_motor_is_no_trouble():
    play = _play(0.02, full_effort=0.0)
    assert float(play.transmit(torch.zeros(1, 1))) == 0.0
    assert float(play.gap) == 0.0
