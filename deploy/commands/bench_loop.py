"""`isthmus bench loop`."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from isthmus.hardware.structure import write_json

from ..bench.machine import machine_text
from ..bench.memory import Growth, Kept
from ..bench.punctuality import Punctuality, Segment, punctuality

if TYPE_CHECKING:
    from ..bench.own_process import OwnProcess

TRACED_TICKS = 500


@dataclass(frozen=True, kw_only=True)
class LoopRow:
    """One rate."""

    rate_hz: float
    granted: str  # what the operating system gave our loop; the one in C gets the same priority and CPU
    ours: Punctuality
    c: Punctuality
    busy: Punctuality | None  # ours, beside a busy Python process on another CPU
    recorder_cpu_us: float  # for each tick, in its own process
    dropped: int  # records lost, but for the traced ticks
    dropped_traced: int  # of the traced ticks, which come faster than most recorders can follow on a busy computer
    recorded: int  # records in the log
    ticks: int  # that we did in all, warming up and tracing included
    kept: Kept
    growth: Growth | None


@dataclass(frozen=True, kw_only=True)
class LoopTable:
    """The whole bench."""

    machine: str
    load: tuple[float, float, float]  # of the machine when it began, over 1, 5 and 15 minutes
    seconds: float
    rows: tuple[LoopRow, ...]


@dataclass(frozen=True, kw_only=True)
class BenchLoop:
    """Measure the real-time loop: a whole tick with safety and recording, against a loop in C that only sleeps.

    The two take turns, in short segments of one run, at the same priority and on the same CPU, so that whatever else the machine does meets
    both. The robot is a stub that costs next to nothing.
    """

    out: Path = Path("runs/bench-loop")
    """Directory for loop.json and the logs."""
    rates: tuple[float, ...] = (50.0, 200.0, 500.0, 1000.0)
    """Ticks per second."""
    seconds: float = 20.0
    """Of each loop at each rate."""
    segment: float = 2.0
    """Seconds until the other loop's turn."""
    busy: bool = False
    """Measure also beside a busy Python process on another CPU."""
    soak_minutes: float = 0.0
    """Minutes at the highest rate over which memory is watched; 0: none."""

    def run(self) -> int:
        """Measure, print a table, write it."""
        from rich.console import Console

        from ..bench.nanosleep import build

        self._check()
        console, load = Console(), os.getloadavg()
        table = LoopTable(machine=machine_text(), load=load, seconds=self.seconds, rows=())
        with TemporaryDirectory() as name:
            program = build(Path(name))
            for rate in self.rates:
                table = replace(table, rows=(*table.rows, self._row(rate, program, Path(name))))
                write_json(self.out / "loop.json", table)
        _print_table(table, console)
        console.print(f"wrote {self.out / 'loop.json'}")
        return 0

    def _check(self) -> None:
        from .checks import OptionError, check_folder, check_range

        if not self.rates:
            raise OptionError("--rates has no value; give at least one, in Hz")
        for rate in self.rates:
            check_range("--rates", rate, 1.0, 10000.0)
        check_range("--seconds", self.seconds, 0.1, 86400.0)
        check_range("--segment", self.segment, 0.1, 10.0)
        check_range("--soak-minutes", self.soak_minutes, 0.0, 100000.0)
        if min(self.segment, self.seconds) * min(self.rates) < 3:
            raise OptionError(
                f"--segment {self.segment:g} has fewer than 3 ticks at {min(self.rates):g} Hz; give more seconds"
            )
        if self.busy and len(os.sched_getaffinity(0)) < 2:
            raise OptionError("--busy needs a second CPU, and this process may use only one; leave it out")
        check_folder("--out", self.out)

    def _row(self, rate: float, program: Path, folder: Path) -> LoopRow:
        from ..bench.own_process import own_process
        from .bench_small_policy import write_small_bundle

        period_ns = round(1e9 / rate)
        bundle = write_small_bundle(folder / f"{rate:g}.onnx", period_ns)
        log = self.out / f"loop-{rate:g}.mcap"
        with own_process(bundle, log, realtime=True) as own:
            before_s = own.recorder_cpu_s()
            segments = self._segments(own, program, period_ns)
            recorder_s = own.recorder_cpu_s() - before_s
            soak = self.soak_minutes > 0 and rate == max(self.rates)
            growth = own.soak(self.soak_minutes, rate) if soak else None
            dropped = own.ticks(2).dropped
            kept = own.allocations(TRACED_TICKS)
            last = own.ticks(2)
        driven = sum(len(s.wake_ns) for name in ("first", "ours", "busy") for s in segments[name])
        return LoopRow(
            rate_hz=rate,
            granted=own.ready.granted,
            ours=punctuality(segments["ours"], period_ns),
            c=punctuality(segments["c"], period_ns),
            busy=punctuality(segments["busy"], period_ns) if self.busy else None,
            recorder_cpu_us=1e6 * recorder_s / driven,
            ticks=last.done,
            recorded=records_in(log),
            dropped=dropped,
            dropped_traced=last.dropped - dropped,
            kept=kept,
            growth=growth,
        )

    def _segments(self, own: "OwnProcess", program: Path, period_ns: int) -> dict[str, list[Segment]]:
        """In turns; who begins changes from round to round."""
        from ..bench.nanosleep import run

        length = min(self.segment, self.seconds)
        ticks = round(length * 1e9 / period_ns)
        done: dict[str, list[Segment]] = {"ours": [], "c": [], "busy": []}
        done["first"] = [own.segment(ticks)]  # meets cold caches, and is not used
        for turn in range(max(1, round(self.seconds / length))):
            for name in ("ours", "c") if turn % 2 == 0 else ("c", "ours"):
                if name == "c":
                    done["c"].append(run(program, period_ns=period_ns, ticks=ticks, scheduling=own.ready.scheduling))
                else:
                    done["ours"].append(own.segment(ticks))
            if self.busy:
                with busy_python(own.ready.scheduling.cpu):
                    done["busy"].append(own.segment(ticks))
        return done


