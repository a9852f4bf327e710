"""The shapes of terrain tiles: heights of one kind at one difficulty.

Every tile is a square of n x n cells, (n + 1, n + 1) vertices. Its outermost vertices and a rim are at height 0, so that tiles
fit together without cliffs, and the platform in its middle is flat. Up and down are as seen from the platform, where
robots start.
"""

import math
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np

TerrainKind = Literal[
    "flat", "rough", "slope_up", "slope_down", "stairs_up", "stairs_down", "obstacles", "wave", "gap", "stones"
]


@dataclass(frozen=True, kw_only=True)
class TerrainSizes:
    """Physical sizes as (at difficulty 0, at difficulty 1), linear between; then sizes that do not depend on difficulty.

    legged_gym (leggedrobotics/legged_gym, utils/terrain.py) has: slope 0 .. 0.4, steps 0.05 .. 0.23 m high and 0.31 m wide,
    20 obstacles on 8 x 8 m of 1 .. 2 m side and 0.05 .. 0.25 m height, roughness +-0.05 m on a 0.2 m grid, gaps
    0 .. 1 m, stones 1.58 .. 0.08 m wide and 0.05 .. 0.1 m apart, platforms of 3 m.
    """

    roughness_m: tuple[float, float] = (0.01, 0.05)  # heights uniform in plus or minus this
    slope: tuple[float, float] = (0.0, 0.4)  # rise over run
    step_height_m: tuple[float, float] = (0.02, 0.2)
    obstacle_height_m: tuple[float, float] = (0.05, 0.25)  # highest; others are half, or as deep
    wave_height_m: tuple[float, float] = (0.02, 0.2)  # from 0 to a crest
    gap_m: tuple[float, float] = (0.1, 1.0)  # width of the ditch around the platform
    stone_m: tuple[float, float] = (1.5, 0.4)  # side of a stepping stone
    stone_distance_m: tuple[float, float] = (0.1, 0.3)  # between stepping stones

    step_width_m: float = 0.31
    obstacle_side_m: tuple[float, float] = (1.0, 2.0)  # shortest and longest
    obstacles: int = 20  # on a tile
    wave_length_m: float = 2.0
    roughness_grid_m: float = 0.2  # distance of independent heights
    depth_m: float = 1.0  # of gaps, and between stepping stones
    blend_m: float = 0.5  # over which waves and roughness fade towards platform and rim


@dataclass(frozen=True, kw_only=True)
class Tile:
    """What a tile's shape depends on, beside its kind."""

    cells: int
    spacing: float  # m
    platform: float  # m, side of the flat square in the middle
    rim: float  # m, flat margin
    difficulty: float  # 0 .. 1
    sizes: TerrainSizes
    rng: np.random.Generator

    def size(self, values: tuple[float, float]) -> float:
        """A size at this tile's difficulty."""
        return values[0] + self.difficulty * (values[1] - values[0])

    def count(self, length: float, least: int = 1) -> int:
        """A length as a number of cells."""
        return max(least, round(length / self.spacing))

    @property
    def from_edge(self) -> np.ndarray:
        """Distance of each vertex from the nearest edge of the tile, (n + 1, n + 1) m."""
        line = np.minimum(np.arange(self.cells + 1), self.cells - np.arange(self.cells + 1)) * self.spacing
        return np.minimum(line[:, None], line[None, :])

    @property
    def run(self) -> float:
        """From the rim to the platform, m."""
        return self.cells * self.spacing / 2 - self.platform / 2 - self.rim

    @property
    def on_platform(self) -> np.ndarray:
        """Vertices of the platform, (n + 1, n + 1) bool."""
        return self.from_edge >= self.rim + self.run - 1e-9

    @property
    def on_rim(self) -> np.ndarray:
        """Vertices of the rim, (n + 1, n + 1) bool."""
        return self.from_edge <= self.rim + 1e-9


def tile_heights(kind: TerrainKind, tile: Tile) -> np.ndarray:
    """Heights of a tile, (n + 1, n + 1) m."""
    match kind:
        case "flat":
            return np.zeros_like(tile.from_edge)
        case "rough":
            return _rough(tile)
        case "slope_up":
            return -_slope(tile)
        case "slope_down":
            return _slope(tile)
        case "stairs_up":
            return -_stairs(tile)
        case "stairs_down":
            return _stairs(tile)
        case "obstacles":
            return _obstacles(tile)
        case "wave":
            return _wave(tile)
        case "gap":
            return _gap(tile)
        case "stones":
            return _stones(tile)


