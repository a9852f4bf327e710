"""An operator in a process of its own."""

import contextlib
import signal
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import parent_process

import numpy as np

from isthmus.hardware.errors import HardwareError

from ..messages import OPERATOR_DTYPE, operator_record, status_dtype
from ..modes import Mode
from ..shm import Mailbox
from .operator import Operator, OperatorError, OperatorFactory, View, ViewSource

_HEARTBEAT_S = 0.015  # at least every 20 ms, the time to poll included


@dataclass(frozen=True, kw_only=True)
class OperatorSetup:
    """What the process needs; picklable."""

    factory: OperatorFactory
    num_joints: int
    status: str  # mailbox names
    commands: str


def operator_main(setup: OperatorSetup, control: Connection) -> None:
    """Process target: ask the operator whenever the person does something, until told to end or until the supervisor is gone.

    Says "ready", or why not, over `control` first; anything received means: end. An operator whose device is gone says why over
    `control` and ends with exit code 2; the runtime sees no heartbeat any more and holds.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the supervisor's to handle
    with contextlib.ExitStack() as stack:
        status = Mailbox(status_dtype(setup.num_joints), name=setup.status)
        stack.callback(status.close)
        commands = Mailbox(OPERATOR_DTYPE, name=setup.commands)
        stack.callback(commands.close)
        try:
            operator = setup.factory(view_of(status, setup.num_joints))
            stack.callback(operator.close)
            control.send("ready")
            _serve(operator, commands, control)
        except (OperatorError, HardwareError) as error:
            with contextlib.suppress(OSError):  # nobody left to tell
                control.send(str(error))
            raise SystemExit(2) from None


def view_of(status: Mailbox, num_joints: int) -> ViewSource:
    """What the runtime publishes, as an operator sees it."""

    def view() -> View:
        record = status.read()
        if record is None:
            unknown = np.full(num_joints, np.nan)
            return View(episode=-1, mode=Mode.IDLE, target=np.zeros(3), joint_pos=unknown, executed_target=unknown)
        return View(
            episode=int(record["episode"]),
            mode=Mode(int(record["mode"])),
            target=record["target"].copy(),
            joint_pos=record["joint_pos"].copy(),
            executed_target=record["executed_target"].copy(),
        )

    return view


def _serve(operator: Operator, commands: Mailbox, control: Connection) -> None:
    """Poll at once when a descriptor is readable, and for the heartbeat besides."""
    parent = parent_process()
    ends = [control] if parent is None else [control, parent.sentinel]
    while True:
        commands.write(operator_record(operator.poll(time.monotonic_ns())))
        ready = wait([*ends, *operator.filenos()], _HEARTBEAT_S)
        if any(end in ready for end in ends):
            return
