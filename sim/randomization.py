"""Randomisation as data: which parameter, from which distribution, drawn anew at every reset."""

import math
from dataclasses import dataclass
from typing import Literal

import torch

from isthmus.hardware.errors import IsthmusError

from .engine import ENGINE_PARAMETERS

# Parameters that shared code applies, beside the engine's own.
WORLD_PARAMETERS: dict[str, str] = {
    "gain_scale": "position-loop gain, 1",
    "latency_s": "delay from writing a target to the servo acting on it, s",
    "observation_delay_s": "age of a joint reading, s",
    "encoder_offset_rad": "constant encoder error of each joint, rad",
    "encoder_noise_counts": "standard deviation of encoder noise, counts",
}
PER_JOINT = ("encoder_offset_rad",)


@dataclass(frozen=True, kw_only=True)
class Uniform:
    """Uniform between two values."""

    low: float
    high: float
    kind: Literal["uniform"] = "uniform"  # tells the distributions apart in a file

    def sample(self, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
        """Draw a tensor of `shape`."""
        return self.low + (self.high - self.low) * torch.rand(shape, generator=generator)

    @property
    def support(self) -> tuple[float, float]:
        """Smallest and largest possible value."""
        return self.low, self.high


@dataclass(frozen=True, kw_only=True)
class LogUniform:
    """Uniform in the logarithm: as likely to double as to halve."""

    low: float
    high: float
    kind: Literal["log-uniform"] = "log-uniform"

    def sample(self, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
        """Draw a tensor of `shape`."""
        low, high = math.log(self.low), math.log(self.high)
        return torch.exp(low + (high - low) * torch.rand(shape, generator=generator))

    @property
    def support(self) -> tuple[float, float]:
        """Smallest and largest possible value."""
        return self.low, self.high


@dataclass(frozen=True, kw_only=True)
class RandomTerm:
    """One randomised parameter."""

    parameter: str  # of ENGINE_PARAMETERS or WORLD_PARAMETERS
    distribution: Uniform | LogUniform


class RandomizationError(IsthmusError, ValueError):
    """A randomisation names an unknown parameter, twice the same, or an empty range."""


def check_randomization(terms: tuple[RandomTerm, ...]) -> None:
    """Refuse terms that cannot be applied."""
    known = {**ENGINE_PARAMETERS, **WORLD_PARAMETERS}
    names = [term.parameter for term in terms]
    for term in terms:
        low, high = term.distribution.support
        if term.parameter not in known:
            raise RandomizationError(f"unknown parameter {term.parameter!r}; known: {', '.join(known)}")
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            raise RandomizationError(f"{term.parameter}: range {low} .. {high} is empty or not finite")
        if isinstance(term.distribution, LogUniform) and low <= 0:
            raise RandomizationError(f"{term.parameter}: a log-uniform range must be positive, got {low} .. {high}")
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise RandomizationError(f"randomised twice: {', '.join(sorted(repeated))}")


def override(terms: tuple[RandomTerm, ...], new: tuple[RandomTerm, ...]) -> tuple[RandomTerm, ...]:
    """`terms` with those of `new` put in place of terms on the same parameter."""
    replaced = {term.parameter for term in new}
    return tuple(term for term in terms if term.parameter not in replaced) + new
