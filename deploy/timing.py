"""Lateness of the control loop, in fixed memory."""

import math

_PER_OCTAVE = 16  # bins: 4 % wide each
_BINS = 16 * _PER_OCTAVE  # 1 us up to 65 ms; earlier is counted in the first bin, later in the last


class Lateness:
    """A histogram of how late each tick woke up."""

    def __init__(self) -> None:
        self.counts = [0] * _BINS
        self.max_us = 0.0

    def add(self, lateness_us: float) -> None:
        """Count one tick."""
        place = int(_PER_OCTAVE * math.log2(lateness_us)) if lateness_us > 1.0 else 0
        self.counts[place if place < _BINS else -1] += 1
        if lateness_us > self.max_us:
            self.max_us = lateness_us

    def percentile(self, percent: float) -> float:
        """Upper edge of the bin that holds this percentile, us; 0 before the first tick."""
        wanted, found = sum(self.counts) * percent / 100.0, 0
        for place, count in enumerate(self.counts):
            found += count
            if count and found >= wanted:
                return 2.0 ** ((place + 1) / _PER_OCTAVE)
        return 0.0
