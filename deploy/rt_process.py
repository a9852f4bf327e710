"""The process that owns the hardware."""

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType

import numpy as np

from isthmus.hardware.errors import IsthmusError
from isthmus.hardware.interface import Robot
from isthmus.hardware.robot import RobotSpec
from isthmus.policies.episode import Further, tick_dtype
from isthmus.policies.policy import InPlacePolicy, Policy
from isthmus.policies.trajectory import TrajectoryPolicy

from .clock import RealClock
from .messages import (
    CONTROL_DTYPE,
    EVENT_DTYPE,
    OPERATOR_DTYPE,
    ControlCommand,
    Leave,
    OperatorCommand,
    control_from_record,
    operator_from_record,
    status_dtype,
)
from .modes import DRIVING
from .realtime import ask_for_realtime, stop_garbage_collection
from .record import RingSink
from .runtime import Runtime, RuntimeConfig
from .shm import Mailbox, Ring
from .status import StatusPublisher

MAX_TRAJECTORY_TICKS = 6000
_ORPHAN_S = 3.0  # s without a supervisor: as long as the runtime takes to hold and then go limp


@dataclass(frozen=True, kw_only=True)
class ShmNames:
    """Names of the shared-memory blocks."""

    control: str
    operator: str
    status: str
    trajectory: str
    ticks: str
    events: str
    tick_capacity: int
    event_capacity: int


@dataclass(frozen=True, kw_only=True)
class RtSetup:
    """What the process needs; picklable, so the callables are functions of a module or partials of such."""

    make_robot: Callable[[], Robot]
    make_policies: Callable[[], Sequence[Policy]]
    num_joints: int
    num_actions: int
    further: Further
    config: RuntimeConfig
    names: ShmNames


class MailboxInbox:
    """Commands from other processes."""

    def __init__(self, control: Mailbox, operator: Mailbox) -> None:
        """Read from these mailboxes."""
        self._control, self._operator = control, operator

    def control(self) -> ControlCommand | None:
        """The supervisor's newest command, once."""
        record = self._control.read_new()
        return None if record is None else control_from_record(record)

    def operator(self) -> OperatorCommand | None:
        """The person's newest command, once."""
        record = self._operator.read_new()
        return None if record is None else operator_from_record(record)


def trajectory_dtype(num_joints: int) -> np.dtype:
    """Joint targets to play, rad."""
    return np.dtype([("length", "<i8"), ("targets", "<f8", (MAX_TRAJECTORY_TICKS, num_joints))])


class MailboxTrajectory(TrajectoryPolicy):
    """A trajectory that the supervisor hands over; looked at when an episode begins."""

    def __init__(self, mailbox: Mailbox, *, joint_names: tuple[str, ...], period_ns: int) -> None:
        """Read targets from this mailbox."""
        super().__init__(joint_names=joint_names, period_ns=period_ns)
        self._mailbox = mailbox

    def reset(self) -> None:
        """Take a new trajectory where there is one, and start over."""
        super().reset()
        record = self._mailbox.read_new()
        if record is not None:
            self.load(record["targets"][: int(record["length"])])


def load_policies(paths: Sequence[Path], spec: RobotSpec) -> list[Policy]:
    """The policies of bundles, each checked against the robot it was made for.

    Raises:
        ValueError: a bundle that cannot be read, whose golden rows fail, or that is for another robot; says which.
    """
    from isthmus.policies.bundle import load_bundle
    from isthmus.policies.contract import bind

    policies: list[Policy] = []
    for path in paths:
        policy = load_bundle(path).policy()
        bind(policy.contract, spec)
        policies.append(policy)
    return policies


def rt_main(setup: RtSetup, supervisor: Connection) -> None:
    """Process target: open the robot, load the policies, run until told to leave.

    Says ("ready", what the operating system granted) or ("error", why not) over `supervisor` first. Nothing moves because it started.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the supervisor's to handle
    blocks = _Blocks(setup)
    robot: Robot | None = None
    try:
        robot = setup.make_robot()
        policies = list(setup.make_policies())
        robot.connect()
        trajectory = MailboxTrajectory(
            blocks.trajectory, joint_names=robot.spec.joint_names, period_ns=setup.config.period_ns
        )
        sink = RingSink(blocks.ticks, blocks.events)
        inbox = MailboxInbox(blocks.control, blocks.operator)
        runtime = Runtime(robot, [*policies, trajectory], RealClock(), inbox, sink, setup.config)
        for policy in policies:
            _warm_up(policy)
    except (IsthmusError, ValueError, OSError, ImportError) as error:
        supervisor.send(("error", f"{type(error).__name__}: {error}"))
        if robot is not None:
            robot.close()
        raise SystemExit(2) from None
    granted = ask_for_realtime()
    stop_garbage_collection()
    supervisor.send(("ready", granted))
    try:
        _loop(runtime, blocks.status, granted, sink)
    finally:
        _leave(robot, runtime)


class _Blocks:
    """The shared memory, attached."""

    def __init__(self, setup: RtSetup) -> None:
        names, n = setup.names, setup.num_joints
        self.control = Mailbox(CONTROL_DTYPE, name=names.control)
        self.operator = Mailbox(OPERATOR_DTYPE, name=names.operator)
        self.status = Mailbox(status_dtype(n), name=names.status)
        self.trajectory = Mailbox(trajectory_dtype(n), name=names.trajectory)
        self.ticks = Ring(tick_dtype(n, setup.num_actions, setup.further), names.tick_capacity, name=names.ticks)
        self.events = Ring(EVENT_DTYPE, names.event_capacity, name=names.events)


def _warm_up(policy: Policy) -> None:
    """The first call of a network takes ten times as long as the others."""
    if isinstance(policy, InPlacePolicy):
        policy.step(policy.inputs)
    policy.reset()


def _loop(runtime: Runtime, status: Mailbox, granted: str, sink: RingSink) -> None:
    terminated = False

    def terminate(signum: int, frame: FrameType | None) -> None:
        nonlocal terminated
        terminated = True

    signal.signal(signal.SIGTERM, terminate)
    publisher = StatusPublisher(status, runtime, granted)
    runtime.start()
    started_ns = time.monotonic_ns()
    while runtime.control.leave == Leave.STAY and not terminated:
        runtime.step()
        if not publisher.publish(dropped=sink.dropped):
            continue
        silent_s = (time.monotonic_ns() - max(runtime.control.heartbeat_ns, started_ns)) * 1e-9
        if runtime.mode not in DRIVING and silent_s > _ORPHAN_S:
            return  # the supervisor is gone, and the arm is already limp


def _leave(robot: Robot, runtime: Runtime) -> None:
    """Hold and leave, or damp and leave; an arm that was not driven is left as it is."""
    try:
        if runtime.control.leave == Leave.DAMP:
            robot.damp()
        elif runtime.mode in DRIVING:
            robot.hold()
    finally:
        robot.close()
