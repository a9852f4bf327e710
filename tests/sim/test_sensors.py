"""Laws of sensors against closed forms; and in worlds, each sensor's errors in its own readings and nowhere else."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from isthmus.hardware.imu_spec import ImuSpec
from isthmus.sim.engine import EngineState, FreeState
from isthmus.sim.mujoco_engine import MujocoEngine
from isthmus.sim.randomization import Constant, RandomizationError, RandomTerm, check_randomization
from isthmus.sim.rotations import from_rotation_vector, rotation_matrix
from isthmus.sim.sensors import (
    Noise,
    differenced_velocity,
    encoder_reading,
    gravity_reading,
    gyro_reading,
    noisy,
    unit,
)
from isthmus.sim.tasks import get_task
from isthmus.sim.world import World
from isthmus.sim.world_parameters import SENSOR_PARAMETERS

COUNT = 2 * math.pi / 4096


def vectors(count, seed=0):
    return torch.randn(count, 3, generator=torch.Generator().manual_seed(seed))


def noise(std, shape, seed=1):
    return Noise(std=torch.tensor(std), normal=torch.randn(shape, generator=torch.Generator().manual_seed(seed)))


# Encoders -----------------------------------------------------------------------------------------------------------


def test_an_encoder_goes_in_steps_of_one_count_half_a_count_off_at_most():
    position = torch.linspace(-3.3, 3.3, 661, dtype=torch.float64) * COUNT
    reading = encoder_reading(position, None, torch.tensor(COUNT, dtype=torch.float64), None)
    steps = torch.diff(reading) / COUNT
    assert steps.round().unique().tolist() == [0.0, 1.0] and int(steps.round().sum()) == 6
    torch.testing.assert_close(steps, steps.round())
    assert (reading - position).abs().max() == pytest.approx(COUNT / 2, rel=0.01)


def test_an_encoders_offset_is_added_before_rounding_and_its_noise_is_in_counts():
    resolution = torch.tensor(0.5, dtype=torch.float64)
    position = torch.zeros(100_000, dtype=torch.float64)
    assert encoder_reading(position[:1], torch.tensor(0.3), resolution, None).item() == 0.5
    reading = encoder_reading(position, None, resolution, noise(3.0, (100_000,)))
    assert (reading / 0.5).std() == pytest.approx(math.sqrt(3.0**2 + 1 / 12), rel=0.01)  # rounding adds 1/12
    assert torch.equal(reading / 0.5, (reading / 0.5).round())


def test_a_differenced_velocity_is_that_of_half_an_interval_ago():
    """For a constant acceleration it is exactly so."""
    time = torch.linspace(0.0, 2.0, 21, dtype=torch.float64)
    velocity = differenced_velocity(1.5 * time**2, 1.5 * (time - 0.01) ** 2, 0.01)
    torch.testing.assert_close(velocity, 3.0 * (time - 0.005))


def test_a_differenced_velocity_is_off_by_a_count_over_the_interval_at_most():
    """Two readings, each off by half a count: at 4096 counts and 10 ms a servo's velocity is coarse by 0.15 rad/s."""
    start = torch.linspace(0.0, 1.0, 5001, dtype=torch.float64)
    now, earlier = (encoder_reading(start + 0.7 * time, None, torch.tensor(COUNT), None) for time in (0.01, 0.0))
    velocity = differenced_velocity(now, earlier, 0.01)
    assert 0.5 * COUNT / 0.01 < (velocity - 0.7).abs().max() <= COUNT / 0.01
    assert velocity.mean() == pytest.approx(0.7, abs=0.01)


# IMU ----------------------------------------------------------------------------------------------------------------


def test_sensors_without_errors_report_the_truth():
    true_b = vectors(100)
    for reading in (gyro_reading(true_b), gravity_reading(true_b), noisy(true_b, None)):
        assert torch.equal(reading, true_b)


def test_a_saturated_gyro_reads_exactly_its_range():
    reading = gyro_reading(torch.tensor([[100.0, -100.0, 34.8], [-35.0, 34.9066, 0.0]]), limit=34.9066)
    assert torch.equal(reading, torch.tensor([[34.9066, -34.9066, 34.8], [-34.9066, 34.9066, 0.0]]))


def test_a_gyro_saturates_after_all_its_other_errors():
    """A quarter of a turn about z makes the sensor's x axis the body's y axis."""
    reading = gyro_reading(
        torch.tensor([[1.0, 2.0, 3.0]]),
        mount=from_rotation_vector(torch.tensor([[0.0, 0.0, math.pi / 2]])),
        scale=torch.tensor([[1.1, 0.9, 1.0]]),
        bias=torch.tensor([[0.5, -0.5, 0.25]]),
        noise=Noise(std=torch.tensor([[0.1]]), normal=torch.tensor([[1.0, -2.0, 5.0]])),
        limit=3.5,
    )
    torch.testing.assert_close(reading, torch.tensor([[2.0 * 1.1 + 0.5 + 0.1, -0.9 - 0.5 - 0.2, 3.5]]))


