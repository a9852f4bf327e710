"""Episodes as a LeRobotDataset v3.0 and back: what people corrected, in a form that other tools read too.

Angles stay in rad and actions in action units, as isthmus has them; `meta/isthmus.json` says so for every column, and with which
joint calibration the angles were read: the same pose reads otherwise with another one, so a dataset has exactly one. Numbers are
float32, which is what a policy's graph reads. Columns whose value can be missing have a `<column>_valid` flag.
"""

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import numpy as np

from isthmus.hardware.errors import IsthmusError
from isthmus.hardware.joint_calibration import ArmCalibration
from isthmus.hardware.structure import FormatError, structure, unstructure

from ..episode import Episode, Further, Source, further_of, tick_dtype
from .lerobot_v3 import Feature, read_episodes, read_frames, to_numpy, write_folder, write_json

SCHEMA = 2
SIDE_FILE = Path("meta") / "isthmus.json"


class DatasetError(IsthmusError, ValueError):
    """A folder is no dataset of isthmus, or episodes do not fit together."""


class Phase(IntEnum):
    """Column `intervention_phase`."""

    AUTONOMOUS = 0
    PAUSED = 1
    CORRECTING = 2
    REWIND = 3
    BLEND = 4


@dataclass(frozen=True, kw_only=True)
class Column:
    """Where a field of a tick lives in the dataset."""

    field: str  # of episode.TICK_FIELDS
    name: str
    dtype: str
    unit: str
    optional: bool = False  # NaN in a tick means that there was none
    later: bool = False  # the first datasets did not have it: 0 there


# LeRobot takes every name that starts with "action" or "observation" for a policy's output or input; the proposals start otherwise.
COLUMNS: tuple[Column, ...] = (
    Column(field="joint_pos", name="observation.state", dtype="float32", unit="rad"),
    Column(field="joint_vel", name="observation.velocity", dtype="float32", unit="rad/s"),
    Column(field="target", name="observation.environment_state", dtype="float32", unit="m, robot base frame"),
    Column(field="executed_target", name="action", dtype="float32", unit="rad"),
    Column(field="joint_target", name="previous_action", dtype="float32", unit="rad"),
    Column(field="policy_target", name="policy_action", dtype="float32", unit="rad", optional=True),
    Column(field="human_target", name="human_action", dtype="float32", unit="rad", optional=True),
    Column(field="base_action", name="base_action", dtype="float32", unit="action units", optional=True),
    Column(field="residual_action", name="residual_action", dtype="float32", unit="action units", optional=True),
    Column(field="gate_prob", name="gate_prob", dtype="float32", unit="1"),
    Column(field="gate", name="gate", dtype="float32", unit="1"),
    Column(field="intervention", name="intervention", dtype="bool", unit="1"),
    Column(field="source", name="source", dtype="int64", unit="policies.episode.Source"),
    Column(field="mode", name="mode", dtype="int64", unit="deploy.modes.Mode"),
    Column(field="tick", name="tick", dtype="int64", unit="ticks"),
    Column(field="episode", name="recorded_episode", dtype="int64", unit="1"),
    Column(field="policy_index", name="policy_index", dtype="int64", unit="1", later=True),
    Column(field="ran", name="policy_ran", dtype="int64", unit="policies.episode.Ran", later=True),
    Column(field="flags", name="limited", dtype="int64", unit="deploy.safety.Flag", later=True),
    Column(field="pressed_ns", name="pressed_ns", dtype="int64", unit="ns, monotonic", later=True),
    Column(field="monotonic_ns", name="monotonic_ns", dtype="int64", unit="ns"),
    Column(field="wall_ns", name="wall_ns", dtype="int64", unit="ns"),
    Column(field="written_ns", name="written_ns", dtype="int64", unit="ns, monotonic"),
    Column(field="inference_us", name="inference_us", dtype="float32", unit="us"),
    Column(field="lateness_us", name="loop_jitter_us", dtype="float32", unit="us"),
    Column(field="missed", name="missed", dtype="int64", unit="ticks"),
    Column(field="bus_errors", name="bus_errors", dtype="int64", unit="1"),
    Column(field="max_temperature", name="max_temperature", dtype="float32", unit="deg C"),
)