@contextlib.contextmanager
def busy_python(but_cpu: int) -> Iterator[None]:
    """A Python process that computes without end, on any CPU but this one."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        others = os.sched_getaffinity(0) - {but_cpu}
        os.sched_setaffinity(process.pid, others)
        yield
    finally:
        process.kill()
        process.wait()


def records_in(log: Path) -> int:
    """Ticks in an MCAP file, by its own index."""
    from mcap.reader import make_reader

    with log.open("rb") as file:
        summary = make_reader(file).get_summary()
    if summary is None or summary.statistics is None:
        return 0
    channels = [number for number, channel in summary.channels.items() if channel.topic == "/tick"]
    return sum(summary.statistics.channel_message_counts.get(number, 0) for number in channels)


def _print_table(table: LoopTable, console) -> None:  # noqa: ANN001
    from rich.console import Console
    from rich.table import Table

    shown = Table("rate, Hz", "loop", "p50", "p90", "p99", "max", "p50 / C", "p99 / C", "missed", "rate error, %", "drift, %", "CPU a tick",
                  title="lateness of each wake-up and CPU time, us")  # fmt: skip
    for row in table.rows:
        for name, loop in (("isthmus", row.ours), ("beside a busy process", row.busy), ("C clock_nanosleep", row.c)):
            if loop is None:
                continue
            ratios = ("", "") if loop is row.c else (loop.p50_us / row.c.p50_us, loop.p99_us / row.c.p99_us)
            shown.add_row(
                f"{row.rate_hz:g}",
                name,
                *(f"{value:.0f}" for value in (loop.p50_us, loop.p90_us, loop.p99_us, loop.max_us)),
                *(ratio if isinstance(ratio, str) else f"{ratio:.2f}" for ratio in ratios),
                f"{loop.missed} of {loop.ticks}",
                f"{loop.rate_error_percent:+.4f}",
                f"{loop.drift_percent:+.4f}",
                f"{loop.cpu_us:.0f}",
            )
    Console(width=max(console.width, 150)).print(shown)
    for row in table.rows:
        console.print(_memory(row), highlight=False)
    console.print(table.rows[0].granted, f"load at the beginning: {table.load[0]:.1f}", highlight=False)


def _memory(row: LoopRow) -> str:
    where = f" ({row.kept.where})" if row.kept.where else ""
    parts = [
        f"{row.rate_hz:g} Hz: {row.recorded} of {row.ticks} ticks recorded, {row.dropped} dropped (traced: {row.dropped_traced})",
        f"{row.kept.grown_bytes:+d} B kept of {row.kept.calls} ticks{where}",
    ]
    if (growth := row.growth) is not None:
        parts.append(f"in {growth.minutes:g} min loop {growth.loop_kib:+d} KiB, recorder {growth.recorder_kib:+d} KiB")
    return "; ".join(parts)
