"""A real-time session: starts runtime, recorder and operator as processes, watches them, and runs attempts."""

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from isthmus.hardware.interface import Robot, Silence
from isthmus.hardware.joint_calibration import ArmCalibration
from isthmus.hardware.robot import RobotSpec
from isthmus.policies.episode import Episode
from isthmus.policies.policy import Policy

from .attempt import EpisodeResult, EpisodeRunner, SessionError, StoppedByOperator, operator_name
from .bus_process import BUS_SILENCE_S, BusRobot, BusSetup, bus_main, order_dtype, reading_dtype
from .child import Child
from .guarded_robot import open_guarded
from .lockstep import LockstepSession
from .log import read_log
from .messages import (
    CONTROL_DTYPE,
    EVENT_DTYPE,
    OPERATOR_DTYPE,
    ControlCommand,
    Leave,
    OperatorCommand,
    control_record,
    operator_from_record,
    operator_record,
    status_dtype,
)
from .modes import Mode
from .operators.operator import OperatorFactory
from .operators.process import OperatorSetup, operator_main
from .operators.terminal import SavedTerminal
from .record import LogMetadata, RecorderSetup, metadata_of, recorder_main
from .rt_process import MAX_TRAJECTORY_TICKS, RtSetup, ShmNames, load_policies, rt_main, trajectory_dtype
from .runtime import RuntimeConfig
from .shm import Mailbox, Ring
from .status import Status, status_from_record, tip_of

BUS_TIMEOUT_S = 0.05  # of an answer on the bus
_HEARTBEAT_S = 0.1
_POLL_S = 0.01
_TICK_CAPACITY = 1024
_EVENT_CAPACITY = 256


