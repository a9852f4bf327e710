"""The quadruped on rough ground, blind: slopes, stairs, blocks and waves that become harder as it manages them."""

from dataclasses import replace

import torch

from isthmus.hardware.robot import load_robot

from ..curricula import TerrainLevels
from ..engine import EngineState
from ..scene import Scene
from ..task import Task, TerminationTerm
from ..terrain import TerrainSizes, TerrainSpec, make_terrain
from ..truth import Truth
from ..world import World
from .go2_velocity import PRIVILEGED, STAND_HEIGHT, go2_velocity, standing
from .go2_velocity import REWARDS as FLAT_REWARDS

TERRAIN = TerrainSpec(
    levels=6,
    kinds=("rough", "slope_up", "slope_down", "stairs_up", "stairs_down", "obstacles"),
    seed=0,
    tile_size_m=8.0,
    spacing_m=0.1,
    border_m=4.0,
    sizes=TerrainSizes(
        roughness_m=(0.01, 0.06), step_height_m=(0.03, 0.16), slope=(0.05, 0.45), obstacle_height_m=(0.04, 0.16)
    ),
)
START_LEVELS = 3
EDGE = 1.0  # m from the end of the ground, where episodes are cut
SCAN_X = torch.linspace(-0.8, 0.8, 9)  # m ahead of the base
SCAN_Y = torch.linspace(-0.45, 0.45, 7)  # m to its left


def rough_scene() -> Scene:
    """The robot on the terrain."""
    return Scene(robot=load_robot("go2"), ground=make_terrain(TERRAIN).field, ground_friction=0.8)


def levels(world: World) -> TerrainLevels:
    """The curriculum: which tile each robot is on."""
    return TerrainLevels(world, TERRAIN, start_levels=START_LEVELS)


def start(world: World, ids: torch.Tensor) -> EngineState:
    """Standing in the default pose on the platform of its tile, up to 0.5 m from the middle."""
    terrain, state = world.curriculum, standing(world, ids)
    assert isinstance(terrain, TerrainLevels)
    place = terrain.origins[ids].clone()
    place[:, :2] += world.uniform(ids.numel(), 2) - 0.5
    base = replace(state.free["base"], pos=state.free["base"].pos + place)
    return replace(state, free={"base": base})


def height_scan(truth: Truth) -> torch.Tensor:
    """How far the ground around the base lies below the height that it would have on flat ground, within 0.4 m, (N, 63) times 2.5 / m."""
    ahead = truth.heading
    x, y = torch.meshgrid(SCAN_X, SCAN_Y, indexing="ij")
    grid = torch.stack([x.flatten(), y.flatten()], dim=-1)  # (63, 2)
    turn = torch.stack(
        [ahead, torch.stack([-ahead[:, 1], ahead[:, 0]], dim=-1)], dim=1
    )  # (N, 2, 2), rows ahead and left
    points = truth.base.pos[:, None, :2] + grid @ turn
    below = truth.base.pos[:, 2:] - STAND_HEIGHT - truth.world.ground_height(points)
    return 2.5 * below.clamp(-0.4, 0.4)


def left_the_terrain(truth: Truth) -> torch.Tensor:
    """The base is over the outermost ground, beyond which there is none."""
    rows, columns = (
        count * TERRAIN.tile_size_m / 2 + TERRAIN.border_m - EDGE for count in (TERRAIN.levels, len(TERRAIN.kinds))
    )
    return (truth.base.pos[:, :2].abs() > torch.tensor([rows, columns])).any(-1)


# On slopes and stairs the body has to lean, rise and fall.
_WEIGHTS: dict[str, float] = {"bounce": -1.0, "lean": -0.5, "height_error": -2.0}
REWARDS = tuple(replace(term, weight=_WEIGHTS[term.name]) if term.name in _WEIGHTS else term for term in FLAT_REWARDS)


def go2_rough() -> Task:
    """Rough ground: as go2-velocity, with a terrain whose levels follow what the robots manage."""
    return replace(
        go2_velocity(),
        name="go2-velocity-rough",
        description="walk a Unitree Go2 at a commanded velocity over slopes, stairs and blocks, blind, for 20 s without a fall",
        scene=rough_scene,
        start=start,
        rewards=REWARDS,
        truncations=(TerminationTerm(name="left_the_terrain", function=left_the_terrain),),
        curriculum=levels,
        privileged=(*PRIVILEGED, height_scan),
    )
