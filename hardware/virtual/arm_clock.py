"""What time it is for the virtual arm, and how its physics gets there."""

from collections.abc import Callable
from typing import Protocol

from .twin import Twin
from .twin_model import TIMESTEP_S

MAX_BURST_S = 0.1  # after a stall the arm loses time instead of racing


class ArmClock(Protocol):
    """Simulated time; never decreases."""

    def now(self) -> float:
        """Bring the physics up to the present and say what time it is, in s."""
        ...

    def advance(self, dt_s: float) -> None:
        """Let time pass; raises ValueError where it passes by itself."""
        ...


class WallClock:
    """Real time, in physics steps; `monotonic` gives it in s."""

    def __init__(self, twin: Twin, monotonic: Callable[[], float]) -> None:
        self._twin, self._monotonic = twin, monotonic
        self._start = monotonic()

    def now(self) -> float:
        """Bring the physics up to the wall clock, at most 100 ms at once."""
        now = self._monotonic() - self._start
        behind = now - self._twin.time_s
        if behind > MAX_BURST_S:
            self._start += behind - MAX_BURST_S
            now -= behind - MAX_BURST_S
        self._twin.advance(int((now - self._twin.time_s) / TIMESTEP_S))
        return now

    def advance(self, dt_s: float) -> None:
        """Raises ValueError: nobody moves real time."""
        raise ValueError("this arm runs in real time; start it with --lockstep to advance time by hand")


class LockstepClock:
    """Time that stands still until somebody advances it."""

    def __init__(self, twin: Twin) -> None:
        self._twin, self._target_s = twin, 0.0

    def now(self) -> float:
        """The standing time."""
        return self._twin.time_s

    def advance(self, dt_s: float) -> None:
        """Simulate `dt_s`; what is less than a physics step adds up."""
        if not 0 < dt_s <= 60:
            raise ValueError(f"dt_s must lie within 0 .. 60 s, got {dt_s}")
        self._target_s += dt_s
        self._twin.advance(round((self._target_s - self._twin.time_s) / TIMESTEP_S))
