"""Generated terrain: flat where robots start, seamless between tiles, of the asked sizes, and looked up like scipy does."""

from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import RegularGridInterpolator

from isthmus.sim.terrain import TerrainError, TerrainKind, TerrainSizes, TerrainSpec, height_at, make_terrain

KINDS: tuple[TerrainKind, ...] = get_args(TerrainKind)
SPEC = TerrainSpec(levels=3, kinds=KINDS, seed=4, border_m=1.0)
TERRAIN = make_terrain(SPEC)


def one(kind, difficulty=1.0, **others):
    """Heights of a single tile without border, and the number of its cells."""
    spec = TerrainSpec(levels=1, kinds=(kind,), seed=1, border_m=0.0, difficulty=(difficulty, difficulty), **others)
    heights = make_terrain(spec).field.heights
    return heights, heights.shape[0] - 1


def look(field, points):
    return height_at(torch.from_numpy(field.heights), field.spacing, torch.as_tensor(points))


def grid(field):
    return tuple((np.arange(size) - (size - 1) / 2) * field.spacing for size in field.heights.shape)


def test_the_field_has_the_size_of_all_tiles_and_the_border_and_is_centred():
    heights = TERRAIN.field.heights
    assert heights.shape == (3 * 80 + 20 + 1, len(KINDS) * 80 + 20 + 1) and heights.dtype == np.float32
    assert TERRAIN.origins.shape == (3, len(KINDS), 3) and TERRAIN.origins.dtype == np.float32
    np.testing.assert_allclose(TERRAIN.origins[:, 0, 0], [-8.0, 0.0, 8.0], atol=1e-5)
    np.testing.assert_allclose(
        TERRAIN.origins[0, :, 1], 8.0 * (np.arange(len(KINDS)) - (len(KINDS) - 1) / 2), atol=1e-5
    )
    border = np.ones_like(heights, dtype=bool)
    border[11:-11, 11:-11] = False
    assert (heights[border] == 0).all() and np.isfinite(heights).all()


