"""Our loop and its recorder, each in a process of its own, as a session has them."""

import contextlib
import multiprocessing
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from isthmus.hardware.robot import load_robot
from isthmus.policies.bundle import load_bundle

from ..messages import EVENT_DTYPE
from ..record import RecorderSetup, metadata_of, recorder_main
from ..shm import Ring
from .memory import Growth, Kept, cpu_s, resident_kib
from .nanosleep import BenchError
from .own_loop import ROBOT, Order, OwnSetup, Ready, Ticked, own_main
from .punctuality import Segment
from .stamps import Stamps
from .stub_robot import StubRobot

_TICK_CAPACITY, _EVENT_CAPACITY = 1024, 256
_STOP_S = 10.0
_SPAWN = multiprocessing.get_context("spawn")


class OwnProcess:
    """Ticks of our loop on demand; between them it waits and costs nothing."""

    def __init__(self, loop: "_Child", recorder: "_Child", ready: Ready, log: Path) -> None:
        self._loop, self._recorder, self.ready, self.log = loop, recorder, ready, log

    def ticks(self, count: int) -> Ticked:
        """So many at their deadlines."""
        answer = self._loop.ask(Order(kind="ticks", ticks=count))
        assert isinstance(answer, Ticked)
        return answer

    def segment(self, count: int) -> Segment:
        """The same as what `punctuality` takes."""
        done = self.ticks(count)
        return Segment(deadline_ns=done.stamps_ns[0], wake_ns=done.stamps_ns[1], cpu_s=done.cpu_s)

    def allocations(self, count: int) -> Kept:
        """What so many ticks allocate and keep."""
        answer = self._loop.ask(Order(kind="allocations", ticks=count))
        assert isinstance(answer, Kept)
        return answer

    def soak(self, minutes: float, rate_hz: float) -> Growth:
        """Run for long, looking at the memory of both processes from outside."""
        order, start = Order(kind="soak", ticks=round(60 * minutes * rate_hz)), time.monotonic()
        self._loop.tell(order)
        seen: list[tuple[int, int]] = []
        while not self._loop.answered(1.0):
            if time.monotonic() - start >= 6 * minutes or seen:  # a tenth of it
                seen.append((resident_kib(self._loop.pid), resident_kib(self._recorder.pid)))
        self._loop.answer()
        if not seen:
            raise BenchError("the run was too short to see whether memory grows; give more --soak-minutes")
        (loop, recorder), (loop_end, recorder_end) = seen[0], seen[-1]
        return Growth(minutes=minutes, loop_kib=loop_end - loop, recorder_kib=recorder_end - recorder)

    def recorder_cpu_s(self) -> float:
        """CPU time of the recorder so far."""
        return cpu_s(self._recorder.pid)


@contextlib.contextmanager
def own_process(bundle: Path, log: Path, *, realtime: bool) -> Iterator[OwnProcess]:
    """Start both, and end both; the log is whole afterwards.

    Args:
        bundle: what drives; its period is the loop's.
        log: MCAP file to write.
        realtime: ask the operating system for punctuality.

    Raises:
        BenchError: a process did not start, or ended; says which.
    """
    policy = load_bundle(bundle).policy()
    robot = StubRobot(load_robot(ROBOT), policy.period_ns * 1e-9, Stamps())
    metadata = metadata_of(robot, [policy], period_ns=policy.period_ns, calibration="", lockstep=False)
    with contextlib.ExitStack() as stack:
        ticks = Ring(metadata.dtype, _TICK_CAPACITY)
        events = Ring(EVENT_DTYPE, _EVENT_CAPACITY)
        stack.callback(events.close)
        stack.callback(ticks.close)
        recorder = _Child(
            recorder_main,
            RecorderSetup(
                path=log,
                metadata=metadata,
                tick_ring=ticks.name,
                tick_capacity=_TICK_CAPACITY,
                event_rings=(events.name,),
                event_capacity=_EVENT_CAPACITY,
            ),
        )
        stack.callback(recorder.end)
        if (word := recorder.answer()) != "ready":
            raise BenchError(str(word))
        loop = _Child(
            own_main,
            OwnSetup(
                bundle=bundle,
                metadata=metadata,
                realtime=realtime,
                ticks=ticks.name,
                events=events.name,
                tick_capacity=_TICK_CAPACITY,
                event_capacity=_EVENT_CAPACITY,
            ),
        )
        stack.callback(loop.end)
        ready = loop.answer()
        assert isinstance(ready, Ready)
        yield OwnProcess(loop, recorder, ready, log)


class _Child:
    """A process and the pipe to it."""

    def __init__(self, target, setup: object) -> None:  # noqa: ANN001
        self._pipe: Connection
        self._pipe, theirs = _SPAWN.Pipe()
        self._process: BaseProcess = _SPAWN.Process(target=target, args=(setup, theirs), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid or 0

    def tell(self, order: Order) -> None:
        """Without waiting for the answer."""
        self._pipe.send(order)

    def answered(self, wait_s: float) -> bool:
        """Whether an answer is there within that time; also where there will be none any more."""
        return self._pipe.poll(wait_s)

    def answer(self) -> object:
        """What it says next; raises BenchError where it ended."""
        try:
            return self._pipe.recv()
        except EOFError:
            self._process.join(1.0)
            raise BenchError(
                f"a process of the bench ended with code {self._process.exitcode}; what it said is above"
            ) from None

    def ask(self, order: Order) -> object:
        """Tell, and wait for the answer."""
        self.tell(order)
        return self.answer()

    def end(self) -> None:
        """Tell it to end; kill it where it does not."""
        with contextlib.suppress(OSError):
            self._pipe.send(None)
        self._process.join(_STOP_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._pipe.close()
