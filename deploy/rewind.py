"""The path of executed targets, to drive back along it."""

import numpy as np


class Path:
    """The last targets that were executed, in memory that does not grow.

    `mark` remembers a place that was good: where the policy went on by itself and asked for nobody. Going back ends at the newest good
    place that lies far enough back.
    """

    def __init__(self, num_joints: int, capacity: int, *, speed: float, least: int) -> None:
        """Nothing yet.

        Args:
            num_joints: of the targets.
            capacity: ticks to remember.
            speed: ticks of the path for each tick on the way back.
            least: ticks that going back covers at least, where there are so many.
        """
        self._targets = np.zeros((capacity, num_joints))
        self._good = np.zeros(capacity, dtype=bool)
        self._speed, self._least = speed, least
        self._end = self._count = 0  # where the next goes; how many are remembered
        self._left = self._goal = (
            0.0  # while going back: ticks of the path that lie before here, and before where it ends
        )

    def clear(self) -> None:
        """Forget everything."""
        self._end = self._count = 0

    def add(self, target: np.ndarray, *, good: bool) -> None:
        """A target (n,), rad, was executed."""
        self._targets[self._end] = target
        self._good[self._end] = good
        self._end = (self._end + 1) % len(self._targets)
        self._count = min(self._count + 1, len(self._targets))

    def begin(self) -> None:
        """Start going back from the newest."""
        self._left = float(max(self._count - 1, 0))
        latest = max(self._count - 1 - self._least, 0)
        good = np.flatnonzero(self._good[self._place(np.arange(latest + 1))])
        self._goal = float(good[-1]) if len(good) else 0.0

    def back(self) -> np.ndarray | None:
        """The target of the next tick on the way back, (n,) rad; None where it ends."""
        if self._left <= self._goal:
            return None
        self._left = max(self._left - self._speed, self._goal)
        low = int(self._left)
        share = self._left - low
        before, after = (self._targets[self._place(min(low + more, self._count - 1))] for more in (0, 1))
        return (1.0 - share) * before + share * after

    def cut(self) -> None:
        """Forget what lies after where going back has come to."""
        kept = int(self._left) + 1 if self._count else 0
        self._end = (self._end - (self._count - kept)) % len(self._targets)
        self._count = kept

    def _place(self, index: int | np.ndarray) -> int | np.ndarray:
        """Where a tick of the path is kept, by its number, oldest first."""
        return (self._end - self._count + index) % len(self._targets)
