"""Friction against the motions that it allows in closed form."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from isthmus.hardware.actuator_spec import FrictionSpec
from isthmus.sim.friction import HeldFriction, friction_budget, friction_effort, friction_params

INERTIA, DT = 0.02, 0.005


def _params(**values: float):
    given = {"coulomb": 0.0, "viscous": 0.0, "inertia": INERTIA} | values
    return friction_params(FrictionSpec(**{name: (value,) for name, value in given.items()}), 1)


def _slide(params, *, vel: float, motor: float, dt: float, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Position and speed after each step of a joint of inertia INERTIA."""
    pos, speed = torch.zeros(1, 1), torch.full((1, 1), vel)
    seen = []
    for _ in range(steps):
        effort = torch.full((1, 1), motor)
        speed = speed + dt / INERTIA * (effort + friction_effort(effort, None, speed, params, dt))
        pos = pos + dt * speed
        seen.append((float(pos), float(speed)))
    positions, speeds = np.array(seen).T
    return positions, speeds


def test_coulomb_friction_stops_a_joint_after_its_kinetic_energy_is_spent():
    pos, speed = _slide(_params(coulomb=0.1), vel=2.0, motor=0.0, dt=1e-4, steps=5000)
    assert pos[-1] == pytest.approx(INERTIA * 2.0**2 / (2 * 0.1), rel=1e-3)  # 0.4 rad
    assert speed[-1] == 0.0
    assert int(np.argmax(speed == 0.0)) == pytest.approx(0.4 / 1e-4, abs=2)  # at J v / Kc


def test_the_stop_distance_hardly_depends_on_the_step():
    pos, speed = _slide(_params(coulomb=0.1), vel=2.0, motor=0.0, dt=DT, steps=200)
    assert pos[-1] == pytest.approx(0.4, abs=DT * 2.0)  # one step of travel
    assert speed[-1] == 0.0


def test_viscous_friction_leads_to_a_terminal_speed():
    _, speed = _slide(_params(coulomb=0.1, viscous=0.05), vel=0.0, motor=0.35, dt=1e-3, steps=5000)
    assert speed[-1] == pytest.approx((0.35 - 0.1) / 0.05, rel=1e-4)
    time = 1e-3 * np.arange(1, 5001)
    np.testing.assert_allclose(speed, 5.0 * (1 - np.exp(-time * 0.05 / INERTIA)), atol=0.01)


def test_a_torque_within_the_budget_moves_nothing_and_one_beyond_it_moves_with_what_is_left():
    stuck, _ = _slide(_params(coulomb=0.1), vel=0.0, motor=0.0999, dt=DT, steps=100)
    assert (stuck == 0.0).all()
    _, speed = _slide(_params(coulomb=0.1), vel=0.0, motor=0.15, dt=DT, steps=100)
    np.testing.assert_allclose(speed, 0.05 / INERTIA * DT * np.arange(1, 101), rtol=1e-4)


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
def test_the_stribeck_term_fades_with_speed(exponent):
    params = _params(
        coulomb=0.1, viscous=0.02, stribeck=0.08, stribeck_speed=0.5, stribeck_exponent=exponent, inertia=1.0
    )
    speeds = torch.tensor([[0.0], [0.5], [-0.5], [1.5], [100.0]])
    expected = [0.1 + 0.02 * abs(v) + 0.08 * math.exp(-((abs(v) / 0.5) ** exponent)) for v in speeds.flatten().tolist()]
    budget = friction_budget(speeds, torch.zeros(5, 1), params)
    np.testing.assert_allclose(budget[:, 0], expected, rtol=1e-6)
    assert float(budget[0]) == pytest.approx(0.18)
    assert float(budget[1]) == pytest.approx(0.11 + 0.08 / math.e)


def test_load_on_the_gears_adds_friction_by_hand():
    params = _params(coulomb=0.1, load=0.2, stribeck=0.05, load_stribeck=0.1)
    rest, running = torch.zeros(1, 1), torch.full((1, 1), 100.0)
    load = torch.full((1, 1), -1.5)  # the sign does not matter
    assert float(friction_budget(rest, load, params)) == pytest.approx(0.1 + 0.3 + 0.05 + 0.15)
    assert float(friction_budget(running, load, params)) == pytest.approx(0.1 + 0.3)


