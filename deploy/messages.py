"""What the processes say to each other: supervisor and operator to the runtime, the runtime to everybody."""

import time
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

TEXT_BYTES = 400


class Verdict(IntEnum):
    """A person's own judgement of an attempt."""

    NONE = 0
    SUCCESS = 1
    GIVE_UP = 2


class Leave(IntEnum):
    """What the runtime process does when told to end."""

    STAY = 0
    HOLD = 1  # leave the arm holding its pose
    DAMP = 2  # leave it limp


@dataclass(kw_only=True)
class ControlCommand:
    """The supervisor's wishes. A new `sequence` makes the requested mode act once; the rest always holds."""

    sequence: int = 0
    heartbeat_ns: int = 0  # monotonic
    mode: int = 0  # Mode
    episode: int = -1
    policy_index: int = 0
    target: tuple[float, float, float] = (0.0, 0.0, 0.0)  # m, base frame
    leave: int = Leave.STAY


@dataclass(kw_only=True)
class OperatorCommand:
    """A person's wishes at one moment."""

    sequence: int = 0
    heartbeat_ns: int = 0  # monotonic
    engaged: bool = False  # the person drives
    tip_velocity: tuple[float, float, float] = (0.0, 0.0, 0.0)  # m/s, base frame
    stop: bool = False
    verdict: int = Verdict.NONE


CONTROL_DTYPE = np.dtype(
    [
        ("sequence", "<i8"),
        ("heartbeat_ns", "<i8"),
        ("mode", "<i8"),
        ("episode", "<i8"),
        ("policy_index", "<i8"),
        ("target", "<f8", (3,)),
        ("leave", "<i8"),
    ]
)
OPERATOR_DTYPE = np.dtype(
    [
        ("sequence", "<i8"),
        ("heartbeat_ns", "<i8"),
        ("engaged", "<i8"),
        ("tip_velocity", "<f8", (3,)),
        ("stop", "<i8"),
        ("verdict", "<i8"),
    ]
)
EVENT_DTYPE = np.dtype(
    [
        ("monotonic_ns", "<i8"),
        ("wall_ns", "<i8"),
        ("kind", "S24"),
        ("episode", "<i8"),
        ("success", "<i8"),
        ("value", "<f8"),  # final error of an episode, m; NaN elsewhere
        ("operator", "S40"),
        ("text", f"S{TEXT_BYTES}"),
    ]
)


def status_dtype(num_joints: int) -> np.dtype:
    """What the runtime publishes every tick; angles in rad, robot order."""
    return np.dtype(
        [
            ("tick", "<i8"),
            ("monotonic_ns", "<i8"),
            ("mode", "<i8"),
            ("source", "<i8"),
            ("arrived", "<i8"),  # READY has reached the start pose
            ("accepted", "<i8"),  # sequence of the last control command that was looked at
            ("policy_index", "<i8"),
            ("episode", "<i8"),
            ("target", "<f8", (3,)),  # m, base frame
            ("joint_pos", "<f8", (num_joints,)),
            ("executed_target", "<f8", (num_joints,)),
            ("tip", "<f8", (3,)),  # m, base frame, by the model's kinematics from the measured joints
            ("missed", "<i8"),
            ("dropped", "<i8"),  # ticks that the recorder was too slow for
            ("lateness_p50_us", "<f8"),
            ("lateness_p99_us", "<f8"),
            ("lateness_max_us", "<f8"),
            ("max_temperature", "<f8"),  # deg C
            ("faults", "<i8"),
            ("fault", f"S{TEXT_BYTES}"),
            ("granted", "S200"),  # what the operating system allowed of real-time priority and memory locking
        ]
    )


def to_record(message: ControlCommand | OperatorCommand, dtype: np.dtype) -> np.ndarray:
    """A message as a structured record, shape ()."""
    return np.array(tuple(getattr(message, name) for name in dtype.names or ()), dtype=dtype)


def control_from_record(record: np.ndarray) -> ControlCommand:
    """The inverse of `to_record` for a control command."""
    sequence, heartbeat_ns, mode, episode, policy_index, target, leave = record.item()
    return ControlCommand(
        sequence=sequence,
        heartbeat_ns=heartbeat_ns,
        mode=mode,
        episode=episode,
        policy_index=policy_index,
        target=tuple(float(v) for v in target),  # pyright: ignore[reportArgumentType]
        leave=leave,
    )


def operator_from_record(record: np.ndarray) -> OperatorCommand:
    """The inverse of `to_record` for an operator's command."""
    sequence, heartbeat_ns, engaged, velocity, stop, verdict = record.item()
    return OperatorCommand(
        sequence=sequence,
        heartbeat_ns=heartbeat_ns,
        engaged=bool(engaged),
        tip_velocity=tuple(float(v) for v in velocity),  # pyright: ignore[reportArgumentType]
        stop=bool(stop),
        verdict=verdict,
    )


def text(field: bytes | np.bytes_) -> str:
    """A fixed-size text field as str."""
    return bytes(field).decode("utf-8", "replace")


def make_event(
    kind: str,
    *,
    monotonic_ns: int,
    episode: int = -1,
    success: int = -1,
    value: float = float("nan"),
    operator: str = "",
    text: str = "",
) -> np.ndarray:
    """Something that happened, as a record of EVENT_DTYPE; `success` is 1, 0, or -1 where it means nothing."""
    values = (monotonic_ns, time.time_ns(), kind.encode(), episode, success, value, operator.encode(), text.encode())
    return np.array(values, dtype=EVENT_DTYPE)
