"""The control tick: read, check, infer, choose, blend, limit, write, record. One object for real time and lockstep."""

import time
from collections.abc import Sequence

import numpy as np

from isthmus.hardware.errors import HardwareError
from isthmus.hardware.interface import JointState, Robot
from isthmus.policies.episode import Ran, Source
from isthmus.policies.policy import Policy

from .bound_policy import COMMAND_WIDTH, BoundPolicy, PolicyFault, body_of, further_fields
from .clock import Clock
from .faults import Faults
from .messages import ControlCommand, Drive, OperatorCommand, make_event
from .modes import DRIVING, REQUESTS, Event, Mode, next_mode
from .monitors import Monitors
from .ports import Inbox, RuntimeConfig, Sink
from .rewind import Path
from .safety import NOTHING_WRITTEN, AccelerationLimit, Flag, Limiter, out_of_range, robot_limits
from .takeover import Blend, DriveError, HumanDrive
from .tick_record import TickRecord
from .timing import Lateness

DAMP_RETRY_NS = 500_000_000
_ACTED, _ACTED_FROM_REST = int(Ran.ACTED), int(Ran.ACTED | Ran.RESET)
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
        self._policies = [BoundPolicy(policy, body_of(robot), config.period_ns, actions) for policy in policies]
        limits = robot_limits(spec, period_s=period_s, torque_factor=config.torque_factor)
        self._limits, self._limiter, self._acceleration = limits, Limiter(limits), AccelerationLimit(limits)
        self._monitors = Monitors(spec, limits, config.monitor, period_s)
        self._drive = HumanDrive(spec, config.takeover, period_s)
        self._blend = Blend(config.takeover.ramp_s)
        self._path = Path(
            n,
            max(2, round(config.rewind_most_s / period_s)),
            speed=config.rewind_speed,
            least=round(config.rewind_least_s / period_s),
        )
        self._start_pose = spec.array("default_pos") if config.start_pose is None else np.array(config.start_pose)
        self._ready_step = config.ready_speed * period_s
        self.mode = Mode.IDLE
        self.source = Source.NONE
        self.control = ControlCommand()
        self.operator = OperatorCommand(heartbeat_ns=-(1 << 62))
        self.episode = -1
        self.policy_index = 0
        self.arrived = False
        self.faults = Faults(sink, config.fault_hold_s)
        self.missed = self.ticks = 0
        self.lateness = Lateness()
        self.target = np.full(COMMAND_WIDTH, np.nan)
        self._increment = np.zeros(n)
        self._state_ok = self._startable = False
        self._rebase = True  # the executed target is not known: take the measured pose
        self._blend_of_person = self._may_engage = self._shadow_fault = self.supervisor_lost = False
        self._conflicts = 0  # ticks in a row in which no target kept all limits
        self._asking = 0  # ticks in a row in which the policy's gate was open
        self._policy_tick = 0  # of the runtime's since the policy was reset
        self._ran = 0  # sum of Ran
        self._damp_again_ns: int | None = None  # when to try once more to switch torque off
        self.now_ns = self._deadline_ns = clock.now_ns()
        self._record = TickRecord(n, actions, further_fields(body_of(robot), self._policies))
        vectors = self._record.vectors
        for name in ("joint_pos", "executed_target", "human_target"):
            vectors[name].fill(np.nan)
        self.joint_pos, self.executed, self._human = (
            vectors["joint_pos"],
            vectors["executed_target"],
            vectors["human_target"],
        )

    @property
    def fault(self) -> str:
        """The last fault; "" for none."""
        return self.faults.text

    @property
    def max_temperature(self) -> float:
        """Of the hottest joint, deg C; NaN as long as it is not known."""
        return self._monitors.max_temperature

    @property
    def period_ns(self) -> int:
        """Of a tick."""
        return self._config.period_ns

    @property
    def news(self) -> tuple[int, int, int, bool]:
        """What others want to know at once: the mode, the request last looked at, the number of faults, and arrival."""
        return (self.mode, self.control.sequence, self.faults.count, self.arrived)

    @property
    def bus_errors(self) -> int:
        """Repaired by a retry, so far."""
        return self._monitors.errors

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
        now_ns = self.now_ns = self._clock.now_ns()
        late_ns = now_ns - self._deadline_ns
        self.lateness.add(late_ns * 1e-3)
        if late_ns > self._config.stall_s * 1e9 and self.mode in DRIVING:
            self._fail(
                Event.HARDWARE_FAULT,
                f"the runtime stood still for {late_ns * 1e-9:.2f} s; was it stopped, or is the computer overloaded?",
            )
        self._listen_to_supervisor()
        self._listen_to_operator()
        if self.faults.expired(now_ns):
            self._happen(Event.FAULT_EXPIRED)
        state = self._read()
        self._record.vectors["joint_target"][:] = self.executed
        self.source, self._ran = Source.NONE, 0
        self._set_command()
        policy = self._act(state)
        written_ns = flags = 0
        if state is not None and self.mode in DRIVING:
            if late := self._monitors.late(self.executed, self.joint_pos):
                self._fail(Event.HARDWARE_FAULT, late)
            written_ns, flags = self._command(state, policy)
        elif self._damp_again_ns is not None and now_ns >= self._damp_again_ns:
            self._damp("")
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
                self.episode = -1
            if asked:
                self._request(Mode(new.mode))
        timeout_s = self._config.supervisor_timeout_s
        if timeout_s is None:
            return
        lost = self.now_ns - self.control.heartbeat_ns > timeout_s * 1e9
        if lost and not self.supervisor_lost and self.mode in DRIVING:
            self._fail(
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
            self._note_fault(f"cannot arm: {reason}")
            return
        if event is Event.ASK_POLICY and not self._select_policy():
            return
        changed = self._happen(event)
        if changed or mode is self.mode:
            self.faults.end()  # somebody reacted
        if self.mode is Mode.POLICY:
            self.episode = self.control.episode

    def _select_policy(self) -> bool:
        """Take the policy asked for, from rest where it begins an attempt or replaces another. False where it does not exist."""
        if self.mode not in DRIVING:
            return True
        index = self.control.policy_index
        if not 0 <= index < len(self._policies) or not np.isfinite(self.target).all():
            self._note_fault(
                f"asked for policy {index} with target {self.target.tolist()}; there are {len(self._policies)} policies "
                "and a target must be finite"
            )
            return False
        begins = self.mode in (Mode.READY, Mode.HOLD)
        if begins or index != self.policy_index:
            self.policy_index = index
            self._policies[index].reset()
            self._policy_tick, self._shadow_fault = 0, False
            if self.mode is Mode.POLICY:  # from one policy to another, without a step in the targets
                self._blend.start(self.now_ns, self._increment)
                self._blend_of_person = False
        if begins:
            self._may_engage = False
            self._path.clear()
        return True

    def _listen_to_operator(self) -> None:
        new = self._inbox.operator()
        if new is not None:
            self.operator = new
        command = self.operator
        fresh = self.now_ns - command.heartbeat_ns <= self._config.operator_timeout_s * 1e9
        if not fresh:
            if self.mode in (Mode.TELEOP, Mode.REWIND):
                self._note_fault(
                    f"no sign of life from the operator for {self._config.operator_timeout_s} s while driving"
                )
                self._happen(Event.OPERATOR_LOST)
            return
        if command.stop:
            self._happen(Event.OPERATOR_STOP, smooth=False)  # at once: nobody who stops a robot wants it to glide on
        elif command.rewind:
            if self._may_engage:
                self._happen(Event.OPERATOR_REWIND)
        elif self.mode is Mode.REWIND and not command.engaged:
            self._happen(Event.REWOUND)
        elif not command.engaged:
            self._may_engage = True  # someone who still drives from an earlier episode has to let go first
            self._happen(Event.OPERATOR_RESUME if command.resume else Event.OPERATOR_RELEASED)
        elif self._may_engage:
            self._happen(Event.OPERATOR_ENGAGED)

    # modes and faults

    def _happen(self, event: Event, *, smooth: bool = True) -> bool:
        """Apply an event; whether the mode changed. `smooth` allows a blend between sources."""
        old, new = self.mode, next_mode(self.mode, event)
        if new is old:
            return False
        self.mode = new
        self._sink.event(
            make_event(
                "mode", monotonic_ns=self.now_ns, episode=self.episode, text=f"{old.name} -> {new.name} ({event.name})"
            )
        )
        self.arrived = False
        self._asking = 0
        starts = new is Mode.POLICY and old in (Mode.READY, Mode.HOLD)
        self._blend.stop()
        if smooth and old in DRIVING and new in DRIVING and not starts:
            self._blend.start(self.now_ns, self._increment)
            self._blend_of_person = Mode.TELEOP in (old, new)
        if new is Mode.TELEOP:
            self._drive.begin(self.executed)
        if new is Mode.REWIND:
            self._path.begin()
        if old is Mode.REWIND:
            self._path.cut()
        if new in (Mode.DAMP, Mode.ESTOP):
            self._rebase = True
            self._damp(f"{self.fault}; " if event is Event.HARDWARE_LOST else "")
        return True

    def _damp(self, cause: str) -> None:
        again = self._damp_again_ns is not None
        self._damp_again_ns = None
        try:
            self._robot.damp()
        except HardwareError as error:
            self._damp_again_ns = self.now_ns + DAMP_RETRY_NS
            if not again:
                self._note_fault(f"{cause}torque could not be switched off, trying on: {error}")

    def _fail(self, event: Event, text: str) -> None:
        self._note_fault(text)
        self._happen(event, smooth=False)
        if self.mode in DRIVING:
            self.faults.begin(self.now_ns)

    def _note_fault(self, text: str) -> None:
        self.faults.note(text, now_ns=self.now_ns, episode=self.episode)

    def _hardware_fault(self, error: HardwareError) -> None:
        """Stop driving: hold where the bus still answers, otherwise try to damp."""
        self._state_ok = False
        text = f"{type(error).__name__}: {error}"
        if self.mode not in DRIVING:
            if text != self.fault:
                self._note_fault(text)
            return
        try:
            self._robot.hold()
        except HardwareError:
            self._fail(Event.HARDWARE_LOST, text)
        else:
            self._fail(Event.HARDWARE_FAULT, text)

    # the tick's stages

    def _read(self) -> JointState | None:
        try:
            state = self._robot.read()
        except HardwareError as error:
            self._hardware_fault(error)
            return None
        if unreadable := self._monitors.unreadable(state):
            self._fail(Event.HARDWARE_FAULT, unreadable)
            self._state_ok = False
            return None
        age_s = (self.now_ns - self._clock.from_monotonic(state.stamp_ns)) * 1e-9
        reason = self._monitors.complaint(state, age_s)
        if reason and self.mode in DRIVING:
            self._fail(Event.HARDWARE_FAULT, reason)
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
            self._fail(Event.HARDWARE_LOST, reason)

    def _act(self, state: JointState | None) -> BoundPolicy | None:
        """Let the policy propose, also in the shadow of a person; between its ticks its last proposal stays."""
        if state is None or self.mode not in _PROPOSING:
            return None
        policy = self._policies[self.policy_index]
        tick, self._policy_tick = self._policy_tick, self._policy_tick + 1
        if tick % policy.every:
            return policy
        self._ran = _ACTED if tick else _ACTED_FROM_REST
        try:
            policy.act(state, self.executed, self._record.vectors["target"])
            if policy.inference_us > self._config.slow_policy_s * 1e6:
                raise PolicyFault(f"the policy took {policy.inference_us * 1e-6:.2f} s for one proposal")
        except PolicyFault as fault:
            if self.mode is Mode.POLICY:
                self._fail(Event.POLICY_FAULT, f"{fault}; holding")
            elif not self._shadow_fault:
                self._shadow_fault = True
                self._note_fault(str(fault))
        self._watch_for_help(policy)
        return policy

    def _set_command(self) -> None:
        """What the policy is told to do: by the supervisor, or by a person who drives it so."""
        told = self._record.vectors["target"]
        told[:] = self.target
        if self.mode is Mode.TELEOP and self.operator.drive == Drive.COMMAND:
            values = self.operator.values[:COMMAND_WIDTH]
            if np.isfinite(values).all():
                told[: len(values)] = values

    def _watch_for_help(self, policy: BoundPolicy) -> None:
        after_s = self._config.help_after_s
        if after_s is None or self.mode is not Mode.POLICY:
            return
        self._asking = self._asking + policy.every if policy.gate > 0.5 else 0
        if self._asking * self._config.period_ns > after_s * 1e9:
            self._sink.event(
                make_event("help", monotonic_ns=self.now_ns, episode=self.episode, text=f"gate {policy.gate_prob:.2f}")
            )
            self._happen(Event.HELP_WANTED)

    def _choose(self, state: JointState, policy: BoundPolicy | None) -> np.ndarray:
        self.source = Source.HOLD
        if self.mode is Mode.READY:
            gap = self._start_pose - self.executed
            self.arrived = bool(np.abs(gap).max() < 1e-6)
            return self.executed + np.clip(gap, -self._ready_step, self._ready_step)
        if self.mode is Mode.TELEOP and self.operator.drive != Drive.COMMAND:
            return self._persons_target(state)
        if self.mode is Mode.REWIND:
            return self._way_back()
        if self.mode in (Mode.POLICY, Mode.TELEOP) and policy is not None and policy.proposed:
            self.source = Source.POLICY
            return policy.joint_target
        return self.executed

    def _persons_target(self, state: JointState) -> np.ndarray:
        try:
            self._human[:] = self._drive.target(self.operator, self.executed, state.joint_pos)
        except DriveError as error:
            self._note_fault(str(error))
            self._happen(Event.OPERATOR_LOST, smooth=False)
            return self.executed
        self.source = Source.HUMAN
        return self._human

    def _way_back(self) -> np.ndarray:
        back = self._path.back()
        if back is None:
            self._happen(Event.REWOUND)
            return self.executed
        self.source = Source.REWIND
        return back

    def _command(self, state: JointState, policy: BoundPolicy | None) -> tuple[int, int]:
        """Choose, blend, limit and write; returns when it was written, 0 where it was not, and what the limiter found."""
        wanted = self._choose(state, policy)
        if self._blend.active:
            wanted = self._blend.apply(wanted, self.executed, self.now_ns)
            self.source = Source.BLEND if self._blend.active else self.source
        if self._acceleration.active:
            wanted = self._acceleration.apply(wanted, self.executed, self._increment)
        safe, flags = self._limiter.apply(wanted, self.executed, state.joint_pos, state.joint_vel)
        if flags & NOTHING_WRITTEN:
            self._refuse(int(flags))
            return 0, int(flags)
        self._conflicts = 0
        try:
            self._robot.write(safe)
        except HardwareError as error:
            self._hardware_fault(error)
            return 0, int(flags)
        np.subtract(safe, self.executed, out=self._increment)
        self.executed[:] = safe
        if self.mode in (Mode.POLICY, Mode.TELEOP):
            self._path.add(safe, good=self.mode is Mode.POLICY and self._asking == 0)
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
        self._fail(
            Event.HARDWARE_FAULT,
            f"{what} for {self._config.conflict_timeout_s} s: {joint} is {away.max():.2f} rad from its target; it was pushed away faster "
            "than it may move, has no torque, or its encoder jumped",
        )

    def _write_record(
        self, state: JointState | None, policy: BoundPolicy | None, written_ns: int, flags: int, late_us: float
    ) -> None:
        record = self._record
        vectors = record.vectors
        if self.source is not Source.HUMAN and self.mode is not Mode.TELEOP:
            self._human.fill(np.nan)
        if state is None:
            read_ns = self.now_ns
            record.nothing_read()
        else:
            read_ns = self._clock.from_monotonic(state.stamp_ns)
            vectors["joint_vel"][:] = state.joint_vel
            for name, values in state.signals.items():
                vectors[name][:] = values
        record.set_policy(policy)
        record.set_scalars(
            self.ticks,
            read_ns,
            time.time_ns(),
            written_ns,
            self.episode,
            self.mode,
            self.source,
            self.mode is Mode.TELEOP or (self._blend.active and self._blend_of_person),
            self.policy_index,
            self._ran,
            flags,
            self.missed,
            self._monitors.errors,
            self.operator.pressed_ns,
            0.0 if policy is None else policy.gate_prob,
            0.0 if policy is None else policy.gate,
            0.0 if policy is None or not self._ran else policy.inference_us,
            late_us,
            self._monitors.max_temperature,
        )
        self._sink.tick(record.record)


__all__ = ["Runtime", "RuntimeConfig"]
