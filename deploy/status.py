"""The runtime's state as others see it."""

from dataclasses import dataclass

import numpy as np

from .messages import text
from .modes import Mode
from .runtime import Runtime


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
    tip: np.ndarray  # (3,) m, base frame, by the model's kinematics from the measured joints
    missed: int
    dropped: int
    lateness_p50_us: float
    lateness_p99_us: float
    lateness_max_us: float
    max_temperature: float  # deg C
    faults: int
    fault: str  # the last one, "" for none
    granted: str


def fill_status(record: np.ndarray, runtime: Runtime, *, granted: str, dropped: int) -> None:
    """Write the runtime's state into a record of `status_dtype`, shape ()."""
    if runtime.ticks % 50 == 1:
        record["lateness_p50_us"] = runtime.lateness.percentile(50)
        record["lateness_p99_us"] = runtime.lateness.percentile(99)
        record["lateness_max_us"] = runtime.lateness.max_us
    record["tick"] = runtime.ticks
    record["monotonic_ns"] = runtime.now_ns
    record["mode"] = runtime.mode
    record["source"] = runtime.source
    record["arrived"] = runtime.arrived
    record["accepted"] = runtime.control.sequence
    record["policy_index"] = runtime.policy_index
    record["episode"] = runtime.episode
    record["target"] = runtime.target
    record["joint_pos"] = runtime.joint_pos
    record["executed_target"] = runtime.executed
    record["tip"] = runtime.tip()
    record["missed"] = runtime.missed
    record["dropped"] = dropped
    record["max_temperature"] = runtime.max_temperature
    record["faults"] = runtime.faults
    record["fault"] = runtime.fault.encode()
    record["granted"] = granted.encode()


def status_from_record(record: np.ndarray) -> Status:
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
        tip=record["tip"].copy(),
        missed=int(record["missed"]),
        dropped=int(record["dropped"]),
        lateness_p50_us=float(record["lateness_p50_us"]),
        lateness_p99_us=float(record["lateness_p99_us"]),
        lateness_max_us=float(record["lateness_max_us"]),
        max_temperature=float(record["max_temperature"]),
        faults=int(record["faults"]),
        fault=text(record["fault"].item()),
        granted=text(record["granted"].item()),
    )
