"""The world behaves like a robot: signals in, targets out, and every randomised parameter acts."""

# mujoco builds its classes at run time and ships no type stubs for them.
# pyright: reportAttributeAccessIssue=false

import math

import numpy as np
import pytest
import torch

from isthmus.hardware.robot import load_robot
from isthmus.hardware.signals import SIGNALS, signal_width
from isthmus.hardware.workspace import inside
from isthmus.policies.contracts import get_contract
from isthmus.policies.learning.env import ContractEnv
from isthmus.sim.engine import EngineState
from isthmus.sim.mujoco_engine import MujocoEngine
from isthmus.sim.randomization import LogUniform, RandomizationError, RandomTerm, Uniform, check_randomization, override
from isthmus.sim.tasks import get_task
from isthmus.sim.world import World

TASK, ROBOT = get_task("so101-reach"), load_robot("so101")


def world(num_envs=4, seed=0, randomization=()):
    return World(TASK, MujocoEngine(TASK.scene(), num_envs, dt=TASK.physics_dt), seed=seed, randomization=randomization)


def fixed(parameter, value):
    return RandomTerm(parameter=parameter, distribution=Uniform(low=value, high=value))


def test_signals_have_the_registered_names_and_widths():
    signals = world().read()
    assert set(signals) == {"joint_pos", "joint_vel", "joint_target", "command.target"}
    assert set(signals) <= {spec.name for spec in SIGNALS}
    for name, value in signals.items():
        assert value.shape == (4, signal_width(name, 6)) and value.dtype == torch.float32


def test_same_seed_same_bits_and_another_seed_other_targets():
    runs = []
    for seed in (5, 5, 6):
        simulated = world(seed=seed, randomization=TASK.randomization)
        for _ in range(20):
            simulated.write(simulated.read()["joint_target"] + 0.01)
            simulated.step()
        runs.append(simulated.read()["joint_pos"].clone())
    assert torch.equal(runs[0], runs[1]) and not torch.equal(runs[0], runs[2])


def test_a_servo_droops_by_gravity_over_gain():
    """At rest kp * gain * (target - q) equals the gravity torque that MuJoCo computes, within Coulomb friction."""
    import mujoco

    simulated = world(num_envs=1, randomization=(fixed("gain_scale", 0.8), fixed("payload_kg", 0.1)))
    target = torch.tensor([[0.0, 0.2, -0.2, 0.3, 0.0, 0.0]])
    for _ in range(150):
        simulated.write(target)
        simulated.step()
    pose = simulated.engine.joint_pos()[0].double().numpy()
    model, data = simulated.engine.batch.get_model(0), mujoco.MjData(simulated.engine.model)
    data.qpos[:] = pose
    mujoco.mj_forward(model, data)
    torque = ROBOT.array("kp") * 0.8 * (target[0].numpy() - pose)
    assert np.all(np.abs(torque - data.qfrc_bias) <= 0.052 + 0.01)
    assert torque[1] < -0.5  # the shoulder does carry the arm


def test_an_encoder_offset_shifts_readings_but_not_the_servo_loop():
    offset = 0.04
    plain, shifted = world(num_envs=1), world(num_envs=1, randomization=(fixed("encoder_offset_rad", offset),))
    target = plain.engine.joint_pos().clone()
    shifted.engine.reset(torch.arange(1), EngineState(joint_pos=target, joint_vel=torch.zeros(1, 6)))
    for _ in range(50):
        plain.write(target)
        shifted.write(target + offset)
        plain.step()
        shifted.step()
    difference = shifted.read()["joint_pos"] - plain.read()["joint_pos"]
    torch.testing.assert_close(difference, torch.full_like(difference, offset), atol=2 * math.pi / 4096 + 1e-5, rtol=0)
    torch.testing.assert_close(shifted.engine.joint_pos(), plain.engine.joint_pos(), atol=1e-5, rtol=0)


def test_velocity_is_the_difference_of_counts():
    simulated = world(num_envs=1)
    for _ in range(10):
        simulated.write(simulated.read()["joint_target"] + 0.02)
        simulated.step()
    error = (simulated.read()["joint_vel"] - simulated.engine.joint_vel()).abs().max()
    assert error < 2 * math.pi / 4096 / 0.01 + 0.3  # one count over 10 ms, and the acceleration within


def test_every_randomised_parameter_is_drawn_inside_its_range_and_anew_at_reset():
    simulated = world(num_envs=256, randomization=TASK.randomization)
    first = {name: value.clone() for name, value in simulated.parameters.items()}
    simulated.reset(torch.arange(256))
    for term in TASK.randomization:
        low, high = term.distribution.support
        value = simulated.parameters[term.parameter]
        assert value.min() >= low and value.max() <= high and value.std() > 0.2 * (high - low) / math.sqrt(12)
        assert not torch.equal(value, first[term.parameter])


def test_targets_are_reachable_and_inside_the_workspace():
    simulated = world(num_envs=64)
    points = simulated.command.value.double().numpy()
    assert inside(ROBOT.reach_workspace(), simulated.reach_chain(), points).all()


def test_failed_environments_are_reset_and_counted():
    simulated = world(num_envs=3)
    env = ContractEnv(simulated, get_contract(TASK.name))
    lost = EngineState(joint_pos=torch.full((1, 6), float("nan")), joint_vel=torch.zeros(1, 6))
    simulated.engine.reset(torch.tensor([2]), lost)
    observations, rewards, dones, extras = env.step(torch.zeros(3, env.num_actions))
    assert dones.tolist() == [False, False, True] and simulated.failures == 1
    assert not extras["time_outs"].any() and rewards[2] == 0.0
    assert torch.isfinite(observations["actor"]).all() and torch.isfinite(observations["critic"]).all()
    assert torch.isfinite(simulated.read()["joint_pos"]).all()


def test_bad_randomisation_is_refused():
    for terms, word in (
        ((fixed("gravity_on_mars", 1.0),), "unknown parameter"),
        ((RandomTerm(parameter="gain_scale", distribution=Uniform(low=2.0, high=1.0)),), "empty"),
        ((RandomTerm(parameter="gain_scale", distribution=LogUniform(low=0.0, high=1.0)),), "positive"),
        ((fixed("gain_scale", 1.0), fixed("gain_scale", 1.0)), "twice"),
    ):
        with pytest.raises(RandomizationError, match=word):
            check_randomization(terms)


def test_override_replaces_terms_of_the_same_parameter():
    merged = override(TASK.randomization, (fixed("latency_s", 0.02),))
    assert len(merged) == len(TASK.randomization)
    assert next(t for t in merged if t.parameter == "latency_s").distribution.support == (0.02, 0.02)
