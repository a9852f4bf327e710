"""Ground with height: a height field as data, a generator of tiles by kind and difficulty, and heights anywhere on it."""

import math
from dataclasses import dataclass, field
from typing import get_args

import numpy as np
import torch

from isthmus.hardware.errors import IsthmusError

from .terrain_tiles import TerrainKind, TerrainSizes, Tile, bad_size, tile_heights


class TerrainError(IsthmusError, ValueError):
    """A terrain that cannot be made."""


@dataclass(frozen=True, kw_only=True)
class HeightField:
    """Heights on a square grid, centred on the world origin. Row index grows with x, column index with y."""

    heights: np.ndarray  # (rows, columns) m, float32
    spacing: float  # m between neighbours, along x and y


@dataclass(frozen=True, kw_only=True)
class TerrainSpec:
    """Square tiles: rows (along x) become harder, columns (along y) are kinds. The same spec gives the same bits."""

    levels: int  # rows
    kinds: tuple[TerrainKind, ...]  # one column each; a kind may come several times
    seed: int
    tile_size_m: float = 8.0
    spacing_m: float = 0.1
    border_m: float = 5.0  # flat ground around all tiles
    platform_m: float = 2.0  # side of the flat square in the middle of a tile, where robots start
    rim_m: float = 0.2  # flat margin of a tile
    difficulty: tuple[float, float] = (0.0, 1.0)  # of the first and the last level
    sizes: TerrainSizes = field(default_factory=TerrainSizes)

    def check(self) -> None:
        """Raise TerrainError naming the field that cannot be."""
        if self.levels < 1 or not self.kinds:
            raise TerrainError(f"levels and kinds must not be empty, got {self.levels} levels and {self.kinds}")
        unknown = [kind for kind in self.kinds if kind not in get_args(TerrainKind)]
        if unknown:
            raise TerrainError(f"unknown kinds {unknown}; known: {', '.join(get_args(TerrainKind))}")
        if not all(0 <= value <= 1 for value in self.difficulty):
            raise TerrainError(f"difficulty must lie in 0 .. 1, got {self.difficulty}")
        if not (math.isfinite(self.spacing_m) and self.spacing_m > 0):
            raise TerrainError(f"spacing_m must be positive and finite, got {self.spacing_m}")
        for name, least in (("tile_size_m", 1), ("platform_m", 1), ("rim_m", 0), ("border_m", 0)):
            cells = getattr(self, name) / self.spacing_m
            if not math.isfinite(cells) or abs(cells - round(cells)) > 1e-6 or round(cells) < least:
                raise TerrainError(
                    f"{name} must be a multiple of spacing_m = {self.spacing_m} m, {least} at least, got {getattr(self, name)}"
                )
        if (problem := bad_size(self.sizes)) is not None:
            raise TerrainError(f"sizes: {problem}")
        self._check_room()

    def _check_room(self) -> None:
        between = (self.tile_size_m - self.platform_m) / 2 - self.rim_m
        needed = self.sizes.step_width_m
        if "gap" in self.kinds:
            needed = max(needed, *self.sizes.gap_m)
        if between < needed - 1e-9:
            raise TerrainError(
                f"between platform_m = {self.platform_m} and rim_m = {self.rim_m} a tile of {self.tile_size_m} m has"
                f" {between:g} m, expected {needed:g} m at least"
            )


@dataclass(frozen=True, kw_only=True)
class Terrain:
    """A generated terrain."""

    field: HeightField
    origins: np.ndarray  # (levels, columns, 3) m, world, float32: the middle of each tile's platform


def make_terrain(spec: TerrainSpec) -> Terrain:
    """Generate a terrain; raises TerrainError when the spec cannot be."""
    spec.check()
    n, border = round(spec.tile_size_m / spec.spacing_m), round(spec.border_m / spec.spacing_m)
    rows, columns = (count * n + 2 * border + 1 for count in (spec.levels, len(spec.kinds)))
    heights = np.zeros((rows, columns), dtype=np.float32)
    origins = np.zeros((spec.levels, len(spec.kinds), 3), dtype=np.float32)
    for level, difficulty in enumerate(np.linspace(*spec.difficulty, spec.levels)):
        for column, kind in enumerate(spec.kinds):
            tile = Tile(
                cells=n,
                spacing=spec.spacing_m,
                platform=spec.platform_m,
                rim=spec.rim_m,
                difficulty=float(difficulty),
                sizes=spec.sizes,
                rng=np.random.default_rng((spec.seed, level, column)),
            )
            row, start = border + level * n, border + column * n
            values = tile_heights(kind, tile)
            heights[row : row + n + 1, start : start + n + 1] = values
            origins[level, column] = (
                (row + n / 2 - (rows - 1) / 2) * spec.spacing_m,
                (start + n / 2 - (columns - 1) / 2) * spec.spacing_m,
                values[n // 2, n // 2],
            )
    return Terrain(field=HeightField(heights=heights, spacing=spec.spacing_m), origins=origins)


def height_at(heights: torch.Tensor, spacing: float, points: torch.Tensor) -> torch.Tensor:
    """Height of the ground under points, bilinear between vertices; beyond the field, that of its edge.

    Physics engines split cells into triangles, which agree with this at vertices and along cell edges.

    Args:
        heights: (rows, columns) m as in HeightField, with two rows and columns at least.
        spacing: m.
        points: (..., 2 or more) m, world; x and y are used.

    Returns:
        (...) m; not a number where a point is not.
    """
    rows, columns = heights.shape
    x = torch.clamp(points[..., 0] / spacing + (rows - 1) / 2, 0.0, rows - 1.0)
    y = torch.clamp(points[..., 1] / spacing + (columns - 1) / 2, 0.0, columns - 1.0)
    row = torch.floor(x).long().clamp(0, rows - 2)
    column = torch.floor(y).long().clamp(0, columns - 2)
    x, y = x - row, y - column
    near = heights[row, column] + y * (heights[row, column + 1] - heights[row, column])
    far = heights[row + 1, column] + y * (heights[row + 1, column + 1] - heights[row + 1, column])
    return near + x * (far - near)


__all__ = [
    "HeightField",
    "Terrain",
    "TerrainError",
    "TerrainKind",
    "TerrainSizes",
    "TerrainSpec",
    "height_at",
    "make_terrain",
]
