"""A session without wall clock: the runtime in this process, a virtual arm as the clock. For statistics and tests."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from isthmus.hardware.interface import Robot
from isthmus.policies.episode import Episode
from isthmus.policies.policy import Policy
from isthmus.policies.trajectory import TrajectoryPolicy

from .attempt import EpisodeRunner, SessionError, operator_name
from .clock import LockstepClock
from .log import LogEvent, event_from_record
from .messages import ControlCommand, OperatorCommand, status_dtype
from .modes import DRIVING, Mode
from .operators.operator import Operator, OperatorFactory, View
from .record import RecordWriter, metadata_of
from .runtime import Runtime, RuntimeConfig
from .status import Status, fill_status, status_from_record, tip_of


class _Inbox:
    """Commands from the same process."""

    def __init__(self) -> None:
        self.next_control: ControlCommand | None = None
        self.next_operator: OperatorCommand | None = None

    def control(self) -> ControlCommand | None:
        new, self.next_control = self.next_control, None
        return new

    def operator(self) -> OperatorCommand | None:
        new, self.next_operator = self.next_operator, None
        return new


class _Tee:
    """Keeps the ticks of the last attempt, and writes everything to a file where there is one."""

    def __init__(self, writer: RecordWriter | None) -> None:
        self.writer = writer
        self.episode = -1
        self.ticks: list[np.ndarray] = []

    def tick(self, record: np.ndarray) -> None:
        episode = int(record["episode"])
        if episode >= 0:
            if episode != self.episode:
                self.episode, self.ticks = episode, []
            self.ticks.append(record.copy())
        if self.writer is not None:
            self.writer.tick(record)

    def event(self, record: np.ndarray) -> None:
        if self.writer is not None:
            self.writer.event(record)


class LockstepSession(EpisodeRunner):
    """Same runtime, limits, recording and interface as `Session`; time passes only between ticks."""

    def __init__(
        self,
        robot: Robot,
        policies: Sequence[Policy],
        advance: Callable[[float], object],
        *,
        log_path: Path | None = None,
        config: RuntimeConfig | None = None,
        calibration: str = "",
    ) -> None:
        """Connect the robot and start, in mode IDLE.

        Args:
            robot: not yet connected; the session connects and closes it.
            policies: an attempt chooses one by index.
            advance: lets s pass on the robot, e.g. `VirtualArm.advance`.
            log_path: MCAP file to write; None: no file, attempts are still `recorded`.
            config: of the runtime; None for the usual one. The supervisor's heartbeat is not watched.
            calibration: for the log's metadata.

        Raises:
            HardwareError: the robot cannot be connected.
            BindingError: a policy does not fit.
        """
        config = RuntimeConfig(supervisor_timeout_s=None) if config is None else config
        if config.supervisor_timeout_s is not None:
            raise ValueError("in lockstep nobody can miss the supervisor: set supervisor_timeout_s to None")
        self._robot, self._spec = robot, robot.spec
        self._period_ns = config.period_ns
        self._policies = policies
        self._trajectory_index = len(policies)
        self._trajectory = TrajectoryPolicy(joint_names=robot.spec.joint_names, period_ns=config.period_ns)
        self._clock = LockstepClock(advance, start_ns=1)
        self._inbox = _Inbox()
        self._sequence = 0
        self._metadata = metadata_of(
            robot, policies, period_ns=config.period_ns, calibration=calibration, lockstep=True
        )
        self._tee = _Tee(None if log_path is None else RecordWriter(log_path, self._metadata))
        self._runtime = Runtime(robot, [*policies, self._trajectory], self._clock, self._inbox, self._tee, config)
        self._status_record = np.zeros((), dtype=status_dtype(len(robot.spec.joints)))
        self._status_of = -1
        self._tip = tip_of(robot.spec)
        self._status: Status | None = None
        self._operator: Operator | None = None
        self._operator_factory: OperatorFactory | None = None
        self._command = OperatorCommand()
        self._last_end: LogEvent | None = None
        self._last_begin: LogEvent | None = None
        self._closed = False
        try:
            robot.connect()
        except BaseException:
            self.close()
            raise
        self._runtime.start()
        self._runtime.step()

    @property
    def runtime(self) -> Runtime:
        """For those who look closer."""
        return self._runtime

    def status(self) -> Status:
        """The runtime after its last tick."""
        if self._status is None or self._status_of != self._runtime.ticks:
            fill_status(self._status_record, self._runtime, granted="lockstep", dropped=0)
            self._status = status_from_record(self._status_record, self._tip)
            self._status_of = self._runtime.ticks
        return self._status

    def recorded(self, episode: int) -> Episode:
        """The ticks of the last attempt."""
        begin, end = self._last_begin, self._last_end
        if begin is None or end is None or end.episode != episode:
            raise SessionError(f"episode {episode} is not the last one that ended; take it from the log")
        return Episode(
            ticks=np.array(self._tee.ticks, dtype=self._metadata.dtype),
            joint_names=self._metadata.joint_names,
            period_ns=self._period_ns,
            success=end.success == 1,
            policy_id=begin.text,
            robot=self._metadata.robot,
            operator=end.operator,
            info={"final_error_m": end.value},
        )

    def close(self, *, damp: bool = False) -> None:
        """End: the arm holds its pose, or goes limp where `damp`. May be called twice."""
        if self._closed:
            return
        self._closed = True
        self._use_operator(None)
        try:
            if damp:
                self._robot.damp()
            elif self._runtime.mode in DRIVING:
                self._robot.hold()
        finally:
            self._robot.close()
            if self._tee.writer is not None:
                self._tee.writer.close()

    def _send(
        self, mode: Mode | None, *, episode: int = -1, target: np.ndarray | None = None, policy_index: int = 0
    ) -> int:
        self._sequence += mode is not None
        last = self._runtime.control
        x, y, z = last.target if target is None else target.tolist()
        self._inbox.next_control = ControlCommand(
            sequence=self._sequence,
            mode=last.mode if mode is None else mode,
            episode=episode,
            policy_index=policy_index,
            target=(x, y, z),
        )
        return self._sequence

    def _advance(self) -> None:
        if self._operator is not None:
            self._command = self._inbox.next_operator = self._operator.poll(self._clock.now_ns())
        self._runtime.step()

    def _use_operator(self, factory: OperatorFactory | None) -> None:
        if factory is not None and factory is self._operator_factory:
            return
        self._operator_factory = factory
        if self._operator is not None:
            self._operator.close()
        self._operator = None if factory is None else factory(self._view)
        self._operator_name = "" if factory is None else operator_name(factory)
        self._command = self._inbox.next_operator = OperatorCommand()  # the last one of who was there before is void

    def _view(self) -> View:
        runtime = self._runtime
        return View(
            episode=runtime.episode,
            mode=runtime.mode,
            target=runtime.target,
            joint_pos=runtime.joint_pos,
            executed_target=runtime.executed,
        )

    def _operator_command(self) -> OperatorCommand:
        return self._command

    def _log_event(self, record: np.ndarray) -> None:
        event = event_from_record(record)
        if event.kind == "episode_begin":
            self._last_begin, self._last_end = event, None
        else:
            self._last_end = event
        self._tee.event(record)

    def _joint_names(self) -> tuple[str, ...]:
        return self._robot.spec.joint_names

    def _load_trajectory(self, joint_targets: np.ndarray) -> None:
        self._trajectory.load(joint_targets)