@dataclass(frozen=True, kw_only=True)
class DatasetInfo:
    """The side file: what LeRobot's own files do not say."""

    schema: int
    repo_id: str
    task: str
    robot: str
    joint_names: tuple[str, ...]
    num_actions: int
    period_ns: int
    units: dict[str, str]  # by column
    calibration: ArmCalibration  # that the angles of all episodes were read with
    further: Further = ()  # what ticks hold besides the usual fields; the first datasets had nothing

    @property
    def dtype(self) -> np.dtype:
        """Of a tick."""
        return tick_dtype(len(self.joint_names), self.num_actions, self.further)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Where each field of a tick lives."""
        return COLUMNS + tuple(_further_column(name) for name, _ in self.further)


def _further_column(field: str) -> Column:
    """A sensed signal is something to see, a part of a policy is not."""
    part = field.startswith("part.")
    return Column(
        field=field,
        name=field if part else f"observation.{field}",
        dtype="float32",
        unit="as the signal's",
        optional=part,
    )


def write_dataset(
    root: Path, episodes: Sequence[Episode], *, fps: int, repo_id: str, task: str, calibration: ArmCalibration
) -> None:
    """Write episodes as a dataset, replacing the one at `root` only when the new one is complete.

    Raises:
        DatasetError: no episodes, empty ones, other joints, robot or period among them, fps that is not theirs, a missing
            value, a calibration of another robot, or something else at `root`.
    """
    if not episodes:
        raise DatasetError(f"{root}: a dataset needs at least one episode")
    if root.exists() and not (root / SIDE_FILE).is_file() and (not root.is_dir() or any(root.iterdir())):
        raise DatasetError(f"{root} exists and is no isthmus dataset; nothing was written, choose another folder")
    info = _dataset_info(episodes[0], repo_id=repo_id, task=task, calibration=calibration)
    _check_calibrated(info)
    for index, episode in enumerate(episodes):
        _check_episode(episode, index, info, fps)
    new = _beside(root, "new")
    shutil.rmtree(new, ignore_errors=True)
    new.parent.mkdir(parents=True, exist_ok=True)
    write_folder(
        new,
        features=_features(info),
        frames=[_frames(episode, info) for episode in episodes],
        episode_columns=_episode_columns(episodes),
        task=task,
        fps=fps,
        robot=info.robot,
    )
    write_json(new / SIDE_FILE, unstructure(info))
    _exchange(root, new)


def append_episodes(root: Path, episodes: Sequence[Episode], *, calibration: ArmCalibration) -> None:
    """Add episodes to a dataset; after a kill at any moment either the old or the new one is there.

    Raises:
        DatasetError: no dataset at `root`, one of another calibration, or episodes that do not fit it.
    """
    info = read_info(root)
    check_calibration(root, calibration)
    write_dataset(
        root,
        [*read_dataset(root), *episodes],
        fps=_fps(info.period_ns),
        repo_id=info.repo_id,
        task=info.task,
        calibration=info.calibration,
    )


def check_calibration(root: Path, calibration: ArmCalibration) -> None:
    """Raises DatasetError: no dataset at `root`, or one whose angles were read with another calibration."""
    difference = read_info(root).calibration.difference(calibration)
    if difference is not None:
        raise DatasetError(
            f"{root} was recorded with another joint calibration: {difference} (the dataset's against the one given); "
            "their angles do not mix: choose another --out"
        )


def read_info(root: Path) -> DatasetInfo:
    """The side file of a dataset; raises DatasetError where there is none."""
    _recover(root)
    if not (root / "meta" / "info.json").is_file() or not (root / SIDE_FILE).is_file():
        raise DatasetError(
            f"{root} is no isthmus dataset: meta/info.json and {SIDE_FILE} are needed; make one from a log with `isthmus correct`"
        )
    try:
        data = json.loads((root / SIDE_FILE).read_text())
        schema = data.get("schema") if isinstance(data, dict) else None
        if schema == SCHEMA:
            return structure(data, DatasetInfo, source=str(root / SIDE_FILE))
    except (UnicodeDecodeError, json.JSONDecodeError, FormatError) as error:
        raise DatasetError(f"{root / SIDE_FILE} cannot be read: {error}") from None
    raise DatasetError(
        f"{root}: dataset schema {schema} is not supported, this isthmus reads schema {SCHEMA}, which says with which joint "
        "calibration it was recorded; record into another --out with `isthmus correct`"
    )


def read_dataset(root: Path) -> list[Episode]:
    """All episodes of a dataset, in order; float values as float32 kept them.

    Raises:
        DatasetError: no dataset at `root`, or a column is missing.
    """
    info = read_info(root)
    table = read_frames(root)
    later = {column.name for column in COLUMNS if column.later}
    wanted = [feature.name for feature in _features(info) if feature.name not in later]
    absent = [name for name in wanted if name not in table.column_names]
    if absent:
        raise DatasetError(f"{root}: columns {absent} are missing; the folder was changed by another tool")
    ticks = np.zeros(table.num_rows, dtype=info.dtype)
    for column in info.columns:
        if column.later and column.name not in table.column_names:
            continue
        ticks[column.field] = to_numpy(table, column.name).reshape(ticks[column.field].shape)
        if column.optional:
            ticks[column.field][~to_numpy(table, f"{column.name}_valid")] = np.nan
    return [
        Episode(
            ticks=ticks[row["dataset_from_index"] : row["dataset_to_index"]],
            joint_names=info.joint_names,
            period_ns=info.period_ns,
            success=row["success"],
            policy_id=row["policy_id"],
            robot=info.robot,
            operator=row["operator"],
            info=json.loads(row["info"]),
        )
        for row in read_episodes(root)
    ]


def intervention_phase(ticks: np.ndarray) -> np.ndarray:
    """Phase of every tick, shape (T,), int64."""
    phase = np.full(len(ticks), Phase.AUTONOMOUS, dtype=np.int64)
    phase[ticks["source"] == Source.HOLD] = Phase.PAUSED
    phase[ticks["source"] == Source.BLEND] = Phase.BLEND
    phase[ticks["source"] == Source.REWIND] = Phase.REWIND
    phase[(ticks["intervention"] == 1) & (ticks["source"] == Source.HUMAN)] = Phase.CORRECTING
    return phase


def _dataset_info(episode: Episode, *, repo_id: str, task: str, calibration: ArmCalibration) -> DatasetInfo:
    return DatasetInfo(
        schema=SCHEMA,
        repo_id=repo_id,
        task=task,
        robot=episode.robot,
        joint_names=episode.joint_names,
        num_actions=episode.ticks["base_action"].shape[1],
        period_ns=episode.period_ns,
        units={column.name: column.unit for column in COLUMNS},
        calibration=calibration,
        further=further_of(episode.ticks.dtype),
    )


def _check_calibrated(info: DatasetInfo) -> None:
    calibration = info.calibration
    if calibration.robot != info.robot or set(calibration.joints) != set(info.joint_names):
        raise DatasetError(
            f"the joint calibration is for {calibration.robot!r} with joints {list(calibration.joints)}, the episodes are of "
            f"{info.robot!r} with {list(info.joint_names)}; give the calibration that they were recorded with"
        )


def _fps(period_ns: int) -> int:
    return round(1e9 / period_ns)


def _check_episode(episode: Episode, index: int, info: DatasetInfo, fps: int) -> None:
    if fps * episode.period_ns != 1_000_000_000:
        raise DatasetError(
            f"episode {index}: its period is {episode.period_ns} ns ({1e9 / episode.period_ns:g} Hz), the dataset has fps = {fps}; "
            "both must agree exactly"
        )
    if episode.robot != info.robot or episode.joint_names != info.joint_names:
        raise DatasetError(
            f"episode {index}: robot {episode.robot!r} with joints {list(episode.joint_names)} does not fit the dataset's "
            f"{info.robot!r} with {list(info.joint_names)}; keep one dataset per robot"
        )
    expected = info.dtype
    if len(episode.ticks) == 0 or episode.ticks.dtype != expected:
        raise DatasetError(
            f"episode {index}: needs at least one tick of dtype {expected}, got {episode.ticks.shape} {episode.ticks.dtype}"
        )
    for column in info.columns:
        if not column.optional and not np.isfinite(episode.ticks[column.field]).all():
            tick = int(np.argwhere(~np.isfinite(episode.ticks[column.field]))[0][0])
            raise DatasetError(
                f"episode {index}, tick {tick}: {column.field} is not finite; cut the episode to the ticks that were driven"
            )


def _names(column: Column, info: DatasetInfo) -> tuple[str, ...]:
    shape = info.dtype[column.field].shape
    if not shape:
        return (column.name,)
    if column.field == "target":
        return ("x", "y", "z")
    if column.field in dict(info.further):
        return tuple(f"{column.field}_{index}" for index in range(shape[0]))
    if column.field in ("base_action", "residual_action"):
        return tuple(f"action_{index}" for index in range(info.num_actions))
    return tuple(f"{joint}.{'vel' if column.field == 'joint_vel' else 'pos'}" for joint in info.joint_names)


def _features(info: DatasetInfo) -> list[Feature]:
    def flag(name: str, dtype: str) -> Feature:
        return Feature(name=name, dtype=dtype, names=(name,))

    columns = info.columns
    features = [Feature(name=column.name, dtype=column.dtype, names=_names(column, info)) for column in columns]
    features += [flag(f"{column.name}_valid", "bool") for column in columns if column.optional]
    features += [flag("intervention_phase", "int64"), flag("next.reward", "float32")]
    return features + [flag(f"next.{name}", "bool") for name in ("done", "success", "truncated")]


def _frames(episode: Episode, info: DatasetInfo) -> dict[str, np.ndarray]:
    ticks = episode.ticks
    frames: dict[str, np.ndarray] = {}
    for column in info.columns:
        values = ticks[column.field]
        if column.optional:
            valid = np.asarray(np.isfinite(values).all(axis=1))
            # An absent human or policy proposes what was executed; an absent network proposes nothing.
            absent = (
                ticks["executed_target"] if values.shape == ticks["executed_target"].shape else np.zeros_like(values)
            )
            if column.field in ("base_action", "residual_action") or column.field.startswith("part."):
                absent = np.zeros_like(values)
            frames[f"{column.name}_valid"] = valid
            values = np.where(valid[:, None], values, absent)
        frames[column.name] = values
    last = np.arange(len(ticks)) == len(ticks) - 1
    frames["intervention_phase"] = intervention_phase(ticks)
    frames["next.done"] = last
    frames["next.success"] = last & episode.success
    frames["next.truncated"] = last & (
        not episode.success
    )  # an attempt that did not succeed ended by time or by a person
    frames["next.reward"] = frames["next.success"].astype(np.float32)
    return frames


def _episode_columns(episodes: Sequence[Episode]) -> dict[str, list[object]]:
    def interventions(episode: Episode) -> int:
        return int((np.diff(episode.ticks["intervention"], prepend=0) == 1).sum())

    return {
        "success": [bool(e.success) for e in episodes],
        "policy_id": [e.policy_id for e in episodes],
        "robot_id": [e.robot for e in episodes],
        "operator": [e.operator for e in episodes],
        "n_interventions": [interventions(e) for e in episodes],
        "info": [json.dumps(e.info) for e in episodes],
    }


def _beside(root: Path, suffix: str) -> Path:
    return root.with_name(f".{root.name}.{suffix}")


def _exchange(root: Path, new: Path) -> None:
    # A folder cannot replace another in one step everywhere; between the two renames the old one waits where _recover finds it.
    old = _beside(root, "old")
    _recover(root)
    if root.exists():
        os.rename(root, old)
    os.rename(new, root)
    shutil.rmtree(old, ignore_errors=True)


def _recover(root: Path) -> None:
    """Undo an exchange that was interrupted, or finish one that only lacked the clean-up."""
    old = _beside(root, "old")
    if old.exists() and not root.exists():
        os.rename(old, root)
    shutil.rmtree(old, ignore_errors=True)
