"""Ranges of a world grow with success and with steps, and nothing is ever drawn from beyond them."""

import math

import pytest
import torch

from isthmus.policies.contracts import get_contract
from isthmus.policies.learning.env import ContractEnv
from isthmus.sim.curricula import AutomaticRanges, RangesBySteps, RangesBySuccess
from isthmus.sim.curriculum import AutomaticConfig, CurriculumError, Schedule
from isthmus.sim.mujoco_engine import MujocoEngine
from isthmus.sim.randomization import CorrelatedTerm, RandomTerm, TruncatedMultivariateNormal, Uniform, parameters_of
from isthmus.sim.tasks import get_task
from isthmus.sim.world import World

N = 64
ALL = torch.arange(N)
BY_SUCCESS = RangesBySuccess(automatic=AutomaticConfig(buffer=16, step=0.1))
BY_STEPS = RangesBySteps(schedule=Schedule(start=0.0, end=1.0, begin_steps=10 * N, end_steps=110 * N))

TOGETHER = CorrelatedTerm(
    parameters=("inertia_scale", "mass_scale"),
    distribution=TruncatedMultivariateNormal(
        mean=(1.1, 1.0), covariance=((0.01, 0.005), (0.005, 0.01)), low=(1.05, 0.8), high=(1.3, 1.2)
    ),
)


def make(name="cartpole-balance", ranges=None, randomization=None):
    task = get_task(name)
    engine = MujocoEngine(task.scene(), N, dt=task.physics_dt, threads=1)
    return World(task, engine, seed=0, ranges=ranges, randomization=randomization)


def widths(world):
    return {parameters_of(t)[0]: t.distribution.support[1] - t.distribution.support[0] for t in world.randomizer.terms}


def outside(world):
    """Parameters with a value beyond the whole of their range."""
    found = []
    for term in world.randomization:
        (name,), (low, high) = parameters_of(term), term.distribution.support
        value = world.parameters[name].double()
        if float(value.min()) < low - 1e-6 * abs(low) or float(value.max()) > high + 1e-6 * abs(high):
            found.append(name)
    return found


@pytest.mark.parametrize("name", ["cartpole-balance", "so101-reach"])
def test_ranges_widen_on_success_and_shrink_on_failure(name):
    world = make(name, BY_SUCCESS)
    entropy = [world.curriculum_log()["ranges/entropy"]]
    assert all(width == 0.0 for width in widths(world).values())
    grown: dict[str, float] = {}
    for good, rounds in ((True, 120), (False, 200)):
        for _ in range(rounds):
            world.ended(ALL, torch.full((N,), good))
            world.reset(ALL)
            assert outside(world) == []
        entropy.append(world.curriculum_log()["ranges/entropy"])
        if good:
            assert world.randomizer.terms == pytest.approx(world.randomization) or entropy[-1] == pytest.approx(0.0)
            grown = widths(world)
    assert entropy[1] == pytest.approx(0.0, abs=1e-9) and entropy[2] == pytest.approx(entropy[0])
    assert all(width > 0 for width in grown.values()) and all(width == 0 for width in widths(world).values())


def test_values_at_the_boundaries_act_in_the_engine():
    world = make("cartpole-balance", BY_SUCCESS)
    for _ in range(60):
        world.ended(ALL, torch.ones(N, dtype=torch.bool))
        world.reset(ALL)
    drawn = world.parameters["mass_scale"]
    torch.testing.assert_close(world.engine.parameter("mass_scale"), drawn)
    assert int((drawn == 0.8).sum()) > 0 and int((drawn == 1.2).sum()) > 0  # pinned to either end
    assert drawn.unique().numel() > 10


def test_only_the_named_ranges_grow():
    ranges = RangesBySuccess(automatic=AutomaticConfig(buffer=16, step=0.1), parameters=("mass_scale",))
    world, whole = make(ranges=ranges), widths(make())
    assert widths(world) == whole | {"mass_scale": 0.0}
    assert float(world.parameters["mass_scale"].std()) == 0.0 and float(world.parameters["inertia_scale"].std()) > 0.05


