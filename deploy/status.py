"""The runtime's state as others see it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from isthmus.hardware.kinematics import chain_from_mjcf, tip_position
from isthmus.hardware.robot import RobotSpec
from isthmus.policies.episode import Source

from .messages import text
from .modes import Mode
from .runtime import Runtime
from .shm import Mailbox
from .sparkline import octaves

_STATUS_S = 0.01
_PERCENTILE_TICKS = 50  # from one reckoning of percentiles to the next


@dataclass(frozen=True, kw_only=True)
class Status:
    """The runtime after its last tick; angles in rad, robot order."""

    tick: int
    monotonic_ns: int
    mode: Mode
    arrived: bool  # READY has reached the start pose
    accepted: int  # sequence of the last control command that was looked at
    policy_index: int
    episode: int  # -1 outside an episode
    target: np.ndarray  # (3,) m, base frame
    joint_pos: np.ndarray  # (n,)
    executed_target: np.ndarray  # (n,)
    tip: (
        np.ndarray
    )  # (3,) m, base frame, by the model's kinematics from the measured joints; NaN for a robot without a tip
    missed: int
    dropped: int
    lateness_p50_us: float
    lateness_p99_us: float
    lateness_max_us: float
    lateness_counts: tuple[int, ...]  # of the bins of sparkline.LATENESS_EDGES_US
    max_temperature: float  # deg C
    bus_errors: int  # repaired by a retry, so far
    source: Source
    faults: int
    fault: str  # the last one, "" for none
    granted: str


def fill_status(record: np.ndarray, runtime: Runtime, *, granted: str, dropped: int) -> None:
    """Write the runtime's state into a record of `status_dtype`, shape ()."""
    if runtime.ticks // _PERCENTILE_TICKS != record["tick"] // _PERCENTILE_TICKS:
        record["lateness_p50_us"] = runtime.lateness.percentile(50)
        record["lateness_p99_us"] = runtime.lateness.percentile(99)
        record["lateness_max_us"] = runtime.lateness.max_us
        record["lateness_counts"] = octaves(runtime.lateness.counts)
    record["tick"] = runtime.ticks
    record["monotonic_ns"] = runtime.now_ns
    record["mode"] = runtime.mode
    record["source"] = runtime.sources.source
    record["arrived"] = runtime.sources.arrived
    record["accepted"] = runtime.control.sequence
    record["policy_index"] = runtime.proposer.index
    record["episode"] = runtime.episode
    record["target"] = runtime.target
    record["joint_pos"] = runtime.joint_pos
    record["executed_target"] = runtime.executed
    record["missed"] = runtime.missed
    record["dropped"] = dropped
    record["max_temperature"] = runtime.monitors.max_temperature
    record["bus_errors"] = runtime.monitors.errors
    record["faults"] = runtime.faults.count
    record["fault"] = runtime.fault.encode()
    record["granted"] = granted.encode()


class StatusPublisher:
    """Tells others of the runtime a hundred times a second, and at once of what is news."""

    def __init__(self, mailbox: Mailbox, runtime: Runtime, granted: str) -> None:
        """Publish to a mailbox of `status_dtype`; `granted` is what the operating system allowed."""
        self._mailbox, self._runtime, self._granted = mailbox, runtime, granted
        self._record = np.zeros((), dtype=mailbox.dtype)
        self._every = max(1, round(_STATUS_S * 1e9 / runtime.period_ns))
        self._news: tuple[int, ...] = ()

    def publish(self, *, dropped: int) -> bool:
        """After a tick: publish where it is due; `dropped` are records that the recorder was too slow for. Whether it was."""
        news = self._runtime.news
        if self._runtime.ticks % self._every and news == self._news:
            return False
        self._news = news
        fill_status(self._record, self._runtime, granted=self._granted, dropped=dropped)
        self._mailbox.write(self._record)
        return True


TipOf = Callable[[np.ndarray], np.ndarray]
"""Measured joints (n,), rad -> tip (3,), m, base frame."""


def tip_of(spec: RobotSpec) -> TipOf:
    """A robot's tip by its model; NaN for one without a tip."""
    if spec.tip_site is None:
        return lambda joint_pos: np.full(3, np.nan)
    chain = chain_from_mjcf(spec.model_path, spec.tip_site)
    indices = [spec.joint_names.index(name) for name in chain.joint_names]
    return lambda joint_pos: tip_position(chain, joint_pos[indices])


def status_from_record(record: np.ndarray, tip: TipOf) -> Status:
    """The inverse of `fill_status`."""
    return Status(
        tick=int(record["tick"]),
        monotonic_ns=int(record["monotonic_ns"]),
        mode=Mode(int(record["mode"])),
        arrived=bool(record["arrived"]),
        accepted=int(record["accepted"]),
        policy_index=int(record["policy_index"]),
        episode=int(record["episode"]),
        target=record["target"].copy(),
        joint_pos=record["joint_pos"].copy(),
        executed_target=record["executed_target"].copy(),
        tip=tip(record["joint_pos"]),
        missed=int(record["missed"]),
        dropped=int(record["dropped"]),
        lateness_p50_us=float(record["lateness_p50_us"]),
        lateness_p99_us=float(record["lateness_p99_us"]),
        lateness_max_us=float(record["lateness_max_us"]),
        lateness_counts=tuple(record["lateness_counts"].tolist()),
        max_temperature=float(record["max_temperature"]),
        bus_errors=int(record["bus_errors"]),
        source=Source(int(record["source"])),
        faults=int(record["faults"]),
        fault=text(record["fault"].item()),
        granted=text(record["granted"].item()),
    )
