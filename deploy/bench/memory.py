"""What a loop keeps: allocations in Python, resident memory; and CPU time of another process."""

import os
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Memory that was allocated in some calls and not given back."""

    grown_bytes: int
    calls: int
    where: str  # the lines that hold most of it, "" for none


@dataclass(frozen=True, kw_only=True)
class Growth:
    """Memory over a long run."""

    minutes: float
    loop_kib: int  # resident memory at the end, less that after a tenth of the time
    recorder_kib: int


def kept(step: Callable[[], None], calls: int, *, settling: int) -> Kept:
    """What `calls` calls allocate and keep, after `settling` calls for whatever is kept for good from the first on.

    The least of three stretches: a counter that outgrows its bits costs some bytes once, what is kept in every call grows in all of them.
    """
    held = np.zeros(4, dtype=np.int64)  # allocated beforehand: an int of ours would count
    tracemalloc.start()
    try:
        _repeat(step, settling)
        for stretch in range(4):
            held[stretch] = tracemalloc.get_traced_memory()[0]
            _repeat(step, calls)
        grown = int(np.diff(held).min())
        return Kept(grown_bytes=grown, calls=calls, where=_growth(step, calls) if grown > 0 else "")
    finally:
        tracemalloc.stop()


def resident_kib(pid: int) -> int:
    """Resident memory of a process, KiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


def cpu_s(pid: int) -> float:
    """CPU time of a process, all its threads, s; in steps of about 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _growth(step: Callable[[], None], calls: int) -> str:
    """Lines that grow most in yet as many calls."""
    without = (tracemalloc.Filter(False, tracemalloc.__file__),)
    tracemalloc.take_snapshot().filter_traces(without)  # what looking itself keeps, such as compiled patterns
    before = tracemalloc.take_snapshot().filter_traces(without)
    _repeat(step, calls)
    lines = tracemalloc.take_snapshot().filter_traces(without).compare_to(before, "lineno")[:3]
    named = [(Path(line.traceback[0].filename).name, line.traceback[0].lineno, line.size_diff) for line in lines]
    return ", ".join(f"{name}:{number} {size:+d} B" for name, number, size in named if size > 0)


def _repeat(step: Callable[[], None], calls: int) -> None:
    for _ in range(calls):
        step()
