"""A task's own functions, called and checked: what they return may be anybody's code."""

import torch

from isthmus.hardware.errors import IsthmusError
from isthmus.sim.task import Function, Task, TerminationTerm
from isthmus.sim.truth import Truth


class TermError(IsthmusError, ValueError):
    """A task's own function gave values that cannot be used."""


def checked(what: str, function: Function, truth: Truth) -> torch.Tensor:
    """One value for each environment, (N,); raises TermError naming what else it is."""
    value, count = function(truth), truth.world.num_envs
    if not isinstance(value, torch.Tensor) or value.shape != (count,):
        raise TermError(f"{what} returned {_form(value)}; expected one value per environment, shape ({count},)")
    return value


def checked_block(what: str, function: Function, truth: Truth) -> torch.Tensor:
    """A row for each environment, (N, k); raises TermError naming what else it is."""
    value, count = function(truth), truth.world.num_envs
    if not isinstance(value, torch.Tensor) or value.ndim != 2 or value.shape[0] != count:
        raise TermError(f"{what} returned {_form(value)}; expected one row per environment, shape ({count}, k)")
    return value


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
    if not bool(torch.isfinite(values.sum())):
        bad = ~torch.isfinite(values)
        names = [term.name for term, row in zip(terms, bad, strict=True) if bool(row.any())]
        raise TermError(
            f"reward term {', '.join(map(repr, names))} is not finite in environments "
            f"{bad.any(0).nonzero().flatten()[:8].tolist()}"
        )
    return values


def any_of(terms: tuple[TerminationTerm, ...], truth: Truth) -> torch.Tensor:
    """Where at least one of the terms holds, (N,) bool."""
    ended = torch.zeros(truth.world.num_envs, dtype=torch.bool)
    for term in terms:
        ended |= checked(f"termination {term.name!r}", term.function, truth).bool()
    return ended


def _form(value: object) -> str:
    return str(tuple(value.shape)) if isinstance(value, torch.Tensor) else f"a {type(value).__name__}"
