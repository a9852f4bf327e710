"""When each tick was due, when the loop woke up for it and when it read the robot: taken from outside the runtime, in fixed memory."""

import time

import numpy as np

from ..clock import RealClock

CAPACITY = 1 << 17  # ticks; later ones write over the oldest


class Stamps:
    """Three times of each tick since `restart`; `total` counts all ticks."""

    def __init__(self) -> None:
        # Filled, so that every page is there before the first tick.
        self._ns = np.full((CAPACITY, 3), -1, dtype=np.int64)
        self.ticks = self.total = 0

    def restart(self) -> None:
        """Forget what is there."""
        self.ticks = 0

    def wake(self, deadline_ns: int, now_ns: int) -> None:
        """The loop has slept."""
        row = self._ns[self.ticks % CAPACITY]
        row[0] = deadline_ns
        row[1] = now_ns

    def read(self, now_ns: int) -> None:
        """The robot is read, which ends the entry."""
        self._ns[self.ticks % CAPACITY, 2] = now_ns
        self.ticks += 1
        self.total += 1

    def columns(self) -> np.ndarray:
        """Deadlines, wake-ups and reads, shape (3, ticks), int64, monotonic ns; raises ValueError where the oldest are lost."""
        if self.ticks > CAPACITY:
            raise ValueError(f"{self.ticks} ticks were stamped, there is room for {CAPACITY}")
        return self._ns[: self.ticks].T.copy()


class StampingClock(RealClock):
    """The real clock, and a note of how late every sleep ended."""

    def __init__(self, stamps: Stamps) -> None:
        """Notes go to `stamps`."""
        self._stamps = stamps
        self.pause_s: float | None = None  # what every sleep lasts, whatever the deadline; None: until the deadline

    def sleep_until(self, deadline_ns: int) -> None:
        """See Clock."""
        if self.pause_s is None:
            super().sleep_until(deadline_ns)
        else:
            time.sleep(self.pause_s)
        self._stamps.wake(deadline_ns, time.monotonic_ns())
