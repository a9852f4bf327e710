"""Terms that several tasks share."""

import torch

from ..truth import Truth


def action_size(truth: Truth) -> torch.Tensor:
    """Sum of squared actions, 1."""
    return truth.action.square().sum(-1)


def action_change(truth: Truth) -> torch.Tensor:
    """Sum of squared changes of the action, 1."""
    return (truth.action - truth.last_action).square().sum(-1)


def alive(truth: Truth) -> torch.Tensor:
    """One, for every tick that the episode lasts."""
    return torch.ones(truth.action.shape[0])
