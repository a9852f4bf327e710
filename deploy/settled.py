"""When an attempt counts as having arrived."""

import numpy as np

TOLERANCE_M = 0.010
DWELL_S = 0.5


class Settled:
    """Whether the tip has been within tolerance of the target for long enough, without a break."""

    def __init__(self, target: np.ndarray, *, tolerance_m: float = TOLERANCE_M, dwell_s: float = DWELL_S) -> None:
        """Judge against `target`, shape (3,), m."""
        self._target, self._tolerance_m, self._dwell_ns = target, tolerance_m, round(dwell_s * 1e9)
        self._since_ns: int | None = None
        self.error_m = float("inf")

    def update(self, tip: np.ndarray, now_ns: int) -> bool:
        """Look at the tip, shape (3,), m, now."""
        self.error_m = float(np.linalg.norm(tip - self._target))
        if self.error_m > self._tolerance_m:
            self._since_ns = None
        elif self._since_ns is None:
            self._since_ns = now_ns
        return self._since_ns is not None and now_ns - self._since_ns >= self._dwell_ns
