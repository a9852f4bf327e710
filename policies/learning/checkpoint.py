"""Files of a training run that are whole or absent, and that load without running code.

`checkpoint.pt` holds networks, optimiser and counters. `resume-<iteration>-<process>.pt` holds what only an exact continuation needs:
random state, hidden states and simulated worlds, of one process each. The newest checkpoint and the one before it stay.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

import torch

from isthmus.hardware.errors import IsthmusError

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
    """Write `state` so that `path` at any time, even after a power cut, is a whole file: the old one or the new one."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        torch.save(dict(state), file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    _sync_folder(path.parent)


def read_state(path: Path) -> dict[str, object]:
    """A file of `write_state`; nothing in it is run.

    Raises:
        CheckpointError: no such file, or no checkpoint.
    """
    try:
        state = torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:  # what is no checkpoint makes torch raise anything from EOFError to struct.error
        raise CheckpointError(f"{path} cannot be used: {error}{_alternative(path)}") from None
    if not isinstance(state, dict):
        raise CheckpointError(
            f"{path} is not a checkpoint of isthmus: it holds a {type(state).__name__}{_alternative(path)}"
        )
    return state


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
    return path


def _read_if_whole(path: Path) -> dict[str, object] | None:
    """None for what is not there or was not written here, which needs no keeping."""
    try:
        state = read_state(path)
    except CheckpointError:
        return None
    return state if "iteration" in state else None


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
