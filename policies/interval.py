"""Intervals of success rates."""

from math import sqrt
from statistics import NormalDist


def wilson_interval(successes: int, trials: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """Score interval of a success rate (E. B. Wilson, J. Am. Stat. Assoc. 22, 1927).

    Raises:
        ValueError: no trials, or more successes than trials.
    """
    if trials < 1 or not 0 <= successes <= trials:
        raise ValueError(f"an interval needs 0 <= successes <= trials and trials >= 1, got {successes} of {trials}")
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    rate = successes / trials
    centre = rate + z * z / (2 * trials)
    half = z * sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    return max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale)
