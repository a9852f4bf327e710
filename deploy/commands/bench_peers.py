"""`isthmus bench peers`."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from isthmus.hardware.structure import write_json

from ..bench.machine import machine_text
from ..bench.punctuality import grid_lateness_us, interval_error_us, rate_error

SETTLED_S = 0.5  # of each run that are left out: imports, caches, first calls


@dataclass(frozen=True, kw_only=True)
class PeerRow:
    """One loop at one rate."""

    loop: str
    about: str
    asked_hz: float
    rate_hz: float  # that it kept
    p50_us: float  # lateness of the robot's reading against an ideal grid through the earliest
    p90_us: float
    p99_us: float
    interval_p99_us: float  # how far an interval between readings is from the period
    cpu_us: float  # CPU time of the process for each tick, all its threads
    ticks: int
    stops: tuple[str, ...]  # why runs ended before all their ticks, as when a tool's watchdog saw the machine stall


@dataclass(frozen=True, kw_only=True)
class PeerTable:
    """The whole bench."""

    machine: str
    load: tuple[float, float, float]  # of the machine when it began, over 1, 5 and 15 minutes
    rows: tuple[PeerRow, ...]


@dataclass(frozen=True, kw_only=True)
class BenchPeers:
    """Measure our loop beside those of holosoma-inference, motrix-deploy and efferent, and beside bare numpy and C, in one run.

    Each tool runs its own loop, in its own Python, on the same network and a robot of first order; each is as it ships, so only ours and C
    ask for real-time priority, and ours is measured without as well. What is measured is when the robot is read, by the same stamp for all.
    """

    out: Path = Path("runs/bench-peers")
    """Directory for peers.json and what the tools print."""
    rates: tuple[float, ...] = (50.0, 500.0)
    """Ticks per second."""
    seconds: float = 10.0
    """Of each loop at each rate, in every round."""
    rounds: int = 2
    """How often the loops take turns."""
    holosoma_python: Path | None = None
    """A Python with holosoma-inference 0.1.3."""
    motrix_python: Path | None = None
    """A Python with motrix-deploy 0.4.0."""
    efferent_python: Path | None = None
    """A Python with efferent 0.5.0."""

    def run(self) -> int:
        """Measure, print a table, write it."""
        from rich.console import Console

        self._check()
        console, load = Console(), os.getloadavg()
        table = PeerTable(machine=machine_text(), load=load, rows=())
        for rate in self.rates:
            table = replace(table, rows=(*table.rows, *self._rows(rate)))
            write_json(self.out / "peers.json", table)
        _print_table(table, console)
        console.print(f"wrote {self.out / 'peers.json'}")
        return 0

    def _check(self) -> None:
        from ..bench.contenders import PEERS, check_python
        from .checks import OptionError, check_folder, check_range

        if not self.rates:
            raise OptionError("--rates has no value; give at least one, in Hz")
        for rate in self.rates:
            check_range("--rates", rate, 1.0, 10000.0)
        check_range("--seconds", self.seconds, 0.1, 100.0)
        check_range("--rounds", self.rounds, 1)
        if self.seconds * min(self.rates) < 8:
            raise OptionError(
                f"--seconds {self.seconds:g} has fewer than 8 ticks at {min(self.rates):g} Hz; give more seconds"
            )
        for tool, package in PEERS.items():
            if (python := getattr(self, f"{tool}_python")) is not None:
                check_python(f"--{tool}-python", python, package)
        check_folder("--out", self.out)

    def _rows(self, rate: float) -> list[PeerRow]:
        """In turns; who begins changes from round to round."""
        from ..bench.contenders import Run, contenders
        from .bench_small_policy import write_small_bundle, write_small_network

        with TemporaryDirectory() as name:
            folder = Path(name)
            bundle = write_small_bundle(folder / "bundle.onnx", round(1e9 / rate))
            pythons = {tool: getattr(self, f"{tool}_python") for tool in ("holosoma", "motrix", "efferent")}
            found = contenders(bundle, write_small_network(folder), pythons, self.out)
            runs: dict[str, list[Run]] = {contender.name: [] for contender in found}
            for turn in range(self.rounds):
                first = turn % len(found)
                for contender in found[first:] + found[:first]:
                    runs[contender.name].append(contender.measure(rate, self.seconds))
        return [peer_row(loop, rate, done) for loop, done in runs.items()]


def peer_row(loop: str, rate: float, runs) -> PeerRow:  # noqa: ANN001
    """Figures of a loop over its runs."""
    period_ns = round(1e9 / rate)
    stamps = [run.stamps_ns[min(len(run.stamps_ns) // 4, round(SETTLED_S * rate)) :] for run in runs]
    late = np.concatenate([grid_lateness_us(stamp, period_ns) for stamp in stamps])
    intervals = np.concatenate([interval_error_us(stamp, period_ns) for stamp in stamps])
    p50, p90, p99 = np.quantile(late, (0.5, 0.9, 0.99))
    ticks = sum(len(run.stamps_ns) for run in runs)
    return PeerRow(
        loop=loop,
        about=runs[0].about,
        asked_hz=rate,
        rate_hz=rate * (1.0 + float(np.mean([rate_error(stamp, period_ns) for stamp in stamps]))),
        p50_us=float(p50),
        p90_us=float(p90),
        p99_us=float(p99),
        interval_p99_us=float(np.quantile(intervals, 0.99)),
        cpu_us=1e6 * sum(run.cpu_s for run in runs) / ticks,
        ticks=ticks,
        stops=tuple(run.stopped for run in runs if run.stopped),
    )


def _print_table(table: PeerTable, console) -> None:  # noqa: ANN001
    from rich.console import Console
    from rich.table import Table

    shown = Table("asked, Hz", "loop", "rate, Hz", "p50", "p90", "p99", "interval p99", "CPU a tick", "what",
                  title="lateness of each reading, error of the intervals, CPU time, us")  # fmt: skip
    for row in table.rows:
        shown.add_row(
            f"{row.asked_hz:g}",
            row.loop,
            f"{row.rate_hz:.3f}",
            *(f"{value:.0f}" for value in (row.p50_us, row.p90_us, row.p99_us, row.interval_p99_us, row.cpu_us)),
            f"{row.about}{f'; stopped itself: {row.stops[0]}' if row.stops else ''}",
        )
    Console(width=max(console.width, 150)).print(shown)
    console.print(f"{table.machine}; load at the beginning: {table.load[0]:.1f}", highlight=False)
