"""One runtime per robot: a lock that the kernel gives back whatever becomes of its holder, and a look at who else has the device."""

import contextlib
import fcntl
import json
import os
import stat
import time
from dataclasses import asdict, dataclass
from multiprocessing.process import parent_process
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

from isthmus.hardware.errors import RobotInUse
from isthmus.hardware.port_users import command_of, port_users

_SHARED_FOLDERS = (Path("/run/lock"), Path("/tmp"))


@dataclass(frozen=True, kw_only=True)
class Holder:
    """Who has a robot."""

    pid: int  # of the command that a person started
    command: str
    since: str  # local time


def robot_key(device: str) -> str:
    """What a lock file is called: the real device of a port, however it was named, or else the robot's name, e.g. its address."""
    return quote(os.path.realpath(device) if os.path.exists(device) else device, safe="")


def lock_folder() -> Path:
    """Where every user of this machine may make a file."""
    return next((folder for folder in _SHARED_FOLDERS if _is_shared(folder)), _SHARED_FOLDERS[-1])


class RobotLock:
    """Holds a robot until it is closed or this process ends, by whatever signal. A file that is left behind locks nothing."""

    def __init__(self, device: str, *, folder: Path | None = None) -> None:
        """Take the lock.

        Args:
            device: serial port, or the name of a robot without one.
            folder: of the lock files; None: `lock_folder`.

        Raises:
            RobotInUse: another process holds it; names that, since when, and what to do.
        """
        self.path = (lock_folder() if folder is None else folder) / f"isthmus-{robot_key(device)}.lock"
        self._fd = _open_shared(self.path)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = _taken(device, self.path, _read_holder(self._fd))
            self.close()
            raise RobotInUse(text) from None
        _write_holder(self._fd)

    def close(self) -> None:
        """Give the robot back; may be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> "RobotLock":
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()


def check_free(device: str) -> None:
    """Raise RobotInUse where a runtime or a foreign program has the robot; holds nothing afterwards.

    For a command that would otherwise change files before its runtime process finds out.
    """
    with RobotLock(device):
        refuse_foreign(device)


def refuse_foreign(device: str) -> None:
    """Raise RobotInUse where another program has the device open, with or without a lock; names it.

    Two programs that write to one bus garble each other's packets, and not every one takes the port for itself.
    """
    users = port_users(device)
    if not users:
        return
    remedy = f"end it first (kill {users[0].pid})"
    if any("ModemManager" in user.command for user in users):
        remedy = "ModemManager takes serial adapters for modems: sudo systemctl stop ModemManager"
    raise RobotInUse(
        f"{device} is in use by another process: {', '.join(map(str, users))}; {remedy}: only one program may speak on a bus"
    )


def _is_shared(folder: Path) -> bool:
    try:
        return bool(folder.stat().st_mode & stat.S_IWOTH)
    except OSError:
        return False


def _open_shared(path: Path) -> int:
    """A file that every user may open; raises RobotInUse where this one may not.

    One that exists is opened without O_CREAT, which the kernel refuses in a sticky folder for a file of another user.
    """
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        with contextlib.suppress(FileNotFoundError):
            return os.open(path, flags)
        with contextlib.suppress(FileExistsError):  # somebody was faster
            descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
            os.fchmod(descriptor, 0o666)  # whatever the umask
            return descriptor
        return os.open(path, flags)
    except OSError as error:
        raise RobotInUse(
            f"cannot open the lock file {path} ({error.strerror}), so another runtime might drive this robot; "
            "remove that file, or give yourself access to it"
        ) from None


def _write_holder(descriptor: int) -> None:
    """For people only: what counts is the lock. A full disk must not keep a robot from being driven."""
    parent = parent_process()
    pid = os.getpid() if parent is None or parent.pid is None else parent.pid  # the command that a person started
    holder = Holder(pid=pid, command=command_of(pid), since=time.strftime("%Y-%m-%d %H:%M:%S"))
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(asdict(holder)).encode(), 0)


def _read_holder(descriptor: int) -> Holder | None:
    """None where nobody has written it yet, or where that command is gone and left its runtime behind for a moment."""
    try:
        data = json.loads(os.pread(descriptor, 4096, 0))
        holder = Holder(pid=int(data["pid"]), command=str(data["command"]), since=str(data["since"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return holder if Path(f"/proc/{holder.pid}").exists() else None


def _taken(device: str, path: Path, holder: Holder | None) -> str:
    if holder is None:
        return f"{device} is driven by another isthmus process; end that one first (fuser {path} names it): one runtime per robot"
    return (
        f"{device} is driven by process {holder.pid} ({holder.command}) since {holder.since}; "
        f"end that one first, by Ctrl-C in its terminal or kill {holder.pid}: one runtime per robot"
    )
