"""A randomised parameter acts, or is refused with what it needs."""

from dataclasses import replace

import pytest
import torch

from isthmus.hardware.actuator_spec import ActuatorSpec, NetSpec
from isthmus.sim.distributions import Constant, LogUniform, Uniform
from isthmus.sim.mujoco_engine import MujocoEngine
from isthmus.sim.randomization import RandomizationError, RandomTerm, check_acts, check_randomization
from isthmus.sim.tasks import get_task, tasks
from isthmus.sim.world import World
from isthmus.sim.world_parameters import LONGEST_DELAY

N = 4
TERMS = [(name, term) for name, task in tasks().items() for term in task.randomization]
TICKS = 12
INTERVAL_S = 0.02  # instead of seconds, so that it comes within the ticks


def term(parameter, **more):
    return RandomTerm(parameter=parameter, distribution=Constant(value=1.0), **more)


def seen(name, term, value):
    """Everything that is measured and rewarded in a few ticks, the parameter fixed."""
    task = get_task(name)
    interval = None if term.interval_s is None else INTERVAL_S
    fixed = replace(term, distribution=Constant(value=value), interval_s=interval)
    world = World(task, MujocoEngine(task.scene(), N, dt=task.physics_dt, threads=1), seed=0, randomization=(fixed,))
    noise, rows = torch.Generator().manual_seed(1), []
    for _ in range(TICKS):
        signals = world.read()
        rest = signals[world.drive.signal]
        rows.append(torch.cat([value.flatten() for key, value in signals.items() if key != world.drive.signal]))
        size = 0.05 * rest.abs().mean().clamp_min(2.0)
        world.write(rest + size * torch.randn(rest.shape, generator=noise))
        world.step()
    return torch.stack(rows)


@pytest.mark.parametrize(("name", "term"), TERMS, ids=[f"{name}-{term.parameter}" for name, term in TERMS])
def test_either_end_of_every_range_of_every_task_acts(name, term):
    assert isinstance(term.distribution, Uniform | LogUniform)
    low, high = (seen(name, term, value) for value in term.distribution.support)
    assert bool(torch.isfinite(low).all()) and bool(torch.isfinite(high).all())
    assert not torch.equal(low, high)
    assert torch.equal(low, seen(name, term, term.distribution.support[0]))  # and nothing else differed


CASES = {
    "cartpole-balance": ("gain_scale", "damping_gain_scale"),
    "quadrotor-hover": (
        "motor_strength_scale", "effort_limit_scale", "damping_gain_scale", "backlash_rad", "friction_scale", "damping_scale",
        "armature_scale", "encoder_offset_rad", "encoder_noise_counts", "joint_vel_noise_rad_s", "initial_joint_pos_rad",
    ),
    "so101-reach": (
        "damping_gain_scale", "gyro_noise_rad_s", "gyro_bias_rad_s", "gyro_scale", "gravity_noise", "imu_misalignment_rad",
        "initial_yaw_rad", "initial_height_m", "initial_base_lin_vel_m_s", "initial_base_ang_vel_rad_s", "push_velocity_m_s",
        "com_offset_m", "object_mass_scale", "base_pos_noise_m", "base_lin_vel_noise_m_s",
    ),
    "so101-insert": ("object_mass_scale",),
    "go2-velocity": ("base_pos_noise_m", "base_lin_vel_noise_m_s", "object_mass_scale"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "parameter"), [(name, one) for name, several in CASES.items() for one in several])
def test_what_does_nothing_is_refused_with_what_it_needs(name, parameter):
    task = get_task(name)
    with pytest.raises(RandomizationError, match=rf"^{parameter} does nothing for robot .* in this task: it needs .+"):
        check_acts((term(parameter),), task.scene(), task.estimates)


def test_a_world_refuses_what_does_nothing():
    task = get_task("cartpole-balance")
    engine = MujocoEngine(task.scene(), 1, dt=task.physics_dt, threads=1)
    with pytest.raises(RandomizationError, match="gain_scale does nothing for robot 'cartpole'"):
        World(task, engine, seed=0, randomization=(term("gain_scale"),))


def test_a_joint_without_a_motor_is_refused_by_its_name_and_the_driven_one_is_not():
    scene = get_task("cartpole-balance").scene()
    check_acts((term("motor_strength_scale", component=0), term("backlash_rad")), scene, ())
    with pytest.raises(RandomizationError, match=r"motor_strength_scale does nothing .*\(joint 'pole'\)"):
        check_acts((term("motor_strength_scale", component=1),), scene, ())


def test_networks_have_no_gains_and_robots_without_a_place_carry_no_payload():
    scene = get_task("go2-velocity").scene()
    net = ActuatorSpec(law="net", net=NetSpec(file="net.npz", interval=0.005))
    check_acts((term("gain_scale"), term("damping_gain_scale"), term("payload_kg")), scene, ())
    by_net = replace(scene, robot=replace(scene.robot, actuator=net, payload_site=None))
    for parameter in ("gain_scale", "damping_gain_scale", "payload_kg"):
        with pytest.raises(RandomizationError, match=f"{parameter} does nothing"):
            check_acts((term(parameter),), by_net, ())


@pytest.mark.parametrize("parameter", ["latency_s", "latency_jitter_s", "observation_delay_s"])
def test_delays_that_no_loop_of_control_has_are_refused(parameter):
    check_randomization((RandomTerm(parameter=parameter, distribution=Constant(value=LONGEST_DELAY)),))
    for seconds in (1.001, 1e6):
        with pytest.raises(RandomizationError, match=rf"{parameter}: .* goes beyond what is possible, 0\.0 \.\. 1\.0"):
            check_randomization((RandomTerm(parameter=parameter, distribution=Constant(value=seconds)),))
