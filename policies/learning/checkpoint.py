"""Files of a training run that are whole or absent, and that load without running code.

`checkpoint.pt` holds networks, optimiser and counters. `resume-<iteration>-<process>.pt` holds what only an exact continuation needs:
random state, hidden states and simulated worlds, of one process each. The newest checkpoint and the one before it stay.
"""

import contextlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

import torch

from isthmus.hardware.errors import IsthmusError

TEMPORARY = ".tmp"  # of files that are being written
CHECKPOINT_FILE, PREVIOUS_FILE = "checkpoint.pt", "checkpoint.previous.pt"

# Tensors, numbers, text and None, in dicts, lists and tuples: what loads with weights_only.
State = Mapping[str, object]


class CheckpointError(IsthmusError, ValueError):
    """A checkpoint is not one of ours or does not fit the configuration."""


@runtime_checkable
class Resumable(Protocol):
    """An environment that can be left and taken up again with the same bits."""

    def state_dict(self) -> dict[str, object]:
        """All that its future depends on, its random generators included: tensors, numbers, text, and dicts and lists of those."""
        ...

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Go on from there; raises ValueError for the state of another environment."""
        ...


def write_state(path: Path, state: State) -> None:
    """Write `state` so that `path` at any time, even after a power cut, is a whole file: the old one or the new one.

    Raises:
        CheckpointError: the disk is full or does not let itself be written; what was there is as it was.
    """
    temporary = path.with_name(path.name + TEMPORARY)
    try:
        with temporary.open("wb") as file:
            torch.save(dict(state), file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except (OSError, RuntimeError) as error:  # torch makes a RuntimeError of what writing raises
        with contextlib.suppress(OSError):
            temporary.unlink()  # part of a file, and the space may be needed
        raise CheckpointError(
            f"{path} cannot be written: {_cause(error)}{_room(path.parent)}; what was saved before is kept"
        ) from None


def read_state(path: Path) -> dict[str, object]:
    """A file of `write_state`; nothing in it is run.

    Raises:
        CheckpointError: no such file, or no checkpoint.
    """
    try:
        state = torch.load(path, weights_only=True, map_location="cpu")
    except FileNotFoundError:
        raise CheckpointError(
            f"{path} does not exist; expected a file that training has written{_alternative(path)}"
        ) from None
    except Exception as error:  # what is no checkpoint makes torch raise anything from EOFError to struct.error
        raise CheckpointError(f"{path} cannot be used: {_reason(error)}{_alternative(path)}") from None
    if not isinstance(state, dict):
        raise CheckpointError(
            f"{path} is not a checkpoint of isthmus: it holds a {type(state).__name__}{_alternative(path)}"
        )
    return state


def _reason(error: Exception) -> str:
    """Without torch's advice to load the file without a guard."""
    if "weights_only" in str(error) or not isinstance(error, OSError | RuntimeError | EOFError):
        return "it is no checkpoint, or holds more than tensors, numbers and text, and nothing else is loaded"
    return str(error) or f"{type(error).__name__}, it is empty or cut off"


def _alternative(path: Path) -> str:
    previous = path.with_name(PREVIOUS_FILE)
    return f"; the one before it is {previous}" if path.name == CHECKPOINT_FILE and previous.is_file() else ""


def resume_file(directory: Path, iteration: int, rank: int) -> Path:
    """Where process `rank` keeps what an exact continuation needs."""
    return directory / f"resume-{iteration}-{rank}.pt"


def publish_checkpoint(directory: Path, state: State) -> Path:
    """Make `state` the newest checkpoint, keep the one before it, and drop resume files that belong to neither.

    The resume files of this iteration must have been written: a checkpoint never points to what is not there.
    """
    path, previous = directory / CHECKPOINT_FILE, directory / PREVIOUS_FILE
    newest = _read_if_whole(path)
    if newest is not None and newest["iteration"] != state["iteration"]:
        write_state(previous, newest)
    write_state(path, state)
    before = _read_if_whole(previous)
    kept = {str(each["iteration"]) for each in (state, before) if each is not None}
    for file in directory.glob("resume-*-*.pt"):
        if file.stem.split("-")[1] not in kept:
            file.unlink(missing_ok=True)
    for file in directory.glob(f"resume-*-*.pt{TEMPORARY}"):  # of processes that were killed while they wrote
        file.unlink(missing_ok=True)
    return path


def _read_if_whole(path: Path) -> dict[str, object] | None:
    """None for what is not there or was not written here, which needs no keeping."""
    try:
        state = read_state(path)
    except CheckpointError:
        return None
    return state if "iteration" in state else None


def _cause(error: BaseException) -> str:
    """What the system said, also where torch said something in its place."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError):
            return cause.strerror or str(cause)
        cause = cause.__cause__ or cause.__context__
    return str(error).splitlines()[0]


def _room(folder: Path) -> str:
    try:
        return f" ({shutil.disk_usage(folder).free / 1e6:.0f} MB are free there)"
    except OSError:
        return ""


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
