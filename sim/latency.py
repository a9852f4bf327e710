"""Delay of commands and readings by any time, not only whole steps; with jitter, and commands that get lost."""

import math
from collections.abc import Mapping

import torch

from isthmus.hardware.errors import IsthmusError

from .state import TensorState

# Delays are multiples of this part of a step (10 ns of 5 ms), so that whole steps stay whole in float32.
_GRID = 2.0**19


class DelayError(IsthmusError, ValueError):
    """A delay, jitter or probability outside of what the line was made for."""


class CommandDelay(TensorState):
    """Targets written at control ticks that reach the servo `delay` seconds later.

    Within a physics step the servo sees the mean of the targets in force during that step, so a delay of 12 ms with 5 ms steps is
    two steps of the old target and then 0.4 of a step of it: the effect of the delay is continuous in the delay.

    Each write may take longer by a uniform draw from [0, jitter], but never overtakes the one before it: then both arrive at once and
    the later one counts. A write may get lost, and the target before it stays in force.
    """

    _changing = ("_targets", "_delay", "_jitter", "_loss", "_lossy", "_arrival")

    def __init__(
        self,
        num_envs: int,
        num_joints: int,
        *,
        period: float,
        dt: float,
        max_delay: float,
        max_jitter: float = 0.0,
        generator: torch.Generator | None = None,
        device: torch.device | None = None,
    ) -> None:
        """Delays are zero until set.

        Args:
            num_envs: environments.
            num_joints: joints.
            period: control tick, s; a whole number of physics steps.
            dt: physics step, s.
            max_delay: longest delay, s.
            max_jitter: largest jitter, s.
            generator: draws jitter and losses; needed where there are any.
            device: of all tensors.
        """
        self.period, self.dt, self.max_delay, self.max_jitter = period, dt, max_delay, max_jitter
        self.substeps = round(period / dt)
        if self.substeps < 1 or abs(period / dt - self.substeps) > 1e-6:
            raise DelayError(f"period {period} s is no whole number of physics steps of {dt} s; change one of them")
        self.num_envs, self.device, self._generator = num_envs, device, generator
        depth = math.ceil((max_delay + max_jitter) / period - 1e-9) + 1  # older targets are never in force
        blocks = min(depth, math.floor((dt + max_jitter) / period + 1e-9) + 2)  # targets that one physics step can see
        self._targets = torch.zeros(depth, num_envs, num_joints, device=device)  # newest first
        self._delay, self._jitter, self._loss = torch.zeros(3, num_envs, device=device)  # steps, steps, 1
        self._lossy = False
        self._age = torch.arange(depth, device=device)[:, None] * float(self.substeps)  # steps since each was written
        self._arrival = self._delay - self._age  # steps after the tick's start, newest first
        self._rows = torch.arange(num_envs, device=device)[:, None]
        index, self._weight = _blend_plan(self._arrival, self.substeps, blocks)
        self._index = index * num_envs + self._rows  # rows of the flattened targets
        self._mean = torch.empty(num_envs * self.substeps, num_joints, device=device)
        self._newer = torch.empty_like(self._mean)
        self._plan_is_old = False

    def set_delay(self, delay: torch.Tensor, ids: torch.Tensor) -> None:
        """Give environments `ids` their delay, (k,) s, in [0, max_delay], also for targets that are on their way."""
        self._delay[ids] = _in_steps(delay, "delay", self.max_delay, self.dt)
        self._let_arrive(ids)
        index, weight = _blend_plan(self._arrival[:, ids], self.substeps, len(self._index))
        self._index[:, ids] = index * self.num_envs + self._rows[ids]
        self._weight[:, ids] = weight

    def set_jitter(self, jitter: torch.Tensor, ids: torch.Tensor) -> None:
        """Give environments `ids` their jitter, (k,) s, in [0, max_jitter]: the longest time by which a write may be later."""
        self._jitter[ids] = _in_steps(jitter, "jitter", self.max_jitter, self.dt)
        _needs_generator(self._generator, "jitter", jitter)

    def set_loss(self, probability: torch.Tensor, ids: torch.Tensor) -> None:
        """Give environments `ids` the probability (k,) that a written target gets lost."""
        self._loss[ids] = _within(probability, "probability of a loss", 1.0, "")
        _needs_generator(self._generator, "loss", probability)
        self._lossy = bool((self._loss > 0).any())

    def reset(self, target: torch.Tensor, ids: torch.Tensor) -> None:
        """Forget the past: `target` (k, n) rad has been in force for ever."""
        self._targets[:, ids] = target
        self._let_arrive(ids)

    def write(self, target: torch.Tensor) -> None:
        """A new target (num_envs, n) rad at a control tick."""
        self._targets[1:] = self._targets[:-1].clone()
        lost = self._draw() < self._loss if self._lossy else None
        self._targets[0].copy_(target if lost is None else torch.where(lost[:, None], self._targets[0], target))
        if self.max_jitter > 0 and len(self._arrival) > 1:
            self._arrival[1:] = self._arrival[:-1] - self.substeps
            own = self._delay + _on_grid(self._jitter * self._draw())
            latest = self._arrival[1]
            self._arrival[0] = torch.maximum(own if lost is None else torch.where(lost, latest, own), latest)
            self._plan_is_old = True

    def all_substeps(self) -> torch.Tensor:
        """Mean target during each physics step of the current tick, (num_envs, substeps, n) rad; the next call overwrites it."""
        self._plan()
        newest_first = self._targets.flatten(0, 1)
        torch.index_select(newest_first, 0, self._index[0].flatten(), out=self._mean)
        for index, weight in zip(self._index[1:], self._weight, strict=True):
            torch.index_select(newest_first, 0, index.flatten(), out=self._newer)
            torch.lerp(self._mean, self._newer, weight.view(-1, 1), out=self._mean)
        return self._mean.view(self.num_envs, self.substeps, -1)

    def in_force(self, substep: int) -> torch.Tensor:
        """Mean target during one physics step of the current tick, (num_envs, n) rad."""
        self._plan()
        newest_first = self._targets.flatten(0, 1)
        mean = newest_first[self._index[0, :, substep]]
        for index, weight in zip(self._index[1:], self._weight, strict=True):
            mean = torch.lerp(mean, newest_first[index[:, substep]], weight[:, substep, None])
        return mean

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """See Stateful."""
        super().load_state_dict(state)
        self._plan_is_old = True

    def _draw(self) -> torch.Tensor:
        return _uniform(self.num_envs, self._generator, self.device)

    def _let_arrive(self, ids: torch.Tensor) -> None:
        self._arrival[:, ids] = self._delay[ids] - self._age

    def _plan(self) -> None:
        if self._plan_is_old:
            self._index, self._weight = _blend_plan(self._arrival, self.substeps, len(self._index))
            self._index = self._index * self.num_envs + self._rows
            self._plan_is_old = False


