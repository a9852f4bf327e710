"""Compiled policies on emulated microcontrollers: the self-test, instructions a step, flash and RAM."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from isthmus.hardware.errors import IsthmusError

FOLDER = Path(__file__).with_name("board")
COMPILER, SIZE, EMULATOR = "arm-none-eabi-gcc", "arm-none-eabi-size", "qemu-system-arm"
PACKAGES = "gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm"
FLAGS = ("-std=c99", "-O2", "-mthumb", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror")
TIMEOUT_S = 120.0


class BoardError(IsthmusError):
    """A policy could not be built for, or run on, an emulated microcontroller."""


@dataclass(frozen=True, kw_only=True)
class Board:
    """A microcontroller that QEMU emulates."""

    name: str
    flags: tuple[str, ...]  # of the compiler
    machine: str  # of QEMU


BOARDS = (
    Board(name="Cortex-M4F", flags=("-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"), machine="mps2-an386"),
    Board(name="Cortex-M7", flags=("-mcpu=cortex-m7", "-mfpu=fpv5-sp-d16", "-mfloat-abi=hard"), machine="mps2-an500"),
)


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What a policy takes. QEMU counts instructions, not cycles."""

    instructions: int  # a step, mean over the golden rows
    flash: int  # bytes of code and tables, with what they need of the mathematical library
    ram: int  # bytes of state, scratch, inputs and outputs
    said: str  # what the self-test said


def missing_tools() -> list[str]:
    """Programs that are needed and not there."""
    return [tool for tool in (COMPILER, SIZE, EMULATOR) if shutil.which(tool) is None]


def measure(source: Path, name: str, board: Board, folder: Path) -> Figures:
    """Build a source for a board, run its self-test there, count.

    Args:
        source: the .c file, its header beside it.
        name: beginning of its names.
        board: where to run.
        folder: for what is built.

    Raises:
        BoardError: a tool is missing, the source does not compile, or the self-test fails.
    """
    missing = missing_tools()
    if missing:
        raise BoardError(f"{', '.join(missing)} not found; on Debian and Ubuntu: sudo apt-get install {PACKAGES}")
    tested, program, alone = (folder / f"{name}{end}" for end in ("_tested.o", ".elf", "_alone.elf"))
    common = [COMPILER, *FLAGS, *board.flags]
    _run([*common, "-DISTHMUS_SELFTEST", "-include", str(FOLDER / "count.h"), "-c", str(source), "-o", str(tested)])
    start = ["--specs=rdimon.specs", str(FOLDER / "startup.c"), "-T", str(FOLDER / "mps2.ld")]
    _run([*common, str(tested), *start, "-o", str(program), "-lm"])
    only = ["-nostartfiles", "-Wl,--gc-sections", f"-Wl,-e,{name}_step", f"-Wl,-u,{name}_reset"]
    _run([*common, *only, str(source), "-o", str(alone), "-lm"])
    semihosting = ["-semihosting-config", "enable=on,target=native", "-icount", "shift=0"]
    quiet = ["-nographic", "-monitor", "none", "-serial", "none"]
    said = _run([EMULATOR, "-M", board.machine, *quiet, *semihosting, "-kernel", str(program)])
    counted = re.search(r"instructions (\d+), bytes of structs (\d+)", said)
    if counted is None:
        raise BoardError(f"{source} on {board.name}: the self-test did not come to its end: {said}")
    flash = int(_run([SIZE, str(alone)]).splitlines()[-1].split()[0])
    return Figures(instructions=int(counted[1]), flash=flash, ram=int(counted[2]), said=said.splitlines()[0])


def _run(command: list[str]) -> str:
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise BoardError(f"{command[0]} took more than {TIMEOUT_S:.0f} s") from None
    if result.returncode != 0:
        raise BoardError(
            f"{' '.join(command)} failed with {result.returncode}: {(result.stderr or result.stdout)[-2000:]}"
        )
    return result.stdout
