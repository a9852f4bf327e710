"""A force from outside adds to what the robot does, and ends with the episode."""

from dataclasses import replace

import pytest
import torch

from isthmus.sim.mujoco_engine import MujocoEngine
from isthmus.sim.tasks import get_task
from isthmus.sim.world import World, WorldError

N = 4
EVERY = torch.arange(N)


def make(name):
    task = get_task(name)
    return World(task, MujocoEngine(task.scene(), N, dt=task.physics_dt, threads=1), seed=1, randomization=())


def velocity_after_a_tick(world, force):
    rest = world.read()[world.drive.signal]
    if force is not None:
        world.apply_force(force)
    world.write(rest)
    world.step()
    return world.engine.free_state("base").lin_vel.double()


def test_rotors_thrust_and_the_force_add_up_to_newtons_law():
    """Over one tick of h s a force F changes the velocity of mass m by h F / m, thrust and gravity acting alike in both."""
    force = torch.tensor([[0.1, 0.0, 0.0], [0.0, -0.2, 0.0], [0.0, 0.0, 0.15], [0.05, 0.05, -0.05]])
    alone, pushed = (velocity_after_a_tick(make("quadrotor-hover"), f) for f in (None, force))
    change = (pushed - alone).float()
    torch.testing.assert_close(change, 0.01 * force / make("quadrotor-hover").engine.robot_mass(), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_robot_with_legs_obeys_too_when_it_is_in_the_air(axis):
    """Its servos hold the legs, so that after 0.1 s all of it moves with F t / m."""
    force = torch.zeros(N, 3)
    force[:, axis] = 60.0
    velocity = []
    for outside in (None, force):
        world = make("go2-velocity")
        state = world.engine.state()
        base = replace(state.free["base"], pos=state.free["base"].pos + torch.tensor([0.0, 0.0, 1.0]))
        world.engine.reset(EVERY, replace(state, free={"base": base}))
        velocity.append([velocity_after_a_tick(world, outside) for _ in range(5)][-1])
    change = (velocity[1] - velocity[0])[:, axis]
    expected = 0.1 * 60.0 / make("go2-velocity").engine.robot_mass()
    torch.testing.assert_close(change, torch.full_like(change, expected), rtol=0.03, atol=0)


@pytest.mark.parametrize("name", ["quadrotor-hover", "go2-velocity"])
def test_a_force_ends_with_the_episode_and_in_no_other(name):
    forced, free = make(name), make(name)
    force = torch.tensor([[0.0, 0.0, 0.2]]).repeat(N, 1)
    forced.apply_force(force)
    ids = torch.tensor([0, 2])
    for world in (forced, free):
        world.reset(ids)
    rest = free.read()[free.drive.signal]
    for world in (forced, free):
        world.write(rest)
        world.step()
    same = [torch.equal(*(world.engine.free_state("base").lin_vel[i] for world in (forced, free))) for i in range(N)]
    assert same == [True, False, True, False]
    assert torch.equal(force, torch.tensor([[0.0, 0.0, 0.2]]).repeat(N, 1))  # the caller's own


def test_forces_that_cannot_act_are_refused():
    with pytest.raises(WorldError, match="robot 'so101' is fixed to the world: no force moves its base"):
        make("so101-reach").apply_force(torch.zeros(N, 3))
    for force in (torch.zeros(N, 2), torch.zeros(N + 1, 3), torch.full((N, 3), float("nan"))):
        with pytest.raises(WorldError, match=r"must be finite and of shape \(4, 3\), got"):
            make("quadrotor-hover").apply_force(force)
