"""A blocking bus in a process of its own: the runtime leaves targets in a mailbox and finds the newest reading in another.

For buses that take a good part of a period, and for libraries that start threads or do not get along with others. The process is a
watchdog, too: where targets stop coming it lets the robot hold, and then go limp.
"""

import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from multiprocessing.connection import Connection
from multiprocessing.process import parent_process

import numpy as np

from isthmus.hardware import errors
from isthmus.hardware.errors import HardwareError, IsthmusError
from isthmus.hardware.interface import JointState, Robot, Silence
from isthmus.hardware.robot import RobotSpec

from .messages import text
from .realtime import ask_for_realtime
from .shm import Mailbox

BUS_SILENCE_S = 0.3  # s without an order after which the robot holds
_TEXT_BYTES = 400
_IDLE_S = 0.0005  # between two readings, where there is nothing to write


class Order(IntEnum):
    """What the runtime wants of the robot."""

    NONE = 0
    WRITE = 1
    HOLD = 2
    DAMP = 3


def order_dtype(num_joints: int) -> np.dtype:
    """From the runtime; targets in rad."""
    return np.dtype([("number", "<i8"), ("order", "<i8"), ("joint_target", "<f8", (num_joints,))])


def reading_dtype(num_joints: int, senses: Mapping[str, int]) -> np.dtype:
    """From the bus; a reading that failed carries the error, and the numbers of the last one that did not."""
    joints = [(name, "<f8", (num_joints,)) for name in ("joint_pos", "joint_vel", "temperature")]
    sensed = [(name, "<f8", (width,)) for name, width in senses.items()]
    own = [("stamp_ns", "<i8"), ("errors", "<i8"), ("kind", "S40"), ("error", f"S{_TEXT_BYTES}")]
    return np.dtype([*own, *joints, *sensed])


@dataclass(frozen=True, kw_only=True)
class BusSetup:
    """What the process needs; picklable."""

    make_robot: Callable[[], Robot]
    orders: str  # mailbox names
    readings: str
    silence: Silence  # of this process: what it does when the runtime is silent
    damp_after_s: float  # s of silence after which the robot goes limp


