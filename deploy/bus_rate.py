"""Whether a bus can carry a policy's rate, found out before anything moves."""

import time
from dataclasses import dataclass

import numpy as np

from isthmus.hardware.errors import BusTooSlow
from isthmus.hardware.interface import Robot

_READS = 20
_SHARE = 0.8  # of a control period that reading may take; the rest is for inference and the command


@dataclass(frozen=True, kw_only=True)
class BusRate:
    """How long one reading of all joints takes."""

    fastest_s: float  # what the bus can do
    median_s: float  # what it does on this computer as busy as it is

    @property
    def most_hz(self) -> float:
        """Highest control rate that the bus can carry."""
        return _SHARE / self.fastest_s


def check_bus_rate(robot: Robot, period_ns: int, *, reads: int = _READS) -> BusRate:
    """Measure some readings of a connected robot; writes nothing.

    The fastest one decides: the others tell how busy this computer is, and a bus that is too slow has no fast one.

    Raises:
        BusTooSlow: not even that fits into a control period; names both, the highest rate possible, and what to do.
        HardwareError: the robot cannot be read.
    """
    durations: list[float] = []
    for _ in range(reads):
        begin_ns = time.monotonic_ns()
        robot.read()
        durations.append((time.monotonic_ns() - begin_ns) * 1e-9)
    rate = BusRate(fastest_s=max(min(durations), 1e-9), median_s=float(np.median(durations)))
    if rate.fastest_s <= _SHARE * period_ns * 1e-9:
        return rate
    raise BusTooSlow(
        f"reading {len(robot.spec.joints)} joints takes {1e3 * rate.fastest_s:.2f} ms (the fastest of {reads}), and the policy's period is "
        f"{period_ns * 1e-6:g} ms ({1e9 / period_ns:g} Hz): this bus carries at most {rate.most_hz:.0f} Hz. Use a policy of a lower rate, "
        "a higher baud rate, or an adapter with a shorter latency timer"
    )
