"""Distributions that randomisation draws from: data, with a range, and able to shrink towards a neutral value."""

import math
import numbers
from dataclasses import dataclass
from typing import Literal

import torch

from isthmus.hardware.errors import IsthmusError

MAX_TAIL = 30.0  # standard deviations that a truncation may lie off the mean; the normal's tail underflows near 38
MIN_ACCEPTANCE = 1e-3  # share of a multivariate normal that must lie within its box
ACCEPTANCE_DRAWS = 20_000
ROUND = 2**17  # most draws at a time
LARGEST = torch.finfo(torch.float32).max  # values are float32


class RandomizationError(IsthmusError, ValueError):
    """A randomisation that cannot be applied: unknown parameter, impossible range, wrong shape."""


@dataclass(frozen=True, kw_only=True)
class Constant:
    """Always the same value."""

    value: float
    kind: Literal["constant"] = "constant"

    def sample(self, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
        """Draw a tensor of `shape`, on the generator's device."""
        return torch.full(shape, self.value, device=generator.device)

    @property
    def support(self) -> tuple[float, float]:
        """Smallest and largest possible value."""
        return self.value, self.value

    def check(self) -> None:
        """Raise RandomizationError naming the field that cannot be."""
        _finite("constant", value=self.value)

    def widened(self, neutral: float, fraction: float) -> "Constant":
        """`neutral` at fraction 0, the value itself at 1."""
        return Constant(value=_toward(self.value, neutral, fraction))


@dataclass(frozen=True, kw_only=True)
class Uniform:
    """Uniform between two values."""

    low: float
    high: float
    kind: Literal["uniform"] = "uniform"  # tells the distributions apart in a file

    def sample(self, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
        """Draw a tensor of `shape`, on the generator's device."""
        unit = torch.rand(shape, generator=generator, device=generator.device)
        return torch.clamp(self.low + (self.high - self.low) * unit, self.low, self.high)

    @property
    def support(self) -> tuple[float, float]:
        """Smallest and largest possible value."""
        return self.low, self.high

    def check(self) -> None:
        """Raise RandomizationError naming the field that cannot be."""
        _range("uniform", self.low, self.high)

    def widened(self, neutral: float, fraction: float) -> "Uniform":
        """Shrunk towards `neutral`: that alone at fraction 0, the whole range at 1."""
        return Uniform(low=_toward(self.low, neutral, fraction), high=_toward(self.high, neutral, fraction))


@dataclass(frozen=True, kw_only=True)
class LogUniform:
    """Uniform in the logarithm: as likely to double as to halve."""

    low: float
    high: float
    kind: Literal["log-uniform"] = "log-uniform"

    def sample(self, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
        """Draw a tensor of `shape`, on the generator's device."""
        low, high = math.log(self.low), math.log(self.high)
        unit = torch.rand(shape, generator=generator, device=generator.device)
        return torch.clamp(torch.exp(low + (high - low) * unit), self.low, self.high)

    @property
    def support(self) -> tuple[float, float]:
        """Smallest and largest possible value."""
        return self.low, self.high

    def check(self) -> None:
        """Raise RandomizationError naming the field that cannot be."""
        _range("log-uniform", self.low, self.high)
        if self.low <= 0:
            raise RandomizationError(f"log-uniform low must be positive, got {self.low}; use uniform for ranges with 0")

    def widened(self, neutral: float, fraction: float) -> "LogUniform":
        """Shrunk in the logarithm towards `neutral`, which must be positive: that alone at fraction 0, the whole range at 1."""
        if neutral <= 0:
            raise RandomizationError(
                f"a log-uniform range shrinks towards a positive value only, got neutral {neutral}; use uniform"
            )
        low, high = (_toward(math.log(end), math.log(neutral), fraction) for end in self.support)
        return self if fraction == 1 else LogUniform(low=math.exp(low), high=math.exp(high))


@dataclass(frozen=True, kw_only=True)
class Gaussian:
    """Normal, cut off outside low .. high: what lies outside is never drawn, not moved to the ends."""

    mean: float
    std: float  # of the normal before it is cut; 0: always the mean
    low: float
    high: float
    kind: Literal["gaussian"] = "gaussian"

    def sample(self, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
        """Draw a tensor of `shape`, on the generator's device. Exact: by the inverse of the distribution function."""
        if self.std == 0 or self.low == self.high:
            return torch.full(shape, min(max(self.mean, self.low), self.high), device=generator.device)
        low, high = ((end - self.mean) / self.std for end in self.support)
        sign = (
            -1.0 if low > 0 else 1.0
        )  # in the lower tail the distribution function keeps its digits, in the upper not
        start, end = (_normal_cdf(z) for z in sorted((sign * low, sign * high)))
        unit = torch.rand(shape, generator=generator, device=generator.device, dtype=torch.float64)
        z = sign * torch.special.ndtri(start + (end - start) * unit)
        return torch.clamp(self.mean + self.std * z, self.low, self.high).float()

    @property
    def support(self) -> tuple[float, float]:
        """Smallest and largest possible value."""
        return self.low, self.high

    def check(self) -> None:
        """Raise RandomizationError naming the field that cannot be."""
        _finite("gaussian", mean=self.mean, std=self.std)
        _range("gaussian", self.low, self.high)
        if self.std < 0:
            raise RandomizationError(f"gaussian std must not be negative, got {self.std}")
        off = max(self.low - self.mean, self.mean - self.high)
        if off > MAX_TAIL * self.std:
            raise RandomizationError(
                f"gaussian mean {self.mean} lies {off:g} outside {self.low} .. {self.high}, more than {MAX_TAIL:g} std"
                f" of {self.std}: nothing would be drawn"
            )

    def widened(self, neutral: float, fraction: float) -> "Gaussian":
        """Shrunk towards `neutral`: that alone at fraction 0, the whole at 1."""
        mean, low, high = (_toward(value, neutral, fraction) for value in (self.mean, self.low, self.high))
        return Gaussian(mean=mean, std=self.std * fraction, low=low, high=high)


Distribution = Uniform | LogUniform | Gaussian | Constant


@dataclass(frozen=True, kw_only=True)
class TruncatedMultivariateNormal:
    """Several values at once that vary together: normal, cut off outside a box. All sequences have one entry per value."""

    mean: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]  # of the normal before it is cut
    low: tuple[float, ...]
    high: tuple[float, ...]
    kind: Literal["truncated-multivariate-normal"] = "truncated-multivariate-normal"

    def sample(self, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
        """Draw a tensor (*shape, k), on the generator's device. Exact: by rejection, which ends because `check` bounds it."""
        count = math.prod(shape)
        drawn, kept, accepted = 0, 0, [torch.zeros(0, len(self.mean), dtype=torch.float64, device=generator.device)]
        while kept < count:
            if drawn > (count + 100) * 10 / MIN_ACCEPTANCE:
                raise RandomizationError(f"of {drawn} draws only {kept} lay within the box; see check()")
            wanted = (count - kept) * (drawn + 1) / (kept + 1)
            accepted.append(self._accepted(min(int(1.2 * wanted) + 64, ROUND), generator))
            drawn += min(int(1.2 * wanted) + 64, ROUND)
            kept += len(accepted[-1])
        return torch.cat(accepted)[:count].reshape(*shape, len(self.mean)).float()

    @property
    def support(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Smallest and largest possible values."""
        return self.low, self.high

    def check(self) -> None:
        """Raise RandomizationError naming the field that cannot be."""
        name = "truncated-multivariate-normal"
        for field in ("mean", "covariance", "low", "high"):
            if not isinstance(getattr(self, field), tuple):
                raise RandomizationError(f"{name} {field} must be a tuple, got {getattr(self, field)!r}")
        size = len(self.mean)
        for field in ("covariance", "low", "high"):
            if len(getattr(self, field)) != size or size == 0:
                raise RandomizationError(
                    f"{name} {field} has {len(getattr(self, field))} entries, expected as many as mean, which has {size}"
                )
        for index in range(size):
            _finite(f"{name}", **{f"mean[{index}]": self.mean[index]})
            _range(f"{name} component {index}", self.low[index], self.high[index])
        _check_covariance(self.covariance, size)
        generator = torch.Generator().manual_seed(0)
        share = len(self._accepted(ACCEPTANCE_DRAWS, generator)) / ACCEPTANCE_DRAWS
        if share < MIN_ACCEPTANCE:
            raise RandomizationError(
                f"{name} low .. high holds {share:.2%} of the distribution, expected {MIN_ACCEPTANCE:.2%} at least;"
                " widen the box or shrink the covariance"
            )

    def widened(self, neutral: tuple[float, ...], fraction: float) -> "TruncatedMultivariateNormal":
        """Shrunk towards `neutral`, one value per component: that alone at fraction 0, the whole at 1. Correlations stay."""
        if len(neutral) != len(self.mean):
            raise RandomizationError(f"neutral has {len(neutral)} entries, expected {len(self.mean)}")
        mean, low, high = (
            tuple(_toward(value, centre, fraction) for value, centre in zip(values, neutral, strict=True))
            for values in (self.mean, self.low, self.high)
        )
        covariance = tuple(tuple(entry * fraction**2 for entry in row) for row in self.covariance)
        return TruncatedMultivariateNormal(mean=mean, covariance=covariance, low=low, high=high)

    def _accepted(self, count: int, generator: torch.Generator) -> torch.Tensor:
        """Those of `count` draws that lie within the box, (<= count, k) float64."""
        mean, low, high = (
            torch.tensor(values, dtype=torch.float64, device=generator.device)
            for values in (self.mean, self.low, self.high)
        )
        factor = _factor(self.covariance).to(generator.device)
        noise = torch.randn((count, len(self.mean)), generator=generator, device=generator.device, dtype=torch.float64)
        values = mean + noise @ factor.T
        slack = 1e-9 * (high - low) + 1e-12  # a component without variance may sit on an end of its range
        within = ((values >= low - slack) & (values <= high + slack)).all(-1)
        return torch.clamp(values[within], low, high)


def _normal_cdf(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


def _toward(value: float, neutral: float, fraction: float) -> float:
    if not 0 <= fraction <= 1:
        raise RandomizationError(f"fraction must lie in 0 .. 1, got {fraction}")
    if fraction == 1:
        return value
    return min(
        max(neutral + fraction * (value - neutral), min(neutral, value)), max(neutral, value)
    )  # no rounding beyond


def _finite(name: str, **values: float) -> None:
    for field, value in values.items():
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise RandomizationError(f"{name} {field} must be one number, got {value!r}")
        if not math.isfinite(value) or abs(value) > LARGEST:
            raise RandomizationError(f"{name} {field} must be finite, got {value}")


def _range(name: str, low: float, high: float) -> None:
    _finite(name, low=low, high=high)
    if low > high:
        raise RandomizationError(f"{name} range is empty: low {low} is above high {high}")


def _correlation(covariance: tuple[tuple[float, ...], ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """Standard deviations (k,) and correlations (k, k), 0 where a standard deviation is 0. Float64."""
    matrix = torch.tensor(covariance, dtype=torch.float64)
    std = matrix.diagonal().clamp(min=0.0).sqrt()
    scale = torch.where(std > 0, 1.0 / std, torch.zeros_like(std))
    return std, scale[:, None] * matrix * scale


def _factor(covariance: tuple[tuple[float, ...], ...]) -> torch.Tensor:
    """A with A A^T = covariance, (k, k) float64; parameters of very different size keep their digits."""
    std, correlation = _correlation(covariance)
    values, vectors = torch.linalg.eigh(correlation)
    return std[:, None] * vectors * values.clamp(min=0.0).sqrt()


def _check_covariance(covariance: tuple[tuple[float, ...], ...], size: int) -> None:
    name = "truncated-multivariate-normal covariance"
    if any(len(row) != size for row in covariance):
        raise RandomizationError(f"{name} must be {size} x {size}, got rows of {[len(row) for row in covariance]}")
    matrix = torch.tensor(covariance, dtype=torch.float64)
    if not torch.isfinite(matrix).all():
        raise RandomizationError(f"{name} must be finite, got {covariance}")
    if not torch.allclose(matrix, matrix.T, rtol=1e-9, atol=1e-15):
        row, column = ((matrix - matrix.T).abs() == (matrix - matrix.T).abs().max()).nonzero()[0].tolist()
        raise RandomizationError(
            f"{name} must be symmetric, got {matrix[row, column].item()} at [{row}][{column}]"
            f" and {matrix[column, row].item()} at [{column}][{row}]"
        )
    std, correlation = _correlation(covariance)
    unvaried = (std == 0)[:, None] & (matrix != 0)
    lowest = float(torch.linalg.eigvalsh(correlation).min())
    if bool(unvaried.any()) or lowest < -1e-6:
        raise RandomizationError(
            f"{name} must be positive semi-definite: the smallest eigenvalue of its correlations is {lowest:.3g}"
            f" and its diagonal {matrix.diagonal().tolist()}"
        )