def test_success_of_episodes_reaches_the_ranges_and_the_log():
    env = ContractEnv(make(ranges=BY_SUCCESS), get_contract("cartpole-balance"))
    env.statistics.succeeded[:] = True
    env.episode_length_buf[:] = env.max_episode_length - 1
    assert isinstance(env.world.ranges, AutomaticRanges)
    before = env.world.ranges.automatic._successes.sum()
    _, _, done, extras = env.step(torch.zeros(N, 1))
    assert bool(done.all()) and float(env.world.ranges.automatic._successes.sum()) > before
    logged = extras["log"]
    assert float(logged["/curriculum/ranges/entropy"]) <= 0.0
    assert {"/curriculum/ranges/mass_scale/low", "/curriculum/ranges/mass_scale/high"} <= set(logged)


def test_scheduled_ranges_widen_with_environment_steps():
    world = make("so101-reach", BY_STEPS)
    rest, seen = world.read()["joint_target"], []
    for tick in range(120):
        if tick % 10 == 0:
            world.reset(ALL)
            assert outside(world) == []
            seen.append(float(world.parameters["gain_scale"].max() - world.parameters["gain_scale"].min()))
        world.write(rest)
        world.step()
    assert seen[0] == seen[1] == 0.0 and seen[6] > 0.3 and seen[11] > 0.75
    assert world.randomizer.terms == world.randomization
    assert world.curriculum_log() == {"ranges/share": 1.0}


def test_half_a_schedule_is_half_a_range():
    world = make(ranges=RangesBySteps(schedule=Schedule(start=0.5, end=1.0, begin_steps=0, end_steps=10**9)))
    assert widths(world) == pytest.approx({name: width / 2 for name, width in widths(make()).items()})


def test_parameters_that_are_drawn_together_widen_together():
    ranges = RangesBySteps(schedule=Schedule(start=0.25, end=1.0, begin_steps=0, end_steps=10**9))
    world = make(ranges=ranges, randomization=(TOGETHER,))
    low, high = world.randomizer.terms[0].distribution.support
    assert low == pytest.approx((1.05, 0.95)) and high == pytest.approx((1.1125, 1.05))


def test_without_a_configuration_ranges_are_whole():
    world = make()
    assert world.ranges is None and world.curriculum is None and world.curriculum_log() == {}
    assert world.randomizer.terms == world.randomization == get_task("cartpole-balance").randomization


PUSHED = RandomTerm(parameter="inertia_scale", distribution=Uniform(low=0.5, high=1.0), when="interval", interval_s=1.0)


@pytest.mark.parametrize(
    ("ranges", "randomization", "words"),
    [
        (RangesBySuccess(automatic=AutomaticConfig(), parameters=("gravity",)), None, r"\['gravity'\] cannot grow"),
        (RangesBySuccess(automatic=AutomaticConfig(), parameters=("inertia_scale",)), (PUSHED,), "drawn at interval"),
        (RangesBySuccess(automatic=AutomaticConfig()), (PUSHED,), "no range to widen"),
        (RangesBySuccess(automatic=AutomaticConfig(), parameters=("mass_scale",)), (TOGETHER,), "are drawn together"),
        (RangesBySteps(schedule=Schedule(start=0.0, end=1.5, begin_steps=0, end_steps=1)), None, r"lie in 0 \.\. 1"),
        (RangesBySteps(schedule=Schedule(start=0.0, end=math.nan, begin_steps=0, end_steps=1)), None, "finite"),
    ],
)
def test_ranges_that_cannot_grow_are_refused(ranges, randomization, words):
    with pytest.raises(CurriculumError, match=words):
        make(ranges=ranges, randomization=randomization)
