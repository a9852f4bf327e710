"""What came of episodes: success, metrics, return and length of each environment's current one."""

import torch

from isthmus.sim.state import TensorState
from isthmus.sim.task import Task, hold_ticks
from isthmus.sim.truth import Truth

from .terms import checked_finite, checked_flags


class EpisodeStatistics(TensorState):
    """Follows every environment's episode; `report` averages those that end."""

    _changing = ("ticks", "succeeded", "_held", "metrics")

    def __init__(self, task: Task, num_envs: int) -> None:
        self.task = task
        self.ticks = torch.zeros(num_envs)
        self.succeeded = torch.zeros(num_envs, dtype=torch.bool)
        self._held = torch.zeros(num_envs, dtype=torch.long)  # ticks without a break
        self.metrics = {metric.name: torch.zeros(num_envs) for metric in task.metrics}
        self._needed = 0 if task.success is None else hold_ticks(task.success, task.period)

    def update(self, truth: Truth) -> None:
        """A tick has passed."""
        self.ticks += 1.0
        for metric in self.task.metrics:
            store = self.metrics[metric.name]
            value = checked_finite(f"metric {metric.name!r}", metric.function, truth)
            self.metrics[metric.name] = value.float() if metric.last else store + (value - store) / self.ticks
        if self.task.success is not None:
            holds = checked_flags("success", self.task.success.function, truth)
            self._held = torch.where(holds, self._held + 1, torch.zeros_like(self._held))
            self.succeeded |= self._held >= self._needed

    def success(self, ids: torch.Tensor, time_outs: torch.Tensor) -> torch.Tensor:
        """Which of the episodes that end now in environments `ids` succeeded, (k,) bool; `time_outs` (num_envs,): which lasted."""
        return (time_outs if self.task.success is None else self.succeeded)[ids]

    def report(self, ids: torch.Tensor, time_outs: torch.Tensor, in_time: torch.Tensor) -> dict[str, torch.Tensor]:
        """Means over the whole episodes among those that end now in environments `ids` (k,); empty without any.

        Args:
            ids: environments.
            time_outs: (num_envs,) which of them lasted.
            in_time: (k,) which of them end before their time is up. The first episodes, which begin at random ages, may end by time
                before they were long enough to say anything.
        """
        ids = ids[in_time | (self.ticks[ids] >= self.task.ticks)]
        if ids.numel() == 0:
            return {}
        log = {
            "/episode/success": self.success(ids, time_outs).float().mean(),
            "/episode/seconds": self.ticks[ids].mean() * self.task.period,
        }
        return log | {f"/episode/{name}": value[ids].mean() for name, value in self.metrics.items()}

    def reset(self, ids: torch.Tensor) -> None:
        """Environments `ids` start anew."""
        self.ticks[ids] = 0.0
        self.succeeded[ids] = False
        self._held[ids] = 0
        for value in self.metrics.values():
            value[ids] = 0.0


GROUP_TICKS = 10  # ages of episodes differ by whole groups: few large resets cost less than many small ones


def staggered_ages(num_envs: int, max_ticks: int) -> torch.Tensor:
    """Random ages (num_envs,) of first episodes, ticks below `max_ticks`.

    Episodes that all began together would show each iteration another part of the task.
    """
    return torch.randint(max(1, max_ticks // GROUP_TICKS), (num_envs,)) * GROUP_TICKS
