"""Curricula against cases worked out by hand, and automatic randomisation against a robot whose limits are known."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isthmus.sim.curriculum import (
    AutomaticConfig,
    AutomaticRandomization,
    CurriculumError,
    Schedule,
    TerrainCurriculum,
    TerrainCurriculumConfig,
)
from isthmus.sim.distributions import Gaussian, LogUniform, Uniform
from isthmus.sim.randomization import RandomTerm, check_randomization
from isthmus.sim.randomizer import Randomizer

GAIN = RandomTerm(parameter="gain_scale", distribution=Uniform(low=0.5, high=2.0))  # neutral 1: a third of the way
FRICTION = RandomTerm(parameter="friction_scale", distribution=LogUniform(low=0.25, high=4.0))  # neutral 1: the middle
LATENCY = RandomTerm(parameter="latency_s", distribution=Uniform(low=0.003, high=0.043))  # neutral 0: below the range


def automatic(*terms, num_envs=8, seed=0, **config):
    return AutomaticRandomization(terms, num_envs, torch.Generator().manual_seed(seed), AutomaticConfig(**config))


def ranges(curriculum):
    return {term.parameter: term.distribution.support for term in curriculum.terms()}


def play(curriculum, succeeds, rounds, num_envs):
    """Episodes of all environments; `succeeds` maps values (num_envs,) of each parameter to a mask."""
    ids = torch.arange(num_envs)
    for _ in range(rounds):
        values = curriculum.sample(ids)
        curriculum.record(ids, succeeds(**{name: value[:, 0] for name, value in values.items()}).float())


def test_a_linear_schedule_by_hand():
    schedule = Schedule(start=1.0, end=3.0, begin_steps=100, end_steps=300)
    schedule.check()
    assert [schedule.value(s) for s in (0, 100, 150, 200, 300, 10**9)] == [1.0, 1.0, 1.5, 2.0, 3.0, 3.0]


def test_a_cosine_schedule_has_the_same_ends_and_middle_and_no_kinks():
    schedule = Schedule(start=2.0, end=-2.0, begin_steps=0, end_steps=1000, shape="cosine")
    assert [schedule.value(s) for s in (0, 500, 1000)] == pytest.approx([2.0, 0.0, -2.0])
    assert schedule.value(250) == pytest.approx(2.0 - 4.0 * (0.5 - math.sqrt(0.5) / 2))
    assert abs(schedule.value(1) - 2.0) < 1e-4 and abs(schedule.value(999) + 2.0) < 1e-4


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        (Schedule(start=math.nan, end=1.0, begin_steps=0, end_steps=1), "finite"),
        (Schedule(start=0.0, end=1.0, begin_steps=5, end_steps=5), "got 5 and 5"),
        (Schedule(start=0.0, end=1.0, begin_steps=-1, end_steps=5), "got -1 and 5"),
    ],
)
def test_impossible_schedules_are_refused(schedule, words):
    with pytest.raises(CurriculumError, match=words):
        schedule.check()


def test_ranges_begin_at_neutral_or_at_the_end_nearest_to_it():
    curriculum = automatic(GAIN, FRICTION, LATENCY)
    assert ranges(curriculum) == {
        "gain_scale": pytest.approx((1.0, 1.0)),
        "friction_scale": pytest.approx((1.0, 1.0)),
        "latency_s": pytest.approx((0.003, 0.003)),
    }
    check_randomization(curriculum.terms())
    values = curriculum.sample(torch.arange(8))
    assert torch.allclose(values["gain_scale"], torch.ones(8, 1)) and values["latency_s"].shape == (8, 1)


def test_a_boundary_moves_by_one_step_of_the_whole_range_when_its_buffer_is_full():
    """One term, every episode pinned: 8 environments, buffer 8 a boundary. Step 0.1 of 1.5 is 0.15."""
    curriculum = automatic(GAIN, buffer=8, step=0.1, boundary_share=1.0)
    play(curriculum, lambda gain_scale: gain_scale > 0, 1, 8)
    assert ranges(curriculum)["gain_scale"] == pytest.approx((1.0, 1.0))  # 8 episodes shared by two boundaries
    play(curriculum, lambda gain_scale: gain_scale > 0, 1000, 8)
    assert ranges(curriculum)["gain_scale"] == pytest.approx((0.5, 2.0))
    assert curriculum.entropy() == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("successes", "expected"),
    [(8, (1.0, 1.15)), (7, (1.0, 1.15)), (6, (1.0, 1.0)), (4, (1.0, 1.0)), (3, (1.0, 1.0))],
)
def test_success_from_the_upper_threshold_moves_out(successes, expected):
    """7 of 8 are 0.875, 6 of 8 are 0.75 < 0.8: only the first moves. The lower end of a term at its low end cannot move."""
    term = RandomTerm(parameter="gain_scale", distribution=Uniform(low=1.0, high=2.5))
    curriculum = automatic(term, buffer=8, step=0.1, boundary_share=1.0)
    curriculum.sample(torch.arange(8))
    curriculum.record(torch.arange(8), (torch.arange(8) < successes).float())
    assert ranges(curriculum)["gain_scale"] == pytest.approx(expected)


def test_failure_at_a_boundary_moves_it_back_in_but_not_past_neutral():
    term = RandomTerm(parameter="gain_scale", distribution=Uniform(low=1.0, high=2.5))
    curriculum = automatic(term, buffer=8, step=0.1, boundary_share=1.0)
    play(curriculum, lambda gain_scale: gain_scale > 0, 3, 8)
    assert ranges(curriculum)["gain_scale"] == pytest.approx((1.0, 1.45))
    highs = []
    for _ in range(4):
        play(curriculum, lambda gain_scale: gain_scale < 0, 1, 8)
        highs.append(ranges(curriculum)["gain_scale"][1])
    assert highs == pytest.approx([1.3, 1.15, 1.0, 1.0])


def test_the_lower_boundary_moves_back_in_but_not_past_neutral_either():
    term = RandomTerm(parameter="gain_scale", distribution=Uniform(low=0.5, high=1.0))
    curriculum = automatic(term, buffer=8, step=0.2, boundary_share=1.0)
    play(curriculum, lambda gain_scale: gain_scale > 0, 2, 8)
    lows = [ranges(curriculum)["gain_scale"][0]]
    for _ in range(3):
        play(curriculum, lambda gain_scale: gain_scale < 0, 1, 8)
        lows.append(ranges(curriculum)["gain_scale"][0])
    assert lows == pytest.approx([0.8, 0.9, 1.0, 1.0])


def test_an_episode_counts_once():
    term = RandomTerm(parameter="gain_scale", distribution=Uniform(low=1.0, high=2.5))
    curriculum = automatic(term, buffer=8, step=0.1, boundary_share=1.0)
    curriculum.sample(torch.arange(8))
    for _ in range(5):
        curriculum.record(torch.arange(4), torch.ones(4))
    assert ranges(curriculum)["gain_scale"] == pytest.approx((1.0, 1.0))
    curriculum.record(torch.arange(4, 8), torch.ones(4))
    assert ranges(curriculum)["gain_scale"] == pytest.approx((1.0, 1.15))


@settings(max_examples=50, deadline=None)
@given(low=st.floats(0.0, 0.9), high=st.floats(0.91, 1.0), step=st.floats(0.01, 1.0))
def test_grown_ranges_never_leave_the_whole_by_rounding(low, high, step):
    term = RandomTerm(parameter="packet_loss_probability", distribution=Uniform(low=low, high=high))
    curriculum = automatic(term, buffer=1, step=step, boundary_share=1.0)
    for _ in range(5):
        play(curriculum, lambda packet_loss_probability: packet_loss_probability >= 0, 1, 8)
        check_randomization(curriculum.terms())
        least, most = curriculum.terms()[0].distribution.support
        assert low <= least <= most <= high


def test_pinned_episodes_sit_on_a_boundary_of_one_term_and_the_rest_are_spread():
    curriculum = automatic(GAIN, FRICTION, num_envs=4000, buffer=100, step=0.25)
    play(curriculum, lambda gain_scale, friction_scale: gain_scale > 0, 3, 4000)
    low, high = ranges(curriculum)["gain_scale"]
    least, most = ranges(curriculum)["friction_scale"]
    assert (low, high) == pytest.approx((0.5, 2.0)) and (least, most) == pytest.approx((0.25, 4.0))
    values = curriculum.sample(torch.arange(4000))
    gain, friction = values["gain_scale"][:, 0], values["friction_scale"][:, 0]
    on = [torch.isclose(gain, torch.tensor(end)) for end in (low, high)]
    on += [torch.isclose(friction, torch.tensor(end)) for end in (least, most)]
    for mask in on:  # half of the episodes, a quarter of those at each boundary
        assert float(mask.float().mean()) == pytest.approx(0.125, abs=0.02)
    free = ~(on[0] | on[1] | on[2] | on[3])
    assert float(gain[free].mean()) == pytest.approx(1.25, abs=0.05)
    assert float(friction[free].log().mean()) == pytest.approx(0.0, abs=0.08)  # uniform in the logarithm


def test_ranges_settle_where_the_robot_fails():
    """A robot that manages gains 0.7 .. 1.5 and friction below 2: boundaries end within two steps of that."""
    curriculum = automatic(GAIN, FRICTION, num_envs=256, buffer=20, step=0.02)
    play(
        curriculum,
        lambda gain_scale, friction_scale: (gain_scale > 0.7) & (gain_scale < 1.5) & (friction_scale < 2.0),
        400,
        256,
    )
    gain, friction = ranges(curriculum)["gain_scale"], ranges(curriculum)["friction_scale"]
    assert gain == pytest.approx((0.7, 1.5), abs=0.06)
    assert friction[0] == pytest.approx(0.25) and math.log(friction[1] / 2.0) == pytest.approx(0.0, abs=0.11)
    widths = ((gain[1] - gain[0]) / 1.5, math.log(friction[1] / friction[0]) / math.log(16))
    assert curriculum.entropy() == pytest.approx(sum(math.log(width) for width in widths) / 2)
    assert curriculum.log() == pytest.approx(
        {
            "entropy": curriculum.entropy(),
            "gain_scale/low": gain[0],
            "gain_scale/high": gain[1],
            "friction_scale/low": friction[0],
            "friction_scale/high": friction[1],
        }
    )


def test_episodes_at_a_boundary_that_moved_meanwhile_are_left_out():
    term = RandomTerm(parameter="gain_scale", distribution=Uniform(low=1.0, high=2.5))
    curriculum = automatic(term, num_envs=12, buffer=4, step=0.1, boundary_share=1.0)
    curriculum.sample(torch.arange(12))
    curriculum.record(torch.arange(4), torch.ones(4))
    assert ranges(curriculum)["gain_scale"][1] == pytest.approx(1.15)
    curriculum.record(torch.arange(4, 12), torch.ones(8))  # were pinned at 1.0
    assert ranges(curriculum)["gain_scale"][1] == pytest.approx(1.15)
    curriculum.record(torch.arange(4), torch.ones(4))  # have no new episode yet
    assert ranges(curriculum)["gain_scale"][1] == pytest.approx(1.15)


def test_values_of_unpinned_and_finished_episodes_move_nothing():
    curriculum = automatic(GAIN, buffer=1, step=0.1, boundary_share=1e-9)
    play(curriculum, lambda gain_scale: gain_scale > 0, 50, 8)
    assert ranges(curriculum)["gain_scale"] == pytest.approx((1.0, 1.0))
    assert curriculum.entropy() == pytest.approx(math.log(0.1))  # a range without width counts as one step


def test_a_saved_automatic_randomisation_goes_on_with_the_same_bits():
    def manages(gain_scale, friction_scale):
        return gain_scale * friction_scale < 1.6

    original, twin = (automatic(GAIN, FRICTION, seed=seed, buffer=5) for seed in (1, 2))
    play(original, manages, 50, 8)
    original.sample(torch.arange(5))
    twin.load_state_dict(original.state_dict())
    for curriculum in (original, twin):
        play(curriculum, manages, 50, 8)
    assert ranges(original) == ranges(twin) and ranges(original)["gain_scale"][1] > 1.1
    for name, values in original.state_dict().items():
        assert torch.equal(values, twin.state_dict()[name]), name
    with pytest.raises(CurriculumError, match="state of another curriculum"):
        automatic(GAIN).load_state_dict(original.state_dict())


def test_it_drives_a_randomizer():
    curriculum = automatic(GAIN, LATENCY, buffer=4, step=0.5)
    drawn = Randomizer((GAIN, LATENCY), 8, 6, torch.Generator().manual_seed(0))
    play(curriculum, lambda gain_scale, latency_s: gain_scale > 0, 50, 8)
    drawn.use(curriculum.terms())
    ids = torch.arange(8)
    for name, values in curriculum.sample(ids).items():
        drawn.put(name, ids, values)
    assert drawn.values["latency_s"].max() > 0.003


@pytest.mark.parametrize(
    ("terms", "config", "words"),
    [
        ((), {}, "no range to widen"),
        ((RandomTerm(parameter="com_offset_m", distribution=Uniform(low=0.0, high=0.1)),), {}, "has several values"),
        (
            (RandomTerm(parameter="latency_s", distribution=Gaussian(mean=0.1, std=0.1, low=0.0, high=1.0)),),
            {},
            "got gaussian",
        ),
        (
            (RandomTerm(parameter="latency_s", distribution=Uniform(low=0.1, high=0.1)),),
            {},
            "there is no range to grow",
        ),
        ((GAIN,), {"widen_from": 0.3}, r"narrow_below < widen_from <= 1, got 0\.4 and 0\.3"),
        ((GAIN,), {"buffer": 0}, "buffer must be at least 1"),
        ((GAIN,), {"step": 0.0}, "step must lie in"),
        ((GAIN,), {"boundary_share": 1.5}, "boundary_share must lie in"),
    ],
)
def test_what_cannot_grow_is_refused(terms, config, words):
    with pytest.raises(CurriculumError, match=words):
        automatic(*terms, **config)


CONFIG = TerrainCurriculumConfig(levels=5, columns=4, tile_size_m=8.0, start_levels=2)


def terrain(num_envs=10, config=CONFIG, seed=0):
    return TerrainCurriculum(config, num_envs, torch.Generator().manual_seed(seed))


def test_environments_begin_on_easy_levels_spread_evenly_over_the_columns():
    curriculum = terrain(num_envs=400)
    assert set(curriculum.level.tolist()) == {0, 1}
    assert torch.bincount(curriculum.column).tolist() == [100] * 4


def test_levels_by_hand():
    """Half a tile is 4 m. Walked, commanded -> change of level 2: 5, 20 -> up although less than half was walked."""
    curriculum = terrain(num_envs=6)
    curriculum.level[:] = torch.tensor([2, 2, 2, 2, 0, 2])
    walked = torch.tensor([5.0, 4.0, 1.9, 2.0, 0.0])
    commanded = torch.tensor([20.0, 6.0, 4.0, 4.0, 4.0])
    curriculum.update(torch.arange(5), walked, commanded)
    assert curriculum.level.tolist() == [3, 2, 1, 2, 0, 2]


def test_who_solves_the_hardest_level_goes_to_any_level():
    curriculum = terrain(num_envs=5000)
    curriculum.level[:] = 4
    curriculum.update(torch.arange(5000), torch.full((5000,), 5.0), torch.full((5000,), 5.0))
    share = torch.bincount(curriculum.level, minlength=5) / 5000
    assert share.tolist() == pytest.approx([0.2] * 5, abs=0.02)
    assert curriculum.log() == pytest.approx({"level/mean": 2.0, "level/min": 0.0, "level/max": 4.0}, abs=0.1)


def test_origins_are_those_of_the_tiles():
    curriculum = terrain(num_envs=4)
    tiles = torch.arange(5 * 4 * 3, dtype=torch.float32).reshape(5, 4, 3)
    curriculum.level[:] = torch.tensor([0, 4, 2, 1])
    assert curriculum.origins(tiles)[:, 0].tolist() == [0, 3 * (4 * 4 + 1), 3 * (2 * 4 + 2), 3 * (4 + 3)]


def test_a_saved_terrain_curriculum_goes_on_with_the_same_bits():
    original, twin = terrain(seed=1), terrain(seed=2)
    twin.load_state_dict(original.state_dict())
    for curriculum in (original, twin):
        for _ in range(20):
            curriculum.update(torch.arange(10), torch.full((10,), 5.0), torch.full((10,), 5.0))
    assert torch.equal(original.level, twin.level)
    with pytest.raises(CurriculumError, match="state of another curriculum"):
        terrain(num_envs=3).load_state_dict(original.state_dict())


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (TerrainCurriculumConfig(levels=0, columns=4, tile_size_m=8.0, start_levels=1), "levels must be at least 1"),
        (TerrainCurriculumConfig(levels=2, columns=4, tile_size_m=8.0, start_levels=3), r"1 \.\. levels = 2, got 3"),
        (TerrainCurriculumConfig(levels=2, columns=4, tile_size_m=0.0, start_levels=1), "tile_size_m must be positive"),
    ],
)
def test_impossible_terrain_curricula_are_refused(config, words):
    with pytest.raises(CurriculumError, match=words):
        terrain(config=config)
