"""What the processes say to each other: supervisor and operator to the runtime, the runtime to everybody."""

import time
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from .sparkline import OCTAVES

TEXT_BYTES = 400
MAX_VALUES = 32  # numbers that a person can give at once


class Verdict(IntEnum):
    """A person's own judgement of an attempt."""

    NONE = 0
    SUCCESS = 1
    GIVE_UP = 2


class Drive(IntEnum):
    """What a person's numbers mean while they drive."""

    TIP_VELOCITY = 0  # (3,) m/s, robot base frame
    JOINT_VELOCITY = 1  # (n,) rad/s, robot order
    JOINT_TARGET = 2  # (n,) rad, absolute: a leader arm's own angles; what is NaN keeps its target
    JOINT_OFFSET = 3  # (n,) rad since the clutch closed: how far a leader has moved; what is NaN keeps its target
    COMMAND = 4  # (w,) the policy's command, in its unit: the policy drives on and is told where to


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
    pressed_ns: int = 0  # monotonic, when the person last did something; 0: never
    engaged: bool = False  # the person drives
    drive: int = Drive.TIP_VELOCITY  # what `values` mean
    values: tuple[float, ...] = (0.0, 0.0, 0.0)  # at most MAX_VALUES
    rewind: bool = False  # while true the robot goes back along its path
    resume: bool = False  # the policy that waits for help may go on by itself
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
        ("pressed_ns", "<i8"),
        ("engaged", "<i8"),
        ("drive", "<i8"),
        ("count", "<i8"),
        ("values", "<f8", (MAX_VALUES,)),
        ("rewind", "<i8"),
        ("resume", "<i8"),
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
            ("missed", "<i8"),
            ("dropped", "<i8"),  # ticks that the recorder was too slow for
            ("lateness_p50_us", "<f8"),
            ("lateness_p99_us", "<f8"),
            ("lateness_max_us", "<f8"),
            ("lateness_counts", "<i8", (OCTAVES,)),
            ("max_temperature", "<f8"),  # deg C
            ("bus_errors", "<i8"),
            ("faults", "<i8"),
            ("fault", f"S{TEXT_BYTES}"),
            ("granted", "S200"),  # what the operating system allowed of real-time priority and memory locking
        ]
    )


def control_record(message: ControlCommand) -> np.ndarray:
    """A control command as a record of CONTROL_DTYPE, shape ()."""
    return np.array(tuple(getattr(message, name) for name in CONTROL_DTYPE.names or ()), dtype=CONTROL_DTYPE)


def control_from_record(record: np.ndarray) -> ControlCommand:
    """The inverse of `control_record`."""
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


def operator_record(message: OperatorCommand) -> np.ndarray:
    """An operator's command as a record of OPERATOR_DTYPE, shape (); raises ValueError for more than MAX_VALUES values."""
    count = len(message.values)
    if count > MAX_VALUES:
        raise ValueError(f"an operator gave {count} values, at most {MAX_VALUES} are possible")
    record = np.zeros((), dtype=OPERATOR_DTYPE)
    for name in OPERATOR_DTYPE.names or ():
        if name not in ("count", "values"):
            record[name] = getattr(message, name)
    record["count"] = count
    record["values"][:count] = message.values
    return record


def operator_from_record(record: np.ndarray) -> OperatorCommand:
    """The inverse of `operator_record`."""
    fields = dict(zip(OPERATOR_DTYPE.names or (), record.item(), strict=True))
    count, values = fields.pop("count"), fields.pop("values")
    flags = {name: bool(fields.pop(name)) for name in ("engaged", "rewind", "resume", "stop")}
    return OperatorCommand(values=tuple(float(v) for v in values[:count]), **flags, **fields)


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
