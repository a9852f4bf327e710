"""The control tick: read, check, infer, choose, blend, limit, write, record. One object for real time and lockstep."""

import time
from collections.abc import Sequence

import numpy as np

from isthmus.hardware.errors import HardwareError
from isthmus.hardware.interface import JointState, Robot
from isthmus.policies.episode import Source
from isthmus.policies.policy import Policy

from .bound_policy import COMMAND_WIDTH, BoundPolicy, PolicyFault, body_of, further_fields
from .clock import Clock
from .faults import Faults
from .listening import operator_event
from .messages import ControlCommand, Drive, OperatorCommand
from .mode_keeper import ModeKeeper
from .modes import DRIVING, REQUESTS, Event, Mode
from .monitors import Monitors
from .ports import Inbox, RuntimeConfig, Sink
from .proposer import Proposer
from .safety import NOTHING_WRITTEN, AccelerationLimit, Flag, Limiter, out_of_range, robot_limits
from .sources import Sources
from .takeover import DriveError
from .tick_record import TickRecord
from .timing import Lateness

_PROPOSING = (Mode.POLICY, Mode.TELEOP, Mode.REWIND, Mode.HELP)  # where a person is at it, in their shadow


class Runtime:
    """Drives one robot. Nothing moves before a supervisor asked for DAMP and then READY."""

    def __init__(
        self,
        robot: Robot,
        policies: Sequence[Policy],
        clock: Clock,
        inbox: Inbox,
        sink: Sink,
        config: RuntimeConfig,
    ) -> None:
        """Bind policies to the robot; talks to no hardware.

        Args:
            robot: connected.
            policies: chosen by index when an episode begins.
            clock: what the deadlines are measured on.
            inbox: commands.
            sink: records.
            config: periods, timeouts, limits.

        Raises:
            BindingError: a policy does not fit.
        """
        spec, n = robot.spec, len(robot.spec.joints)
        period_s = config.period_ns * 1e-9
        self._robot, self._clock, self._inbox, self._sink, self._config = robot, clock, inbox, sink, config
        actions = max((policy.num_actions for policy in policies), default=0)
        body, actions = body_of(robot), max((policy.num_actions for policy in policies), default=0)
        parts = [BoundPolicy(policy, body, config.period_ns, actions) for policy in policies]
        self._record = TickRecord(n, actions, further_fields(body, parts))
        vectors = self._record.vectors
        bound = [BoundPolicy(policy, body, config.period_ns, actions, vectors) for policy in policies]
        # The runtime's own numbers live where they are recorded.
        self.joint_pos, self.executed, self._human, self._told = (
            vectors[name] for name in ("joint_pos", "executed_target", "human_target", "target")
        )
        for array in (self.joint_pos, self.executed, self._human):
            array.fill(np.nan)
        limits = robot_limits(spec, period_s=period_s, torque_factor=config.torque_factor)
        self._limits, self._limiter, self._acceleration = limits, Limiter(limits), AccelerationLimit(limits)
        self.monitors = Monitors(spec, limits, config.monitor, period_s)
        self.proposer = Proposer(bound, config)
        self.sources = Sources(spec, config, self._human)
        self._modes = ModeKeeper(robot, sink, config.fault_hold_s, self._changed)
        self.control = ControlCommand()
        self.operator = OperatorCommand(heartbeat_ns=-(1 << 62))
        self.missed = self.ticks = 0
        self.lateness = Lateness()
        self.target = np.full(COMMAND_WIDTH, np.nan)
        self._increment = np.zeros(n)
        self._state_ok = self._startable = self._may_engage = self.supervisor_lost = False
        self._rebase = self._may_rewind = True  # the executed target is not known: take the measured pose
        self._conflicts = 0  # ticks in a row in which nothing could be written
        self._modes.now_ns = self._deadline_ns = clock.now_ns()

    @property
    def mode(self) -> Mode:
        """What it is doing."""
        return self._modes.mode

    @property
    def episode(self) -> int:
        """The attempt that goes on; -1 for none."""
        return self._modes.episode

    @property
    def now_ns(self) -> int:
        """Of the last tick."""
        return self._modes.now_ns

    @property
    def faults(self) -> Faults:
        """What has gone wrong."""
        return self._modes.faults

    @property
    def fault(self) -> str:
        """The last fault; "" for none."""
        return self.faults.text

    @property
    def period_ns(self) -> int:
        """Of a tick."""
        return self._config.period_ns

    @property
    def news(self) -> tuple[int, int, int, bool]:
        """What others want to know at once: the mode, the request last looked at, the number of faults, and arrival."""
        return (self.mode, self.control.sequence, self.faults.count, self.sources.arrived)

    def start(self) -> None:
        """Make the first deadline now."""
        self._deadline_ns = self._clock.now_ns()

    def step(self) -> None:
        """Wait for the next deadline and do one tick. Deadlines that have passed are skipped and counted, never made up for."""
        self._clock.sleep_until(self._deadline_ns)
        self.tick()
        self._deadline_ns += self._config.period_ns
        late = self._clock.now_ns() - self._deadline_ns
        if late >= 0:
            skipped = late // self._config.period_ns + 1
            self._deadline_ns += skipped * self._config.period_ns
            self.missed += skipped

    def tick(self) -> None:
        """One control tick, now."""
        now_ns = self._modes.now_ns = self._clock.now_ns()
        late_ns = now_ns - self._deadline_ns
        self.lateness.add(late_ns * 1e-3)
        if late_ns > self._config.stall_s * 1e9 and self.mode in DRIVING:
            self._modes.fail(
                Event.HARDWARE_FAULT,
                f"the runtime stood still for {late_ns * 1e-9:.2f} s; was it stopped, or is the computer overloaded?",
            )
        self._listen_to_supervisor()
        self._listen_to_operator()
        self._modes.expire()
        state = self._read()
        self._record.vectors["joint_target"][:] = self.executed
        self.sources.source, self.proposer.ran = Source.NONE, 0
        self._set_command()
        policy = self._act(state)
        written_ns = flags = 0
        if state is not None and self.mode in DRIVING:
            if late := self.monitors.late(self.executed, self.joint_pos):
                self._modes.fail(Event.HARDWARE_FAULT, late)
            written_ns, flags = self._command(state, policy)
        self._write_record(state, policy, written_ns, flags, late_ns * 1e-3)
        self.ticks += 1

    # commands

    def _listen_to_supervisor(self) -> None:
        new = self._inbox.control()
        if new is not None:
            asked = new.sequence != self.control.sequence
            self.control = new
            self.target[:] = new.target
            if new.episode != self.episode:
                self._modes.episode = -1
            if asked:
                self._request(Mode(new.mode))
        timeout_s = self._config.supervisor_timeout_s
        if timeout_s is None:
            return
        lost = self.now_ns - self.control.heartbeat_ns > timeout_s * 1e9
        if lost and not self.supervisor_lost and self.mode in DRIVING:
            self._modes.fail(
                Event.SUPERVISOR_LOST,
                f"no sign of life from the supervisor for {timeout_s} s; it ended or hangs, start it again",
            )
        self.supervisor_lost = lost

    def _request(self, mode: Mode) -> None:
        event = REQUESTS.get(mode)
        if event is None:
            return
        if event is Event.ASK_READY and self.mode is Mode.DAMP and not (self._state_ok and self._startable):
            reason = out_of_range(self._robot.spec, self.joint_pos) if self._state_ok else "the joints cannot be read"
            self._modes.note(f"cannot arm: {reason}")
            return
        if event is Event.ASK_POLICY and not self._select_policy():
            return
        changed = self._modes.happen(event)
        if changed or mode is self.mode:
            self.faults.end()  # somebody reacted
        if self.mode is Mode.POLICY:
            self._modes.episode = self.control.episode

    def _select_policy(self) -> bool:
        """Take the policy asked for, from rest where it begins an attempt or replaces another. False where it does not exist."""
        if self.mode not in DRIVING:
            return True
        index, count = self.control.policy_index, len(self.proposer.policies)
        if not 0 <= index < count or not np.isfinite(self.target).all():
            self._modes.note(
                f"asked for policy {index} with target {self.target.tolist()}; there are {count} policies "
                "and a target must be finite"
            )
            return False
        begins = self.mode in (Mode.READY, Mode.HOLD)
        if begins:
            self._may_engage = False
            self.sources.begin()
        if begins or index != self.proposer.index:
            self.proposer.select(index)
            if self.mode is Mode.POLICY:
                self.sources.change_policy(self.now_ns, self._increment)
        return True

    def _listen_to_operator(self) -> None:
        new = self._inbox.operator()
        if new is not None:
            self.operator = new
        command = self.operator
        fresh = self.now_ns - command.heartbeat_ns <= self._config.operator_timeout_s * 1e9
        self._may_rewind = self._may_rewind or not command.rewind
        event = operator_event(
            command, self.mode, fresh=fresh, may_engage=self._may_engage, may_rewind=self._may_rewind
        )
        if event is None:
            return
        if event is Event.OPERATOR_LOST:
            self._modes.note(f"no sign of life from the operator for {self._config.operator_timeout_s} s while driving")
        self._may_engage = self._may_engage or event in (Event.OPERATOR_RELEASED, Event.OPERATOR_RESUME)
        smooth = event is not Event.OPERATOR_STOP  # nobody who stops a robot wants it to glide on
        self._modes.happen(event, smooth=smooth)

    def _changed(self, old: Mode, new: Mode, smooth: bool) -> None:
        """The mode has changed."""
        self.proposer.forget_asking()
        self.sources.change_mode(
            old, new, now_ns=self.now_ns, executed=self.executed, increment=self._increment, smooth=smooth
        )
        self._rebase = self._rebase or new in (Mode.DAMP, Mode.ESTOP)
        if new is not Mode.TELEOP:
            self._human.fill(np.nan)

    # the tick's stages

    def _read(self) -> JointState | None:
        try:
            state = self._robot.read()
        except HardwareError as error:
            self._state_ok = False
            self._modes.hardware_fault(error)
            return None
        if unreadable := self.monitors.unreadable(state):
            self._modes.fail(Event.HARDWARE_FAULT, unreadable)
            self._state_ok = False
            return None
        age_s = (self.now_ns - self._clock.from_monotonic(state.stamp_ns)) * 1e-9
        reason = self.monitors.complaint(state, age_s)
        if reason and self.mode in DRIVING:
            self._modes.fail(Event.HARDWARE_FAULT, reason)
        self._state_ok = not reason
        self.joint_pos[:] = state.joint_pos
        if self._rebase or self.mode not in DRIVING:
            self._start_from(state.joint_pos)
        return state

    def _start_from(self, joint_pos: np.ndarray) -> None:
        """Take the measured pose for the executed one; a joint that lies outside its range must be put back by hand."""
        np.maximum(joint_pos, self._limits.lower, out=self.executed)
        np.minimum(self.executed, self._limits.upper, out=self.executed)
        self._increment.fill(0.0)
        self._rebase = False
        self._startable = not (reason := out_of_range(self._robot.spec, joint_pos))
        if reason and self.mode in DRIVING:
            self._modes.fail(Event.HARDWARE_LOST, reason)

    def _act(self, state: JointState | None) -> BoundPolicy | None:
        """Let the policy propose, also in the shadow of a person; between its ticks its last proposal stays."""
        if state is None or self.mode not in _PROPOSING:
            return None
        try:
            policy = self.proposer.act(state, self.executed, self._told)
        except PolicyFault as fault:
            if self.mode is Mode.POLICY:
                self._modes.fail(Event.POLICY_FAULT, f"{fault}; holding")
            elif not self.proposer.shadow_fault:
                self.proposer.shadow_fault = True
                self._modes.note(str(fault))
            return self.proposer.policies[self.proposer.index]
        if self.mode is Mode.POLICY and self.proposer.wants_help:
            self._modes.ask_for_help(f"gate {policy.gate_prob:.2f}")
        return policy

    def _set_command(self) -> None:
        """What the policy is told to do: by the supervisor, or by a person who drives it so."""
        self._told[:] = self.target
        if self.mode is Mode.TELEOP and self.operator.drive == Drive.COMMAND:
            values = self.operator.values[:COMMAND_WIDTH]
            if np.isfinite(values).all():
                self._told[: len(values)] = values

    def _wanted(self, state: JointState, policy: BoundPolicy | None) -> np.ndarray:
        try:
            wanted = self.sources.wanted(
                self.mode,
                operator=self.operator,
                policy=policy,
                executed=self.executed,
                joint_pos=state.joint_pos,
                now_ns=self.now_ns,
            )
        except DriveError as error:
            self._modes.note(str(error))
            self._modes.happen(Event.OPERATOR_LOST, smooth=False)
            return self.executed
        if self.mode is Mode.REWIND and self.sources.rewound:
            self._may_rewind = False
            self._modes.happen(Event.REWOUND)
        return self._acceleration.apply(wanted, self.executed, self._increment) if self._acceleration.active else wanted

    def _command(self, state: JointState, policy: BoundPolicy | None) -> tuple[int, int]:
        """Choose, blend, limit and write; returns when it was written, 0 where it was not, and what the limiter found."""
        wanted = self._wanted(state, policy)
        safe, flags = self._limiter.apply(wanted, self.executed, state.joint_pos, state.joint_vel)
        if flags & NOTHING_WRITTEN:
            self._refuse(int(flags))
            return 0, int(flags)
        self._conflicts = 0
        try:
            self._robot.write(safe)
        except HardwareError as error:
            self._state_ok = False
            self._modes.hardware_fault(error)
            return 0, int(flags)
        np.subtract(safe, self.executed, out=self._increment)
        self.executed[:] = safe
        self.sources.remember(self.mode, safe, good=not self.proposer.asking)
        return self._clock.now_ns(), int(flags)

    def _refuse(self, flags: int) -> None:
        """Nothing was written at this tick: the device keeps its last target. Where that lasts it is a fault."""
        self._conflicts += 1
        self._increment.fill(0.0)
        if self._conflicts * self._config.period_ns <= self._config.conflict_timeout_s * 1e9:
            return
        self._conflicts = 0
        away = np.abs(self.executed - self.joint_pos)
        joint = self._robot.spec.joint_names[int(np.argmax(away / self._limits.lead))]
        what = "no target keeps all limits" if flags & Flag.CONFLICT else "what was wanted is not finite"
        self._modes.fail(
            Event.HARDWARE_FAULT,
            f"{what} for {self._config.conflict_timeout_s} s: {joint} is {away.max():.2f} rad from its target; it was pushed away faster "
            "than it may move, has no torque, or its encoder jumped",
        )

    def _write_record(
        self, state: JointState | None, policy: BoundPolicy | None, written_ns: int, flags: int, late_us: float
    ) -> None:
        record = self._record
        record.set_state(state)
        record.set_policy(policy)
        record.set_scalars(
            self.ticks,
            self.now_ns if state is None else self._clock.from_monotonic(state.stamp_ns),
            time.time_ns(),
            written_ns,
            self.episode,
            self.mode,
            self.sources.source,
            self.mode is Mode.TELEOP or self.sources.intervention,
            self.proposer.index,
            self.proposer.ran,
            flags,
            self.missed,
            self.monitors.errors,
            self.operator.pressed_ns,
            0.0 if policy is None else policy.gate_prob,
            0.0 if policy is None else policy.gate,
            0.0 if policy is None or not self.proposer.ran else policy.inference_us,
            late_us,
            self.monitors.max_temperature,
        )
        self._sink.tick(record.record)


__all__ = ["Runtime", "RuntimeConfig"]
