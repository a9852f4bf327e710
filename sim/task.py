"""What a task is: commands, rewards, terminations and randomisation, as data and plain functions."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from .randomization import RandomTerm


@dataclass(frozen=True, kw_only=True)
class TaskState:
    """What reward and termination functions may look at: the truth, batched. Shapes start with num_envs."""

    tip_pos: torch.Tensor  # (N, 3) m, base frame
    target: torch.Tensor  # (N, 3) m, base frame
    joint_pos: torch.Tensor  # (N, n) rad
    joint_vel: torch.Tensor  # (N, n) rad/s
    action: torch.Tensor  # (N, a) as the network gave it
    last_action: torch.Tensor  # (N, a)

    @property
    def distance(self) -> torch.Tensor:
        """Tip to target, (N,) m."""
        return torch.linalg.vector_norm(self.tip_pos - self.target, dim=-1)


@dataclass(frozen=True, kw_only=True)
class RewardTerm:
    """A weighted reward; `weight` per second of simulated time."""

    name: str
    function: Callable[[TaskState], torch.Tensor]  # -> (N,)
    weight: float


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task for one robot."""

    name: str
    robot: str
    description: str
    period: float  # s, control tick
    physics_dt: float  # s
    episode_length: float  # s
    rewards: tuple[RewardTerm, ...]
    randomization: tuple[RandomTerm, ...]
    success_distance: float  # m
    success_time: float  # s that the tip must stay within success_distance without a break

    @property
    def substeps(self) -> int:
        """Physics steps per control tick."""
        return round(self.period / self.physics_dt)
