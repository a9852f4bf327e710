"""Who runs a control loop, for comparison: each starts its own process and says when it read its robot."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Protocol

import numpy as np

from . import nanosleep
from .nanosleep import BenchError, Scheduling
from .own_process import own_process

PEERS: Mapping[str, str] = MappingProxyType(
    {"holosoma": "holosoma-inference", "motrix": "motrix-deploy", "efferent": "efferent"}
)
"""Packages of the tools whose loops can be compared, by the names of their drivers."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """A loop that ran."""

    stamps_ns: np.ndarray  # (ticks,) int64, monotonic: when the robot was read
    cpu_s: float  # of all ticks
    about: str  # version, what the operating system granted
    stopped: str = ""  # why the loop ended itself before all ticks


class Contender(Protocol):
    """Something that runs a control loop."""

    name: str

    def measure(self, rate_hz: float, seconds: float) -> Run:
        """Run it once; raises BenchError where it failed."""
        ...


class Own:
    """Our runtime and recorder, with or without asking for real time."""

    def __init__(self, bundle: Path, *, realtime: bool) -> None:
        """The bundle's period is the loop's."""
        self.name = "isthmus" if realtime else "isthmus, usual priority"
        self._bundle, self._realtime = bundle, realtime

    def measure(self, rate_hz: float, seconds: float) -> Run:
        """See Contender."""
        with TemporaryDirectory() as folder:
            with own_process(self._bundle, Path(folder) / "log.mcap", realtime=self._realtime) as own:
                done = own.ticks(round(rate_hz * seconds))
            about = own.ready.granted if self._realtime else "safety and recording, as above"
        return Run(stamps_ns=done.stamps_ns[2], cpu_s=done.cpu_s, about=about)


class CLoop:
    """clock_nanosleep and nothing else, at the priority of ours."""

    name = "C clock_nanosleep"

    def __init__(self, scheduling: Scheduling) -> None:
        """To run with."""
        self._scheduling = scheduling

    def measure(self, rate_hz: float, seconds: float) -> Run:
        """See Contender."""
        with TemporaryDirectory() as folder:
            ticks, period_ns = round(rate_hz * seconds), round(1e9 / rate_hz)
            program = nanosleep.build(Path(folder))
            done = nanosleep.run(program, period_ns=period_ns, ticks=ticks, scheduling=self._scheduling)
        return Run(stamps_ns=done.wake_ns, cpu_s=done.cpu_s, about="sleeps only")


class Peer:
    """A tool in its own Python, by its driver in `peers`."""

    def __init__(self, name: str, tool: str, python: Path, network: Path, out: Path) -> None:
        """What the tool prints goes to `out`."""
        self.name, self._tool, self._python, self._network, self._out = name, tool, python, network, out

    def measure(self, rate_hz: float, seconds: float) -> Run:
        """See Contender."""
        with TemporaryDirectory() as name:
            found, log = Path(name) / "run.npz", (self._out / f"{self._tool}.log").absolute()
            words = (str(self._network), f"{rate_hz:g}", f"{seconds:g}", str(found))
            command = [str(self._python.absolute()), "-m", f"peers.{self._tool}_driver", *words]
            with log.open("w") as printed:
                done = subprocess.run(
                    command,
                    check=False,
                    cwd=name,
                    env=os.environ | {"PYTHONPATH": str(Path(__file__).parent)},
                    stdin=subprocess.DEVNULL,
                    stdout=printed,
                    stderr=subprocess.STDOUT,
                )
            if done.returncode:
                said = log.read_text().strip().splitlines() or ["no output"]
                raise BenchError(f"the loop of {self.name} failed: {said[-1]}; see {log}")
            with np.load(found, allow_pickle=False) as values:
                texts = {name: str(values[name].item()) for name in ("about", "stopped")}
                return Run(stamps_ns=values["stamps_ns"], cpu_s=float(values["cpu_s"]), **texts)


def contenders(bundle: Path, network: Path, pythons: Mapping[str, Path | None], out: Path) -> list[Contender]:
    """All that can run here.

    Args:
        bundle: our policy, with the period to be measured.
        network: the same without its contract, for the others.
        pythons: the interpreter of each of PEERS; None for those that are not to be measured.
        out: folder for what they print.
    """
    with TemporaryDirectory() as folder, own_process(bundle, Path(folder) / "log.mcap", realtime=True) as own:
        scheduling = own.ready.scheduling
    found: list[Contender] = [Own(bundle, realtime=True), Own(bundle, realtime=False), CLoop(scheduling)]
    found.append(Peer("bare numpy", "numpy", Path(sys.executable), network, out))
    given = {tool: python for tool in PEERS if (python := pythons.get(tool)) is not None}
    return found + [Peer(PEERS[tool], tool, python, network, out) for tool, python in given.items()]


def check_python(option: str, python: Path, package: str) -> None:
    """Refuse a Python that does not have a package; raises BenchError with what to do."""
    command = [str(python.absolute()), "-c", f"import importlib.metadata as m; m.version({package!r})"]
    try:
        done = subprocess.run(command, check=False, capture_output=True, timeout=60)
    except OSError as error:
        raise BenchError(
            f"{option} {python} does not run: {error.strerror}; give a Python, not {sys.executable}"
        ) from None
    if done.returncode:
        raise BenchError(f"{option} {python} has no {package}; install it there with: pip install {package}")
