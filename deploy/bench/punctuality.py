"""How punctual a loop was: figures of its time stamps, the same for every loop."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Punctuality:
    """One loop at one rate."""

    ticks: int
    missed: int  # deadlines that were skipped
    rate_error_percent: float  # of the rate that was kept, skipped deadlines included
    drift_percent: float  # the same without them: whether the deadlines themselves go right
    p50_us: float  # lateness: wake-up after the deadline
    p90_us: float
    p99_us: float
    max_us: float
    cpu_us: float  # CPU time of the process for each tick, all its threads


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A stretch of ticks without a pause."""

    deadline_ns: np.ndarray  # (ticks,) int64, monotonic
    wake_ns: np.ndarray  # (ticks,) int64, monotonic
    cpu_s: float  # of all ticks


def punctuality(segments: list[Segment], period_ns: int) -> Punctuality:
    """Figures over all segments. The first tick of each, for which nobody had to wait, does not count.

    Raises:
        ValueError: a segment of fewer than two ticks.
    """
    if min(len(segment.wake_ns) for segment in segments) < 2:
        raise ValueError("a segment needs at least 2 ticks")
    late_us = np.concatenate([1e-3 * (s.wake_ns - s.deadline_ns)[1:] for s in segments])
    ticks = np.array([len(s.wake_ns) for s in segments])
    drifts = [_drift(segment, period_ns) for segment in segments]
    missed = sum(skipped(segment.deadline_ns, period_ns) for segment in segments)
    drift = float(np.average(drifts, weights=ticks))
    p50, p90, p99 = np.quantile(late_us, (0.5, 0.9, 0.99))
    return Punctuality(
        ticks=int(ticks.sum()),
        missed=missed,
        rate_error_percent=100.0 * (drift - missed / (int(ticks.sum()) + missed)),
        drift_percent=100.0 * drift,
        p50_us=float(p50),
        p90_us=float(p90),
        p99_us=float(p99),
        max_us=float(late_us.max()),
        cpu_us=1e6 * sum(s.cpu_s for s in segments) / int(ticks.sum()),
    )


def _drift(segment: Segment, period_ns: int) -> float:
    """Relative error of the rate but for skipped deadlines: of wake-ups moved back by every period that was skipped before them."""
    if len(segment.wake_ns) < 3:
        return 0.0
    since = segment.deadline_ns - segment.deadline_ns[0]
    late = np.rint(since / period_ns).astype(np.int64) - np.arange(len(since))
    return rate_error((segment.wake_ns - late * period_ns)[1:], period_ns)


def skipped(deadline_ns: np.ndarray, period_ns: int) -> int:
    """Deadlines left out between consecutive ones, shape (ticks,)."""
    return int(np.rint(np.diff(deadline_ns) / period_ns).sum()) - (len(deadline_ns) - 1)


def rate_error(stamp_ns: np.ndarray, period_ns: int) -> float:
    """Relative error of the rate: -0.01 where 1 % of the ticks is missing, whether skipped or by drift.

    Between the medians of the first and the last tenth, so that one late tick at an end does not pass for a wrong rate.

    Args:
        stamp_ns: one per tick, monotonic, shape (ticks,), at least two.
        period_ns: asked for.
    """
    offset = stamp_ns - stamp_ns[0] - np.arange(len(stamp_ns)) * float(period_ns)
    tenth = max(1, len(stamp_ns) // 10)
    asked = (len(stamp_ns) - tenth) * float(period_ns)
    taken = asked + float(np.median(offset[-tenth:]) - np.median(offset[:tenth]))
    return asked / taken - 1.0


def grid_lateness_us(stamp_ns: np.ndarray, period_ns: int) -> np.ndarray:
    """How late each tick is against an ideal grid of that period, shape (ticks,), us, from -1/8 to 7/8 of the period.

    For loops whose own deadlines are not known. The grid goes through the earliest ticks (the first percentile of those near the mean
    phase), so what every wake-up takes at least does not count. Whole periods that were skipped do not count either; a loop that drifts,
    or starts a new grid when it is late, wanders over the period.
    """
    since = (stamp_ns - stamp_ns[0]).astype(np.float64)
    mean = np.angle(np.exp(2j * np.pi * since / period_ns).mean()) * period_ns / (2 * np.pi)
    phase = _wrapped(since - mean, period_ns, 0.5)
    earliest = (
        np.quantile(phase[np.abs(phase) <= period_ns / 4], 0.01) if (np.abs(phase) <= period_ns / 4).any() else 0.0
    )
    return 1e-3 * _wrapped(phase - earliest, period_ns, 0.125)


def _wrapped(time_ns: np.ndarray, period_ns: int, below: float) -> np.ndarray:
    """Modulo the period, from -`below` periods on."""
    return np.mod(time_ns + below * period_ns, period_ns) - below * period_ns


def interval_error_us(stamp_ns: np.ndarray, period_ns: int) -> np.ndarray:
    """How far each interval between ticks is from the period, shape (ticks - 1,), us."""
    return 1e-3 * np.abs(np.diff(stamp_ns) - period_ns)