def test_a_motor_that_lifts_a_load_has_the_torque_of_both_in_its_gears():
    params = _params(coulomb=0.1, load=0.2)
    lifting = friction_effort(torch.tensor([[1.0]]), torch.tensor([[-0.7]]), torch.tensor([[3.0]]), params, DT)
    helped = friction_effort(torch.tensor([[1.0]]), torch.tensor([[0.7]]), torch.tensor([[3.0]]), params, DT)
    assert float(lifting) == pytest.approx(-(0.1 + 0.2 * 1.7))
    assert float(helped) == pytest.approx(-(0.1 + 0.2 * 0.3))


real = st.floats(-5.0, 5.0, width=32)


@given(real, real, real, st.floats(0.0, 3.0), st.floats(0.0, 50.0), st.floats(0.01, 1.0))
def test_friction_never_drives_a_joint(vel, motor, external, coulomb, viscous, share):
    """Also at coefficients far beyond the explicit limit, and where the inertia it knows is only a part."""
    params = _params(coulomb=coulomb, viscous=viscous, inertia=share * INERTIA, load=0.3)
    row = [torch.full((1, 1), value, dtype=torch.float64) for value in (motor, external, vel)]
    friction = float(friction_effort(row[0], row[1], row[2], params, DT))
    free = vel + DT / INERTIA * (motor + external)
    after = free + DT / INERTIA * friction
    assert abs(after) <= max(abs(vel), abs(free)) + 1e-4
    if share == 1.0:
        assert 0.0 <= after * math.copysign(1.0, free) <= abs(free) + 1e-4 or abs(after) < 1e-4
    if motor == external == 0.0:
        assert friction * vel <= 0.0


def test_a_viscous_coefficient_far_beyond_the_explicit_limit_stops_without_a_swing():
    viscous = 50 * INERTIA / DT  # without the clip this is unstable beyond 2 J/dt
    _, speed = _slide(_params(viscous=viscous), vel=3.0, motor=0.0, dt=DT, steps=10)
    np.testing.assert_allclose(speed, 0.0, atol=1e-6)


@pytest.mark.parametrize("share", [0.2, 0.5, 1.0, 1.2])
def test_friction_holds_a_weight_that_it_was_not_told_of(share):
    """Weight 0.06 N m, Coulomb friction 0.1 N m. The joint slips for a moment, then stands; without the estimate it creeps."""
    held = HeldFriction(_params(coulomb=0.1, inertia=share * INERTIA), 1, DT)
    pos, vel, creeping = torch.zeros(1, 1), torch.zeros(1, 1), torch.zeros(1, 1)
    motor = torch.zeros(1, 1)
    for _ in range(400):
        vel = vel + DT / INERTIA * (held.added_to(motor, vel) - 0.06)
        pos = pos + DT * vel
        unaware = friction_effort(motor, None, creeping, _params(coulomb=0.1, inertia=share * INERTIA), DT)
        creeping = creeping + DT / INERTIA * (unaware - 0.06)
    assert abs(float(vel)) < 1e-6
    assert abs(float(pos)) < 2 / share * 0.06 / INERTIA * DT**2
    assert float(creeping) == pytest.approx(-0.06 * DT / (share * INERTIA), rel=1e-3)


def test_a_weight_beyond_the_friction_slips_with_the_difference():
    held = HeldFriction(_params(coulomb=0.1), 1, DT)
    vel = torch.zeros(1, 1)
    for _ in range(101):
        vel = vel + DT / INERTIA * (held.added_to(torch.zeros(1, 1), vel) - 0.16)
    assert float(vel) == pytest.approx(-(0.16 + 100 * 0.06) * DT / INERTIA, rel=1e-3)  # nothing known in the first step


def test_a_motor_in_balance_with_a_weight_stands_from_the_first_step_after_a_reset():
    held = HeldFriction(_params(coulomb=0.1), 2, DT)
    motor = torch.full((2, 1), 0.3)
    held.added_to(motor, torch.full((2, 1), 5.0))
    held.reset(torch.tensor([1]))
    effort = held.added_to(motor, torch.zeros(2, 1))
    assert float(effort[1]) == pytest.approx(0.3)
    assert float(effort[0]) != pytest.approx(0.3)  # thinks that something stopped it


def test_the_scale_multiplies_the_friction_of_its_own_environment():
    held = HeldFriction(_params(coulomb=0.1, viscous=0.02), 2, DT)
    held.scale(torch.tensor([[1.0], [3.0]]))
    effort = held.added_to(torch.zeros(2, 1), torch.full((2, 1), 4.0))
    np.testing.assert_allclose(effort[:, 0], [-0.18, -0.54], rtol=1e-6)
