"""An operator in a process of its own."""

import signal
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import parent_process

import numpy as np

from isthmus.hardware.errors import HardwareError

from ..messages import OPERATOR_DTYPE, operator_record, status_dtype
from ..shm import Mailbox
from .operator import OperatorError, OperatorFactory, View

_PERIOD_S = 0.02


@dataclass(frozen=True, kw_only=True)
class OperatorSetup:
    """What the process needs; picklable."""

    factory: OperatorFactory
    num_joints: int
    status: str  # mailbox names
    commands: str


def operator_main(setup: OperatorSetup, control: Connection) -> None:
    """Process target: poll the operator about 50 times a second until told to end, or until the supervisor is gone.

    Says "ready", or why not, over `control` first; anything received means: end.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the supervisor's to handle
    status = Mailbox(status_dtype(setup.num_joints), name=setup.status)
    commands = Mailbox(OPERATOR_DTYPE, name=setup.commands)

    def view() -> View:
        record = status.read()
        if record is None:
            return View(episode=-1, target=np.zeros(3))
        return View(episode=int(record["episode"]), target=record["target"].copy())

    try:
        operator = setup.factory(view)
    except (OperatorError, HardwareError) as error:
        control.send(str(error))
        raise SystemExit(2) from None
    control.send("ready")
    parent = parent_process()
    try:
        while not control.poll(_PERIOD_S) and (parent is None or parent.is_alive()):
            commands.write(operator_record(operator.poll(time.monotonic_ns())))
    finally:
        operator.close()
        status.close()
        commands.close()