def bus_main(setup: BusSetup, control: Connection) -> None:
    """Process target: read the robot again and again and do the newest order, until told to end.

    Says "ready", or why not, over `control` first; anything received means: end. Nothing moves because it started.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    robot: Robot | None = None
    try:
        robot = setup.make_robot()
        robot.connect()
    except (IsthmusError, ValueError, OSError, ImportError) as error:
        control.send(f"{type(error).__name__}: {error}")
        if robot is not None:
            robot.close()
        raise SystemExit(2) from None
    ask_for_realtime()
    control.send("ready")
    bus = _Bus(robot, setup)
    parent = parent_process()
    try:
        while not control.poll(_IDLE_S) and (parent is None or parent.is_alive() or bus.driving):
            bus.turn()
    finally:
        robot.close()


class _Bus:
    """The robot, and the two mailboxes."""

    def __init__(self, robot: Robot, setup: BusSetup) -> None:
        n = len(robot.spec.joints)
        self._robot, self._setup = robot, setup
        self._orders = Mailbox(order_dtype(n), name=setup.orders)
        self._readings = Mailbox(reading_dtype(n, robot.senses), name=setup.readings)
        self._record = np.zeros((), dtype=self._readings.dtype)
        self._heard_ns = time.monotonic_ns()
        self._held = False
        self.driving = False

    def turn(self) -> None:
        """One reading, and the newest order."""
        failure = self._try(self._read)
        order = self._orders.read_new()
        if order is not None:
            self._heard_ns, self._held = time.monotonic_ns(), False
            failure = self._try(lambda: self._obey(order)) or failure
        elif self.driving:
            failure = self._try(self._watch) or failure
        kind, words = ("", "") if failure is None else (type(failure).__name__, str(failure))
        self._record["kind"], self._record["error"] = kind.encode(), words.encode()[:_TEXT_BYTES]
        self._readings.write(self._record)

    def _try(self, action: Callable[[], None]) -> HardwareError | None:
        try:
            action()
        except HardwareError as error:
            return error
        return None

    def _read(self) -> None:
        state = self._robot.read()
        record = self._record
        for name in ("stamp_ns", "errors", "joint_pos", "joint_vel", "temperature"):
            record[name] = getattr(state, name)
        for name, values in state.signals.items():
            record[name] = values

    def _obey(self, order: np.ndarray) -> None:
        what = Order(int(order["order"]))
        if what is Order.WRITE:
            self.driving = True
            self._robot.write(order["joint_target"])
        elif what is Order.HOLD:
            self.driving = True
            self._robot.hold()
        elif what is Order.DAMP:
            self.driving = True  # until it is done
            self._robot.damp()
            self.driving = False

    def _watch(self) -> None:
        silent_s = (time.monotonic_ns() - self._heard_ns) * 1e-9
        if silent_s > self._setup.damp_after_s:
            self._robot.damp()
            self.driving = False
        elif silent_s > self._setup.silence.after_s and not self._held:
            self._held = True
            self._robot.hold()


class BusRobot:
    """The robot of a `bus_main` process, as a `Robot` for the runtime: never blocks."""

    def __init__(
        self, spec: RobotSpec, *, senses: Mapping[str, int], silence: Silence, orders: str, readings: str
    ) -> None:
        """Attach to the mailboxes of these names."""
        n = len(spec.joints)
        self.spec, self.senses, self.silence = spec, senses, silence
        self._orders = Mailbox(order_dtype(n), name=orders)
        self._readings = Mailbox(reading_dtype(n, senses), name=readings)
        self._order = np.zeros((), dtype=self._orders.dtype)
        self._state = JointState(
            joint_pos=np.zeros(n),
            joint_vel=np.zeros(n),
            temperature=np.full(n, np.nan),
            stamp_ns=0,
            errors=0,
            signals={name: np.zeros(width) for name, width in senses.items()},
        )

    def connect(self) -> None:
        """The process is connected already."""

    def read(self) -> JointState:
        """The newest reading; raises the error that the bus had since. How old it is, its stamp tells."""
        record = self._readings.read_new()
        state = self._state
        if record is None:
            if state.stamp_ns == 0 and self._readings.read() is None:
                raise HardwareError("the bus process has read nothing yet; is it running?")
            return state
        if kind := text(record["kind"].item()):
            raise _error(kind, text(record["error"].item()))
        state.stamp_ns, state.errors = int(record["stamp_ns"]), int(record["errors"])
        for name in ("joint_pos", "joint_vel", "temperature"):
            getattr(state, name)[:] = record[name]
        for name, values in state.signals.items():
            values[:] = record[name]
        return state

    def write(self, joint_target: np.ndarray) -> None:
        """Leave targets, shape (n,), rad, for the next turn of the bus; raises HardwareError for ones that are not finite."""
        if joint_target.shape != self._order["joint_target"].shape or not np.isfinite(joint_target).all():
            raise HardwareError(
                f"joint_target {joint_target.tolist()} is not {len(self.spec.joints)} finite numbers; nothing was sent"
            )
        self._order["joint_target"] = joint_target
        self._send(Order.WRITE)

    def hold(self) -> None:
        """See Robot."""
        self._send(Order.HOLD)

    def damp(self) -> None:
        """See Robot; what goes wrong with it, the next readings tell."""
        self._send(Order.DAMP)

    def close(self) -> None:
        """Leave the mailboxes; the process goes on until it is told to end."""
        self._orders.close()
        self._readings.close()

    def _send(self, order: Order) -> None:
        self._order["number"] += 1
        self._order["order"] = order
        self._orders.write(self._order)


def _error(kind: str, words: str) -> HardwareError:
    """The error that the other process caught, by its name."""
    found = getattr(errors, kind, None)
    if not (isinstance(found, type) and issubclass(found, HardwareError)) or found is errors.ServoFault:
        return HardwareError(f"{kind}: {words}")
    return found(words)
