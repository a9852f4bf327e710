"""Rough ground: robots stand on it where they should, see it truly, and get the levels that they earn."""

# mujoco builds its classes at run time and ships no type stubs for them.
# pyright: reportAttributeAccessIssue=false

import math
import sys
from dataclasses import replace

import mujoco
import numpy as np
import torch

from isthmus.policies.contracts import get_contract
from isthmus.policies.learning.env import ContractEnv
from isthmus.sim.curricula import TerrainLevels
from isthmus.sim.mujoco_engine import MujocoEngine
from isthmus.sim.rotations import from_yaw
from isthmus.sim.tasks import get_task
from isthmus.sim.terrain import make_terrain
from isthmus.sim.truth import Truth
from isthmus.sim.world import World

TASK = get_task("go2-velocity-rough")
rough = sys.modules["isthmus.sim.tasks.go2_rough"]  # the package has a function of that name
N = 36


def make(num_envs=N, randomization=()):
    return World(TASK, MujocoEngine(TASK.scene(), num_envs, dt=TASK.physics_dt), seed=0, randomization=randomization)


def truth(world):
    none = torch.zeros(world.num_envs, 12)
    return Truth(world, action=none, last_action=none)


def terrain(world) -> TerrainLevels:
    assert isinstance(world.curriculum, TerrainLevels)
    return world.curriculum


def on_every_tile(world):
    """Put robot 6 i + j on level i of kind j."""
    terrain(world).places.level[:] = torch.arange(N) // 6
    terrain(world).places.column[:] = torch.arange(N) % 6
    world.reset(torch.arange(N))


def move(world, ids, **change):
    state = world.engine.state()
    base = replace(state.free["base"], **change)
    every = torch.arange(world.num_envs)
    world.engine.reset(every, replace(state, free={"base": base}))
    return ids


def test_ground_heights_are_where_the_engine_has_the_ground():
    """Straight down MuJoCo's own rays end on the ground that the world tells of, at vertices and along cell edges."""
    world = make(1)
    model, data = world.engine.batch.get_model(0), mujoco.MjData(world.engine.model)
    mujoco.mj_forward(model, data)
    rng = np.random.default_rng(0)
    cells = rng.integers(-200, 200, (300, 2)).astype(float)
    cells[::2, 0] += rng.uniform(0.1, 0.9, 150)  # along an edge
    points = cells * rough.TERRAIN.spacing_m
    group, hit = np.zeros(6, dtype=np.uint8), np.zeros(1, dtype=np.int32)
    ground = model.geom("ground").id
    group[model.geom_group[ground]] = 1
    seen = []
    for x, y in points + 1e-4:  # rays exactly along an edge slip through
        length = mujoco.mj_ray(model, data, np.array([x, y, 50.0]), np.array([0.0, 0.0, -1.0]), group, 1, 1, hit)
        assert hit[0] == ground
        seen.append(50.0 - length)
    told = world.ground_height(torch.from_numpy(points).float()[None])[0]
    np.testing.assert_allclose(told.numpy(), seen, atol=1e-3)
    assert np.std(seen) > 0.1


def test_robots_start_on_the_platform_of_their_tile_and_stand_there():
    world = make()
    on_every_tile(world)
    tiles = torch.from_numpy(make_terrain(rough.TERRAIN).origins).flatten(0, 1)
    away = (world.engine.free_state("base").pos - tiles).abs()
    assert away[:, :2].max() <= 0.5 and away[:, :2].std() > 0.05
    torch.testing.assert_close(truth(world).base_height, torch.full((N,), 0.325), atol=1e-4, rtol=0)
    rest = world.read()["joint_target"]
    for _ in range(50):
        world.write(rest)
        world.step()
    assert bool(truth(world).touching[:, :4].all()) and not bool(truth(world).touching[:, 4:].any())
    height = truth(world).base_height
    assert height.min() > 0.27 and height.max() < 0.31


