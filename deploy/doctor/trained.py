"""What a bundle knows of training, by raw signal in the robot's joint order: quantiles, mean, spread."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from isthmus.hardware.robot import RobotSpec
from isthmus.hardware.signals import SIGNALS
from isthmus.policies.bundle import Bundle

_OF_JOINTS = tuple(spec.name for spec in SIGNALS if spec.width == "joints")


@dataclass(frozen=True, kw_only=True, eq=False)
class Range:
    """How the values of a signal were distributed; shape (w,) each."""

    low: np.ndarray  # of which one in a thousand is lower
    high: np.ndarray
    middle: np.ndarray
    quarter: np.ndarray
    three_quarters: np.ndarray
    mean: np.ndarray
    spread: np.ndarray  # standard deviation


@dataclass(frozen=True, kw_only=True, eq=False)
class Trained:
    """By signal. `whole`: of every tick of training, not only of the golden rows."""

    ranges: Mapping[str, Range]
    whole: bool


def trained(bundle: Bundle, robot: RobotSpec) -> Trained:
    """From the bundle's distribution, or from its golden rows where it has none."""
    contract, known = bundle.manifest.contract, bundle.manifest.distribution
    order = [contract.joint_names.index(name) for name in robot.joint_names if name in contract.joint_names]

    def in_order(name: str, table: np.ndarray) -> np.ndarray:
        return table[order] if name in _OF_JOINTS and len(table) == len(order) else table

    if known is None:
        rows = {name: bundle.golden[name].astype(np.float64).T for name in contract.signals if name in bundle.golden}
        return Trained(ranges={n: _of_rows(in_order(n, table)) for n, table in rows.items()}, whole=False)
    p = np.array(known.probabilities)
    return Trained(
        ranges={s.name: _of_quantiles(p, in_order(s.name, np.array(s.quantiles))) for s in known.signals}, whole=True
    )


def _of_rows(table: np.ndarray) -> Range:
    """(w, rows)."""
    low, quarter, middle, three, high = np.quantile(table, (0.001, 0.25, 0.5, 0.75, 0.999), axis=1)
    return Range(
        low=low,
        high=high,
        middle=middle,
        quarter=quarter,
        three_quarters=three,
        mean=table.mean(1),
        spread=table.std(1),
    )


def _of_quantiles(p: np.ndarray, table: np.ndarray) -> Range:
    """Quantiles (w, P) at probabilities (P,); moments by straight lines between them."""
    dense = (np.arange(2000) + 0.5) / 2000
    drawn = np.stack([np.interp(dense, p, row) for row in table])
    low, quarter, middle, three, high = (
        np.stack([np.interp(at, p, row) for row in table]) for at in (0.001, 0.25, 0.5, 0.75, 0.999)
    )
    return Range(
        low=low,
        high=high,
        middle=middle,
        quarter=quarter,
        three_quarters=three,
        mean=drawn.mean(1),
        spread=drawn.std(1),
    )
