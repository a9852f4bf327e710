"""The `isthmus` command as a user calls it, in a process of its own without a terminal."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from deploy_fakes import SPEC

from isthmus.hardware.joint_calibration import ArmCalibration
from isthmus.hardware.virtual.client import VirtualArm

PROGRAM = (sys.executable, "-c", "from isthmus.deploy.cli import main; main()")
PATIENCE_S = 240.0  # on a busy computer
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
        said = self.err.strip().splitlines()[-1]
        assert said.startswith("isthmus: "), self.err
        for word in words:
            assert word in said, f"{word!r} is not in {said!r}"
        return said


class Running:
    """A command that runs; in a process group of its own, as a shell starts it."""

    def __init__(self, *arguments: object, folder: Path, program: tuple[str, ...] = PROGRAM) -> None:
        self._out, self._err = folder / "stdout.txt", folder / "stderr.txt"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(
                [*program, *map(str, arguments)],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,  # no terminal; and its group is its own
            )

    @property
    def ended(self) -> bool:
        """Whether it has ended by itself."""
        return self._process.poll() is not None

    def until(self, condition, what: str) -> None:  # noqa: ANN001
        """Wait until a condition holds while the command runs."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert not self.ended, f"ended before {what}: {self._out.read_text()}\n{self._err.read_text()}"
            assert time.monotonic() < deadline, f"nothing of {what}"
            time.sleep(0.05)

    def interrupt(self) -> None:
        """Ctrl-C: the terminal signals the whole group."""
        os.killpg(self._process.pid, signal.SIGINT)

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
        return Outcome(code=code, out=self._out.read_text(), err=self._err.read_text())


def isthmus(*arguments: object, folder: Path) -> Outcome:
    """Run a command to its end in a folder."""
    return Running(*arguments, folder=folder).outcome()


def members(group: int) -> list[str]:
    """Processes of a group that live, by pid and name."""
    found: list[str] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, rest = stat.read_text().rsplit(")", 1)
        except OSError:
            continue
        state, _, its_group = rest.split()[:3]
        if int(its_group) == group and state != "Z":
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
