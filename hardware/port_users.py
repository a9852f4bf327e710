"""Who else has a device open: Linux tells of every process that this user may look into."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_SHOWN = 60  # characters of a command line
_MEMORY_MAJOR = 1  # Linux, Documentation/admin-guide/devices.txt: mem, null, zero, random
_PTY_FOLDER = "/dev/pts/"
_PTY_MASTERS = ("/dev/ptmx", "/dev/pts/ptmx")


@dataclass(frozen=True, kw_only=True)
class PortUser:
    """A process that has a device open."""

    pid: int
    command: str

    def __str__(self) -> str:
        return f"process {self.pid} ({self.command})"


def port_users(port: str) -> list[PortUser]:
    """Other processes that have this device open, by pid; those of other users are seen by root only.

    A pseudo terminal's other end is the device itself, so whoever has it is no user; and /dev/null is everybody's.
    """
    real = os.path.realpath(port)
    if _is_memory(real):
        return []
    return [
        PortUser(pid=pid, command=command_of(pid))
        for pid in sorted(_pids())
        if pid != os.getpid() and _uses(real, _open_files(pid))
    ]


def command_of(pid: int) -> str:
    """The command line of a process, cut to a readable length; "?" where it is gone."""
    try:
        words = (_PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ").strip()
        name = words or (_PROC / str(pid) / "comm").read_text().strip()
    except OSError:
        return "?"
    return name if len(name) <= _SHOWN else f"{name[: _SHOWN - 3]}..."


def _is_memory(path: str) -> bool:
    try:
        info = Path(path).stat()
    except OSError:
        return False
    return stat.S_ISCHR(info.st_mode) and os.major(info.st_rdev) == _MEMORY_MAJOR


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in _PROC.glob("[0-9]*"))


def _uses(port: str, files: set[str]) -> bool:
    return port in files and not (port.startswith(_PTY_FOLDER) and files.intersection(_PTY_MASTERS))


def _open_files(pid: int) -> set[str]:
    found: set[str] = set()
    try:
        for descriptor in os.scandir(_PROC / str(pid) / "fd"):
            found.add(_target(descriptor.path))
    except OSError:  # not ours to look into, or gone
        pass
    return found


def _target(link: str) -> str:
    try:
        return os.readlink(link)
    except OSError:  # closed meanwhile
        return ""