class Session(EpisodeRunner):
    """The supervisor of one arm in real time."""

    def __init__(
        self,
        spec: RobotSpec,
        *,
        make_robot: Callable[[], Robot],
        make_policies: Callable[[], Sequence[Policy]],
        log_path: Path,
        config: RuntimeConfig | None = None,
        calibration: str = "",
        bus_process: bool = False,
    ) -> None:
        """Start the processes; the arm does not move. See `open_session` for the usual case.

        Args:
            spec: the robot.
            make_robot: called in the runtime process; picklable.
            make_policies: called here, to refuse bad ones early, and in the runtime process; picklable.
            log_path: MCAP file to write.
            config: of the runtime; None for the usual one.
            calibration: for the log's metadata.
            bus_process: give the robot's bus a process of its own; see bus_process.py.

        Raises:
            SessionError: a process did not start; carries its reason.
            ValueError: a policy cannot be loaded or does not fit.
        """
        self._config = RuntimeConfig() if config is None else config
        self._spec = spec
        self._period_ns = self._config.period_ns
        self._policies = list(make_policies())
        self._trajectory_index = len(self._policies)
        self._log_path, self._tip = log_path, tip_of(spec)
        robot = make_robot()  # talks to no hardware until it is connected
        metadata = metadata_of(
            robot, self._policies, period_ns=self._period_ns, calibration=calibration, lockstep=False
        )
        self._make_blocks(metadata)
        self._command = ControlCommand()
        self._lock = threading.Lock()
        self._stop_heartbeat = threading.Event()
        self._children: list[Child] = []
        self._operator: Child | None = None
        self._terminal = SavedTerminal()
        self._operator_factory: OperatorFactory | None = None
        self._closed = False
        self._bus_boxes: tuple[Mailbox, ...] = ()
        try:
            self._start_recorder(metadata)
            self._heartbeat = threading.Thread(target=self._beat, name="isthmus-heartbeat", daemon=True)
            self._heartbeat.start()
            if bus_process:
                make_robot = self._start_bus(make_robot, robot)
            self._start_runtime(make_robot, make_policies, metadata)
        except BaseException:
            self.close()
            raise

    def _make_blocks(self, metadata: LogMetadata) -> None:
        """The memory that the processes share."""
        n = len(self._spec.joints)
        self._control = Mailbox(CONTROL_DTYPE)
        self._commands = Mailbox(OPERATOR_DTYPE)
        self._status = Mailbox(status_dtype(n))
        self._trajectory = Mailbox(trajectory_dtype(n))
        self._ticks = Ring(metadata.dtype, _TICK_CAPACITY)
        self._rt_events, self._own_events = Ring(EVENT_DTYPE, _EVENT_CAPACITY), Ring(EVENT_DTYPE, _EVENT_CAPACITY)

    def status(self) -> Status:
        """The runtime after its last tick."""
        record = self._status.read()
        if record is None:
            raise SessionError("the runtime has not said anything yet")
        return status_from_record(record, self._tip)

    def recorded(self, episode: int) -> Episode:
        """An attempt that has ended, from the log; waits until the recorder has written it."""
        deadline = time.monotonic() + 5.0
        while time.monotonic() < deadline:
            log = read_log(self._log_path)
            ended = [
                event.monotonic_ns for event in log.events if event.kind == "episode_end" and event.episode == episode
            ]
            if ended and len(log.ticks) and log.ticks["monotonic_ns"][-1] > ended[0]:
                return next(e for e in log.episodes() if len(e.ticks) and e.ticks["episode"][0] == episode)
            self._advance()
            time.sleep(0.2)
        raise SessionError(f"episode {episode} did not appear in {self._log_path}; does the recorder keep up?")

    @property
    def process_ids(self) -> dict[str, int]:
        """Process ids by role: recorder, runtime, operator."""
        children = [*self._children, *([] if self._operator is None else [self._operator])]
        return {child.name: child.process.pid or 0 for child in children}

    def close(self, *, damp: bool = False) -> None:
        """End the processes: the arm holds its pose, or goes limp where `damp`. May be called twice."""
        if self._closed:
            return
        self._closed = True
        self._end_operator()
        with self._lock:
            self._command.leave = Leave.DAMP if damp else Leave.HOLD
            self._write_command()
        for child in reversed(self._children):  # the recorder last, so that it gets everything
            child.end(ask=True)
        self._stop_heartbeat.set()
        for block in (
            self._control,
            self._commands,
            self._status,
            self._trajectory,
            self._ticks,
            self._rt_events,
            self._own_events,
            *self._bus_boxes,
        ):
            with self._lock:
                block.close()

    def _start_recorder(self, metadata: LogMetadata) -> None:
        setup = RecorderSetup(
            path=self._log_path,
            metadata=metadata,
            tick_ring=self._ticks.name,
            tick_capacity=_TICK_CAPACITY,
            event_rings=(self._rt_events.name, self._own_events.name),
            event_capacity=_EVENT_CAPACITY,
        )
        recorder = Child("recorder", recorder_main, setup)
        self._children.append(recorder)
        word = recorder.first_word()
        if word != "ready":
            raise SessionError(str(word))

    def _start_bus(self, make_robot: Callable[[], Robot], robot: Robot) -> Callable[[], Robot]:
        """Start the process of the bus; returns what the runtime process makes instead of the robot."""
        n = len(self._spec.joints)
        boxes = Mailbox(order_dtype(n)), Mailbox(reading_dtype(n, robot.senses))
        self._bus_boxes = boxes
        orders, readings = (box.name for box in boxes)
        silence = Silence(after_s=BUS_SILENCE_S, then="hold")
        setup = BusSetup(
            make_robot=make_robot,
            orders=orders,
            readings=readings,
            silence=silence,
            damp_after_s=self._config.fault_hold_s,
        )
        bus = Child("bus", bus_main, setup)
        self._children.append(bus)
        word = bus.first_word()
        if word != "ready":
            raise SessionError(str(word))
        return partial(
            BusRobot, robot.spec, senses=dict(robot.senses), silence=silence, orders=orders, readings=readings
        )

    def _start_runtime(
        self, make_robot: Callable[[], Robot], make_policies: Callable[[], Sequence[Policy]], metadata: LogMetadata
    ) -> None:
        names = ShmNames(
            control=self._control.name,
            operator=self._commands.name,
            status=self._status.name,
            trajectory=self._trajectory.name,
            ticks=self._ticks.name,
            events=self._rt_events.name,
            tick_capacity=_TICK_CAPACITY,
            event_capacity=_EVENT_CAPACITY,
        )
        setup = RtSetup(
            make_robot=make_robot,
            make_policies=make_policies,
            num_joints=len(self._spec.joints),
            num_actions=metadata.num_actions,
            further=metadata.further,
            config=self._config,
            names=names,
        )
        runtime = Child("runtime", rt_main, setup)
        self._children.append(runtime)
        word = runtime.first_word()
        if not (isinstance(word, tuple) and word[0] == "ready"):
            raise SessionError(word[1] if isinstance(word, tuple) else str(word))
        deadline = time.monotonic() + 5.0
        while self._status.read() is None:
            self._check_children()
            if time.monotonic() > deadline:
                raise SessionError("the runtime started but does not tick")
            time.sleep(_POLL_S)

    def _beat(self) -> None:
        """Tell the runtime that this process lives, whatever its main thread is busy with."""
        while not self._stop_heartbeat.wait(_HEARTBEAT_S):
            with self._lock:
                if self._stop_heartbeat.is_set():
                    return
                self._write_command()

    def _write_command(self) -> None:
        self._command.heartbeat_ns = time.monotonic_ns()
        self._control.write(control_record(self._command))

    def _send(
        self, mode: Mode | None, *, episode: int = -1, target: np.ndarray | None = None, policy_index: int = 0
    ) -> int:
        with self._lock:
            command = self._command
            if mode is not None:
                command.sequence += 1
                command.mode = int(mode)
            if target is not None:
                x, y, z = target.tolist()
                command.target = (x, y, z)
            command.episode, command.policy_index = episode, policy_index
            self._write_command()
            return command.sequence

    def _advance(self) -> None:
        tick = self.status().tick
        deadline = time.monotonic() + 2.0
        while True:
            self._check_children()
            time.sleep(_POLL_S)
            if self.status().tick > tick:
                return
            if time.monotonic() > deadline:
                raise SessionError(
                    "the runtime has not ticked for 2 s; the arm is no longer driven, cut its power if it moves"
                )

    def _check_children(self) -> None:
        for child in [*self._children, *([] if self._operator is None else [self._operator])]:
            if child.process.is_alive():
                continue
            if child.name != "runtime":
                self._send(Mode.HOLD)
            consequence = "the servos hold their last targets" if child.name == "runtime" else "the arm holds"
            raise SessionError(
                f"the {child.name} process {child.last_words()}; {consequence}. Look at {self._log_path} and start again"
            )

    def _use_operator(self, factory: OperatorFactory | None) -> None:
        if factory is self._operator_factory and (factory is None or self._operator is not None):
            return
        self._end_operator()
        self._operator_factory = factory
        self._operator_name = "" if factory is None else operator_name(factory)
        if factory is None:
            return
        self._commands.write(operator_record(OperatorCommand()))
        setup = OperatorSetup(
            factory=factory, num_joints=len(self._spec.joints), status=self._status.name, commands=self._commands.name
        )
        self._terminal = SavedTerminal()
        operator = Child("operator", operator_main, setup)
        word = operator.first_word()
        if word != "ready":
            operator.end(ask=True)
            self._terminal.restore()
            self._operator_factory = None
            raise SessionError(str(word))
        self._operator = operator

    def _end_operator(self) -> None:
        if self._operator is not None:
            self._operator.end(ask=True)
            self._operator = None
            self._terminal.restore()
            self._commands.write(operator_record(OperatorCommand()))  # the last one is void: it may be a stop
        self._operator_factory = None

    def _operator_command(self) -> OperatorCommand:
        record = self._commands.read() if self._operator is not None else None
        return OperatorCommand() if record is None else operator_from_record(record)

    def _log_event(self, record: np.ndarray) -> None:
        self._own_events.push(record)

    def _joint_names(self) -> tuple[str, ...]:
        return self._spec.joint_names

    def _load_trajectory(self, joint_targets: np.ndarray) -> None:
        if len(joint_targets) > MAX_TRAJECTORY_TICKS:
            raise SessionError(
                f"a trajectory of {len(joint_targets)} ticks is too long, at most {MAX_TRAJECTORY_TICKS}; play it in parts"
            )
        record = np.zeros((), dtype=self._trajectory.dtype)
        record["length"] = len(joint_targets)
        record["targets"][: len(joint_targets)] = joint_targets
        self._trajectory.write(record)


def open_session(
    spec: RobotSpec,
    *,
    port: str,
    calibration: ArmCalibration,
    bundles: Sequence[Path],
    log_path: Path,
    config: RuntimeConfig | None = None,
    calibration_name: str = "",
    bus_process: bool = False,
) -> Session:
    """A real-time session on the robot at `port` with the policies of `bundles`; see `Session`."""
    return Session(
        spec,
        make_robot=partial(
            open_guarded,
            spec,
            port=port,
            calibration=calibration,
            timeout_s=BUS_TIMEOUT_S,
            period_ns=(RuntimeConfig() if config is None else config).period_ns,
            read_only=False,
        ),
        make_policies=partial(load_policies, tuple(bundles), spec),
        log_path=log_path,
        config=config,
        calibration=calibration_name,
        bus_process=bus_process,
    )


__all__ = ["EpisodeResult", "LockstepSession", "Session", "SessionError", "StoppedByOperator", "open_session"]