def test_the_scan_turns_with_the_robot_and_is_in_metres():
    """On a straight slope the scan is its gradient times the distance, along whatever axis of the robot points uphill."""
    world = make()
    on_every_tile(world)
    level, kind = 5, rough.TERRAIN.kinds.index("slope_up")
    index = 6 * level + kind
    middle = terrain(world).origins[index]
    slope = 0.45  # of the hardest level
    for yaw, axis in ((0.0, 0), (-math.pi / 2, 1), (math.pi, 0)):
        pos = world.engine.free_state("base").pos.clone()
        pos[index] = middle + torch.tensor([2.0, 0.0, 0.0])
        pos[index, 2] = float(world.ground_height(pos[index][None, None, :2])[0, 0]) + 0.31
        move(world, index, pos=pos, quat=from_yaw(torch.full((N,), yaw)))
        scan = rough.height_scan(truth(world))[index].view(9, 7) / 2.5
        along = (rough.SCAN_X[:, None] if axis == 0 else rough.SCAN_Y[None, :]).expand(9, 7)
        sign = -1.0 if yaw == math.pi else 1.0
        expected = (-slope * sign * along).clamp(-0.4, 0.4)
        torch.testing.assert_close(scan, expected, atol=2e-3, rtol=0)


def test_levels_follow_what_robots_manage():
    world = make(4)
    places = terrain(world).places
    places.level[:] = torch.tensor([2, 2, 2, 2])
    every = torch.arange(4)
    world.reset(every, torch.tensor([[1.0, 0.0, 0.0]]).repeat(4, 1))
    for _ in range(50):
        world.write(world.read()["joint_target"])
        world.step()
    pos = terrain(world).origins.clone() + torch.tensor([0.0, 0.0, 0.4])
    pos[0, 0] += 4.5  # more than half a tile
    pos[1, 1] -= 0.6  # more than half of the one metre that was asked for
    pos[2, 0] += 0.3  # less
    pos[3, 0] += 0.8  # enough, but it fell
    move(world, every, pos=pos)
    world.ended(every, torch.tensor([True, True, True, False]))
    assert places.level.tolist() == [3, 2, 1, 1]
    assert world.curriculum_log()["terrain/level/mean"] == 7 / 4


def test_turning_back_is_not_asked_to_go_far():
    """A metre forwards and then a metre backwards asks for no distance at all."""
    world = make(1)
    for speed in (1.0, -1.0):
        world.command.value[:] = torch.tensor([[speed, 0.0, 0.0]])
        for _ in range(50):
            terrain(world).step()
    assert float(terrain(world)._asked.norm()) < 1e-4


def test_leaving_the_terrain_ends_an_episode_without_blame():
    env = ContractEnv(make(4), get_contract(TASK.name))
    pos = env.world.engine.free_state("base").pos.clone()
    pos[1] = torch.tensor([27.5, 0.0, 0.325])
    pos[2] = torch.tensor([0.0, -27.5, 0.325])
    move(env.world, 1, pos=pos)
    _, _, done, extras = env.step(torch.zeros(4, 12))
    assert done.tolist() == extras["time_outs"].tolist() == [False, True, True, False]
    assert float(extras["log"]["/episode/success"]) == 1.0
    assert {"/curriculum/terrain/level/mean", "/curriculum/terrain/level/max"} <= set(extras["log"])
    assert bool((env.world.engine.free_state("base").pos[:, :2].abs() < 25.0).all())
    assert not bool(rough.left_the_terrain(truth(env.world)).any())


def test_falling_over_beyond_the_edge_is_still_a_fall():
    env = ContractEnv(make(2), get_contract(TASK.name))
    base = env.world.engine.free_state("base")
    pos, quat = base.pos.clone(), base.quat.clone()
    pos[0, 0], quat[0] = 27.5, torch.tensor([0.0, 1.0, 0.0, 0.0])  # on its back
    move(env.world, 0, pos=pos, quat=quat)
    _, _, done, extras = env.step(torch.zeros(2, 12))
    assert done.tolist() == [True, False] and extras["time_outs"].tolist() == [False, False]


def test_what_the_actor_sees_is_what_it_sees_on_flat_ground():
    flat, rough_contract = get_contract("go2-velocity"), get_contract(TASK.name)
    assert replace(rough_contract, task=flat.task) == flat