def _slope(tile: Tile) -> np.ndarray:
    return tile.size(tile.sizes.slope) * np.clip(tile.from_edge - tile.rim, 0.0, tile.run)


def _stairs(tile: Tile) -> np.ndarray:
    """Square rings that rise towards the platform; whole steps only, the innermost joins the platform."""
    width = tile.count(tile.sizes.step_width_m)
    steps = int((tile.run + 1e-9) / (width * tile.spacing))
    inwards = np.round((tile.from_edge - tile.rim) / tile.spacing)
    return tile.size(tile.sizes.step_height_m) * np.clip(np.ceil(inwards / width), 0, steps)


def _rough(tile: Tile) -> np.ndarray:
    size = tile.size(tile.sizes.roughness_m)
    position = np.arange(tile.cells + 1) * tile.spacing / tile.sizes.roughness_grid_m
    coarse = tile.rng.uniform(-size, size, (int(position[-1]) + 2,) * 2)
    index = np.floor(position).astype(int)
    part = position - index
    rows = coarse[index] + part[:, None] * (coarse[index + 1] - coarse[index])
    return (rows[:, index] + part * (rows[:, index + 1] - rows[:, index])) * _fade(tile)


def _wave(tile: Tile) -> np.ndarray:
    phase = 2 * math.pi * np.arange(tile.cells + 1) * tile.spacing / tile.sizes.wave_length_m
    return tile.size(tile.sizes.wave_height_m) / 2 * (np.sin(phase)[:, None] + np.sin(phase)) * _fade(tile)


def _fade(tile: Tile) -> np.ndarray:
    """0 on platform and rim, 1 farther than `blend_m` from both."""
    inwards = tile.from_edge - tile.rim
    return np.clip(np.minimum(inwards, tile.run - inwards) / tile.sizes.blend_m, 0.0, 1.0)


def _obstacles(tile: Tile) -> np.ndarray:
    """Boxes and pits, later ones over earlier ones."""
    heights = np.zeros_like(tile.from_edge)
    highest = tile.size(tile.sizes.obstacle_height_m)
    shortest, longest = (tile.count(side) for side in tile.sizes.obstacle_side_m)
    for _ in range(tile.sizes.obstacles):
        sides = tile.rng.integers(shortest, longest + 1, 2)
        row, column = (int(tile.rng.integers(0, max(tile.cells - side, 0) + 1)) for side in sides)
        height = highest * tile.rng.choice((-1.0, -0.5, 0.5, 1.0))
        heights[row : row + sides[0] + 1, column : column + sides[1] + 1] = height
    heights[tile.on_platform | tile.on_rim] = 0.0
    return heights


def _gap(tile: Tile) -> np.ndarray:
    """A ditch right around the platform. Its walls take one cell each, so it is two cells wide at least."""
    width = tile.count(tile.size(tile.sizes.gap_m), least=2)
    outwards = np.round((tile.rim + tile.run - tile.from_edge) / tile.spacing)  # cells from the platform
    return np.where((outwards > 0) & (outwards < width) & ~tile.on_rim, -tile.sizes.depth_m, 0.0)


def _stones(tile: Tile) -> np.ndarray:
    """Square stones in rows; each row begins somewhere else."""
    stone = tile.count(tile.size(tile.sizes.stone_m))
    period = stone + tile.count(tile.size(tile.sizes.stone_distance_m), least=2)
    index = np.arange(tile.cells + 1)
    shift = tile.rng.integers(0, period, tile.cells // period + 1)[index // period]
    solid = (index % period <= stone)[:, None] & ((index[None, :] + shift[:, None]) % period <= stone)
    return np.where(solid | tile.on_platform | tile.on_rim, 0.0, -tile.sizes.depth_m)


def bad_size(sizes: TerrainSizes) -> str | None:
    """Says which size cannot be, or None."""
    for field in fields(sizes):
        value = getattr(sizes, field.name)
        least = (
            0.0
            if field.name in ("slope", "roughness_m", "step_height_m", "obstacle_height_m", "wave_height_m")
            else None
        )
        for number in value if isinstance(value, tuple) else (value,):
            if not math.isfinite(number) or number < 0 or (least is None and number == 0):
                wanted = "must not be negative" if least is not None else "must be positive"
                return f"{field.name} {wanted} and finite, got {value}"
    if sizes.obstacle_side_m[0] > sizes.obstacle_side_m[1]:
        return f"obstacle_side_m must be (shortest, longest), got {sizes.obstacle_side_m}"
    return None
