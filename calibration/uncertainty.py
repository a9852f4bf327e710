"""Intervals of a least squares fit whose residuals are correlated and not purely noise."""

from dataclasses import dataclass

import numpy as np

from .identified import Estimate

BLOCK_S = 0.5  # residuals further apart are taken as independent
INFLATION = (
    2.0  # of standard deviations, for gear play and the like; tests/calibration counts how often truth is covered
)
MODEL_STD = np.array(
    [0.02, 0.02, 0.004, 0.001]
)  # model errors (step, play, offsets) seen on virtual arms, as PARAMETERS
IDENTIFIABLE_SHARE = 0.3  # of the prior's standard deviation
RATIO_CORRELATION = 0.9


@dataclass(frozen=True)
class Linearisation:
    """A fit at its solution: one row per residual, weights of the robust loss included."""

    jacobian: np.ndarray  # (rows, p)
    residuals: np.ndarray  # (rows,)
    weights: np.ndarray  # (rows,)
    blocks: np.ndarray  # (rows,) int, which block of time; -1 for rows of a prior


def covariance(fit: Linearisation) -> np.ndarray:
    """Sandwich covariance H^-1 M H^-1 with M summed over blocks of time (Newey and West 1987, as a block estimator).

    Returns:
        (p, p).
    """
    weighted = fit.jacobian * fit.weights[:, None]
    prior = fit.blocks < 0
    middle = weighted[prior].T @ fit.jacobian[prior]
    scores = weighted * fit.residuals[:, None]
    for block in np.unique(fit.blocks[~prior]):
        score = scores[fit.blocks == block].sum(axis=0)
        middle = middle + np.outer(score, score)
    bread = np.linalg.pinv(weighted.T @ fit.jacobian)
    return bread @ middle @ bread


def estimates(values: np.ndarray, cov: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> list[Estimate]:
    """Values with intervals; those that the log does not hold much better than the prior fall back to the prior.

    Args:
        values: (p,) fitted.
        cov: (p, p) from `covariance`.
        lower: (p,) lower ends of the prior.
        upper: (p,) upper ends of the prior.
    """
    std = np.sqrt(INFLATION**2 * np.diag(cov) + MODEL_STD**2)
    prior_std = (upper - lower) / np.sqrt(12.0)
    result = []
    for value, s, low, high, p in zip(values, std, lower, upper, prior_std, strict=True):
        if s > IDENTIFIABLE_SHARE * p:
            middle = (low + high) / 2
            result.append(
                Estimate(value=float(middle), lower=float(low), upper=float(high), std=float(p), identifiable=False)
            )
            continue
        ends = max(value - 1.96 * s, 0.0), value + 1.96 * s
        result.append(
            Estimate(value=float(value), lower=float(ends[0]), upper=float(ends[1]), std=float(s), identifiable=True)
        )
    return result


def ratio_estimate(values: np.ndarray, cov: np.ndarray, over: int, under: int) -> Estimate | None:
    """values[over] / values[under] where the two are too correlated to be told apart, else None."""
    scale = np.sqrt(cov[over, over] * cov[under, under])
    if scale <= 0 or abs(cov[over, under]) < RATIO_CORRELATION * scale:
        return None
    slope = np.zeros(len(values))
    slope[over], slope[under] = 1.0 / values[under], -values[over] / values[under] ** 2
    std = float(np.sqrt(INFLATION**2 * slope @ cov @ slope))
    value = float(values[over] / values[under])
    return Estimate(
        value=value, lower=max(value - 1.96 * std, 0.0), upper=value + 1.96 * std, std=std, identifiable=True
    )
