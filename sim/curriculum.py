"""What becomes harder while training goes on: a scheduled value, automatic domain randomisation, terrain levels."""

import math
from dataclasses import dataclass, replace
from typing import Literal

import torch

from isthmus.hardware.errors import IsthmusError

from .distributions import LogUniform, Uniform
from .randomization import RandomTerm, check_randomization, neutral_of, parameter_info


class CurriculumError(IsthmusError, ValueError):
    """A curriculum that cannot run, or a state of another one."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A value that goes from `start` to `end` while training goes on, and stays there."""

    start: float
    end: float
    begin_steps: int  # environment steps at which it begins to move
    end_steps: int  # environment steps at which it has arrived
    shape: Literal["linear", "cosine"] = "linear"  # cosine: without a kink at either end

    def check(self) -> None:
        """Raise CurriculumError naming the field that cannot be."""
        if not (math.isfinite(self.start) and math.isfinite(self.end)):
            raise CurriculumError(f"schedule start and end must be finite, got {self.start} and {self.end}")
        if not 0 <= self.begin_steps < self.end_steps:
            raise CurriculumError(
                f"schedule needs 0 <= begin_steps < end_steps, got {self.begin_steps} and {self.end_steps}"
            )

    def progress(self, steps: int) -> float:
        """How far it is, 0 .. 1, after `steps` environment steps."""
        part = min(max((steps - self.begin_steps) / (self.end_steps - self.begin_steps), 0.0), 1.0)
        return part if self.shape == "linear" else 0.5 - 0.5 * math.cos(math.pi * part)

    def value(self, steps: int) -> float:
        """The value after `steps` environment steps."""
        part = self.progress(steps)
        return (1.0 - part) * self.start + part * self.end


@dataclass(frozen=True, kw_only=True)
class AutomaticConfig:
    """Automatic domain randomisation (OpenAI et al. 2019, arXiv 1910.07113)."""

    widen_from: float = 0.8  # mean success at a boundary from which it moves out
    narrow_below: float = 0.4  # mean success at a boundary below which it moves in
    buffer: int = 240  # episodes at a boundary between two decisions about it
    step: float = 0.02  # how far a boundary moves, as a share of the whole range (in the logarithm for log-uniform)
    boundary_share: float = 0.5  # share of episodes that are pinned to one boundary

    def check(self) -> None:
        """Raise CurriculumError naming the field that cannot be."""
        if not 0 <= self.narrow_below < self.widen_from <= 1:
            raise CurriculumError(
                f"needs 0 <= narrow_below < widen_from <= 1, got {self.narrow_below} and {self.widen_from}"
            )
        if self.buffer < 1:
            raise CurriculumError(f"buffer must be at least 1 episode, got {self.buffer}")
        for name in ("step", "boundary_share"):
            if not 0 < getattr(self, name) <= 1:
                raise CurriculumError(f"{name} must lie in 0 (excluded) .. 1, got {getattr(self, name)}")


