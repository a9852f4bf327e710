"""What must hold of every task."""

# mujoco builds its classes at run time and ships no type stubs for them.
# pyright: reportAttributeAccessIssue=false

import math

import mujoco
import pytest
import torch

from isthmus.hardware.signals import SIGNALS
from isthmus.sim.mujoco_engine import MujocoEngine
from isthmus.sim.mujoco_scene import build_model
from isthmus.sim.randomization import check_randomization
from isthmus.sim.tasks import tasks
from isthmus.sim.truth import Truth
from isthmus.sim.world import World

EVERY = pytest.mark.parametrize("task", tasks().values(), ids=lambda task: task.name)
N = 3


def make(task, num_envs=N):
    return World(task, MujocoEngine(task.scene(), num_envs, dt=task.physics_dt), seed=0)


@EVERY
def test_times_are_whole_numbers_of_steps(task):
    assert math.isclose(task.substeps * task.physics_dt, task.period)
    assert math.isclose(task.ticks * task.period, task.episode_length)
    assert task.success is None or task.success.hold < task.episode_length


@EVERY
def test_names_are_unique_and_said(task):
    for terms in (task.rewards, (*task.terminations, *task.truncations), task.metrics):
        assert len({term.name for term in terms}) == len(terms)
    assert task.description and all(metric.unit for metric in task.metrics)
    check_randomization(task.randomization)


@EVERY
def test_signals_are_registered_and_functions_give_one_value_each(task):
    world = make(task)
    signals = world.read()
    assert set(signals) <= {spec.name for spec in SIGNALS}
    rest = signals[world.drive.signal]
    for _ in range(3):
        world.write(rest)
        world.step()
    action = torch.zeros(N, rest.shape[1])
    truth = Truth(world, action=action, last_action=action)
    for term in (*task.rewards, *task.metrics):
        value = term.function(truth)
        assert value.shape == (N,) and bool(torch.isfinite(value).all()), term.name
    for term in (*task.terminations, *task.truncations):
        assert term.function(truth).shape == (N,) and term.function(truth).dtype == torch.bool, term.name
    for function in task.privileged:
        assert function(truth).shape[0] == N and function(truth).ndim == 2
    if task.success is not None:
        assert task.success.function(truth).dtype == torch.bool


@EVERY
def test_a_robot_at_its_start_is_not_at_the_end(task):
    world = make(task, 64)
    action = torch.zeros(64, world.drive.width)
    truth = Truth(world, action=action, last_action=action)
    for term in (*task.terminations, *task.truncations):
        assert not bool(term.function(truth).any()), term.name


@EVERY
def test_the_same_seed_gives_the_same_bits_at_any_thread_count(task):
    runs = []
    for threads in (1, 2):
        engine = MujocoEngine(task.scene(), 8, dt=task.physics_dt, threads=threads)
        world = World(task, engine, seed=4)
        for _ in range(10):
            signals = world.read()
            world.write(signals[world.drive.signal] * 1.01)
            world.step()
        runs.append({name: value.clone() for name, value in world.read().items()})
    assert all(torch.equal(runs[0][name], runs[1][name]) for name in runs[0])


@EVERY
def test_pictures_of_every_task_have_a_sky_and_a_light(task):
    model = build_model(task.scene(), task.physics_dt)
    assert model.nlight >= 1
    assert int((model.tex_type == int(mujoco.mjtTexture.mjTEXTURE_SKYBOX)).sum()) == 1
    assert float(model.vis.map.shadowclip * model.stat.extent) == pytest.approx(
        2.0
    )  # shadows are sharp around the robot
