"""MCAP -> ticks, events and `Episode`s; files that end in the middle are read up to the break."""

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from mcap.exceptions import McapError
from mcap.records import Channel, Chunk, DataEnd, Message, Metadata
from mcap.stream_reader import StreamReader, breakup_chunk
from zstandard import ZstdError

from isthmus.hardware.errors import IsthmusError
from isthmus.hardware.structure import FormatError, structure
from isthmus.policies.episode import Episode

from .messages import text
from .record import LogMetadata

_LATER = ("policy_index", "ran", "flags", "pressed_ns")  # fields that the first logs did not have: 0 there


class LogError(IsthmusError, ValueError):
    """A file is no isthmus log."""


@dataclass(frozen=True, kw_only=True)
class LogEvent:
    """Something that happened: kind is mode, fault, episode_begin or episode_end."""

    monotonic_ns: int
    wall_ns: int
    kind: str
    episode: int
    success: int  # 1, 0; -1 where it means nothing
    value: float  # final error of an episode, m; NaN elsewhere
    operator: str
    text: str


def event_from_record(record: np.ndarray) -> LogEvent:
    """A LogEvent from a record of EVENT_DTYPE, shape ()."""
    monotonic_ns, wall_ns, kind, episode, success, value, operator, words = record.item()
    return LogEvent(
        monotonic_ns=monotonic_ns,
        wall_ns=wall_ns,
        kind=text(kind),
        episode=episode,
        success=success,
        value=value,
        operator=text(operator),
        text=text(words),
    )


@dataclass(frozen=True, kw_only=True)
class Log:
    """A recording."""

    metadata: LogMetadata
    ticks: np.ndarray  # structured, dtype tick_dtype(...), in order
    events: tuple[LogEvent, ...]
    complete: bool  # False where the file ends in the middle

    def episodes(self) -> list[Episode]:
        """Every attempt that was brought to an end, in order. Interrupted ones are left in `ticks` only."""
        begins = {event.episode: event for event in self.events if event.kind == "episode_begin"}
        ends = [event for event in self.events if event.kind == "episode_end"]
        return [self._episode(begins[end.episode], end) for end in ends if end.episode in begins]

    def _episode(self, begin: LogEvent, end: LogEvent) -> Episode:
        return Episode(
            ticks=self.ticks[self.ticks["episode"] == end.episode],
            joint_names=self.metadata.joint_names,
            period_ns=self.metadata.period_ns,
            success=end.success == 1,
            policy_id=begin.text,
            robot=self.metadata.robot,
            operator=end.operator,
            info={} if np.isnan(end.value) else {"final_error_m": end.value},
        )


def read_log(path: Path) -> Log:
    """Read a log.

    Raises:
        LogError: the file cannot be opened, is no MCAP, or holds no isthmus metadata; says which.
    """
    metadata: LogMetadata | None = None
    topics: dict[int, str] = {}
    messages: dict[str, list[dict[str, Any]]] = {"/tick": [], "/event": []}
    complete = False
    try:
        with path.open("rb") as file:
            for record in _records(StreamReader(file, emit_chunks=True, record_size_limit=1 << 28)):
                if isinstance(record, Metadata) and record.name == "isthmus":
                    metadata = _metadata(record, path)
                elif isinstance(record, Channel):
                    topics[record.id] = record.topic
                elif isinstance(record, Message) and topics.get(record.channel_id) in messages:
                    messages[topics[record.channel_id]].append(json.loads(record.data))
                elif isinstance(record, DataEnd):
                    complete = True
    except OSError as error:
        raise LogError(f"cannot read log {path}: {error.strerror}") from None
    if metadata is None:
        raise LogError(
            f"{path} is no isthmus log: it holds no isthmus metadata; give a .mcap file written by `isthmus run`"
        )
    return Log(
        metadata=metadata,
        ticks=_ticks(messages["/tick"], metadata.dtype),
        events=tuple(_event(message) for message in messages["/event"]),
        complete=complete,
    )


def _records(reader: StreamReader) -> Iterator[Any]:
    """Records up to the end or the break; a chunk that is not whole is dropped whole."""
    stream = iter(reader.records)
    while True:
        try:
            record = next(stream)
            inner = breakup_chunk(record, validate_crc=True) if isinstance(record, Chunk) else [record]
        except StopIteration:
            return
        except (McapError, ZstdError, ValueError, struct.error):
            return  # cut off here
        yield from inner


def _metadata(record: Metadata, path: Path) -> LogMetadata:
    try:
        data = {key: json.loads(value) for key, value in record.metadata.items()}
        return structure(data, LogMetadata, source=str(path))
    except (json.JSONDecodeError, FormatError) as error:
        raise LogError(f"{path}: its metadata cannot be read: {error}") from None


def _ticks(messages: list[dict[str, Any]], dtype: np.dtype) -> np.ndarray:
    ticks = np.zeros(len(messages), dtype=dtype)
    known = messages[0].keys() if messages else ()
    for name in dtype.names or ():
        if name in _LATER and name not in known:
            continue
        if ticks[name].size:
            ticks[name] = np.array([message[name] for message in messages], dtype=ticks[name].dtype).reshape(
                ticks[name].shape
            )
    return ticks


def _event(message: dict[str, Any]) -> LogEvent:
    value = message["value"]
    return LogEvent(**{**message, "value": float("nan") if value is None else value})
