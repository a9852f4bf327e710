"""One training at a time in a directory."""

import errno
import fcntl
from pathlib import Path
from typing import IO

from isthmus.hardware.errors import IsthmusError

LOCK_FILE = "train.lock"


class RunLockError(IsthmusError, ValueError):
    """Another process trains in a directory."""


class RunLock:
    """A context that one process can be in for each directory, as often as it likes with one object of this class.

    The system lets go of it when the process ends in whatever way; the file stays and says nothing.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._file: IO[str] | None = None
        self._depth = 0

    def __enter__(self) -> "RunLock":
        """Raises RunLockError where somebody else is in."""
        if self._depth == 0:
            self._file = self._taken()
        self._depth += 1
        return self

    def __exit__(self, *_: object) -> None:
        """Let others in, when the outermost context ends."""
        self._depth -= 1
        if self._depth == 0 and self._file is not None:
            self._file.close()
            self._file = None

    def _taken(self) -> IO[str]:
        path = self.directory / LOCK_FILE
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            file = path.open("a")
        except OSError as error:
            raise RunLockError(
                f"cannot write in {self.directory}: {error.strerror}; choose another place, or free this one"
            ) from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                file.close()
                raise RunLockError(
                    f"another process is training in {self.directory}: wait for it, stop it, or give another directory"
                ) from None
            # Some network disks know no locks; training there goes on without.
        return file


__all__ = ["LOCK_FILE", "RunLock", "RunLockError"]