@given(st.lists(st.floats(-1.8, 1.8), min_size=3, max_size=3))
def test_a_misaligned_imu_reads_in_axes_turned_by_the_exponential_of_its_rotation_vector(vector):
    x, y, z = vector
    cross = torch.tensor([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]], dtype=torch.float64)
    to_sensor = torch.linalg.matrix_exp(cross).T
    mount = from_rotation_vector(torch.tensor([vector], dtype=torch.float64))
    torch.testing.assert_close(rotation_matrix(mount).view(3, 3).T, to_sensor, atol=1e-7, rtol=0)
    true_b = vectors(5).double()
    for law in (gyro_reading, gravity_reading):
        torch.testing.assert_close(law(true_b, mount=mount.expand(5, 4)), true_b @ to_sensor.T, atol=1e-6, rtol=0)


def test_noise_has_the_stated_spread_and_no_mean():
    for reading in (
        gyro_reading(torch.zeros(100_000, 3), noise=noise(0.02, (100_000, 3))),
        gravity_reading(torch.zeros(100_000, 3), noise=noise(0.02, (100_000, 3))),
        noisy(torch.zeros(100_000, 3), noise(0.02, (100_000, 3))),
    ):
        assert reading.std() == pytest.approx(0.02, rel=0.01)
        assert abs(reading.mean()) < 2e-4
        assert np.abs(np.corrcoef(reading.T.numpy()) - np.eye(3)).max() < 0.02


def test_a_unit_vector_keeps_its_direction():
    torch.testing.assert_close(unit(torch.tensor([[3.0, 0.0, -4.0]])), torch.tensor([[0.6, 0.0, -0.8]]))


# In worlds ----------------------------------------------------------------------------------------------------------

# A value that shows, and the signals in which it shows; a new parameter of sensors belongs here too.
SHOWS = {
    "encoder_offset_rad": (0.01, {"joint_pos"}),
    "encoder_noise_counts": (1000.0, {"joint_pos", "joint_vel"}),
    "joint_vel_noise_rad_s": (0.5, {"joint_vel"}),
    "gyro_noise_rad_s": (0.1, {"gyro"}),
    "gyro_bias_rad_s": (0.1, {"gyro"}),
    "gyro_scale": (1.1, {"gyro"}),
    "gravity_noise": (0.05, {"gravity"}),
    "imu_misalignment_rad": (0.1, {"gyro", "gravity"}),
    "base_pos_noise_m": (0.01, {"base_pos"}),
    "base_lin_vel_noise_m_s": (0.05, {"base_lin_vel"}),
}
SPIN = (1.0, -2.0, 3.0)  # rad/s


def term(parameter, value):
    return RandomTerm(parameter=parameter, distribution=Constant(value=value))


def aloft(*terms, spin=SPIN, num_envs=3, imu=None):
    """Go2s high in the air, tilted and turning, with fine encoders and a state estimator."""
    task = get_task("go2-velocity")
    robot = replace(task.scene().robot, counts_per_turn=2**20)
    scene = replace(task.scene(), robot=robot if imu is None else replace(robot, imu=imu))

    def start(world, ids):
        count = ids.numel()
        base = FreeState(
            pos=torch.tensor([0.0, 0.0, 5.0]).repeat(count, 1),
            quat=from_rotation_vector(torch.tensor([0.3, -0.2, 0.1])).repeat(count, 1),
            lin_vel=torch.tensor([0.5, 0.2, 0.0]).repeat(count, 1),
            ang_vel=torch.tensor(spin).repeat(count, 1),
        )
        joint_pos = world.default_pos.repeat(count, 1)
        return EngineState(joint_pos=joint_pos, joint_vel=torch.zeros_like(joint_pos), free={"base": base})

    task = replace(task, scene=lambda: scene, start=start, estimates=("base_pos", "base_quat", "base_lin_vel"))
    engine = MujocoEngine(scene, num_envs, dt=task.physics_dt, threads=1)
    world = World(task, engine, seed=0, randomization=terms)
    world.reset(torch.arange(num_envs), torch.zeros(num_envs, 3))
    return world


def flown(world, ticks=2):
    """Let time pass with servos that hold the same true pose whatever encoders say; returns the signals."""
    offset = world.parameters.get("encoder_offset_rad", torch.zeros(1))
    for _ in range(ticks):
        world.write(world.default_pos + offset + torch.zeros(world.num_envs, 1))
        world.step()
    return {name: value for name, value in world.read().items() if name != "joint_target"}


