"""A task's own functions, called and checked: what they return may be anybody's code."""

import math
import traceback
from pathlib import Path

import torch

from isthmus.hardware.errors import IsthmusError
from isthmus.sim.task import Function, Task, TerminationTerm
from isthmus.sim.truth import Truth


class TermError(IsthmusError, ValueError):
    """A task's own function gave values that cannot be used."""


def checked(what: str, function: Function, truth: Truth) -> torch.Tensor:
    """One value for each environment, (N,), finite or not; raises TermError naming what else it is."""
    value, count = _called(what, function, truth), truth.world.num_envs
    if not isinstance(value, torch.Tensor) or value.shape != (count,):
        raise TermError(f"{what} returned {_form(value)}; expected one value per environment, shape ({count},)")
    if value.is_complex():
        raise TermError(f"{what} returned {value.dtype}; expected real numbers")
    return value


def checked_finite(what: str, function: Function, truth: Truth) -> torch.Tensor:
    """One value for each environment, (N,), finite wherever physics has not failed; raises TermError naming what else it is."""
    value = checked(what, function, truth)
    _check_finite(what, value, truth)
    return value


def checked_flags(what: str, function: Function, truth: Truth) -> torch.Tensor:
    """Yes or no for each environment, (N,) bool; raises TermError naming what else it is."""
    value = checked(what, function, truth)
    if value.dtype != torch.bool:  # a number that is not finite would count as yes
        raise TermError(f"{what} returned {value.dtype}; expected torch.bool: return a comparison such as height < 0.1")
    return value


def checked_blocks(task: Task, truth: Truth) -> list[torch.Tensor]:
    """What the task's privileged functions say, (N, k) each, finite or not; raises TermError naming what is something else."""
    count, blocks = truth.world.num_envs, []
    for what, function in _privileged(task):
        value = _called(what, function, truth)
        if not isinstance(value, torch.Tensor) or value.ndim != 2 or value.shape[0] != count:
            raise TermError(f"{what} returned {_form(value)}; expected one row per environment, shape ({count}, k)")
        if value.is_complex():
            raise TermError(f"{what} returned {value.dtype}; expected real numbers")
        blocks.append(value)
    return blocks


def check_blocks_finite(task: Task, blocks: list[torch.Tensor], truth: Truth) -> None:
    """Raises TermError for a block of `checked_blocks` that is not finite wherever physics has not failed."""
    for (what, _), value in zip(_privileged(task), blocks, strict=True):
        _check_finite(what, value, truth)


def reward_weights(task: Task) -> torch.Tensor:
    """What each reward term counts in a tick, (r, 1)."""
    return torch.tensor([[term.weight * task.period] for term in task.rewards])


def weighted_rewards(truth: Truth, failed: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Weighted reward terms of this tick, (r, N); 0 where physics has `failed` (N,) bool.

    Raises:
        TermError: a term of another shape, or one that is not finite where physics has not failed.
    """
    terms = truth.world.task.rewards
    values = torch.stack([checked(f"reward term {term.name!r}", term.function, truth) for term in terms])
    values = (values * weights).masked_fill(failed, 0.0)
    if not math.isfinite(values.sum().item()):
        bad = ~torch.isfinite(values)
        if bool(bad.any()):  # a sum of finite values may be too large too
            names = [term.name for term, row in zip(terms, bad, strict=True) if bool(row.any())]
            raise TermError(
                f"reward term {', '.join(map(repr, names))} is not finite in environments {_where(bad.any(0))}"
            )
    return values


def any_of(terms: tuple[TerminationTerm, ...], truth: Truth) -> torch.Tensor:
    """Where at least one of the terms holds, (N,) bool."""
    ended = torch.zeros(truth.world.num_envs, dtype=torch.bool)
    for term in terms:
        ended |= checked_flags(f"termination {term.name!r}", term.function, truth)
    return ended


def _privileged(task: Task) -> list[tuple[str, Function]]:
    return [(f"privileged function {index}", function) for index, function in enumerate(task.privileged)]


def _called(what: str, function: Function, truth: Truth) -> object:
    try:
        return function(truth)
    except MemoryError:
        raise
    except Exception as error:  # whatever somebody's code raises
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise TermError(
            f"{what} raised {type(error).__name__}: {error} (line {place.lineno} of {Path(place.filename).name})"
        ) from error


def _check_finite(what: str, value: torch.Tensor, truth: Truth) -> None:
    """As a sum at first: by element it takes several times as long."""
    if math.isfinite(value.sum().item()):
        return
    bad = ~torch.isfinite(value.reshape(value.shape[0], -1)).all(-1) & ~truth.world.engine.failed()
    if bool(bad.any()):
        raise TermError(f"{what} is not finite in environments {_where(bad)}; expected finite values")


def _where(bad: torch.Tensor) -> list[int]:
    """The first environments of (N,) bool."""
    return bad.nonzero().flatten()[:8].tolist()


def _form(value: object) -> str:
    return str(tuple(value.shape)) if isinstance(value, torch.Tensor) else f"a {type(value).__name__}"
