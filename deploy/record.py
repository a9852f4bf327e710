"""Ticks and events -> MCAP: by a process that drains the runtime's ring, or in-process in lockstep.

JSON messages on /tick and /event with a JSON schema, so that any MCAP tool reads them; numbers that are not finite are null. Chunks hold
about a quarter of a second and are handed to the operating system at once: a killed recorder loses no more than that.
"""

import json
import signal
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import parent_process
from pathlib import Path
from typing import Any

import numpy as np
from mcap.well_known import MessageEncoding, SchemaEncoding
from mcap.writer import CompressionType, Writer

from isthmus.hardware.interface import Robot
from isthmus.policies.episode import TICK_FIELDS, Further, tick_dtype
from isthmus.policies.policy import Policy

from .bound_policy import BoundPolicy, body_of, further_fields
from .messages import EVENT_DTYPE, text
from .shm import Ring

_CHUNK_S = 0.25
_BYTES_PER_NUMBER = 20
_DRAIN_S = 0.05
_ORPHAN_S = 2.0


@dataclass(frozen=True, kw_only=True)
class LogMetadata:
    """What a log was recorded from."""

    robot: str
    joint_names: tuple[str, ...]
    policy_ids: tuple[str, ...]
    num_actions: int
    period_ns: int
    calibration: str  # where the joint calibration came from, or its text; "" for a robot without one
    lockstep: bool
    further: Further = ()  # what ticks hold besides the usual fields; the first logs had nothing

    @property
    def dtype(self) -> np.dtype:
        """Of a tick."""
        return tick_dtype(len(self.joint_names), self.num_actions, self.further)


def metadata_of(
    robot: Robot, policies: Sequence[Policy], *, period_ns: int, calibration: str, lockstep: bool
) -> LogMetadata:
    """Metadata of a session; the action columns are as wide as the widest policy needs.

    Raises:
        BindingError: a policy does not fit the robot.
    """
    spec = robot.spec
    body = body_of(robot)
    bound = [BoundPolicy(policy, body, period_ns, policy.num_actions) for policy in policies]
    return LogMetadata(
        robot=spec.name,
        joint_names=spec.joint_names,
        policy_ids=tuple(policy.policy_id for policy in policies),
        num_actions=max((policy.num_actions for policy in policies), default=0),
        period_ns=period_ns,
        calibration=calibration,
        lockstep=lockstep,
        further=further_fields(body, bound),
    )


class RecordWriter:
    """Writes one MCAP file; a `Sink` for a runtime in the same process."""

    def __init__(self, path: Path, metadata: LogMetadata) -> None:
        """Create the file and write its metadata; raises OSError where the path cannot be written."""
        path.parent.mkdir(parents=True, exist_ok=True)
        dtype = metadata.dtype
        numbers = sum(int(np.prod(dtype[name].shape, dtype=int)) for name in dtype.names or ())
        chunk_bytes = max(4096, round(_CHUNK_S / (metadata.period_ns * 1e-9) * numbers * _BYTES_PER_NUMBER))
        self._file = path.open("wb")
        self._writer = Writer(self._file, chunk_size=chunk_bytes, compression=CompressionType.ZSTD)
        self._writer.start(profile="", library="isthmus")
        self._writer.add_metadata("isthmus", {key: json.dumps(value) for key, value in asdict(metadata).items()})
        self._tick_channel = self._channel("/tick", _tick_schema(dtype))
        self._event_channel = self._channel("/event", _EVENT_SCHEMA)
        self._names = dtype.names or ()
        self._last_flush = time.monotonic()
        self._file.flush()

    def _channel(self, topic: str, schema: dict[str, Any]) -> int:
        schema_id = self._writer.register_schema(
            topic.strip("/"), SchemaEncoding.JSONSchema, json.dumps(schema).encode()
        )
        return self._writer.register_channel(topic, MessageEncoding.JSON, schema_id)

    def tick(self, record: np.ndarray) -> None:
        """Write one tick, dtype `tick_dtype`, shape ()."""
        values: dict[str, Any] = {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in zip(self._names, record.item(), strict=True)
        }
        data = json.dumps(values, separators=(",", ":"))
        if "N" in data or "I" in data:  # keys have no capitals, values no text
            data = data.replace("-Infinity", "null").replace("Infinity", "null").replace("NaN", "null")
        self._writer.add_message(
            self._tick_channel, values["monotonic_ns"], data.encode(), values["wall_ns"], values["tick"] & 0xFFFFFFFF
        )
        self.flush()

    def event(self, record: np.ndarray) -> None:
        """Write one event, dtype EVENT_DTYPE, shape ()."""
        values: dict[str, Any] = {
            name: text(value) if isinstance(value, bytes) else value
            for name, value in zip(EVENT_DTYPE.names or (), record.item(), strict=True)
        }
        values["value"] = values["value"] if np.isfinite(values["value"]) else None
        data = json.dumps(values, separators=(",", ":"), allow_nan=False).encode()
        self._writer.add_message(self._event_channel, values["monotonic_ns"], data, values["wall_ns"])

    def flush(self) -> None:
        """Hand finished chunks to the operating system, at most every quarter of a second."""
        if time.monotonic() - self._last_flush > _CHUNK_S:
            self._file.flush()
            self._last_flush = time.monotonic()

    def close(self) -> None:
        """Write what is left, and the index. May be called twice."""
        if not self._file.closed:
            self._writer.finish()
            self._file.close()


