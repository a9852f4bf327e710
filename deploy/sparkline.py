"""A histogram in one line of text."""

import math
from collections.abc import Sequence

OCTAVES = 16
LATENESS_EDGES_US = tuple(2.0**k for k in range(1, OCTAVES + 1))
"""Upper edges of the bins of lateness, us: each twice the last one; the first bin holds what is earlier, the last what is later."""

_BARS, _ASCII_BARS = " ▁▂▃▄▅▆▇█", " .:-=+*#@"


def octaves(counts: Sequence[int]) -> tuple[int, ...]:
    """Counts of finer bins, the same number in each octave from 1 us on as in `timing.Lateness`, as counts of LATENESS_EDGES_US."""
    each = len(counts) // OCTAVES
    return tuple(sum(counts[k * each : (k + 1) * each]) for k in range(OCTAVES))


def sparkline(counts: Sequence[int], *, ascii_only: bool = False) -> str:
    """One character a bin; heights are logarithms, so that one late tick in a million is still seen."""
    bars = _ASCII_BARS if ascii_only else _BARS
    most = max(counts, default=0)
    if most <= 0:
        return bars[0] * len(counts)
    full = math.log1p(most)
    return "".join(bars[math.ceil((len(bars) - 1) * math.log1p(max(n, 0)) / full)] for n in counts)
