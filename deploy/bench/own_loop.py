"""Our loop as a process to measure: the whole tick of the runtime, the recorder beside it, ticks on demand."""

import signal
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Literal

import numpy as np

from isthmus.hardware.robot import load_robot
from isthmus.policies.bundle import load_bundle

from ..messages import CONTROL_DTYPE, EVENT_DTYPE, OPERATOR_DTYPE, ControlCommand, control_record, status_dtype
from ..modes import Mode
from ..realtime import ask_for_realtime, stop_garbage_collection
from ..record import LogMetadata, RingSink
from ..rt_process import MailboxInbox
from ..runtime import Runtime, RuntimeConfig
from ..shm import Mailbox, Ring
from ..status import StatusPublisher
from .memory import Kept, kept
from .nanosleep import Scheduling, own_scheduling
from .stamps import StampingClock, Stamps
from .stub_robot import StubRobot

ROBOT = "go2"
TRACED_PAUSE_S = 0.001  # the recorder must follow
SETTLING_TICKS = 2000  # until every counter and free list has its size
_ARMING = (Mode.DAMP, Mode.READY, Mode.POLICY)


@dataclass(frozen=True, kw_only=True)
class OwnSetup:
    """What the process needs; picklable."""

    bundle: Path
    metadata: LogMetadata  # of the log that the recorder writes
    realtime: bool  # ask for priority, a CPU and locked memory
    ticks: str  # the ring's name
    events: str
    tick_capacity: int
    event_capacity: int


@dataclass(frozen=True, kw_only=True)
class Order:
    """What to do next."""

    kind: Literal["ticks", "allocations", "soak"]
    ticks: int


@dataclass(frozen=True, kw_only=True)
class Ready:
    """The process waits for orders."""

    granted: str
    scheduling: Scheduling


@dataclass(frozen=True, kw_only=True)
class Ticked:
    """Ticks that were done; the times are those of `Stamps.columns`, none after a soak."""

    stamps_ns: np.ndarray  # (3, ticks) int64
    cpu_s: float
    done: int  # ticks, since the process began
    dropped: int  # records, likewise


def own_main(setup: OwnSetup, supervisor: Connection) -> None:
    """Process target: get into POLICY, say `Ready`, then do what `Order`s say until told `None`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    loop = _Loop(setup)
    granted = ask_for_realtime() if setup.realtime else "granted: none; refused: none (not asked for)"
    stop_garbage_collection()
    loop.arm()
    supervisor.send(Ready(granted=granted, scheduling=own_scheduling()))
    try:
        while (order := supervisor.recv()) is not None:
            supervisor.send(loop.allocations(order.ticks) if order.kind == "allocations" else loop.ticked(order))
            if fault := loop.fault():
                raise SystemExit(f"the loop stopped driving: {fault}")
    finally:
        loop.close()


class _Loop:
    """The runtime with everything that `rt_process` gives it."""

    def __init__(self, setup: OwnSetup) -> None:
        period_ns, self.stamps = setup.metadata.period_ns, Stamps()
        robot = StubRobot(load_robot(ROBOT), period_ns * 1e-9, self.stamps)
        ticks = Ring(setup.metadata.dtype, setup.tick_capacity, name=setup.ticks)
        self._sink = RingSink(ticks, Ring(EVENT_DTYPE, setup.event_capacity, name=setup.events))
        self._control, self._operator = Mailbox(CONTROL_DTYPE), Mailbox(OPERATOR_DTYPE)
        self._status = Mailbox(status_dtype(len(robot.spec.joints)))
        inbox = MailboxInbox(self._control, self._operator)
        config = RuntimeConfig(period_ns=period_ns, supervisor_timeout_s=None)
        self._clock = StampingClock(self.stamps)
        policies = [load_bundle(setup.bundle).policy()]
        self.runtime = Runtime(robot, policies, self._clock, inbox, self._sink, config)
        self._publisher = StatusPublisher(self._status, self.runtime, granted="")

    def arm(self) -> None:
        """Ask for the modes up to POLICY, a tick each."""
        self.runtime.start()
        for sequence, mode in enumerate(_ARMING, start=1):
            self._control.write(control_record(ControlCommand(sequence=sequence, mode=int(mode), episode=0)))
            self.step()

    def step(self) -> None:
        """What the runtime process does in a tick."""
        self.runtime.step()
        self._publisher.publish(dropped=self._sink.dropped)

    def ticked(self, order: Order) -> Ticked:
        """As many ticks as ordered, at their deadlines."""
        self.stamps.restart()
        self.runtime.start()
        before, step = time.process_time(), self.step
        for _ in range(order.ticks):
            step()
        cpu_s = time.process_time() - before
        stamps = np.zeros((3, 0), dtype=np.int64) if order.kind == "soak" else self.stamps.columns()
        return Ticked(stamps_ns=stamps, cpu_s=cpu_s, done=self.stamps.total, dropped=self._sink.dropped)

    def allocations(self, ticks: int) -> Kept:
        """What so many ticks keep. Tracing is slow, so they come as fast as the recorder can follow, and their times mean nothing."""
        self.runtime.start()
        self._clock.pause_s = TRACED_PAUSE_S
        try:
            return kept(self.step, ticks, settling=SETTLING_TICKS)
        finally:
            self._clock.pause_s = None

    def fault(self) -> str:
        """Why the policy does not drive any more; "" while it does."""
        return "" if self.runtime.mode is Mode.POLICY else f"{self.runtime.mode.name}: {self.runtime.fault}"

    def close(self) -> None:
        """Remove the mailboxes."""
        for mailbox in (self._control, self._operator, self._status):
            mailbox.close()