class ObservationDelay(TensorState):
    """A signal as it was `delay` seconds before its newest sample, linear between samples.

    Samples come at a fixed interval, of physics steps or of control ticks. Each read may be older by a uniform draw from [0, jitter],
    but what was read once is never followed by something older. Attitudes are to be normalised again after the interpolation.
    """

    _changing = ("_samples", "_newest", "_delay", "_jitter", "_age")

    def __init__(
        self,
        num_envs: int,
        width: int,
        *,
        interval: float,
        max_delay: float,
        max_jitter: float = 0.0,
        generator: torch.Generator | None = None,
        device: torch.device | None = None,
    ) -> None:
        """Delays are zero until set.

        Args:
            num_envs: environments.
            width: values of the signal.
            interval: time between samples, s.
            max_delay: longest delay, s.
            max_jitter: largest jitter, s.
            generator: draws the jitter; needed where there is any.
            device: of all tensors.
        """
        self.interval, self.max_delay, self.max_jitter = interval, max_delay, max_jitter
        self.num_envs, self.device, self._generator = num_envs, device, generator
        depth = math.ceil((max_delay + max_jitter) / interval - 1e-9) + 2
        self._samples = torch.zeros(depth, num_envs, width, device=device)  # a ring
        self._newest = 0
        self._delay, self._jitter, self._age = torch.zeros(3, num_envs, device=device)  # intervals
        self._rows = torch.arange(num_envs, device=device)

    def set_delay(self, delay: torch.Tensor, ids: torch.Tensor) -> None:
        """Give environments `ids` their delay, (k,) s, in [0, max_delay]."""
        self._delay[ids] = self._age[ids] = _in_steps(delay, "delay", self.max_delay, self.interval)

    def set_jitter(self, jitter: torch.Tensor, ids: torch.Tensor) -> None:
        """Give environments `ids` their jitter, (k,) s, in [0, max_jitter]: the time by which a read may be older."""
        self._jitter[ids] = _in_steps(jitter, "jitter", self.max_jitter, self.interval)
        _needs_generator(self._generator, "jitter", jitter)

    def reset(self, value: torch.Tensor, ids: torch.Tensor) -> None:
        """Forget the past: the signal has been `value` (k, width) for ever."""
        self._samples[:, ids] = value
        self._age[ids] = self._delay[ids]

    def push(self, sample: torch.Tensor) -> None:
        """A new sample (num_envs, width), one interval after the last."""
        self._newest = (self._newest - 1) % len(self._samples)
        self._samples[self._newest].copy_(sample)
        if self.max_jitter > 0:
            self._age += 1.0  # of what was read last

    def read(self) -> torch.Tensor:
        """The delayed signal, (num_envs, width)."""
        age = self._delay
        if self.max_jitter > 0:
            drawn = age + _on_grid(self._jitter * _uniform(self.num_envs, self._generator, self.device))
            age = self._age = torch.minimum(drawn, self._age)
        if self.max_delay + self.max_jitter <= self.interval:  # always between the newest two
            newest, before = self._samples[self._newest], self._samples[(self._newest + 1) % len(self._samples)]
            return torch.lerp(newest, before, age[:, None])
        whole = torch.floor(age)
        index = (whole.long() + self._newest) % len(self._samples) * self.num_envs + self._rows
        older = ((whole.long() + self._newest + 1) % len(self._samples)) * self.num_envs + self._rows
        samples = self._samples.flatten(0, 1)
        return torch.lerp(samples.index_select(0, index), samples.index_select(0, older), (age - whole)[:, None])