def same(left, right):
    """Alike up to rounding and, for velocities, a count of the encoders over 10 ms."""
    return bool(((left - right).abs() < 2e-3).all())


@pytest.mark.parametrize("name", SENSOR_PARAMETERS)
@pytest.mark.parametrize("ticks", [0, 2])
def test_an_error_of_a_sensor_shows_in_its_own_readings_and_nowhere_else(name, ticks):
    value, expected = SHOWS[name]
    plain, other = aloft(), aloft(term(name, value))
    before, after = flown(plain, ticks), flown(other, ticks)
    changed = {signal for signal in before if not same(before[signal], after[signal])}
    assert changed == (expected - {"joint_vel"} if name == "encoder_noise_counts" and ticks == 0 else expected)
    for signal in expected & changed:
        assert (before[signal] - after[signal]).abs().amax(-1).min() > 2e-3  # in every environment
    for true, also_true in zip(
        vars(plain.engine.free_state("base")).values(), vars(other.engine.free_state("base")).values(), strict=True
    ):
        assert same(true, also_true)
    assert same(plain.engine.joint_pos(), other.engine.joint_pos())


@pytest.mark.parametrize("name", SENSOR_PARAMETERS)
def test_a_neutral_error_of_a_sensor_changes_no_reading(name):
    before, after = flown(aloft()), flown(aloft(term(name, SENSOR_PARAMETERS[name].neutral[0])))
    for signal, value in before.items():
        torch.testing.assert_close(after[signal], value, atol=1e-5, rtol=0)


def test_errors_of_sensors_have_the_stated_size_in_a_world():
    world = aloft(
        term("gyro_scale", 1.1),
        term("gyro_bias_rad_s", 0.05),
        term("encoder_offset_rad", 0.01),
        term("gain_scale", 1.0),
    )
    seen = flown(world)
    true = world.engine.free_state("base").ang_vel
    torch.testing.assert_close(seen["gyro"], 1.1 * true + 0.05)
    off = seen["joint_pos"] - world.engine.joint_pos() - 0.01
    assert off.abs().max() <= math.pi / 2**20 + 1e-6


@pytest.mark.parametrize("ticks", [0, 2])
def test_a_world_whose_gyro_saturates_reads_its_range(ticks):
    world = aloft(spin=(0.0, 0.0, 50.0), imu=ImuSpec(gyro_range=20.0))
    gyro, true = flown(world, ticks)["gyro"], world.engine.free_state("base").ang_vel
    assert (true[:, 2] > 40.0).all() and (gyro[:, 2] == 20.0).all()
    torch.testing.assert_close(gyro[:, :2], true[:, :2].clamp(-20.0, 20.0), rtol=0, atol=0)


def test_a_gyro_of_a_robot_that_names_no_imu_has_no_limit():
    world = aloft(spin=(0.0, 0.0, 50.0))
    unlimited = replace(world.robot, imu=None)
    scene = replace(world.task.scene(), robot=unlimited)
    world = World(
        replace(world.task, scene=lambda: scene), MujocoEngine(scene, 1, dt=0.005, threads=1), seed=0, randomization=()
    )
    assert torch.equal(world.read()["gyro"], world.engine.free_state("base").ang_vel)
    assert float(world.read()["gyro"][0, 2]) == 50.0


def test_attitudes_are_of_unit_length_however_noisy_and_old():
    world = aloft(term("gravity_noise", 0.3), term("observation_delay_s", 0.01), spin=(20.0, 0.0, 0.0))
    for ticks in (0, 1, 3):
        seen = flown(world, ticks)
        for name in ("gravity", "base_quat"):
            torch.testing.assert_close(seen[name].norm(dim=-1), torch.ones(3))


def test_a_reset_changes_the_readings_of_its_own_environments_and_none_that_were_handed_out():
    world = aloft(term("gyro_noise_rad_s", 0.1), term("encoder_noise_counts", 1000.0))
    before = flown(world)
    kept = {name: value.clone() for name, value in before.items()}
    world.reset(torch.tensor([1]), torch.zeros(1, 3))
    for name, value in world.read().items():
        if name in ("joint_target", "command.velocity"):
            continue
        assert torch.equal(before[name], kept[name])
        assert torch.equal(value[[0, 2]], before[name][[0, 2]])
        assert not torch.equal(value[1], before[name][1])


@pytest.mark.parametrize("name", [name for name, info in SENSOR_PARAMETERS.items() if info.low == 0.0])
def test_a_negative_size_of_an_error_is_refused_by_name(name):
    with pytest.raises(RandomizationError, match=rf"{name}: -0.1 .. -0.1 .* goes beyond what is possible, 0.0"):
        check_randomization((term(name, -0.1),))