@pytest.mark.parametrize("kind", KINDS)
def test_robots_start_on_flat_ground_at_the_height_of_the_origin(kind):
    column, generator = KINDS.index(kind), np.random.default_rng(0)
    for level in range(3):
        origin = TERRAIN.origins[level, column]
        around = origin[:2] + generator.uniform(-1.0, 1.0, (200, 2))  # platform_m is 2
        heights = look(TERRAIN.field, around)
        np.testing.assert_allclose(heights.numpy(), origin[2], atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("difficulty", [0.0, 0.3, 1.0])
def test_tiles_end_at_height_zero_on_a_rim(kind, difficulty):
    heights, n = one(kind, difficulty)
    inner = heights[3 : n - 2, 3 : n - 2]
    assert np.count_nonzero(heights) == np.count_nonzero(inner)  # rim_m 0.2: vertices 0, 1 and 2 from each edge


@pytest.mark.parametrize("kind", KINDS)
def test_difficulty_makes_tiles_rougher(kind):
    steepness = [float(np.abs(np.diff(one(kind, difficulty)[0], axis=0)).sum()) for difficulty in (0.0, 0.5, 1.0)]
    if kind == "flat":
        assert steepness == [0.0] * 3
    else:
        assert steepness[0] < steepness[1] < steepness[2]


def test_the_same_spec_gives_the_same_bits_and_another_seed_other_tiles():
    again, other = make_terrain(SPEC), make_terrain(TerrainSpec(levels=3, kinds=KINDS, seed=5, border_m=1.0))
    assert np.array_equal(again.field.heights, TERRAIN.field.heights)
    assert np.array_equal(again.origins, TERRAIN.origins)
    assert not np.array_equal(other.field.heights, TERRAIN.field.heights)


def test_a_tile_does_not_depend_on_how_many_others_there_are():
    small = make_terrain(TerrainSpec(levels=1, kinds=KINDS[:2], seed=4, border_m=1.0)).field.heights
    assert np.array_equal(small[:-10, 90:-10], TERRAIN.field.heights[: small.shape[0] - 10, 90 : small.shape[1] - 10])


@pytest.mark.parametrize(("kind", "sign"), [("slope_down", 1), ("slope_up", -1)])
def test_slopes_have_the_asked_rise_over_run(kind, sign):
    """At difficulty 0.5 the slope is 0.2; from the rim (0.2 m) to the platform (at 3 m) it runs 2.8 m."""
    heights, n = one(kind, 0.5)
    np.testing.assert_allclose(np.diff(heights[2:31, n // 2]) / 0.1, sign * 0.2, atol=1e-5)
    assert heights[n // 2, n // 2] == pytest.approx(sign * 0.2 * 2.8)


@pytest.mark.parametrize(("kind", "sign"), [("stairs_down", 1), ("stairs_up", -1)])
def test_stairs_have_whole_steps_of_the_asked_height_and_width(kind, sign):
    """Width 0.31 m is 3 cells; 2.8 m hold 9 steps; at difficulty 0.5 each is 0.11 m."""
    heights, n = one(kind, 0.5)
    line = heights[: n // 2 + 1, n // 2]
    rises = np.diff(line)
    risers = np.flatnonzero(rises)
    np.testing.assert_allclose(rises[risers], sign * 0.11, atol=1e-6)
    assert len(risers) == 9 and risers[0] == 2 and set(np.diff(risers)) == {3}
    assert line[-1] == pytest.approx(sign * 0.99, abs=1e-5)


def test_gaps_surround_the_platform_with_the_asked_width():
    """From the platform's edge (1 m from the middle) to the far edge: 0.55 m rounds to 6 cells, 5 vertices are deep."""
    heights, n = one("gap", 0.5)
    line = heights[n // 2 :, n // 2]
    assert np.flatnonzero(line == -1.0).tolist() == [11, 12, 13, 14, 15] and set(line.tolist()) == {0.0, -1.0}
    deep = heights == -1.0
    assert deep.sum() == 31**2 - 21**2


def test_stepping_stones_have_the_asked_size_and_distance():
    """At difficulty 1: stones of 4 cells, 3 cells apart (2 deep vertices between)."""
    heights, _ = one("stones")
    deep = heights == -1.0
    lines = [line for line in deep[3:20] if 0 < line.sum() < line.size - 10]  # rows through stones, off the platform
    assert len(lines) > 5
    for line in lines:
        edges = np.flatnonzero(np.diff(line.astype(int)))
        lengths = np.diff(edges)[1:-1]
        holes = lengths[line[edges[1:-2] + 1]]
        stones = lengths[~line[edges[1:-2] + 1]]
        assert set(holes.tolist()) == {2} and set(stones.tolist()) == {5}


@pytest.mark.parametrize(
    ("kind", "highest"), [("rough", 0.03), ("wave", 0.11), ("obstacles", 0.15)], ids=["rough", "wave", "obstacles"]
)
def test_heights_reach_what_was_asked_and_no_more(kind, highest):
    heights, _ = one(kind, 0.5)
    assert 0.8 * highest <= np.abs(heights).max() <= highest + 1e-6
    assert heights.min() < 0 < heights.max()


def test_obstacles_have_four_heights():
    assert sorted({round(float(h), 3) for h in np.unique(one("obstacles")[0])}) == [-0.25, -0.125, 0.0, 0.125, 0.25]


def test_heights_anywhere_are_those_of_scipys_interpolator():
    field, generator = TERRAIN.field, np.random.default_rng(1)
    x, y = grid(field)
    points = np.stack([generator.uniform(x[0], x[-1], 5000), generator.uniform(y[0], y[-1], 5000)], axis=-1)
    expected = RegularGridInterpolator((x, y), field.heights.astype(float), method="linear")(points)
    got = look(field, points.astype(np.float32))
    np.testing.assert_allclose(got.numpy(), expected, atol=2e-4)  # float32 positions next to walls of 1 m over 0.1 m
    np.testing.assert_allclose(look(field, points).numpy(), expected, atol=1e-6)


def test_heights_at_vertices_are_the_fields_and_beyond_the_edge_those_of_the_edge():
    heights = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    x, y = torch.meshgrid(torch.tensor([-1.0, 0.0, 1.0]), torch.tensor([-1.5, -0.5, 0.5, 1.5]), indexing="ij")
    torch.testing.assert_close(height_at(heights, 1.0, torch.stack([x, y], dim=-1)), heights)
    far = torch.tensor([[-9.0, -9.0, 5.0], [9.0, 9.0, 5.0], [0.0, 99.0, 5.0], [0.5, -0.5, 0.0]])
    assert height_at(heights, 1.0, far).tolist() == [0.0, 11.0, 7.0, 7.0]
    assert height_at(heights, 1.0, torch.tensor([[float("nan"), 0.0]])).isnan().all()
    assert height_at(heights, 1.0, torch.zeros(2, 5, 7, 3)).shape == (2, 5, 7)


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    difficulty=st.floats(0.0, 1.0),
    cells=st.integers(70, 100),
    platform=st.integers(10, 24),
    rim=st.integers(0, 5),
    spacing=st.sampled_from([0.05, 0.1, 0.2]),
    seed=st.integers(0, 2**31),
)
def test_any_tile_is_finite_flat_in_the_middle_and_zero_at_its_edges(
    kind, difficulty, cells, platform, rim, spacing, seed
):
    spec = TerrainSpec(
        levels=1,
        kinds=(kind,),
        seed=seed,
        tile_size_m=cells * spacing,
        platform_m=platform * spacing,
        rim_m=rim * spacing,
        border_m=0.0,
        spacing_m=spacing,
        difficulty=(difficulty, difficulty),
        sizes=TerrainSizes(gap_m=(0.1, 0.8)),
    )
    terrain = make_terrain(spec)
    heights = terrain.field.heights
    assert heights.shape == (cells + 1, cells + 1) and np.isfinite(heights).all()
    for edge in (heights[0], heights[-1], heights[:, 0], heights[:, -1]):
        assert (edge == 0).all()
    half = platform * spacing / 2 - spacing / 2
    points = terrain.origins[0, 0, :2] + np.array([[0, 0], [half, half], [-half, half], [half, -half], [-half, -half]])
    np.testing.assert_allclose(look(terrain.field, points).numpy(), terrain.origins[0, 0, 2], atol=1e-4)


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ({"levels": 0}, "levels and kinds must not be empty"),
        ({"kinds": ()}, "levels and kinds must not be empty"),
        ({"kinds": ("lava",)}, r"unknown kinds \['lava'\]; known: flat, rough"),
        ({"difficulty": (0.0, 1.2)}, r"difficulty must lie in 0 \.\. 1"),
        ({"spacing_m": 0.0}, "spacing_m must be positive"),
        ({"tile_size_m": 8.05}, r"tile_size_m must be a multiple of spacing_m = 0\.1 m, 1 at least, got 8\.05"),
        ({"platform_m": 0.0}, "platform_m must be a multiple"),
        ({"border_m": -1.0}, "border_m must be a multiple"),
        ({"platform_m": 7.8}, r"a tile of 8\.0 m has -0\.1 m, expected 0\.31 m at least"),
        ({"kinds": ("gap",), "platform_m": 6.0}, r"has 0\.8 m, expected 1 m at least"),
        ({"sizes": TerrainSizes(step_width_m=0.0)}, r"sizes: step_width_m must be positive and finite, got 0\.0"),
        ({"sizes": TerrainSizes(slope=(-0.1, 0.4))}, "sizes: slope must not be negative"),
        ({"sizes": TerrainSizes(obstacle_side_m=(2.0, 1.0))}, r"obstacle_side_m must be \(shortest, longest\)"),
    ],
)
def test_impossible_terrain_is_refused(others, words):
    with pytest.raises(TerrainError, match=words):
        make_terrain(TerrainSpec(**{"levels": 2, "kinds": ("flat",), "seed": 0} | others))
