"""Whether a challenger policy replaces the champion: both are run on the same targets, and only a win counts."""

from dataclasses import dataclass
from math import comb

import numpy as np

from isthmus.hardware.errors import IsthmusError


class PromotionError(IsthmusError, ValueError):
    """Two evaluations cannot be compared."""


@dataclass(frozen=True, kw_only=True)
class EvaluationResults:
    """How one policy did on k targets, in the order of the targets."""

    policy_id: str
    targets: np.ndarray  # (k, 3) m, robot base frame
    success: np.ndarray  # (k,) bool
    final_error_m: np.ndarray  # (k,) m


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The comparison of a challenger with a champion."""

    promote: bool
    reason: str
    champion_successes: int
    challenger_successes: int
    targets: int
    success_p_value: float  # one-sided exact McNemar: a success gain at least this large by chance
    error_change_m: float  # mean of challenger minus champion; negative is better
    error_interval_m: tuple[float, float]  # paired bootstrap interval of that mean


def mcnemar_p_value(gained: int, lost: int) -> float:
    """One-sided exact McNemar test: P(X >= gained), X ~ Binomial(gained + lost, 1/2); 1 when nothing differs."""
    discordant = gained + lost
    return sum(comb(discordant, k) for k in range(gained, discordant + 1)) / 2**discordant


def paired_bootstrap_interval(
    differences: np.ndarray, *, confidence: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean of paired differences, shape (k,), in their unit."""
    rng = np.random.default_rng(seed)
    means = differences[rng.integers(0, len(differences), (resamples, len(differences)))].mean(axis=1)
    low, high = np.quantile(means, [0.5 - confidence / 2, 0.5 + confidence / 2])
    return float(low), float(high)


def compare(
    champion: EvaluationResults, challenger: EvaluationResults, *, confidence: float = 0.95, seed: int = 0
) -> Verdict:
    """Judge a challenger on the champion's targets.

    It wins with more successes if that gain, or a smaller error with it, is more than chance; with equal successes only by a
    significantly smaller error. Fewer successes and ties never win.

    Raises:
        PromotionError: other targets, none, or errors that are not finite.
    """
    _check(champion, challenger)
    before, after = champion.success.astype(bool), challenger.success.astype(bool)
    differences = challenger.final_error_m - champion.final_error_m
    interval = paired_bootstrap_interval(differences, confidence=confidence, seed=seed)
    p_value = mcnemar_p_value(int((after & ~before).sum()), int((before & ~after).sum()))
    promote, reason = _judge(int(after.sum()) - int(before.sum()), p_value < 1 - confidence, interval[1] < 0)
    return Verdict(
        promote=promote,
        reason=reason,
        champion_successes=int(before.sum()),
        challenger_successes=int(after.sum()),
        targets=len(before),
        success_p_value=p_value,
        error_change_m=float(differences.mean()),
        error_interval_m=interval,
    )


def _judge(gain: int, success_significant: bool, error_smaller: bool) -> tuple[bool, str]:
    if gain < 0:
        return False, f"{-gain} fewer successes"
    if gain > 0 and success_significant:
        return True, f"{gain} more successes, more than chance explains"
    if error_smaller:
        return (
            True,
            f"{gain} more successes and a significantly smaller error" if gain else "equal successes, smaller error",
        )
    if gain > 0:
        return False, f"{gain} more successes, but chance explains that and the error is not significantly smaller"
    return False, "a tie: equal successes, and the error is not significantly smaller"


def _check(champion: EvaluationResults, challenger: EvaluationResults) -> None:
    if len(champion.targets) == 0 or not np.array_equal(champion.targets, challenger.targets):
        raise PromotionError(
            f"champion and challenger must be evaluated on the same targets, got {len(champion.targets)} and "
            f"{len(challenger.targets)} that differ or are none; run both with the same seed and count"
        )
    for results in (champion, challenger):
        count = len(results.targets)
        if results.success.shape != (count,) or results.final_error_m.shape != (count,):
            raise PromotionError(
                f"policy {results.policy_id}: success and final_error_m need one value for each of {count} targets"
            )
        if not np.isfinite(results.final_error_m).all():
            raise PromotionError(
                f"policy {results.policy_id}: final_error_m has values that are not finite; evaluate again"
            )
