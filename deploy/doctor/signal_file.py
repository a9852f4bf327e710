"""Signal logs as MCAP files: JSON messages on /signals. What is cut off is read up to the break; nothing else is guessed."""

import json
import math
import struct
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np
import zstandard
from mcap.exceptions import EndOfFile, McapError
from mcap.records import Channel, Chunk, DataEnd, Message, Metadata
from mcap.stream_reader import StreamReader, breakup_chunk
from mcap.well_known import MessageEncoding, SchemaEncoding
from mcap.writer import CompressionType, Writer

from isthmus.hardware.files import replacing
from isthmus.hardware.signals import SIGNALS
from isthmus.hardware.structure import FormatError, structure

from ..log import LogError, read_log
from .signal_log import PARTS, SignalLog, SignalMetadata, from_run

KIND, RUN, TOPIC = "isthmus.signals", "isthmus", "/signals"
LARGEST_CHUNK = 1 << 24  # bytes that a chunk may unpack to
_EXPECTED = "expected a .mcap file of `isthmus run`, or a signal log"
_BROKEN = (McapError, zstandard.ZstdError, ValueError, MemoryError)
_SCHEMA: dict[str, Any] = {
    "title": "signals",
    "type": "object",
    "properties": {
        "begin": {"type": "boolean"},
        "signals": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": ["number", "null"]}}},
        **{name: {"type": "array", "items": {"type": ["number", "null"]}} for name in PARTS},
    },
    "required": ["signals"],
}


def write_signals(path: Path, log: SignalLog) -> None:
    """Write a signal log, whole or not at all.

    Raises:
        LogError: a stamp is negative, which MCAP cannot hold.
        OSError: names the file.
    """
    if len(log) and log.stamps.min() < 0:
        raise LogError(f"{path}: a stamp is {log.stamps.min()} ns; expected none before 0, of a monotonic clock")
    with replacing(path) as temporary, temporary.open("wb") as file:
        writer = Writer(file, compression=CompressionType.ZSTD)
        writer.start(profile="", library="isthmus")
        writer.add_metadata(KIND, {key: json.dumps(value) for key, value in asdict(log.metadata).items()})
        schema = writer.register_schema("signals", SchemaEncoding.JSONSchema, json.dumps(_SCHEMA).encode())
        channel = writer.register_channel(TOPIC, MessageEncoding.JSON, schema)
        for tick, stamp in enumerate(log.stamps.tolist()):
            message = {
                "begin": bool(log.begin[tick]),
                "signals": {name: _plain(values[tick]) for name, values in log.signals.items()},
                **{n: _plain(v[tick]) for n in PARTS if (v := getattr(log, n)) is not None},
            }
            data = json.dumps(message, separators=(",", ":"), allow_nan=False).encode()
            writer.add_message(channel, stamp, data, stamp, tick)
        writer.finish()


def _plain(values: np.ndarray) -> list[float | None]:
    return [value if np.isfinite(value) else None for value in np.asarray(values, dtype=np.float64).tolist()]


def read_signals(path: Path) -> SignalLog:
    """Read a signal log, or a log of `isthmus run`; up to the break where the file is cut off or damaged.

    Raises:
        LogError: the file cannot be opened, is neither, holds no whole tick, or ticks that do not belong together; says which.
    """
    if path.exists() and not path.is_file():
        raise LogError(f"{path} is {'a directory' if path.is_dir() else 'no regular file'}; {_EXPECTED}")
    metadata: SignalMetadata | None = None
    topics: dict[int, str] = {}
    stamps: list[int] = []
    rows: list[_Row] = []
    broken, ended = "", False
    try:
        with path.open("rb") as file:
            for record in _records(file, path):
                if isinstance(record, Metadata) and record.name == RUN:
                    return _of_run(path)
                if isinstance(record, Metadata) and record.name == KIND:
                    metadata = _metadata(record, path)
                elif isinstance(record, DataEnd):
                    ended = True  # what follows is an index
                elif isinstance(record, Channel):
                    topics[record.id] = record.topic
                elif isinstance(record, Message) and topics.get(record.channel_id) == TOPIC:
                    rows.append(_row(record.data, rows[0] if rows else None, f"{path}: tick {len(rows)}"))
                    stamps.append(record.log_time)
    except OSError as error:
        raise LogError(f"cannot read log {path}: {error.strerror}; {_EXPECTED}") from None
    except LogError:
        raise
    except (EndOfFile, struct.error):
        broken = "ends in the middle" if path.stat().st_size else "is empty"
    except _BROKEN as error:  # one class per way in which a file is broken
        broken = f"is damaged ({' '.join(f'{type(error).__name__}: {error}'.split())})"
    broken = "" if ended else broken
    if metadata is None or not rows:
        why = f"{broken or 'holds no signals'}: not one whole tick could be read"
        raise LogError(f"{path} {why}; {_EXPECTED}")
    return _whole(metadata, stamps, rows, path, broken)


