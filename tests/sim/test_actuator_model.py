"""The actuator model puts together laws that are tested one by one: the right ones, with the right numbers."""

from dataclasses import replace

import pytest
import torch
from actuator_nets import mlp, save_net

from isthmus.hardware.actuator_spec import ActuatorSpec, FrictionSpec, MotorSpec, NetSpec, PlaySpec
from isthmus.sim.actuator_model import ACTUATOR_SCALES, ActuatorError, ActuatorModel
from isthmus.sim.actuators import dc_motor_effort, position_servo_effort

DT, N = 0.005, 6
KP, KD, LIMIT = torch.tensor([20.0, 10.0]), torch.tensor([0.5, 0.0]), torch.tensor([3.0, 1.0])
FRICTION = FrictionSpec(coulomb=(0.1, 0.2), viscous=(0.02,), inertia=(0.01,))
MOTOR = MotorSpec(stall_effort=(3.0, 2.0), no_load_speed=(5.0,))
PLAY = PlaySpec(width=(0.02,), crossing_speed=(5.0,))


def _model(spec: ActuatorSpec, **options) -> ActuatorModel:
    return ActuatorModel(spec, N, dt=DT, kp=KP, kd=KD, effort_limit=LIMIT, **options)


def _draw(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    target, pos, vel = torch.randn(3, N, 2, generator=torch.Generator().manual_seed(seed))
    return 0.2 * target, 0.2 * pos, 2.0 * vel


def test_the_plain_servo_is_the_servo_law_bit_for_bit_with_each_environments_scales():
    model = _model(ActuatorSpec())
    ids = torch.tensor([1, 4])
    model.set_scale("kp_scale", torch.tensor([[0.5], [2.0]]), ids)
    model.set_scale("kd_scale", torch.tensor([[3.0, 1.0], [1.0, 3.0]]), ids)
    model.set_scale("effort_limit_scale", torch.tensor([[0.1], [0.2]]), ids)
    kp, kd, limit = (value.repeat(N, 1) for value in (KP, KD, LIMIT))
    kp[1], kp[4] = 0.5 * KP, 2.0 * KP
    kd[1, 0] *= 3.0
    limit[1], limit[4] = 0.1 * LIMIT, 0.2 * LIMIT
    expected = position_servo_effort(*_draw(), kp=kp, kd=kd, effort_limit=limit)
    assert torch.equal(model.effort(*_draw()), expected)
    assert model.is_linear_servo
    assert torch.equal(
        position_servo_effort(*_draw(), kp=model.kp, kd=model.kd, effort_limit=model.effort_limit), expected
    )


def test_only_the_plain_servo_may_be_left_to_the_engine():
    assert not _model(ActuatorSpec(law="dc_motor", motor=MOTOR)).is_linear_servo
    assert not _model(ActuatorSpec(friction=FRICTION)).is_linear_servo
    assert not _model(ActuatorSpec(play=PLAY)).is_linear_servo
    assert not _model(ActuatorSpec(), commands="effort").is_linear_servo


def test_a_motor_bounds_the_servo_and_a_weak_battery_bounds_it_more():
    model = _model(ActuatorSpec(law="dc_motor", motor=MOTOR))
    volts = torch.ones(N, 1)
    volts[2] = 0.7
    model.set_scale("voltage_scale", volts, torch.arange(N))
    wanted = position_servo_effort(*_draw(), kp=KP, kd=KD, effort_limit=LIMIT)
    expected = dc_motor_effort(
        wanted,
        _draw()[2],
        stall_effort=torch.tensor([3.0, 2.0]) * volts,
        no_load_speed=torch.tensor([5.0, 5.0]) * volts,
        effort_limit=LIMIT,
    )
    torch.testing.assert_close(model.effort(*_draw()), expected)
    assert not torch.allclose(expected, wanted)


def test_effort_commands_pass_up_to_the_limit():
    model = _model(ActuatorSpec(), commands="effort")
    target = torch.tensor([[5.0, -0.5]]).repeat(N, 1)
    torch.testing.assert_close(model.effort(target, *_draw()[1:]), torch.tensor([[3.0, -0.5]]).repeat(N, 1))


def test_a_net_gives_the_torque_up_to_the_limit(tmp_path):
    net = mlp(2)
    with torch.no_grad():
        net.get_submodule("4").get_parameter("bias").add_(1.1)  # near the limit of the second joint
    path = save_net(net, tmp_path / "net.onnx", 2)
    spec = ActuatorSpec(law="net", net=NetSpec(file=str(path), interval=DT))
    target, pos, vel = _draw()
    raw = net(torch.stack([target - pos, vel], dim=-1))[..., 0].detach()
    assert (raw[:, 1] > 1.0).any()
    assert (raw[:, 1] < 1.0).any()
    torch.testing.assert_close(_model(spec).effort(target, pos, vel), torch.clamp(raw, -LIMIT, LIMIT))
    with pytest.raises(ActuatorError, match="follows position targets"):
        _model(spec, commands="effort")


def _settle(model: ActuatorModel, target: float, weight: float, steps: int = 800) -> tuple[torch.Tensor, torch.Tensor]:
    """Where joints of 0.02 kg m^2 under a constant torque end up."""
    pos, vel = torch.zeros(N, 2), torch.zeros(N, 2)
    for _ in range(steps):
        vel = vel + DT / 0.02 * (model.effort(torch.full((N, 2), target), pos, vel) + weight)
        pos = pos + DT * vel
    return pos, vel


def test_friction_lets_a_servo_stop_short_within_its_dead_band_and_not_beyond():
    """Joint 0: at rest kp |error| <= coulomb + |weight|, here 0.1 + 0; the frictionless servo arrives."""
    model = _model(ActuatorSpec(friction=FRICTION))
    scale = torch.ones(N, 1)
    scale[0] = 0.0
    model.set_scale("friction_scale", scale, torch.arange(N))
    pos, vel = _settle(model, 0.05, 0.0)
    assert vel[:, 0].abs().max() < 1e-4
    assert float(pos[0, 0]) == pytest.approx(0.05, abs=1e-4)
    assert (0.05 - pos[1:, 0]).abs().max() <= 0.1 / 20.0 + 1e-5
    held, speed = _settle(model, 0.0, 0.09)  # what the friction of joint 0 can bear
    assert speed[1:, 0].abs().max() < 1e-5
    assert held[1:, 0].abs().max() < 0.0025  # less than weight / kp = 0.0045


def test_play_and_friction_act_in_this_order():
    """In the gap the motor's torque is lost, friction still acts."""
    model = _model(ActuatorSpec(friction=replace(FRICTION, viscous=(0.0,)), play=PLAY))
    target, pos, vel = torch.full((N, 2), 0.001), torch.zeros(N, 2), torch.full((N, 2), 1e3)
    model.set_scale("kd_scale", torch.zeros(N, 1), torch.arange(N))
    torch.testing.assert_close(model.effort(target, pos, vel), torch.tensor([[-0.1, -0.2]]).repeat(N, 1))
    model.set_scale("play_scale", torch.zeros(3, 1), torch.arange(3))
    model.reset(torch.arange(N))
    effort = model.effort(target, pos, vel)
    torch.testing.assert_close(effort[:3], torch.tensor([[0.02 - 0.1, 0.01 - 0.2]]).repeat(3, 1))
    torch.testing.assert_close(effort[3:], torch.tensor([[-0.1, -0.2]]).repeat(3, 1))


def test_a_reset_makes_an_environment_as_new():
    spec = ActuatorSpec(law="dc_motor", motor=MOTOR, friction=FRICTION, play=PLAY)
    used, new = _model(spec), _model(spec)
    for seed in range(5):
        used.effort(*_draw(seed))
    used.reset(torch.tensor([0, 3]))
    for seed in range(5, 8):
        left, right = used.effort(*_draw(seed)), new.effort(*_draw(seed))
        assert torch.equal(left[[0, 3]], right[[0, 3]])
        assert not torch.equal(left[[1, 2, 4, 5]], right[[1, 2, 4, 5]])


def test_a_stronger_motor_multiplies_what_the_law_gives_and_is_no_plain_servo():
    model = _model(ActuatorSpec())
    model.set_scale("strength_scale", torch.full((2, 1), 0.8), torch.tensor([0, 5]))
    assert not model.is_linear_servo
    expected = position_servo_effort(*_draw(), kp=KP, kd=KD, effort_limit=LIMIT)
    expected[[0, 5]] *= 0.8
    torch.testing.assert_close(model.effort(*_draw()), expected)
    model.set_scale("strength_scale", torch.ones(2, 1), torch.tensor([0, 5]))
    assert model.is_linear_servo


def test_play_may_be_set_for_some_environments_where_the_robot_has_a_place_for_it():
    model = _model(ActuatorSpec(play=replace(PLAY, width=(0.0,))))
    model.set_play(torch.full((2, 2), 10.0), torch.tensor([1, 2]))
    effort = model.effort(*_draw())
    assert (effort[[1, 2]] == 0).all()
    assert torch.equal(effort[[0, 3, 4, 5]], _model(ActuatorSpec()).effort(*_draw())[[0, 3, 4, 5]])
    with pytest.raises(ActuatorError, match="have no play"):
        _model(ActuatorSpec()).set_play(torch.zeros(1, 2), torch.arange(1))


def test_scales_that_cannot_be_are_refused():
    model = _model(ActuatorSpec())
    with pytest.raises(ActuatorError, match=f"unknown scale 'stiffness'; known: {', '.join(ACTUATOR_SCALES)}"):
        model.set_scale("stiffness", torch.ones(1, 1), torch.arange(1))
    for name, value in (("kp_scale", -1.0), ("kd_scale", float("nan")), ("voltage_scale", 0.0)):
        with pytest.raises(ActuatorError, match=f"{name} must be finite"):
            model.set_scale(name, torch.full((1, 1), value), torch.arange(1))