def _blend_plan(arrival: torch.Tensor, substeps: int, blocks: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Which targets to blend in each physics step so that the result is the mean of what was in force.

    Args:
        arrival: (depth, k) physics steps from the tick's start to each target's arrival, newest first, never rising.
        substeps: physics steps per tick.
        blocks: targets to blend, oldest first.

    Returns:
        Age index of each block (blocks, k, substeps), and weights of torch.lerp from each block to the next
        (blocks - 1, k, substeps).
    """
    starts = torch.arange(substeps, dtype=arrival.dtype, device=arrival.device)[:, None]
    oldest = (arrival[:, None] > starts).sum(0)  # (substeps, k): the newest that had arrived when the step began
    indices, weights = [oldest.clamp_max(len(arrival) - 1).T], []
    newer = torch.zeros_like(oldest, dtype=arrival.dtype)
    for block in range(blocks - 1, 0, -1):
        index = (oldest - block).clamp_min_(0)
        # The share of the step that comes after the arrival.
        share = (starts + 1.0 - arrival.gather(0, index)).clamp_(0.0, 1.0) * (oldest >= block)
        # Successive lerps, exact at both ends; where a newer one has the whole step, the older does not matter.
        weights.insert(0, ((share - newer) / (1.0 - newer).clamp_min_(0.5 / _GRID)).T)
        indices.insert(1, index.T)
        newer = share
    return torch.stack(indices), torch.stack(weights) if weights else arrival.new_zeros(0, arrival.shape[1], substeps)


def _uniform(count: int, generator: torch.Generator | None, device: torch.device | None) -> torch.Tensor:
    """Drawn where the generator lives, so that a seed gives the same numbers whatever the device."""
    source = None if generator is None else generator.device
    return torch.rand(count, generator=generator, device=source).to(device)


def _on_grid(steps: torch.Tensor) -> torch.Tensor:
    return torch.round(steps * _GRID) / _GRID


def _in_steps(time: torch.Tensor, name: str, longest: float, step: float) -> torch.Tensor:
    return _on_grid(_within(time, name, longest, " s").double() / step).float()


def _within(values: torch.Tensor, name: str, highest: float, unit: str) -> torch.Tensor:
    # A time drawn in float32 may lie one rounding above its own upper end.
    if values.numel() and not bool(((values >= 0) & (values <= highest * (1 + 1e-6))).all()):
        raise DelayError(f"{name} must lie in [0, {highest}]{unit}, got {values.min():.6g} .. {values.max():.6g}")
    return values.clamp(max=highest)


def _needs_generator(generator: torch.Generator | None, name: str, values: torch.Tensor) -> None:
    if generator is None and bool((values > 0).any()):
        raise DelayError(f"{name} > 0 needs random numbers, but the line has no generator; pass one when making it")
