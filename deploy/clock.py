"""Time for the runtime: the wall's own, or a simulator's that stands still until it is asked to pass."""

import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """Monotonic time in ns."""

    def now_ns(self) -> int:
        """The present."""
        ...

    def sleep_until(self, deadline_ns: int) -> None:
        """Return at the deadline or soon after it; at once where it has passed."""
        ...

    def from_monotonic(self, stamp_ns: int) -> int:
        """A driver's CLOCK_MONOTONIC stamp of just now, on this clock."""
        ...


class RealClock:
    """CLOCK_MONOTONIC, the same in every process of a machine."""

    def now_ns(self) -> int:
        """Nanoseconds since an arbitrary start."""
        return time.monotonic_ns()

    def sleep_until(self, deadline_ns: int) -> None:
        """Sleep to an absolute deadline, so that lateness does not add up."""
        while (remaining := deadline_ns - time.monotonic_ns()) > 0:
            time.sleep(remaining * 1e-9)

    def from_monotonic(self, stamp_ns: int) -> int:
        """The same clock: unchanged."""
        return stamp_ns


class LockstepClock:
    """A clock that passes only inside `sleep_until`, which advances a simulated robot by the same time."""

    def __init__(self, advance: Callable[[float], object], *, start_ns: int = 0) -> None:
        """`advance(dt)` lets `dt` seconds pass on the robot."""
        self._advance = advance
        self._now_ns = start_ns

    def now_ns(self) -> int:
        """Time slept so far, plus the start."""
        return self._now_ns

    def sleep_until(self, deadline_ns: int) -> None:
        """Advance the robot to the deadline."""
        if deadline_ns > self._now_ns:
            self._advance((deadline_ns - self._now_ns) * 1e-9)
            self._now_ns = deadline_ns

    def from_monotonic(self, stamp_ns: int) -> int:
        """The present: between two sleeps no time passes, however long the bus took."""
        return self._now_ns