class AutomaticRandomization:
    """Ranges that grow from the neutral value towards their full size as success at their boundaries allows.

    Ranges are kept as shares of the full range, 0 .. 1, boundaries in the order low, high of each term. An episode may be
    pinned to a boundary: then that parameter has the boundary's value, the others are drawn within their ranges.
    """

    def __init__(
        self, terms: tuple[RandomTerm, ...], num_envs: int, generator: torch.Generator, config: AutomaticConfig
    ) -> None:
        """Args: terms: the full ranges, uniform or log-uniform, of parameters with one value."""
        config.check()
        check_randomization(terms)
        self._terms, self.config, self._generator = terms, config, generator
        scales = [_Scale.of(term) for term in terms]
        device = generator.device
        self._low = torch.tensor([scale.low for scale in scales], dtype=torch.float64, device=device)
        self._size = torch.tensor([scale.high - scale.low for scale in scales], dtype=torch.float64, device=device)
        self._log = torch.tensor([scale.log for scale in scales], device=device)
        self._start = torch.tensor([scale.start for scale in scales], dtype=torch.float64, device=device)
        self._bounds = self._start.repeat_interleave(2)
        room = torch.stack([self._start > 0, self._start < 1], dim=-1).flatten()
        self._movable = room.nonzero().flatten()
        if self._movable.numel() == 0:
            raise CurriculumError("automatic randomisation has no range to widen: give it at least one term")
        self._count = torch.zeros(2 * len(terms), dtype=torch.int64, device=device)
        self._successes = torch.zeros(2 * len(terms), dtype=torch.float64, device=device)
        self._version = torch.zeros(2 * len(terms), dtype=torch.int64, device=device)  # moves so far
        self._pin = torch.full((num_envs,), -1, dtype=torch.int64, device=device)  # boundary, or -1
        self._pin_version = torch.zeros(num_envs, dtype=torch.int64, device=device)

    def sample(self, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        """Values for new episodes in environments `ids` (k,) int64: by parameter, (k, 1) float32."""
        count, generator = ids.numel(), self._generator
        low, high = self._bounds.view(-1, 2).unbind(-1)
        unit = torch.rand((count, len(self._terms)), generator=generator, device=generator.device, dtype=torch.float64)
        share = low + (high - low) * unit
        pinned = torch.rand(count, generator=generator, device=generator.device) < self.config.boundary_share
        choice = torch.randint(self._movable.numel(), (count,), generator=generator, device=generator.device)
        pin = torch.where(pinned, self._movable[choice], torch.full_like(choice, -1))
        rows = pinned.nonzero().flatten()
        share[rows, pin[rows] // 2] = self._bounds[pin[rows]]
        self._pin[ids] = pin
        self._pin_version[ids] = self._version[pin.clamp(min=0)]
        values = self._value(share).float()
        return {
            term.parameter: torch.clamp(values[:, index : index + 1], *term.distribution.support)
            for index, term in enumerate(self._terms)
        }

    def record(self, ids: torch.Tensor, success: torch.Tensor) -> None:
        """Tell how the episodes in environments `ids` (k,) ended, success (k,) in 0 .. 1, and move boundaries.

        Episodes that were pinned to a boundary which has moved meanwhile say nothing about it and are left out.
        """
        pin = self._pin[ids]
        counts = (pin >= 0) & (self._pin_version[ids] == self._version[pin.clamp(min=0)])
        pin, success = pin[counts], success[counts].double()
        self._count += torch.bincount(pin, minlength=self._count.numel())
        self._successes.index_add_(0, pin, success)
        self._pin[ids] = -1
        self._move()

    def terms(self) -> tuple[RandomTerm, ...]:
        """The terms with their ranges as they are now."""
        ends = self._value(self._bounds.view(-1, 2).T).T.tolist()
        return tuple(_narrowed(term, low, high) for term, (low, high) in zip(self._terms, ends, strict=True))

    def entropy(self) -> float:
        """Mean log of the share of its full range that a term has, nats: 0 when all is reached.

        A range narrower than one step counts as one step.
        """
        low, high = self._bounds.view(-1, 2).unbind(-1)
        return float(torch.log((high - low).clamp(min=self.config.step)).mean())

    def log(self) -> dict[str, float]:
        """Ranges in the parameters' own units, as "<name>/low" and "<name>/high", and "entropy"."""
        result = {"entropy": self.entropy()}
        for term in self.terms():
            result[f"{term.parameter}/low"], result[f"{term.parameter}/high"] = term.distribution.support
        return result

    def state_dict(self) -> dict[str, torch.Tensor]:
        """All that the future depends on but terms and configuration, the generator's state included."""
        return {name: tensor.clone() for name, tensor in self._state().items()} | {
            "generator": self._generator.get_state()
        }

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        """Take back what `state_dict` gave; raises CurriculumError when it is of other terms or environments."""
        _load(self._state(), self._generator, state)

    def _state(self) -> dict[str, torch.Tensor]:
        return {
            "bounds": self._bounds,
            "count": self._count,
            "successes": self._successes,
            "version": self._version,
            "pin": self._pin,
            "pin_version": self._pin_version,
        }

    def _move(self) -> None:
        full = self._count >= self.config.buffer
        mean = self._successes / self._count.clamp(min=1)
        out = (full & (mean >= self.config.widen_from)).double() - (full & (mean < self.config.narrow_below)).double()
        outwards = torch.tensor([-1.0, 1.0], dtype=torch.float64, device=out.device).repeat(len(self._terms))
        moved = (self._bounds + self.config.step * out * outwards).view(-1, 2)
        low = torch.minimum(moved[:, 0].clamp(min=0.0), self._start)
        high = torch.maximum(moved[:, 1].clamp(max=1.0), self._start)
        bounds = torch.stack([low, high], dim=-1).flatten()
        self._version += (bounds != self._bounds).long()
        self._bounds.copy_(bounds)
        self._count[full] = 0
        self._successes[full] = 0.0

    def _value(self, share: torch.Tensor) -> torch.Tensor:
        """Shares (..., terms) of the full ranges -> values."""
        value = self._low + self._size * share
        return torch.where(self._log, torch.exp(value), value)


def _narrowed(term: RandomTerm, low: float, high: float) -> RandomTerm:
    """A term on part of its range; rounding goes no farther than the whole."""
    kind = LogUniform if isinstance(term.distribution, LogUniform) else Uniform
    least, most = term.distribution.support
    return replace(term, distribution=kind(low=max(low, least), high=min(high, most)))


@dataclass(frozen=True, kw_only=True)
class _Scale:
    """The full range of a term; low and high in the logarithm where `log`."""

    low: float
    high: float
    log: bool
    start: float  # the neutral value, or the end nearest to it, as a share of the range

    @classmethod
    def of(cls, term: RandomTerm) -> "_Scale":
        distribution, name = term.distribution, term.parameter
        if not isinstance(distribution, Uniform | LogUniform):
            raise CurriculumError(
                f"{name}: only uniform and log-uniform ranges can grow by their boundaries, got {distribution.kind}"
            )
        if parameter_info(name).width != 1:
            raise CurriculumError(f"{name}: has several values; only parameters with one can grow by success")
        low, high = distribution.support
        if low == high:
            raise CurriculumError(f"{name}: low and high are both {low}, there is no range to grow")
        neutral, log = min(max(neutral_of(term), low), high), isinstance(distribution, LogUniform)
        if log:
            low, high, neutral = math.log(low), math.log(high), math.log(neutral)
        return cls(low=low, high=high, log=log, start=(neutral - low) / (high - low))


@dataclass(frozen=True, kw_only=True)
class TerrainCurriculumConfig:
    """Game-like terrain levels (Rudin et al. 2021, arXiv 2109.11978)."""

    levels: int  # rows of the terrain, by difficulty
    columns: int  # kinds of terrain
    tile_size_m: float
    start_levels: int  # environments begin on levels 0 .. start_levels - 1

    def check(self) -> None:
        """Raise CurriculumError naming the field that cannot be."""
        for name in ("levels", "columns"):
            if getattr(self, name) < 1:
                raise CurriculumError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not 1 <= self.start_levels <= self.levels:
            raise CurriculumError(f"start_levels must lie in 1 .. levels = {self.levels}, got {self.start_levels}")
        if not (math.isfinite(self.tile_size_m) and self.tile_size_m > 0):
            raise CurriculumError(f"tile_size_m must be positive, got {self.tile_size_m}")


class TerrainCurriculum:
    """`level` and `column` of every environment, (num_envs,) int64. Columns stay; levels follow what the robot managed."""

    def __init__(self, config: TerrainCurriculumConfig, num_envs: int, generator: torch.Generator) -> None:
        config.check()
        self.config, self._generator = config, generator
        self.level = torch.randint(config.start_levels, (num_envs,), generator=generator, device=generator.device)
        self.column = torch.arange(num_envs, device=generator.device) * config.columns // num_envs

    def update(self, ids: torch.Tensor, walked_m: torch.Tensor, commanded_m: torch.Tensor) -> None:
        """Move environments `ids` (k,) at the end of their episodes.

        One level up where the robot came farther than half a tile, one down where it came less than half of what was
        commanded. Who solves the hardest level goes to a random one, so that none is forgotten.

        Args:
            ids: (k,) int64.
            walked_m: (k,) horizontal distance from where the episode began.
            commanded_m: (k,) distance that the commands asked for.
        """
        up = walked_m > self.config.tile_size_m / 2
        down = (walked_m < commanded_m / 2) & ~up
        level = self.level[ids] + up.long() - down.long()
        again = torch.randint(
            self.config.levels, (ids.numel(),), generator=self._generator, device=self._generator.device
        )
        self.level[ids] = torch.where(level >= self.config.levels, again, level.clamp(min=0))

    def origins(self, tiles: torch.Tensor) -> torch.Tensor:
        """Where environments start: their tile's entry of `tiles` (levels, columns, 3) m; (num_envs, 3) m, world."""
        return tiles[self.level, self.column]

    def log(self) -> dict[str, float]:
        """Mean, smallest and largest level."""
        level = self.level.float()
        return {"level/mean": float(level.mean()), "level/min": float(level.min()), "level/max": float(level.max())}

    def state_dict(self) -> dict[str, torch.Tensor]:
        """All that the future depends on but the configuration, the generator's state included."""
        return {
            "level": self.level.clone(),
            "column": self.column.clone(),
            "generator": self._generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        """Take back what `state_dict` gave; raises CurriculumError when it is of another number of environments."""
        _load({"level": self.level, "column": self.column}, self._generator, state)


def _load(mine: dict[str, torch.Tensor], generator: torch.Generator, state: dict[str, torch.Tensor]) -> None:
    expected = {name: tuple(tensor.shape) for name, tensor in mine.items()}
    got = {name: tuple(tensor.shape) for name, tensor in state.items() if name != "generator"}
    if got != expected or "generator" not in state:
        raise CurriculumError(f"state of another curriculum: expected {expected} and generator, got {got}")
    for name, tensor in mine.items():
        tensor.copy_(state[name])
    generator.set_state(state["generator"].cpu())
