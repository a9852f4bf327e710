"""A histogram in one line of text."""

import math
from collections.abc import Sequence

import numpy as np

LATENESS_EDGES_US = tuple(float(m * 10**k) for k in range(5) for m in (1, 2, 5))
"""Upper edges of the bins of lateness, us: three in each decade from 1 us to 50 ms; one more bin holds what is later."""

_BARS, _ASCII_BARS = " ▁▂▃▄▅▆▇█", " .:-=+*#@"


def lateness_bins(counts: np.ndarray, bin_us: float) -> tuple[int, ...]:
    """Counts (k,) of bins of equal width, us, the last one open, as counts of the bins of LATENESS_EDGES_US and one more."""
    upper = (np.arange(len(counts)) + 1) * bin_us
    bins = np.searchsorted(LATENESS_EDGES_US, upper * (1 - 1e-9))
    bins[-1] = max(bins[-1], np.searchsorted(LATENESS_EDGES_US, upper[-1] * (1 + 1e-9)))
    return tuple(int(n) for n in np.bincount(bins, weights=counts, minlength=len(LATENESS_EDGES_US) + 1))


def sparkline(counts: Sequence[int], *, ascii_only: bool = False) -> str:
    """One character a bin; heights are logarithms, so that one late tick in a million is still seen."""
    bars = _ASCII_BARS if ascii_only else _BARS
    most = max(counts, default=0)
    if most <= 0:
        return bars[0] * len(counts)
    full = math.log1p(most)
    return "".join(bars[math.ceil((len(bars) - 1) * math.log1p(max(n, 0)) / full)] for n in counts)
