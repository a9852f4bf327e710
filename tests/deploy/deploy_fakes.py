"""Stand-ins for the runtime's neighbours; importable by spawned processes."""

from collections.abc import Mapping, Sequence

import numpy as np

from isthmus.deploy.log import event_from_record
from isthmus.deploy.messages import ControlCommand, OperatorCommand
from isthmus.deploy.modes import Mode
from isthmus.deploy.ports import RuntimeConfig
from isthmus.deploy.record import MemorySink
from isthmus.deploy.runtime import Runtime
from isthmus.hardware.interface import JointState, Robot, Silence
from isthmus.hardware.kinematics import chain_from_mjcf, tip_jacobian, tip_position
from isthmus.hardware.robot import RobotSpec, load_robot
from isthmus.policies.policy import Policy, PolicyOutput

SPEC = load_robot("so101")
N = len(SPEC.joints)
PERIOD_NS = 20_000_000
STEP = SPEC.array("velocity_limit") * PERIOD_NS * 1e-9  # rad a tick
CHAIN = chain_from_mjcf(SPEC.model_path, SPEC.reach_site())


class FakeClock:
    """Time that a test moves; `late_ns` is added to the next waking-up."""

    def __init__(self) -> None:
        self.time_ns = 1_000_000_000
        self.late_ns = 0

    def now_ns(self) -> int:
        return self.time_ns

    def sleep_until(self, deadline_ns: int) -> None:
        self.time_ns = max(self.time_ns, deadline_ns) + self.late_ns
        self.late_ns = 0

    def from_monotonic(self, stamp_ns: int) -> int:
        return stamp_ns


class FakeRobot:
    """First-order joints with a time constant of 60 ms; breaks as a test says."""

    silence = Silence(after_s=0.0, then="hold")

    def __init__(self, clock: FakeClock, spec: RobotSpec = SPEC) -> None:
        self.spec = spec
        self.senses: Mapping[str, int] = {}
        self.clock = clock
        self.joint_pos = spec.array("default_pos") + 0.05
        self.joint_vel = np.zeros(len(spec.joints))
        self.goal: np.ndarray | None = None
        self.written: list[np.ndarray] = []
        self.calls: list[str] = []
        self.fail_read: Exception | None = None
        self.fail_write: Exception | None = None
        self.fail_hold: Exception | None = None
        self.stamp_age_ns = 0
        self.temperature = 30.0
        self.errors = 0
        self._last_ns = clock.now_ns()

    def connect(self) -> None:
        self.calls.append("connect")

    def read(self) -> JointState:
        if self.fail_read is not None:
            raise self.fail_read
        dt = (self.clock.now_ns() - self._last_ns) * 1e-9
        self._last_ns = self.clock.now_ns()
        if self.goal is not None and dt > 0:
            moved = (self.goal - self.joint_pos) * (1.0 - np.exp(-dt / 0.06))
            self.joint_pos = self.joint_pos + moved
            self.joint_vel = moved / dt
        return JointState(
            joint_pos=self.joint_pos,
            joint_vel=self.joint_vel,
            temperature=np.full(len(self.spec.joints), self.temperature),
            stamp_ns=self.clock.now_ns() - self.stamp_age_ns,
            errors=self.errors,
        )

    def write(self, joint_target: np.ndarray) -> None:
        if self.fail_write is not None:
            raise self.fail_write
        assert np.isfinite(joint_target).all()
        self.goal = joint_target.copy()
        self.written.append(joint_target.copy())

    def hold(self) -> None:
        self.calls.append("hold")
        if self.fail_hold is not None:
            raise self.fail_hold
        if self.goal is None:
            self.goal = self.joint_pos.copy()

    def damp(self) -> None:
        self.calls.append("damp")
        self.goal = None

    def close(self) -> None:
        self.calls.append("close")


class ReachPolicy:
    """Moves the tip by the Jacobian of the measured joints, an increment on the executed target; `broken` returns NaN."""

    num_actions = 5
    period_ns = PERIOD_NS

    def __init__(
        self, *, gain: float = 4.0, joint_names: tuple[str, ...] = SPEC.joint_names, name: str = "reach"
    ) -> None:
        self.policy_id = name
        self.joint_names = joint_names
        self.gain = gain
        self.broken = False
        self.resets = 0
        self.contract: object = None
        self.seen: list[dict[str, np.ndarray]] = []
        self._chain_indices = [joint_names.index(joint) for joint in CHAIN.joint_names]

    def reset(self) -> None:
        self.resets += 1

    def act(self, signals: Mapping[str, np.ndarray]) -> PolicyOutput:
        self.seen.append({name: value.copy() for name, value in signals.items()})
        joint_pos = signals["joint_pos"][self._chain_indices]
        error = signals["command.target"] - tip_position(CHAIN, joint_pos)
        jacobian = tip_jacobian(CHAIN, joint_pos)
        step = jacobian.T @ np.linalg.solve(jacobian @ jacobian.T + 0.05**2 * np.eye(3), self.gain * error * 0.02)
        step = np.clip(step, -0.05, 0.05)
        target = signals["joint_target"].copy()
        target[self._chain_indices] += step
        if self.broken:
            target[2] = np.nan
        return PolicyOutput(
            joint_target=target, base_action=step, residual_action=np.zeros(5), gate_prob=0.25, gate=1.0
        )


