"""The learning curve of a training run as a file; needs no trainer to be read."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """One iteration of training."""

    steps: int
    seconds: float
    reward: float
    success: float | None  # of the episodes that ended in this iteration


@dataclass(frozen=True, kw_only=True)
class Curve:
    """All points of a run."""

    points: tuple[CurvePoint, ...]
