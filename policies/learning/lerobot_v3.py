"""LeRobotDataset v3.0 as files: columns of arrays in, the folder that `lerobot` opens out, with pyarrow, json and numpy only."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

CODEBASE_VERSION = "v3.0"
DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
EPISODES_FILE = "meta/episodes/chunk-000/file-000.parquet"
QUANTILES = (0.01, 0.10, 0.50, 0.90, 0.99)


@dataclass(frozen=True, kw_only=True)
class Feature:
    """A column of frames. dtype is float32, int64 or bool; width 1 is a scalar column."""

    name: str
    dtype: str
    names: tuple[str, ...]  # one per value

    @property
    def width(self) -> int:
        """Values per frame."""
        return len(self.names)


INDEX_FEATURES = (
    Feature(name="timestamp", dtype="float32", names=("timestamp",)),  # frame_index / fps, s
    Feature(name="frame_index", dtype="int64", names=("frame_index",)),
    Feature(name="episode_index", dtype="int64", names=("episode_index",)),
    Feature(name="index", dtype="int64", names=("index",)),
    Feature(name="task_index", dtype="int64", names=("task_index",)),
)

Columns = Mapping[str, np.ndarray]


def write_folder(
    root: Path,
    *,
    features: Sequence[Feature],
    frames: Sequence[Columns],
    episode_columns: Mapping[str, Sequence[Any]],
    task: str,
    fps: int,
    robot: str,
) -> None:
    """Write a new dataset folder of one task.

    Args:
        root: does not exist yet.
        features: the columns besides the index columns.
        frames: per episode, arrays of shape (T,) or (T, width) by feature name.
        episode_columns: further columns of the episode table, one value per episode.
        task: what was attempted, in words.
        fps: frames per second.
        robot: goes to `robot_type`.
    """
    everything = (*features, *INDEX_FEATURES)
    complete = _add_index_columns(frames, fps)
    (root / "meta" / "episodes" / "chunk-000").mkdir(parents=True)
    (root / "data" / "chunk-000").mkdir(parents=True)
    _write_frames(root / DATA_PATH.format(chunk_index=0, file_index=0), everything, complete)
    _write_tasks(root / "meta" / "tasks.parquet", task)
    pq.write_table(
        _episode_table(everything, complete, episode_columns, task), root / EPISODES_FILE, compression="snappy"
    )
    together = {f.name: np.concatenate([columns[f.name] for columns in complete]) for f in everything}
    write_json(root / "meta" / "stats.json", {f.name: column_stats(together[f.name]) for f in everything})
    write_json(root / "meta" / "info.json", _info(everything, complete, fps, robot))


def read_frames(root: Path) -> pa.Table:
    """All frames of a dataset folder, in order."""
    return pa.concat_tables([pq.read_table(path) for path in sorted((root / "data").glob("*/*.parquet"))])


def read_episodes(root: Path) -> list[dict[str, Any]]:
    """The rows of the episode table, without the statistics."""
    paths = sorted((root / "meta" / "episodes").glob("*/*.parquet"))
    table = pa.concat_tables([pq.read_table(path) for path in paths])
    return table.select([name for name in table.column_names if not name.startswith("stats/")]).to_pylist()


def to_numpy(table: pa.Table, name: str) -> np.ndarray:
    """A column as an array of shape (T,) or (T, width)."""
    column = table.column(name).combine_chunks()
    if pa.types.is_fixed_size_list(column.type):
        return np.asarray(column.flatten()).reshape(len(column), column.type.list_size)
    return column.to_numpy(zero_copy_only=False)


def column_stats(values: np.ndarray) -> dict[str, list[Any]]:
    """Statistics of one column, shape (T,) or (T, width), as LeRobot keeps them: one value per entry."""
    numbers = values.reshape(len(values), -1).astype(np.float64)
    stats = {name: getattr(numbers, name)(axis=0).tolist() for name in ("min", "max", "mean", "std")}
    stats["count"] = [len(values)]
    for quantile in QUANTILES:
        stats[f"q{round(quantile * 100):02d}"] = np.quantile(numbers, quantile, axis=0).tolist()
    return stats


def write_json(path: Path, data: object) -> None:
    """Write plain data as JSON; NaN and infinity are refused."""
    path.write_text(json.dumps(data, indent=2, allow_nan=False) + "\n")


def _add_index_columns(frames: Sequence[Columns], fps: int) -> list[dict[str, np.ndarray]]:
    complete, start = [], 0
    for episode, columns in enumerate(frames):
        length = len(next(iter(columns.values())))
        frame = np.arange(length, dtype=np.int64)
        index = {
            "timestamp": (frame / fps).astype(np.float32),
            "frame_index": frame,
            "episode_index": np.full(length, episode, dtype=np.int64),
            "index": frame + start,
            "task_index": np.zeros(length, dtype=np.int64),
        }
        complete.append({**columns, **index})
        start += length
    return complete


def _arrow_type(feature: Feature) -> pa.DataType:
    scalar = {"float32": pa.float32(), "int64": pa.int64(), "bool": pa.bool_()}[feature.dtype]
    return scalar if feature.width == 1 else pa.list_(scalar, feature.width)


def _arrow_column(feature: Feature, values: np.ndarray) -> pa.Array:
    flat = pa.array(np.ascontiguousarray(values.astype(feature.dtype)).reshape(-1))
    return flat if feature.width == 1 else pa.FixedSizeListArray.from_arrays(flat, feature.width)


def _write_frames(path: Path, features: Sequence[Feature], frames: Sequence[Columns]) -> None:
    schema = pa.schema([(feature.name, _arrow_type(feature)) for feature in features])
    with pq.ParquetWriter(path, schema, compression="snappy") as writer:
        for columns in frames:  # one row group per episode
            writer.write_table(pa.table([_arrow_column(f, columns[f.name]) for f in features], schema=schema))


def _write_tasks(path: Path, task: str) -> None:
    # LeRobot reads this file with pandas and looks tasks up in its index, which lives in this metadata block.
    def column(name: str, pandas_type: str, numpy_type: str) -> dict[str, Any]:
        return {
            "name": name,
            "field_name": name,
            "pandas_type": pandas_type,
            "numpy_type": numpy_type,
            "metadata": None,
        }

    pandas = {
        "index_columns": ["task"],
        "column_indexes": [],
        "columns": [column("task_index", "int64", "int64"), column("task", "unicode", "object")],
        "creator": {"library": "pyarrow", "version": pa.__version__},
        "pandas_version": "2.0.0",
    }
    table = pa.table({"task_index": pa.array([0], pa.int64()), "task": pa.array([task])})
    pq.write_table(table.replace_schema_metadata({"pandas": json.dumps(pandas)}), path, compression="snappy")


def _episode_table(
    features: Sequence[Feature], frames: Sequence[Columns], extra: Mapping[str, Sequence[Any]], task: str
) -> pa.Table:
    lengths = np.array([len(columns["index"]) for columns in frames])
    ends = np.cumsum(lengths)
    zeros = pa.array(np.zeros(len(frames), dtype=np.int64))
    table: dict[str, Any] = {
        "episode_index": pa.array(np.arange(len(frames))),
        "tasks": pa.array([[task]] * len(frames), pa.list_(pa.string())),
        "length": pa.array(lengths),
        "data/chunk_index": zeros,
        "data/file_index": zeros,
        "dataset_from_index": pa.array(ends - lengths),
        "dataset_to_index": pa.array(ends),
        "meta/episodes/chunk_index": zeros,
        "meta/episodes/file_index": zeros,
    }
    table.update({name: pa.array(list(values)) for name, values in extra.items()})
    for feature in features:
        stats = [column_stats(columns[feature.name]) for columns in frames]
        table.update({f"stats/{feature.name}/{key}": pa.array([one[key] for one in stats]) for key in stats[0]})
    return pa.table(table)


def _info(features: Sequence[Feature], frames: Sequence[Columns], fps: int, robot: str) -> dict[str, Any]:
    return {
        "codebase_version": CODEBASE_VERSION,
        "robot_type": robot,
        "fps": fps,
        "total_episodes": len(frames),
        "total_frames": sum(len(columns["index"]) for columns in frames),
        "total_tasks": 1,
        "chunks_size": 1000,
        "data_files_size_in_mb": 100,
        "video_files_size_in_mb": 200,
        "data_path": DATA_PATH,
        "video_path": None,
        "splits": {"train": f"0:{len(frames)}"},
        "features": {f.name: {"dtype": f.dtype, "shape": [f.width], "names": list(f.names)} for f in features},
    }
