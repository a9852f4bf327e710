"""One attempt at a target, the same in real time and in lockstep: begin, watch, judge, hold."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import TypeVar

import numpy as np

from isthmus.hardware.errors import IsthmusError
from isthmus.hardware.robot import RobotSpec
from isthmus.hardware.workspace import inside
from isthmus.policies.episode import Episode
from isthmus.policies.policy import Policy

from .messages import OperatorCommand, Verdict, make_event
from .modes import ATTEMPTING, Mode
from .operators.operator import OperatorFactory
from .settled import Settled
from .status import Status

_SETTLE_S = 0.3  # after the start pose was reached
_STOPPED_EARLY = "stopped by the operator on the way to the start pose; the arm holds"

Referee = Callable[[], np.ndarray]
"""Where the tip really is, shape (3,), m, base frame."""

OnTick = Callable[[Status, np.ndarray, float], None]
"""Looks on: the runtime after a tick; the tip by the referee, or measured where there is none, shape (3,), m, base frame; s left."""

Self = TypeVar("Self", bound="EpisodeRunner")


class SessionError(IsthmusError):
    """A session cannot go on; the text says why and what to do."""


class StoppedByOperator(SessionError):
    """The operator said stop: the arm holds, and no further attempt may begin by itself."""

    def __init__(self, message: str, *, episode: int = -1) -> None:
        """Name the attempt that was stopped by its id in the log; -1 outside an attempt."""
        super().__init__(message)
        self.episode = episode


@dataclass(frozen=True, kw_only=True)
class EpisodeResult:
    """How an attempt ended."""

    episode: int  # its id in the log
    success: bool
    final_error_m: float
    seconds: float  # on the runtime's clock
    intervened: bool
    ended: (
        str  # settled, timeout, operator (said so), stopped (only in the log: whoever runs the attempt gets an error)
    )


class EpisodeRunner(ABC):
    """What real-time and lockstep sessions share. A context manager: leaving it leaves the arm holding."""

    _spec: RobotSpec
    _policies: Sequence[Policy]
    _trajectory_index: int
    _period_ns: int
    _next_episode: int = 0
    _operator_name: str = ""

    @abstractmethod
    def status(self) -> Status:
        """The runtime after its last tick."""

    @abstractmethod
    def recorded(self, episode: int) -> Episode:
        """The ticks of the attempt that ended last, by its id; raises SessionError where it is not there."""

    @abstractmethod
    def close(self, *, damp: bool = False) -> None:
        """End: the arm holds its pose, or goes limp where `damp`. May be called twice."""

    @abstractmethod
    def _send(
        self, mode: Mode | None, *, episode: int = -1, target: np.ndarray | None = None, policy_index: int = 0
    ) -> int:
        """Ask the runtime for a mode, or only set the rest where None; returns the request's sequence number."""

    @abstractmethod
    def _advance(self) -> None:
        """Let a control period pass; raises SessionError where something that must live is gone."""

    @abstractmethod
    def _use_operator(self, factory: OperatorFactory | None) -> None:
        """Let this operator watch from now on."""

    @abstractmethod
    def _operator_command(self) -> OperatorCommand:
        """The operator's last command."""

    @abstractmethod
    def _log_event(self, record: np.ndarray) -> None:
        """Record an event of the supervisor's own."""

    def prepare(self, targets: np.ndarray, *, operator: OperatorFactory | None = None, policy_index: int = 0) -> None:
        """Check every target and start the operator, so that whatever is wrong is said before the arm moves.

        Args:
            targets: shape (k, 3), m, base frame.
            operator: who may take over in the attempts that follow.
            policy_index: which policy will run.

        Raises:
            SessionError: an impossible target, or an operator whose device cannot be used.
        """
        for target in targets:
            self._check_target(target, policy_index)
        self._use_operator(operator)

    def park(self) -> None:
        """Move slowly to the pose in which the robot may go limp without falling, and hold it."""
        self.run_trajectory(self._spec.array("rest_pos")[None])

    def arm(self, timeout_s: float = 30.0) -> None:
        """Arm in two steps: DAMP, then READY, in which the arm moves slowly to its start pose. Returns when it is there.

        Raises:
            StoppedByOperator: on the way there; the arm holds.
            SessionError: the runtime refuses or reports a fault; carries its text.
        """
        self._ask(Mode.DAMP)
        ready = self._ask(Mode.READY)
        self._wait(lambda status: status.arrived or _stopped(status), "reach its start pose", timeout_s, since=ready)
        self._pass_time(_SETTLE_S, since=ready)
        if _stopped(self.status()):
            raise StoppedByOperator(_STOPPED_EARLY)

    def hold(self) -> None:
        """Keep the arm where it is."""
        self._ask(Mode.HOLD)

    def run_episode(
        self,
        target: Sequence[float] | np.ndarray,
        timeout_s: float,
        *,
        operator: OperatorFactory | None = None,
        policy_index: int = 0,
        referee: Referee | None = None,
        on_tick: OnTick | None = None,
    ) -> EpisodeResult:
        """One attempt, from where the arm is; afterwards it holds.

        It ends when the tip has settled within 10 mm for 0.5 s and nobody has taken over, when the operator says so, or after
        `timeout_s`. Somebody who takes over is left to finish: where they leave the tip is worth knowing.

        Args:
            target: shape (3,), m, base frame.
            timeout_s: s on the runtime's clock.
            operator: who may take over; None: nobody.
            policy_index: which of the session's policies.
            referee: the true tip position, which decides on success. None, on a robot without one: the operator's verdict decides, and
                the measured tip where there is none.
            on_tick: called after every tick of the attempt; must be quick.

        Raises:
            StoppedByOperator: the operator said stop. The arm holds.
            SessionError: not armed, an impossible target, or a fault; carries its text. The arm holds or is limp.
        """
        aim = self._check_target(target, policy_index)
        self._use_operator(operator)
        return self._attempt(aim, timeout_s, policy_index, referee, on_tick=on_tick)

    def run_trajectory(self, joint_targets: np.ndarray) -> Episode:
        """Play joint targets through the same runtime, limits and recording, after a slow approach; afterwards the arm holds.

        Args:
            joint_targets: shape (T, n), rad, robot order, one row a control period.

        Returns:
            What was recorded, the approach included.

        Raises:
            SessionError: not armed, or a fault; carries its text.
            ValueError: targets of another shape, or not finite.
        """
        from isthmus.policies.trajectory import TrajectoryPolicy

        probe = TrajectoryPolicy(joint_names=self._joint_names(), period_ns=self._period_ns)
        probe.load(joint_targets)
        self._load_trajectory(np.asarray(joint_targets, dtype=np.float64))
        ticks = probe.duration_ticks(self._armed().executed_target)
        self._use_operator(None)
        # Nothing to reach: the target is where the tip is, and only time ends the attempt.
        result = self._attempt(
            self.status().tip, ticks * self._period_ns * 1e-9, self._trajectory_index, None, judged=False
        )
        return self.recorded(result.episode)

    @abstractmethod
    def _joint_names(self) -> tuple[str, ...]:
        """Robot order."""

    @abstractmethod
    def _load_trajectory(self, joint_targets: np.ndarray) -> None:
        """Hand joint targets to the runtime's trajectory policy."""

    def _attempt(
        self,
        target: np.ndarray,
        timeout_s: float,
        policy_index: int,
        referee: Referee | None,
        *,
        judged: bool = True,
        on_tick: OnTick | None = None,
    ) -> EpisodeResult:
        before = self._armed()
        episode = self._next_episode
        self._next_episode += 1
        policy_id = "trajectory" if policy_index == self._trajectory_index else self._policies[policy_index].policy_id
        self._ask(Mode.POLICY, episode=episode, target=target, policy_index=policy_index)
        begin_ns = self.status().monotonic_ns
        self._log_event(
            make_event(
                "episode_begin", monotonic_ns=begin_ns, episode=episode, operator=self._operator_name, text=policy_id
            )
        )
        result = self._watch(episode, target, begin_ns, timeout_s, referee, judged, on_tick)
        fault = "" if self.status().faults == before.faults else self.status().fault
        if self.status().mode in ATTEMPTING:
            self._ask(Mode.HOLD)
        else:
            self._send(None)  # no request: a fault keeps its own course
        self._log_event(
            make_event(
                "episode_end",
                monotonic_ns=self.status().monotonic_ns,
                episode=episode,
                success=int(result.success),
                value=result.final_error_m,
                operator=self._operator_name if result.intervened else "",
                text=result.ended,
            )
        )
        if fault:
            raise SessionError(f"{fault} (the arm is in mode {self.status().mode.name})")
        if result.ended == "stopped":
            raise StoppedByOperator("stopped by the operator; the arm holds", episode=episode)
        return result

    def _armed(self) -> Status:
        """The runtime now; raises SessionError where no attempt can begin, with the fault that may be the cause."""
        status = self.status()
        if status.mode not in (Mode.READY, Mode.HOLD):
            raise SessionError(
                f"the runtime is in mode {status.mode.name}{_last_fault(status)}, an attempt begins from READY or HOLD; "
                "call arm() first"
            )
        return status

    def _watch(
        self,
        episode: int,
        target: np.ndarray,
        begin_ns: int,
        timeout_s: float,
        referee: Referee | None,
        judged: bool,
        on_tick: OnTick | None,
    ) -> EpisodeResult:
        settled = Settled(target)
        intervened = False
        verdict = Verdict.NONE
        ended = ""
        good = False
        status = self.status()
        while not ended:
            self._advance()
            status = self.status()
            tip = status.tip if referee is None else referee()
            good = settled.update(tip, status.monotonic_ns)
            if on_tick is not None:
                on_tick(status, tip, timeout_s - (status.monotonic_ns - begin_ns) * 1e-9)
            intervened |= status.mode is Mode.TELEOP
            command = self._operator_command()
            verdict = Verdict(command.verdict) if intervened else Verdict.NONE
            if status.mode not in ATTEMPTING:
                ended = "stopped"
            elif verdict is not Verdict.NONE:
                ended = "operator"
            elif good and judged and not intervened:
                ended = "settled"
            elif status.monotonic_ns - begin_ns >= timeout_s * 1e9:
                ended = "timeout"
        if referee is None and verdict is not Verdict.NONE:
            good = verdict is Verdict.SUCCESS
        return EpisodeResult(
            episode=episode,
            success=ended != "stopped" and (good or not judged),
            final_error_m=settled.error_m,
            seconds=(status.monotonic_ns - begin_ns) * 1e-9,
            intervened=intervened,
            ended=ended,
        )

    def _check_target(self, target: Sequence[float] | np.ndarray, policy_index: int) -> np.ndarray:
        aim = np.asarray(target, dtype=np.float64)
        if aim.shape != (3,) or not np.isfinite(aim).all():
            raise SessionError(
                f"target {np.asarray(target).tolist()} must be three finite numbers, m in the base frame"
            )
        if not 0 <= policy_index < len(self._policies):
            raise SessionError(
                f"there is no policy {policy_index}; this session has {len(self._policies)}, counted from 0"
            )
        contract = getattr(self._policies[policy_index], "contract", None)
        area, chain = (
            (None, None)
            if contract is None or contract.command is None
            else (contract.command.workspace, contract.chain)
        )
        if area is not None and chain is not None and not inside(area, chain, aim):
            raise SessionError(
                f"target {aim.tolist()} m is outside the workspace this policy was trained for: {area.radius[0]} .. {area.radius[1]} m "
                f"from the first joint's axis, {area.height[0]} .. {area.height[1]} m high, within "
                f"{area.azimuth[0]} .. {area.azimuth[1]} rad of straight ahead; choose a point inside"
            )
        return aim

    def _ask(self, mode: Mode, *, episode: int = -1, target: np.ndarray | None = None, policy_index: int = 0) -> Status:
        """Ask for a mode and wait until the runtime is in it; returns how it is then."""
        before = self.status()
        sequence = self._send(mode, episode=episode, target=target, policy_index=policy_index)
        status = self._wait(lambda status: status.accepted >= sequence, "answer", 5.0, since=before)
        # A fault or an operator may have moved it on at once; then the caller sees that.
        if status.mode is not mode and status.faults > before.faults:
            raise SessionError(status.fault)
        if mode is Mode.READY and _stopped(status):
            raise StoppedByOperator(_STOPPED_EARLY)
        if status.mode is not mode and not (mode is Mode.POLICY and status.episode == episode):
            raise SessionError(
                f"the runtime refused {mode.name}; it is in mode {status.mode.name}{_last_fault(status)}"
            )
        return status

    def _wait(self, done: Callable[[Status], bool], what: str, timeout_s: float, *, since: Status) -> Status:
        """Wait until `done`, and return how the runtime is then; a fault after `since` ends the wait with its text."""
        begin_ns = self.status().monotonic_ns
        while not done(status := self.status()):
            if status.faults > since.faults:
                raise SessionError(status.fault)
            if status.monotonic_ns - begin_ns > timeout_s * 1e9:
                raise SessionError(
                    f"the arm did not {what} within {timeout_s:g} s (mode {status.mode.name}); {status.fault or 'no fault'}"
                )
            self._advance()
        return status

    def _pass_time(self, duration_s: float, *, since: Status) -> None:
        """Let time pass; a fault after `since` is raised with its text."""
        begin_ns = self.status().monotonic_ns
        while (status := self.status()).faults == since.faults:
            if status.monotonic_ns - begin_ns >= duration_s * 1e9:
                return
            self._advance()
        raise SessionError(status.fault)

    def __enter__(self: Self) -> Self:
        """The session itself; it is already running."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        self.close()


def _stopped(status: Status) -> bool:
    """Whether somebody stopped the arm on its way to READY."""
    return status.mode is Mode.HOLD


def _last_fault(status: Status) -> str:
    return f" (last fault: {status.fault})" if status.fault else ""


def operator_name(factory: OperatorFactory) -> str:
    """What a log calls the operator that a factory builds."""
    function = factory.func if isinstance(factory, partial) else factory
    return getattr(function, "__name__", type(function).__name__)
