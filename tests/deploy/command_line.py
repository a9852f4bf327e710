"""The `isthmus` command as a user calls it, in a process of its own, without a terminal unless asked for."""

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from deploy_fakes import SPEC

from isthmus.hardware.joint_calibration import ArmCalibration
from isthmus.hardware.virtual.client import VirtualArm

PROGRAM = (sys.executable, "-c", "from isthmus.deploy.cli import main; main()")
PATIENCE_S = 240.0  # on a busy computer
Refuse = Callable[..., str]  # the fixture of that name, in conftest.py
MOTION_RAD = np.deg2rad(0.5)  # an arm that hangs limp and is not driven stays within


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a command ended."""

    code: int
    out: str
    err: str

    def refused(self, *words: str) -> str:
        """Check that it refused in words a user can act on; returns them."""
        assert self.code == 2, f"exit code {self.code}\n{self.out}\n{self.err}"
        assert "Traceback" not in self.out + self.err
        before, begun, said = self.err.strip().rpartition("isthmus: ")
        assert begun and (not before or before.endswith("\n")), self.err
        said = begun + said
        for word in words:
            assert word in said, f"{word!r} is not in {said!r}"
        return said


class Running:
    """A command that runs; in a process group of its own, as a shell starts it."""

    def __init__(
        self, *arguments: object, folder: Path, program: tuple[str, ...] = PROGRAM, keyboard: bool = False
    ) -> None:
        keys, terminal = os.openpty() if keyboard else (-1, subprocess.DEVNULL)
        self._keys = keys
        self._printed = Path(tempfile.mkdtemp(dir=folder, prefix="printed-"))
        with (self._printed / "out").open("wb") as out, (self._printed / "err").open("wb") as err:
            self._process = subprocess.Popen(
                [*program, *map(str, arguments)],
                cwd=folder,
                stdin=terminal,
                stdout=out,
                stderr=err,
                start_new_session=True,  # its group is its own, and it has no terminal but this one
                preexec_fn=_take_terminal if keyboard else None,
            )
        if keyboard:
            os.close(terminal)

    @property
    def out(self) -> str:
        """What it has printed so far."""
        return (self._printed / "out").read_text()

    @property
    def err(self) -> str:
        """What it has printed on stderr so far."""
        return (self._printed / "err").read_text()

    @property
    def terminal(self) -> int:
        """Its terminal, from the other side."""
        return self._keys

    @property
    def group(self) -> int:
        """Its process group, and its own process id."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Whether it has ended by itself."""
        return self._process.poll() is not None

    def until(self, condition, what: str) -> None:
        """Wait until a condition holds while the command runs."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert not self.ended, f"ended before {what}: {self.out}\n{self.err}"
            assert time.monotonic() < deadline, f"nothing of {what}"
            time.sleep(0.05)

    def press(self, keys: str) -> None:
        """Keys of its terminal."""
        os.write(self._keys, keys.encode())

    def interrupt(self) -> None:
        """Ctrl-C: the terminal signals the whole group."""
        os.killpg(self._process.pid, signal.SIGINT)

    def terminate(self) -> None:
        """What a service manager does: SIGTERM to the command itself."""
        self._process.terminate()

    def outcome(self) -> Outcome:
        """Wait for the end, and check that nothing of it is left."""
        try:
            code = self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            raise
        deadline = time.monotonic() + 20.0
        while left := members(self._process.pid):
            assert time.monotonic() < deadline, f"left behind: {left}"
            time.sleep(0.1)
        if self._keys >= 0:
            os.close(self._keys)
            self._keys = -1
        return Outcome(code=code, out=self.out, err=self.err)


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def isthmus(*arguments: object, folder: Path) -> Outcome:
    """Run a command to its end in a folder."""
    return Running(*arguments, folder=folder).outcome()


def members(group: int) -> list[str]:
    """Processes of a group that live, and virtual arms that its leader started, by pid and name."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            name, rest = (process / "stat").read_text().rsplit(")", 1)
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        state, _, its_group = rest.split()[:3]
        is_arm = b"isthmus.hardware.virtual.server" in words and b"--parent" in words
        is_arm = is_arm and words[words.index(b"--parent") + 1] == b"%d" % group
        if state != "Z" and (int(its_group) == group or is_arm):
            found.append(name)
    return found


def nominal_joints(folder: Path) -> Path:
    """A joint calibration file, as a real arm needs one."""
    path = folder / "nominal.json"
    ArmCalibration.nominal(SPEC).save(path)
    return path


def moved_rad(arm: VirtualArm, before: np.ndarray) -> float:
    """How far the joints went at most since then."""
    return float(np.abs(arm.truth().joint_pos - before).max())
