"""Whether a recording has room, found out before anything moves."""

import shutil
from pathlib import Path

from isthmus.hardware.errors import IsthmusError

from .record import LogMetadata

_BYTES_PER_NUMBER = 20  # as JSON, not compressed: what a log needs at most
_RESERVE_BYTES = 16 << 20  # for whatever else writes there meanwhile


class NoSpaceError(IsthmusError):
    """The disk has no room for what a command is about to record."""


def log_bytes(metadata: LogMetadata, seconds: float) -> int:
    """The size of a recording at most."""
    names = metadata.dtype.names or ()
    numbers = sum(max(1, _width(metadata.dtype[name].shape)) for name in names)
    return round(seconds * 1e9 / metadata.period_ns * numbers * _BYTES_PER_NUMBER)


def check_space(option: str, path: Path, needed: int) -> None:
    """Raise NoSpaceError where the folder of a file has no room for so many bytes."""
    try:
        free = shutil.disk_usage(path.absolute().parent).free
    except OSError as error:
        raise NoSpaceError(f"{option} {path}: the space of its folder cannot be told: {error.strerror}") from None
    if free < needed + _RESERVE_BYTES:
        raise NoSpaceError(
            f"{option} {path}: {_size(free)} are free, and the recording may need {_size(needed)} and some reserve; "
            "make room, record on another disk, or run for a shorter time"
        )


def _width(shape: tuple[int, ...]) -> int:
    return shape[0] if shape else 1


def _size(number: int) -> str:
    return f"{number / (1 << 20):.1f} MiB" if number < 1 << 30 else f"{number / (1 << 30):.1f} GiB"
