"""The learning curve of a training run as a file; needs no trainer to be read."""

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """One iteration of training."""

    steps: int
    seconds: float
    reward: float
    success: float | None  # of the episodes that ended in this iteration
    metrics: dict[str, float] = field(default_factory=dict)  # the task's, of the same episodes, each in its unit


@dataclass(frozen=True, kw_only=True)
class Curve:
    """All points of a run."""

    points: tuple[CurvePoint, ...]

    def until(self, steps: int) -> "Curve":
        """Without what lies beyond so many steps: iterations that no checkpoint knows of, and that are trained again."""
        return Curve(points=tuple(point for point in self.points if point.steps <= steps))