def _records(file: IO[bytes], path: Path) -> Iterator[Any]:
    """Records, those of chunks as well; a chunk that would not fit into memory is refused before it is unpacked."""
    for record in StreamReader(file, emit_chunks=True, record_size_limit=1 << 28).records:
        if not isinstance(record, Chunk):
            yield record
            continue
        if record.compression not in ("", "zstd"):
            raise LogError(
                f"{path} is packed by {record.compression!r}, expected zstd or nothing; convert it with the mcap tool"
            )
        size = record.uncompressed_size
        if record.compression == "zstd":
            said = zstandard.get_frame_parameters(record.data).content_size
            size = (
                size if said == zstandard.CONTENTSIZE_UNKNOWN else max(size, said)
            )  # unknown: bounded by the chunk's own
        if size > LARGEST_CHUNK:
            raise LogError(
                f"{path}: a chunk unpacks to {size} bytes, expected at most {LARGEST_CHUNK}; write smaller chunks"
            )
        found = breakup_chunk(record, validate_crc=True)
        if size and not found:
            raise ValueError("a chunk holds no records")
        yield from found


def _of_run(path: Path) -> SignalLog:
    try:
        return from_run(read_log(path), path)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        if isinstance(error, LogError):
            raise
        raise LogError(f"{path}: its ticks cannot be read ({type(error).__name__}: {error}); record it again") from None


def _metadata(record: Metadata, path: Path) -> SignalMetadata:
    try:
        values = {key: json.loads(value) for key, value in record.metadata.items()}
        found = structure(values, SignalMetadata, source=f"{path}: its metadata")
    except (ValueError, RecursionError) as error:
        words = str(error) if isinstance(error, FormatError) else f"{path}: its metadata is no JSON: {error}"
        raise LogError(
            f"{words}; was it recorded by another version of isthmus? Read it with that one, or record it again"
        ) from None
    known = [spec.name for spec in SIGNALS if spec.name.endswith("_target")]
    for bad, what, expected in (
        (
            not isinstance(values["joint_names"], list),
            f"joint_names is {_short(values['joint_names'])}",
            "a list of names",
        ),
        (found.period_ns <= 0, f"period_ns is {found.period_ns}", "the period that the loop was asked for, above 0"),
        (found.target not in known, f"target is {found.target!r}", f"one of {', '.join(known)}"),
    ):
        if bad:
            raise LogError(f"{path}: its metadata is wrong: {what}, expected {expected}; record it again")
    return found


class _Row:
    """One tick: its lists of numbers by name, those of signals first."""

    def __init__(self, begin: bool, signals: dict[str, list[float]], parts: dict[str, list[float]]) -> None:
        self.begin, self.signals, self.parts = begin, signals, parts

    def widths(self) -> dict[str, int]:
        """Of everything it holds."""
        return {name: len(values) for name, values in (*self.signals.items(), *self.parts.items())}


def _row(data: bytes, first: _Row | None, where: str) -> _Row:
    """A message; raises LogError where it is none or holds other things than the first."""
    try:
        message = json.loads(data)
    except (ValueError, RecursionError) as error:
        _refuse(where, f"it is no JSON ({type(error).__name__}: {error})", "a JSON object")
    if not isinstance(message, dict) or not isinstance(message.get("signals"), dict):
        _refuse(where, f"it is {_short(message)}", "an object with `signals`, lists of numbers by name")
    begin = message.get("begin", False)
    if not isinstance(begin, bool):
        _refuse(where, f"begin is {_short(begin)}", "true or false")
    signals = {name: _numbers(values, name, where) for name, values in message["signals"].items()}
    row = _Row(begin, signals, {name: _numbers(message[name], name, where) for name in PARTS if name in message})
    if first is not None and row.widths() != first.widths():
        now, then = row.widths(), first.widths()
        odd = next(name for name in (*then, *now) if then.get(name) != now.get(name))
        _refuse(where, f"{odd} has {now.get(odd, 'no')} values", f"{then.get(odd, 'none')}, as in the first tick")
    return row


def _numbers(values: object, name: str, where: str) -> list[float]:
    if not isinstance(values, list) or not all(value is None or type(value) in (int, float) for value in values):
        _refuse(where, f"{name} is {_short(values)}", "a list of numbers, null where a reading was lost")
    try:
        numbers = [math.nan if value is None else float(value) for value in values]
    except OverflowError:
        _refuse(
            where, f"{name} holds a number that no float can hold", "a list of numbers, null where a reading was lost"
        )
    return [number if math.isfinite(number) else math.nan for number in numbers]


def _refuse(where: str, got: str, expected: str) -> NoReturn:
    raise LogError(f"{where}: {got}, expected {expected}; record it again")


def _short(value: object) -> str:
    words = repr(value)
    return words if len(words) <= 60 else f"{words[:57]}..."


def _whole(metadata: SignalMetadata, stamps: list[int], rows: list[_Row], path: Path, broken: str) -> SignalLog:
    late = next((tick for tick, stamp in enumerate(stamps) if stamp >= 1 << 63), None)
    if late is not None:
        raise LogError(
            f"{path}: tick {late}: its stamp is {stamps[late]} ns, expected one of a monotonic clock; record it again"
        )
    begin = np.array([row.begin for row in rows])
    begin[0] = True
    return SignalLog(
        metadata=metadata,
        stamps=np.array(stamps, dtype=np.int64),
        begin=begin,
        signals={name: np.array([row.signals[name] for row in rows]) for name in rows[0].signals},
        broken=broken,
        **{name: np.array([row.parts[name] for row in rows]) for name in rows[0].parts},
    )
