"""The control tick: read, check, infer, choose, blend, limit, write, record. One object for real time and lockstep."""

from collections.abc import Sequence

import numpy as np

from isthmus.hardware.errors import HardwareError
from isthmus.hardware.interface import JointState, Robot
from isthmus.policies.episode import Source
from isthmus.policies.policy import Policy

from .bound_policy import BoundPolicy, PolicyFault
from .clock import Clock
from .messages import ControlCommand, OperatorCommand, make_event
from .modes import DRIVING, REQUESTS, Event, Mode, next_mode
from .ports import Inbox, RuntimeConfig, Sink
from .safety import Following, complaint, leak, limit_targets, out_of_range, robot_limits
from .takeover import Blend, TipDrive
from .tick_record import TickRecord
from .timing import Lateness

DAMP_RETRY_NS = 500_000_000


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
        n = len(robot.spec.joints)
        actions = max((policy.num_actions for policy in policies), default=0)
        period_s = config.period_ns * 1e-9
        self._robot, self._clock, self._inbox, self._sink, self._config = robot, clock, inbox, sink, config
        self._policies = [BoundPolicy(policy, robot.spec, config.period_ns, actions) for policy in policies]
        self._limits = robot_limits(robot.spec, period_s=period_s, torque_factor=config.torque_factor)
        self._drive = TipDrive(robot.spec, config.takeover, period_s)
        self._blend = Blend(config.takeover.ramp_s)
        self._start_pose = robot.spec.array("default_pos") if config.start_pose is None else np.array(config.start_pose)
        self._ready_step = config.ready_speed * period_s
        self.mode = Mode.IDLE
        self.source = Source.NONE
        self.control = ControlCommand()
        self.operator = OperatorCommand(heartbeat_ns=-(1 << 62))
        self.episode = -1
        self.policy_index = 0
        self.arrived = False
        self.fault = ""
        self.faults = self.missed = self.ticks = 0
        self.lateness = Lateness()
        self.joint_pos = np.full(n, np.nan)
        self.executed = np.full(n, np.nan)
        self.target = np.full(3, np.nan)
        self.max_temperature = float("nan")
        self._increment = np.zeros(n)
        self._human = np.full(n, np.nan)
        self._state_ok = False
        self._startable = False
        self._rebase = True  # the executed target is not known: take the measured pose
        self._blend_of_person = False
        self._may_engage = self._shadow_fault = self.supervisor_lost = False
        self._fault_deadline_ns: int | None = None
        self._bus_errors = 0
        self._bus_error_level = 0.0
        self._following = Following(robot.spec, self._limits, round(config.following_timeout_s / period_s))
        self._damp_again_ns: int | None = None  # when to try once more to switch torque off
        self.now_ns = self._deadline_ns = clock.now_ns()
        self._record = TickRecord(n, actions)

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
        self.now_ns = self._clock.now_ns()
        late_us = (self.now_ns - self._deadline_ns) * 1e-3
        self.lateness.add(late_us)
        self._listen_to_supervisor()
        self._listen_to_operator()
        self._expire_fault()
        state = self._read()
        previous = self.executed.copy()
        written_ns = 0
        self.source = Source.NONE
        self._human.fill(np.nan)
        policy = self._act(state)
        if state is not None and self.mode in DRIVING:
            self._watch_following(state.joint_pos)
            written_ns = self._command(state, policy)
        elif self._damp_again_ns is not None and self.now_ns >= self._damp_again_ns:
            self._damp("")
        self._write_record(state, previous, policy, written_ns, late_us)
        self.ticks += 1

    def tip(self) -> np.ndarray:
        """Tip position by the model from the measured joints, shape (3,), m, base frame."""
        return self._drive.tip(self.joint_pos)

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
            self._fault_deadline_ns = None  # somebody reacted
        if changed and self.mode is Mode.POLICY:
            self.episode = self.control.episode

    def _select_policy(self) -> bool:
        """Take the policy asked for; only where none is running. False where it does not exist."""
        if self.mode not in (Mode.READY, Mode.HOLD):
            return True
        index = self.control.policy_index
        if not 0 <= index < len(self._policies) or not np.isfinite(self.target).all():
            self._note_fault(
                f"asked for policy {index} with target {self.target.tolist()}; there are {len(self._policies)} policies "
                "and a target must be finite"
            )
            return False
        self.policy_index = index
        self._policies[index].reset()
        self._may_engage = self._shadow_fault = False
        return True

    def _listen_to_operator(self) -> None:
        new = self._inbox.operator()
        if new is not None:
            self.operator = new
        command = self.operator
        fresh = self.now_ns - command.heartbeat_ns <= self._config.operator_timeout_s * 1e9
        if not fresh:
            if self.mode is Mode.TELEOP:
                self._note_fault(
                    f"no sign of life from the operator for {self._config.operator_timeout_s} s while driving"
                )
                self._happen(Event.OPERATOR_LOST)
            return
        if command.stop:
            self._happen(Event.OPERATOR_STOP, smooth=False)  # at once: nobody who stops an arm wants it to glide on
        elif not command.engaged:
            self._may_engage = True  # someone who still drives from an earlier episode has to let go first
            self._happen(Event.OPERATOR_RELEASED)
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
        starts = new is Mode.POLICY and old is not Mode.TELEOP
        self._blend.stop()
        if smooth and old in DRIVING and new in DRIVING and not starts:
            self._blend.start(self.now_ns, self._increment)
            self._blend_of_person = Mode.TELEOP in (old, new)
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
        if self._fault_deadline_ns is None and self.mode in DRIVING:
            self._fault_deadline_ns = self.now_ns + round(self._config.fault_hold_s * 1e9)

    def _note_fault(self, text: str) -> None:
        if self._fault_deadline_ns is not None:
            return  # the first fault is the cause, the rest follow from it every tick
        self.fault = text
        self.faults += 1
        self._sink.event(make_event("fault", monotonic_ns=self.now_ns, episode=self.episode, text=text))

    def _expire_fault(self) -> None:
        if self._fault_deadline_ns is not None and self.now_ns >= self._fault_deadline_ns:
            self._fault_deadline_ns = None
            self._happen(Event.FAULT_EXPIRED)

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
        self._bus_error_level = leak(
            self._bus_error_level, state.errors - self._bus_errors, self._config.period_ns * 1e-9
        )
        self._bus_errors = state.errors
        self.max_temperature = float(state.temperature.max())
        reason = complaint(
            age_s=(self.now_ns - self._clock.from_monotonic(state.stamp_ns)) * 1e-9,
            temperature=self.max_temperature,
            bus_errors=self._bus_error_level,
            limits=self._config.monitor,
        )
        if not (np.isfinite(state.joint_pos).all() and np.isfinite(state.joint_vel).all()):
            self._fail(
                Event.HARDWARE_FAULT,
                f"the robot reports joints {state.joint_pos.tolist()}, not all finite; check its driver",
            )
            return None
        if reason and self.mode in DRIVING:
            self._fail(Event.HARDWARE_FAULT, reason)
        self._state_ok = not reason
        self.joint_pos[:] = state.joint_pos
        if self._rebase or self.mode not in DRIVING:
            self._start_from(state.joint_pos)
        return state

    def _start_from(self, joint_pos: np.ndarray) -> None:
        """Take the measured pose for the executed one; a joint that lies outside its range must be put back by hand."""
        np.clip(joint_pos, self._limits.lower, self._limits.upper, out=self.executed)
        self._increment.fill(0.0)
        self._rebase = False
        self._startable = not (reason := out_of_range(self._robot.spec, joint_pos))
        if reason and self.mode in DRIVING:
            self._fail(Event.HARDWARE_LOST, reason)

    def _watch_following(self, joint_pos: np.ndarray) -> None:
        late = self._following.late(self.executed, joint_pos)
        if late:
            self._fail(
                Event.HARDWARE_FAULT,
                f"{', '.join(late)} did not follow the target for {self._config.following_timeout_s} s: blocked, or without torque; "
                "clear its way, check its power and that nobody else writes to the bus",
            )

    def _act(self, state: JointState | None) -> BoundPolicy | None:
        """Let the policy propose, also in the shadow of a person."""
        if state is None or self.mode not in (Mode.POLICY, Mode.TELEOP):
            return None
        policy = self._policies[self.policy_index]
        try:
            policy.act(state.joint_pos, state.joint_vel, self.executed, self.target)
        except PolicyFault as fault:
            if self.mode is Mode.POLICY:
                self._fail(Event.POLICY_FAULT, f"{fault}; holding")
            elif not self._shadow_fault:
                self._shadow_fault = True
                self._note_fault(str(fault))
        return policy

    def _choose(self, state: JointState, policy: BoundPolicy | None) -> np.ndarray:
        if self.mode is Mode.READY:
            gap = self._start_pose - self.executed
            self.arrived = bool(np.abs(gap).max() < 1e-6)
            self.source = Source.HOLD
            return self.executed + np.clip(gap, -self._ready_step, self._ready_step)
        if self.mode is Mode.TELEOP:
            self._human[:] = self._drive.target(self.executed, state.joint_pos, np.array(self.operator.values))
            self.source = Source.HUMAN
            return self._human
        if self.mode is Mode.POLICY and policy is not None:
            self.source = Source.POLICY
            return policy.joint_target
        self.source = Source.HOLD
        return self.executed

    def _command(self, state: JointState, policy: BoundPolicy | None) -> int:
        """Choose, blend, limit and write; returns when it was written, 0 where it was not."""
        wanted = self._choose(state, policy)
        if self._blend.active:
            wanted = self._blend.apply(wanted, self.executed, self.now_ns)
            self.source = Source.BLEND if self._blend.active else self.source
        safe, _ = limit_targets(wanted, self.executed, state.joint_pos, self._limits)
        try:
            self._robot.write(safe)
        except HardwareError as error:
            self._hardware_fault(error)
            return 0
        np.subtract(safe, self.executed, out=self._increment)
        self.executed[:] = safe
        return self._clock.now_ns()

    def _write_record(
        self,
        state: JointState | None,
        previous: np.ndarray,
        policy: BoundPolicy | None,
        written_ns: int,
        late_us: float,
    ) -> None:
        record = self._record
        record.set_measured(state, self.now_ns if state is None else self._clock.from_monotonic(state.stamp_ns))
        record.set_policy(policy)
        f = record.fields
        f["tick"][...] = self.ticks
        f["written_ns"][...] = written_ns
        f["episode"][...] = self.episode
        f["mode"][...] = self.mode
        f["source"][...] = self.source
        f["intervention"][...] = self.mode is Mode.TELEOP or (self._blend.active and self._blend_of_person)
        f["joint_target"][...] = previous
        f["target"][...] = self.target
        f["human_target"][...] = self._human
        f["executed_target"][...] = self.executed
        f["lateness_us"][...] = late_us
        f["missed"][...] = self.missed
        f["bus_errors"][...] = self._bus_errors
        f["max_temperature"][...] = self.max_temperature
        self._sink.tick(record.record)


__all__ = ["Runtime", "RuntimeConfig"]
