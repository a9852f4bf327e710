"""Which feet touch the ground, and for how long they have been in the air."""

import torch

from .state import TensorState

TOUCH_FORCE = 1.0  # N that count as touching


class ContactTimer(TensorState):
    """Follows each contact body from tick to tick."""

    _changing = ("touching", "air_time_at_touchdown", "_air_time")

    def __init__(self, num_envs: int, num_bodies: int, period: float) -> None:
        """Args: period: control tick, s."""
        self.period = period
        self.touching = torch.ones(num_envs, num_bodies, dtype=torch.bool)
        self.air_time_at_touchdown = torch.zeros(num_envs, num_bodies)
        self._air_time = torch.zeros(num_envs, num_bodies)

    def update(self, force: torch.Tensor) -> None:
        """Contact forces (num_envs, bodies, 3) N of a new tick."""
        self.touching = _touches(force)
        self.air_time_at_touchdown = self._air_time * self.touching
        self._air_time = torch.where(self.touching, torch.zeros_like(self._air_time), self._air_time + self.period)

    def reset(self, ids: torch.Tensor, force: torch.Tensor) -> None:
        """Environments `ids` (k,) start anew under contact forces (k, bodies, 3) N."""
        self.touching[ids] = _touches(force)
        self.air_time_at_touchdown[ids] = 0.0
        self._air_time[ids] = 0.0


def _touches(force: torch.Tensor) -> torch.Tensor:
    return force.square().sum(-1) > TOUCH_FORCE**2
