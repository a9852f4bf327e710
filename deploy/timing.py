"""Lateness of the control loop, in fixed memory."""

import numpy as np

_BIN_US = 10.0
_BINS = 5000  # up to 50 ms; later is counted in the last bin


class Lateness:
    """A histogram of how late each tick woke up."""

    def __init__(self) -> None:
        self._counts = np.zeros(_BINS, dtype=np.int64)
        self.max_us = 0.0

    def add(self, lateness_us: float) -> None:
        """Count one tick."""
        self._counts[min(int(max(lateness_us, 0.0) / _BIN_US), _BINS - 1)] += 1
        self.max_us = max(self.max_us, lateness_us)

    def percentile(self, percent: float) -> float:
        """Upper edge of the bin that holds this percentile, us; 0 before the first tick."""
        total = int(self._counts.sum())
        if total == 0:
            return 0.0
        return float(np.searchsorted(np.cumsum(self._counts), total * percent / 100.0) + 1) * _BIN_US