class ConstantPolicy:
    """Always the same proposal; cheap."""

    num_actions = 5
    period_ns = PERIOD_NS
    joint_names = SPEC.joint_names

    def __init__(self, joint_target: np.ndarray, name: str = "constant") -> None:
        self.policy_id = name
        action = np.zeros(5)
        self._output = PolicyOutput(
            joint_target=joint_target, base_action=action, residual_action=action, gate_prob=0.0, gate=0.0
        )

    def reset(self) -> None: ...

    def act(self, signals: Mapping[str, np.ndarray]) -> PolicyOutput:
        return self._output


class Desk:
    """Supervisor and person of one runtime, by hand: an `Inbox`."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._control = ControlCommand()
        self._operator: OperatorCommand | None = None
        self._new = False

    def ask(
        self, mode: Mode, *, episode: int = 0, target: Sequence[float] = (0.25, 0.1, 0.15), policy_index: int = 0
    ) -> None:
        x, y, z = target
        self._control = ControlCommand(
            sequence=self._control.sequence + 1,
            mode=mode,
            episode=episode,
            target=(x, y, z),
            policy_index=policy_index,
        )
        self.beat()

    def ask_hold(self) -> None:
        self.ask(Mode.HOLD, episode=-1)

    def beat(self) -> None:
        self._control.heartbeat_ns = self._clock.now_ns()
        self._new = True

    def drive(self, *, engaged: bool = True, velocity: Sequence[float] = (0.0, 0.0, 0.0), stop: bool = False) -> None:
        x, y, z = velocity
        self._operator = OperatorCommand(
            heartbeat_ns=self._clock.now_ns(), engaged=engaged, values=(x, y, z), stop=stop
        )

    def give(self, drive: int, values: Sequence[float], *, engaged: bool) -> None:
        now_ns = self._clock.now_ns()
        self._operator = OperatorCommand(heartbeat_ns=now_ns, engaged=engaged, drive=drive, values=tuple(values))

    def rewind(self) -> None:
        self._operator = OperatorCommand(heartbeat_ns=self._clock.now_ns(), rewind=True)

    def resume(self) -> None:
        self._operator = OperatorCommand(heartbeat_ns=self._clock.now_ns(), resume=True)

    def control(self) -> ControlCommand | None:
        if not self._new:
            return None
        self._new = False
        command = self._control
        return ControlCommand(**{name: getattr(command, name) for name in command.__dataclass_fields__})

    def operator(self) -> OperatorCommand | None:
        command, self._operator = self._operator, None
        return command


class Bench:
    """A runtime with fakes all around."""

    def __init__(self, policies: Sequence[Policy] | None = None, **config: float | None) -> None:
        self.clock = FakeClock()
        self.robot = FakeRobot(self.clock)
        self.desk = Desk(self.clock)
        self.sink = MemorySink()
        self.policies = [ReachPolicy()] if policies is None else policies
        settings = {"supervisor_timeout_s": None, **config}
        self.config = RuntimeConfig(period_ns=PERIOD_NS, **settings)  # pyright: ignore[reportArgumentType]
        self.runtime = Runtime(self.robot, self.policies, self.clock, self.desk, self.sink, self.config)
        self.runtime.start()

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.runtime.step()

    def arm(self) -> None:
        self.steps(1)
        self.desk.ask(Mode.DAMP)
        self.steps(1)
        self.desk.ask(Mode.READY)
        self.steps(40)
        assert self.runtime.sources.arrived

    def start_policy(self, ticks: int = 1, **command: object) -> None:
        self.desk.drive(engaged=False)  # somebody watches
        self.desk.ask(Mode.POLICY, **command)  # pyright: ignore[reportArgumentType]
        self.steps(ticks)
        assert self.runtime.mode is Mode.POLICY

    def events(self, kind: str) -> list[str]:
        return [event.text for event in map(event_from_record, self.sink.events) if event.kind == kind]

    def ticks(self) -> np.ndarray:
        return np.array(self.sink.ticks, dtype=self.sink.ticks[0].dtype)


def no_robot() -> Robot:
    """For sessions that must not get as far."""
    raise AssertionError("a robot was asked for")


def no_policies() -> list[Policy]:
    """For sessions that only play trajectories."""
    return []


def reach_policies() -> list[Policy]:
    """For sessions with a policy that works."""
    return [ReachPolicy()]


def failing_policies() -> list[Policy]:
    """For sessions that must refuse."""
    raise ValueError("bundle x.onnx: golden row 3 is off by 0.5; export again")
