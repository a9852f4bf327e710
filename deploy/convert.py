"""A recording as a table for other tools: CSV, Parquet, or a rerun file to look at."""

import csv
import importlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from isthmus.hardware.files import write_whole
from isthmus.policies.episode import TICK_FIELDS

from .log import Log
from .modes import Mode

if TYPE_CHECKING:
    import pyarrow as pa

_OF_JOINTS = frozenset(name for name, _, size in TICK_FIELDS if size == "vector")
_AXES = ("x", "y", "z")


def columns(log: Log) -> dict[str, np.ndarray]:
    """Every number of every tick by name, (T,) each: `joint_pos.elbow_flex`, `target.x`, `base_action.0`, `lateness_us`."""
    found: dict[str, np.ndarray] = {}
    for name in log.ticks.dtype.names or ():
        values = log.ticks[name]
        if values.ndim == 1:
            found[name] = values
            continue
        for index, part in enumerate(_parts(name, values.shape[1], log)):
            found[f"{name}.{part}"] = values[:, index]
    return found


def _parts(name: str, width: int, log: Log) -> tuple[str, ...]:
    if name in _OF_JOINTS:
        return log.metadata.joint_names
    if name == "target":
        return _AXES
    return tuple(str(index) for index in range(width))


def write_csv(path: Path, log: Log) -> None:
    """One row a tick at full precision, names in the first; an empty field where there was no number."""
    table = columns(log)
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(table)
    writer.writerows(zip(*(_texts(values) for values in table.values()), strict=True))
    write_whole(path, text.getvalue().encode())


def _texts(values: np.ndarray) -> Iterator[str]:
    for value in values.tolist():
        yield "" if isinstance(value, float) and not np.isfinite(value) else repr(value)


def parquet_table(log: Log) -> "pa.Table":
    """One column a number; null where there was none. The log's metadata is the schema's."""
    import pyarrow as pa

    table = columns(log)
    arrays = {
        name: pa.array(values, mask=~np.isfinite(values) if values.dtype.kind == "f" else None)
        for name, values in table.items()
    }
    meta = log.metadata
    about = {
        "robot": meta.robot,
        "joint_names": ",".join(meta.joint_names),
        "period_ns": str(meta.period_ns),
        "policy_ids": ",".join(meta.policy_ids),
    }
    return pa.table(arrays).replace_schema_metadata(about)


def write_parquet(path: Path, log: Log) -> None:
    """See `parquet_table`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(parquet_table(log), sink)
    write_whole(path, sink.getvalue().to_pybytes())


def write_rerun(path: Path, log: Log) -> None:
    """A file for the rerun viewer: every number over time, and modes and events as text. Needs `rerun-sdk`."""
    rr = importlib.import_module("rerun")  # large, and nothing else needs it: development does without
    stream = rr.RecordingStream("isthmus")
    stream.save(path)
    seconds = (log.ticks["monotonic_ns"] - log.ticks["monotonic_ns"][0]) * 1e-9
    for name, values in columns(log).items():
        good = np.isfinite(values.astype(np.float64))
        if good.any():
            time = rr.TimeColumn("time", duration=seconds[good])
            stream.send_columns(
                name.replace(".", "/"),
                indexes=[time],
                columns=rr.Scalars.columns(scalars=values[good].astype(np.float64)),
            )
    for event in log.events:
        stream.set_time("time", duration=(event.monotonic_ns - int(log.ticks["monotonic_ns"][0])) * 1e-9)
        stream.log("events", rr.TextLog(f"{event.kind}: {event.text}"))
    for tick in np.flatnonzero(np.diff(log.ticks["mode"], prepend=-1)):
        stream.set_time("time", duration=float(seconds[tick]))
        stream.log("mode_name", rr.TextLog(Mode(int(log.ticks["mode"][tick])).name))
    stream.flush()


WRITERS = {".csv": write_csv, ".parquet": write_parquet, ".rrd": write_rerun}
"""By the ending of a file's name."""
