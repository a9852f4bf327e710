"""What a task's own functions return is checked, and an error names the function."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from isthmus.policies.learning.env import critic_observation
from isthmus.policies.learning.episodes import EpisodeStatistics
from isthmus.policies.learning.terms import TermError, any_of, reward_weights, weighted_rewards
from isthmus.sim.task import MetricTerm, RewardTerm, Success, TerminationTerm

COUNT = 3
NO = torch.zeros(COUNT, dtype=torch.bool)


def truth(failed=NO, **task: Any) -> Any:
    """What the functions see, of a task that has no more than these."""
    parts = {"rewards": (), "metrics": (), "privileged": (), "success": None, "period": 0.02, **task}
    world = SimpleNamespace(
        num_envs=COUNT,
        task=SimpleNamespace(**parts),
        engine=SimpleNamespace(failed=lambda: failed),
        parameters={},
    )
    return SimpleNamespace(world=world)


def reward(function: Any, failed=NO) -> torch.Tensor:
    seen = truth(failed, rewards=(RewardTerm(name="own", function=function, weight=1.0),))
    return weighted_rewards(seen, failed, reward_weights(seen.world.task))


def termination(function: Any, failed=NO) -> torch.Tensor:
    return any_of((TerminationTerm(name="own", function=function),), truth(failed))


def metric(function: Any, failed=NO) -> torch.Tensor:
    seen = truth(failed, metrics=(MetricTerm(name="own", unit="m", function=function),))
    statistics = EpisodeStatistics(seen.world.task, COUNT)
    statistics.update(seen)
    return statistics.metrics["own"]


def success(function: Any, failed=NO) -> torch.Tensor:
    seen = truth(failed, success=Success(function=function, hold=0.02))
    statistics = EpisodeStatistics(seen.world.task, COUNT)
    statistics.update(seen)
    return statistics.succeeded


def privileged(function: Any, failed=NO) -> torch.Tensor:
    seen = truth(failed, privileged=(function,))
    return critic_observation(torch.zeros(COUNT, 2), seen, torch.zeros(COUNT, 0))


NUMBERS = {"reward term 'own'": reward, "metric 'own'": metric}
FLAGS = {"termination 'own'": termination, "success": success}
ROWS = {"privileged function 0": privileged}
EVERY = NUMBERS | FLAGS | ROWS


def returns(value: object) -> Any:
    return lambda _: value


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize(
    ("value", "got"),
    [
        (1.0, "a float"),
        (None, "a NoneType"),
        ([1.0] * COUNT, "a list"),
        (torch.tensor(1.0), r"\(\)"),
        (torch.zeros(COUNT + 1), r"\(4,\)"),
        (torch.zeros(COUNT, 2, 2), r"\(3, 2, 2\)"),
        (torch.zeros(0), r"\(0,\)"),
    ],
)
def test_another_form_is_refused_with_the_one_that_is_expected(name: str, value: object, got: str):
    with pytest.raises(TermError, match=rf"{name} returned {got}; expected one (value|row) per environment, shape \(3"):
        EVERY[name](returns(value))


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_yes_or_no_is_no_number(name: str, dtype: torch.dtype):
    with pytest.raises(TermError, match=rf"{name} returned {dtype}; expected torch.bool"):
        FLAGS[name](returns(torch.full((COUNT,), 1, dtype=dtype)))


@pytest.mark.parametrize("name", NUMBERS | ROWS)
def test_complex_numbers_are_refused(name: str):
    value = torch.zeros((COUNT, 1) if name in ROWS else COUNT, dtype=torch.complex64)
    with pytest.raises(TermError, match=rf"{name} returned torch.complex64; expected real numbers"):
        EVERY[name](returns(value))


@pytest.mark.parametrize("name", NUMBERS | ROWS)
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_values_that_are_not_finite_are_named_with_their_environments(name: str, bad: float):
    value = torch.tensor([0.0, bad, 1.0])
    value = value[:, None].repeat(1, 2) if name in ROWS else value
    with pytest.raises(TermError, match=rf"{name} is not finite in environments \[1\]"):
        EVERY[name](returns(value))
    EVERY[name](
        returns(value), failed=torch.tensor([False, True, False])
    )  # there nothing is finite, and it starts anew


@pytest.mark.parametrize("name", NUMBERS | ROWS)
def test_large_values_whose_sum_alone_is_too_large_are_used(name: str):
    value = torch.full((COUNT, 1) if name in ROWS else (COUNT,), 3e38)
    assert bool(torch.isfinite(EVERY[name](returns(value))).all())


@pytest.mark.parametrize("name", EVERY)
def test_what_a_function_raises_is_told_with_its_name_and_place(name: str):
    def broken(_):
        return {}["height"]

    with pytest.raises(TermError, match=rf"{name} raised KeyError: 'height' \(line \d+ of test_terms\.py\)") as raised:
        EVERY[name](broken)
    assert isinstance(raised.value.__cause__, KeyError)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int64, torch.bool])
def test_real_numbers_of_any_type_are_rewards(dtype: torch.dtype):
    assert reward(returns(torch.ones(COUNT, dtype=dtype)))[0].tolist() == pytest.approx([0.02] * COUNT)
