"""Delay of commands by any time, not only whole steps."""

import torch


class CommandDelay:
    """Targets written at control ticks that reach the servo `delay` seconds later.

    Within a physics step the servo sees the mean of the targets in force during that step, so a delay of 12 ms with 5 ms steps is
    two steps of the old target and then 0.4 of a step of it: the effect of the delay is continuous in the delay.
    """

    def __init__(self, num_envs: int, num_joints: int, *, period: float, dt: float, max_delay: float) -> None:
        """Args: period: control tick, s. dt: physics step, s. max_delay: longest delay, s."""
        self.period, self.dt = period, dt
        self.max_delay = max_delay
        self.substeps = round(period / dt)
        depth = int(max_delay / period) + 2
        self._targets = torch.zeros(num_envs, depth, num_joints)  # newest first
        self._index = torch.zeros(num_envs, self.substeps, 2, dtype=torch.long)
        self._weight = torch.zeros(num_envs, self.substeps, 1)
        self._rows = torch.arange(num_envs)

    def set_delay(self, delay: torch.Tensor, ids: torch.Tensor) -> None:
        """Give environments `ids` their delay, (k,) s, in [0, max_delay]."""
        if bool((delay < 0).any()) or bool((delay > self.max_delay).any()):
            raise ValueError(f"delay must lie in [0, {self.max_delay}] s, got {delay.min():.4f} .. {delay.max():.4f}")
        start = (
            torch.arange(self.substeps) * self.dt - delay.double()[:, None]
        )  # window of each physics step, tick time
        end = start + self.dt
        first = torch.floor(start / self.period + 1e-9)
        last = torch.floor(end / self.period - 1e-9)
        boundary = last * self.period
        after = torch.where(last > first, (end - boundary) / self.dt, torch.ones_like(end))
        self._index[ids] = torch.stack([-first, -last], dim=-1).long()
        self._weight[ids] = after.float()[..., None]

    def reset(self, target: torch.Tensor, ids: torch.Tensor) -> None:
        """Forget the past: `target` (k, n) rad has been in force for ever."""
        self._targets[ids] = target[:, None]

    def write(self, target: torch.Tensor) -> None:
        """A new target (num_envs, n) rad at a control tick."""
        self._targets = torch.cat([target[:, None], self._targets[:, :-1]], dim=1)

    def in_force(self, substep: int) -> torch.Tensor:
        """Mean target during a physics step of the current tick, (num_envs, n) rad."""
        index, weight = self._index[:, substep], self._weight[:, substep]
        old = self._targets[self._rows, index[:, 0]]
        new = self._targets[self._rows, index[:, 1]]
        return old + weight * (new - old)
