"""The yardstick in C: compiled where it runs, and run at the priority and on the CPU of the loop that is compared with it."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from isthmus.hardware.errors import IsthmusError

from .punctuality import Segment

SOURCE = Path(__file__).with_name("nanosleep.c")
_COMPILERS = ("cc", "gcc", "clang")


class BenchError(IsthmusError):
    """A measurement that could not be made."""


@dataclass(frozen=True, kw_only=True)
class Scheduling:
    """What the operating system gave a process."""

    priority: int  # of SCHED_FIFO; 0: the usual scheduling
    cpu: int  # the only one; -1: any


def own_scheduling() -> Scheduling:
    """Of this process."""
    fifo = os.sched_getscheduler(0) == os.SCHED_FIFO
    cpus = os.sched_getaffinity(0)
    priority = os.sched_getparam(0).sched_priority if fifo else 0
    return Scheduling(priority=priority, cpu=next(iter(cpus)) if len(cpus) == 1 else -1)


def build(folder: Path) -> Path:
    """Compile the program into a folder; returns its path.

    Raises:
        BenchError: no compiler, or it failed; says which.
    """
    compiler = next((found for name in _COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        raise BenchError(
            f"none of {', '.join(_COMPILERS)} is on PATH: the loop in C, to which ours is compared, cannot be compiled;"
            " install one, such as: apt install gcc"
        )
    program = folder / "nanosleep"
    command = [compiler, "-O2", "-std=gnu11", "-o", str(program), str(SOURCE)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["no output"]
        raise BenchError(f"{compiler} could not compile {SOURCE.name}: {said[0]}")
    return program


def run(program: Path, *, period_ns: int, ticks: int, scheduling: Scheduling) -> Segment:
    """One segment of the loop in C.

    Raises:
        BenchError: the program failed; carries what it said.
    """
    words = (period_ns, ticks, scheduling.priority, scheduling.cpu)
    done = subprocess.run([str(program), *map(str, words)], check=False, capture_output=True)
    if done.returncode:
        raise BenchError(f"the loop in C failed: {done.stderr.decode(errors='replace').strip()}")
    values = np.frombuffer(done.stdout, dtype=np.int64)
    pairs = values[:-1].reshape(ticks, 2)
    return Segment(deadline_ns=pairs[:, 0].copy(), wake_ns=pairs[:, 1].copy(), cpu_s=1e-9 * int(values[-1]))
