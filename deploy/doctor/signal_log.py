"""A recording of raw signals by name, from a robot or a simulated world; one MCAP schema for every robot.

JSON messages on /signals, each with its stamp, the raw signals that were read, and where known the target that was written, what the
policy proposed, its action and its observation.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from mcap.records import Channel, Message, Metadata
from mcap.stream_reader import StreamReader
from mcap.well_known import MessageEncoding, SchemaEncoding
from mcap.writer import CompressionType, Writer

from isthmus.hardware.structure import FormatError, structure

from ..log import Log, LogError, read_log

KIND, TOPIC = "isthmus.signals", "/signals"
_PARTS = ("executed", "proposed", "action", "observation")
_SCHEMA: dict[str, Any] = {
    "title": "signals",
    "type": "object",
    "properties": {
        "begin": {"type": "boolean"},
        "signals": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": ["number", "null"]}}},
        **{name: {"type": "array", "items": {"type": ["number", "null"]}} for name in _PARTS},
    },
    "required": ["signals"],
}


@dataclass(frozen=True, kw_only=True)
class SignalMetadata:
    """What a signal log was recorded from."""

    robot: str
    joint_names: tuple[str, ...]  # order of every signal that is of joints
    period_ns: int  # that the loop was asked for
    target: str  # the signal that `executed` and `proposed` become, such as joint_target
    policy_id: str  # sha256 of the bundle that proposed; "" where none did
    source: str  # what recorded it


@dataclass(frozen=True, kw_only=True, eq=False)
class SignalLog:
    """T ticks; joints in the order of `metadata.joint_names`."""

    metadata: SignalMetadata
    stamps: np.ndarray  # (T,) int64 ns, when the signals were read
    begin: np.ndarray  # (T,) bool, where an episode begins: what was before is another motion
    signals: Mapping[str, np.ndarray]  # (T, width) each
    executed: np.ndarray | None = None  # (T, w) target written at the tick
    proposed: np.ndarray | None = None  # (T, w) target that the policy gave
    action: np.ndarray | None = None  # (T, a) the network's
    observation: np.ndarray | None = None  # (T, d) that the network was shown

    def __len__(self) -> int:
        return len(self.stamps)

    def with_signals(self, **changed: np.ndarray) -> "SignalLog":
        """The same with some signals replaced; dots in names are written as two underscores."""
        named = {name.replace("__", "."): value for name, value in changed.items()}
        return replace(self, signals={**self.signals, **named})

    def part(self, ticks: slice) -> "SignalLog":
        """Some of the ticks."""
        cut = {name: None if (value := getattr(self, name)) is None else value[ticks] for name in _PARTS}
        begin = self.begin[ticks].copy()
        begin[:1] = True
        signals = {name: value[ticks] for name, value in self.signals.items()}
        return replace(self, stamps=self.stamps[ticks], begin=begin, signals=signals, **cut)


def write_signals(path: Path, log: SignalLog) -> None:
    """Write a signal log."""
    with path.open("wb") as file:
        writer = Writer(file, compression=CompressionType.ZSTD)
        writer.start(profile="", library="isthmus")
        writer.add_metadata(KIND, {key: json.dumps(value) for key, value in asdict(log.metadata).items()})
        schema = writer.register_schema("signals", SchemaEncoding.JSONSchema, json.dumps(_SCHEMA).encode())
        channel = writer.register_channel(TOPIC, MessageEncoding.JSON, schema)
        for tick, stamp in enumerate(log.stamps.tolist()):
            message = {
                "begin": bool(log.begin[tick]),
                "signals": {name: _plain(values[tick]) for name, values in log.signals.items()},
                **{n: _plain(v[tick]) for n in _PARTS if (v := getattr(log, n)) is not None},
            }
            data = json.dumps(message, separators=(",", ":"), allow_nan=False).encode()
            writer.add_message(channel, max(0, stamp), data, max(0, stamp), tick)
        writer.finish()


def _plain(values: np.ndarray) -> list[float | None]:
    return [value if np.isfinite(value) else None for value in np.asarray(values, dtype=np.float64).tolist()]


def read_signals(path: Path) -> SignalLog:
    """Read a signal log, or a log of `isthmus run`.

    Raises:
        LogError: the file cannot be opened or is neither.
    """
    metadata: SignalMetadata | None = None
    topics: dict[int, str] = {}
    stamps: list[int] = []
    rows: list[dict[str, Any]] = []
    try:
        with path.open("rb") as file:
            for record in StreamReader(file, record_size_limit=1 << 28).records:
                if isinstance(record, Metadata) and record.name == "isthmus":
                    return from_run(read_log(path))
                if isinstance(record, Metadata) and record.name == KIND:
                    values = {key: json.loads(value) for key, value in record.metadata.items()}
                    metadata = structure(values, SignalMetadata, source=str(path))
                elif isinstance(record, Channel):
                    topics[record.id] = record.topic
                elif isinstance(record, Message) and topics.get(record.channel_id) == TOPIC:
                    stamps.append(record.log_time)
                    rows.append(json.loads(record.data))
    except OSError as error:
        raise LogError(f"cannot read log {path}: {error.strerror}") from None
    except FormatError as error:
        raise LogError(f"{path}: its metadata cannot be read: {error}") from None
    except Exception as error:  # mcap raises its own classes, one per way in which a file is broken
        if metadata is None or not rows:
            raise LogError(f"{path} is no log: {type(error).__name__}: {error}; give a whole .mcap file") from None
    if metadata is None or not rows:
        raise LogError(f"{path} holds no signals; give a .mcap file of `isthmus run` or of a signal log")
    return _from_rows(metadata, stamps, rows, path)


def _from_rows(metadata: SignalMetadata, stamps: list[int], rows: list[dict[str, Any]], path: Path) -> SignalLog:
    def table(values: list[Any]) -> np.ndarray:
        return np.array([[np.nan if v is None else v for v in row] for row in values], dtype=np.float64)

    try:
        signals = {name: table([row["signals"][name] for row in rows]) for name in rows[0]["signals"]}
        parts = {name: table([row[name] for row in rows]) for name in _PARTS if name in rows[0]}
    except (KeyError, ValueError, TypeError) as error:
        raise LogError(f"{path}: its ticks do not all hold the same numbers ({error}); record it again") from None
    begin = np.array([bool(row.get("begin", False)) for row in rows])
    begin[0] = True
    return SignalLog(metadata=metadata, stamps=np.array(stamps, dtype=np.int64), begin=begin, signals=signals, **parts)


def from_run(log: Log) -> SignalLog:
    """What a log of `isthmus run` says of raw signals, of the ticks in which a policy drove the arm."""
    ticks = log.ticks[(log.ticks["episode"] >= 0) & np.isfinite(log.ticks["joint_pos"]).all(axis=-1)]
    if len(ticks) == 0:
        raise LogError("the log holds no episode: no policy ran while it was recorded; record one with `isthmus run`")
    episode = ticks["episode"]
    begin = np.concatenate([[True], np.diff(episode) != 0])
    ids = {event.text for event in log.events if event.kind == "episode_begin"}
    return SignalLog(
        metadata=SignalMetadata(
            robot=log.metadata.robot,
            joint_names=log.metadata.joint_names,
            period_ns=log.metadata.period_ns,
            target="joint_target",
            policy_id=next(iter(ids)) if len(ids) == 1 else "",
            source="isthmus run",
        ),
        stamps=ticks["monotonic_ns"].astype(np.int64),
        begin=begin,
        signals={
            "joint_pos": ticks["joint_pos"],
            "joint_vel": ticks["joint_vel"],
            "joint_target": ticks["joint_target"],
            "command.target": ticks["target"],
        },
        executed=ticks["executed_target"],
        proposed=ticks["policy_target"],
        action=ticks["base_action"],
    )