class RingSink:
    """A `Sink` that hands records to another process; never blocks."""

    def __init__(self, ticks: Ring, events: Ring) -> None:
        """Records go to these rings; a full ring drops and counts."""
        self._ticks, self._events = ticks, events

    def tick(self, record: np.ndarray) -> None:
        """Push one tick."""
        self._ticks.push(record)

    def event(self, record: np.ndarray) -> None:
        """Push one event."""
        self._events.push(record)

    @property
    def dropped(self) -> int:
        """Ticks that were lost because nobody drained the ring."""
        return self._ticks.dropped


class MemorySink:
    """A `Sink` that keeps copies; for statistics in lockstep."""

    def __init__(self) -> None:
        self.ticks: list[np.ndarray] = []
        self.events: list[np.ndarray] = []

    def tick(self, record: np.ndarray) -> None:
        """Keep one tick."""
        self.ticks.append(record.copy())

    def event(self, record: np.ndarray) -> None:
        """Keep one event."""
        self.events.append(record)


@dataclass(frozen=True, kw_only=True)
class RecorderSetup:
    """What the recorder process needs; picklable."""

    path: Path
    metadata: LogMetadata
    tick_ring: str
    tick_capacity: int
    event_rings: tuple[str, ...]  # one per producer
    event_capacity: int


def recorder_main(setup: RecorderSetup, control: Connection) -> None:
    """Process target: drain the rings until told to end, or until the supervisor is gone and nothing comes any more.

    Says "ready", or why not, over `control` first; anything received means: drain and end.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the supervisor's to handle
    dtype = setup.metadata.dtype
    try:
        writer = RecordWriter(setup.path, setup.metadata)
    except OSError as error:
        control.send(f"cannot record to {setup.path}: {error.strerror}; choose a path that can be written")
        raise SystemExit(2) from None
    ticks = Ring(dtype, setup.tick_capacity, name=setup.tick_ring)
    events = [Ring(EVENT_DTYPE, setup.event_capacity, name=name) for name in setup.event_rings]
    control.send("ready")
    try:
        _drain_until_told(writer, ticks, events, control)
        writer.close()
    except OSError as error:
        control.send(
            f"cannot go on recording to {setup.path}: {error.strerror}; what is there can be read, make room for more"
        )
        raise SystemExit(2) from None
    finally:
        for ring in (ticks, *events):
            ring.close()


def _drain_until_told(writer: RecordWriter, ticks: Ring, events: Sequence[Ring], control: Connection) -> None:
    parent = parent_process()
    quiet_since = time.monotonic()
    ending = False
    while not ending:
        ending = control.poll(_DRAIN_S) and (
            parent is None or parent.is_alive()
        )  # looked at before draining: nothing is left behind
        if drain(writer, ticks, events):
            quiet_since = time.monotonic()
        orphan = parent is not None and not parent.is_alive()
        if orphan:
            time.sleep(_DRAIN_S)  # the closed pipe no longer makes poll wait
        ending = ending or (orphan and time.monotonic() - quiet_since > _ORPHAN_S)


def drain(writer: RecordWriter, ticks: Ring, events: Sequence[Ring]) -> int:
    """Write everything that waits in the rings; returns how many records that was."""
    count = 0
    for ring in events:
        while (record := ring.pop()) is not None:
            writer.event(record)
            count += 1
    while (record := ticks.pop()) is not None:
        writer.tick(record)
        count += 1
    writer.flush()
    return count


def _tick_schema(dtype: np.dtype) -> dict[str, Any]:
    integers = {name for name, kind, _ in TICK_FIELDS if kind == "<i8"}

    def schema(name: str) -> dict[str, Any]:
        value = {"type": "integer" if name in integers else ["number", "null"]}
        return {"type": "array", "items": value} if dtype[name].shape else value

    names = dtype.names or ()
    return {
        "title": "tick",
        "type": "object",
        "properties": {name: schema(name) for name in names},
        "required": list(names),
    }


_EVENT_SCHEMA: dict[str, Any] = {
    "title": "event",
    "type": "object",
    "properties": {
        "monotonic_ns": {"type": "integer"},
        "wall_ns": {"type": "integer"},
        "kind": {"type": "string"},
        "episode": {"type": "integer"},
        "success": {"type": "integer"},
        "value": {"type": ["number", "null"]},
        "operator": {"type": "string"},
        "text": {"type": "string"},
    },
}
