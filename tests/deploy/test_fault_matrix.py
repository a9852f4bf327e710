"""Every fault in every mode that drives: what the runtime does, how soon, and that no command was unsafe.

Faults of policy, bus and servos without a wall clock, on the virtual arm over its own bus; those of processes in real time.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from deploy_fakes import SPEC, STEP, ReachPolicy, reach_policies

from isthmus.deploy.lockstep import LockstepSession
from isthmus.deploy.log import Log, read_log
from isthmus.deploy.messages import Drive, OperatorCommand
from isthmus.deploy.modes import Mode
from isthmus.deploy.operators.operator import ViewSource
from isthmus.deploy.ports import RuntimeConfig
from isthmus.deploy.session import Session, SessionError
from isthmus.hardware.drivers import open_robot
from isthmus.hardware.feetech import FeetechArm
from isthmus.hardware.feetech_bus import FeetechBus
from isthmus.hardware.joint_calibration import ArmCalibration
from isthmus.hardware.virtual.client import VirtualArm

MODES = (Mode.READY, Mode.POLICY, Mode.TELEOP)
FAR = np.ones(3)  # a referee who never sees the tip arrive
TARGET = (0.25, 0.1, 0.15)


class Driver:
    """A person who drives from the start, or only watches."""

    def __init__(self, view: ViewSource, *, drives: bool) -> None:
        self._view, self._drives, self._polls = view, drives, 0

    def poll(self, now_ns: int) -> OperatorCommand:
        self._polls += 1
        engaged = self._drives and self._view().episode >= 0 and self._polls % 1000 > 3
        return OperatorCommand(
            sequence=self._polls,
            heartbeat_ns=now_ns,
            engaged=engaged,
            drive=Drive.TIP_VELOCITY,
            values=(0.0, 0.02, 0.0),
        )

    def filenos(self) -> tuple[int, ...]:
        return ()

    def close(self) -> None: ...


class SlowPolicy(ReachPolicy):
    """Needs a quarter of a second for a proposal from when it is told to be slow."""

    slow = False

    def act(self, signals):
        if self.slow:
            time.sleep(0.25)
        return super().act(signals)


class LosingPolicy(ReachPolicy):
    """Its residual is not finite from when it is told so; the graph of a bundle has left it out of the target by then."""

    lost = False

    def act(self, signals):
        output = super().act(signals)
        output.residual_action = np.full(5, np.nan if self.lost else 0.0)
        return output


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A session in lockstep on the virtual arm."""

    arm: VirtualArm
    session: LockstepSession
    robot: FeetechArm
    policy: ReachPolicy
    log_path: Path

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.session._advance()

    def bring_to(self, mode: Mode) -> None:
        """Armed, and for POLICY and TELEOP amid an attempt."""
        self.session.arm()
        if mode is Mode.READY:
            return
        self.session._use_operator(partial(Driver, drives=mode is Mode.TELEOP))
        self.session._ask(Mode.POLICY, episode=0, target=np.array(TARGET))
        self.steps(25)
        assert self.session.status().mode is mode


@pytest.fixture
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    policy = getattr(request, "param", ReachPolicy)()
    with VirtualArm("soft", lockstep=True) as arm:
        robot = FeetechArm(SPEC, FeetechBus(arm.port, SPEC.baudrate, timeout_s=2.0), ArmCalibration.nominal(SPEC))
        with LockstepSession(robot, [policy], arm.advance, log_path=tmp_path / "log.mcap") as session:
            yield Stage(arm=arm, session=session, robot=robot, policy=policy, log_path=tmp_path / "log.mcap")


def check_commands(log: Log) -> None:
    """Whatever happened, what was written kept range and rate."""
    ticks = log.ticks[log.ticks["written_ns"] > 0]
    steps = ticks["executed_target"] - ticks["joint_target"]
    assert (np.abs(steps) <= STEP + 1e-12).all()
    inside = (ticks["executed_target"] >= SPEC.array("lower") - 1e-9) & (
        ticks["executed_target"] <= SPEC.array("upper") + 1e-9
    )
    assert inside.all()


def finish(stage: Stage, first: Mode, words: str) -> None:
    """The reaction came within a tick, has its cause in words, and ends limp where nobody reacts; the log says so."""
    status = stage.session.status()
    assert status.mode is first and words in status.fault, status
    stage.arm.clear()
    stage.steps(round(2.5 / 0.02))  # nobody reacts
    assert stage.session.status().mode is Mode.DAMP
    stage.session.close()
    log = read_log(stage.log_path)
    assert any(words in event.text for event in log.events if event.kind == "fault")
    check_commands(log)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("stage", [SlowPolicy], indirect=True)
def test_policy_slow(stage: Stage, mode: Mode):
    stage.bring_to(mode)
    stage.policy.slow = True  # pyright: ignore[reportAttributeAccessIssue]
    stage.steps(1)
    if mode is Mode.POLICY:
        finish(stage, Mode.HOLD, "took 0.2")
    else:  # nobody waits for it, or it is only a shadow
        assert stage.session.status().mode is mode


@pytest.mark.parametrize("mode", MODES)
def test_policy_nan(stage: Stage, mode: Mode):
    stage.bring_to(mode)
    stage.policy.broken = True
    stage.steps(1)
    if mode is Mode.POLICY:
        finish(stage, Mode.HOLD, "finite joint targets")
    else:
        assert stage.session.status().mode is mode


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("stage", [LosingPolicy], indirect=True)
def test_residual_nan(stage: Stage, mode: Mode):
    stage.bring_to(mode)
    stage.policy.lost = True  # pyright: ignore[reportAttributeAccessIssue]
    stage.steps(20)
    assert stage.session.status().mode is mode and not stage.session.status().fault  # the base goes on
    stage.session.close()
    check_commands(read_log(stage.log_path))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("kind", "words", "more"),
    [
        ("missing", "BusTimeout", {}),
        ("corrupt", "CorruptPacket", {}),
        ("error", "overload", {"joint": "elbow_flex", "bits": 0x20}),
    ],
)
def test_bus_and_servo_faults(stage: Stage, mode: Mode, kind: str, words: str, more: dict[str, object]):
    stage.bring_to(mode)
    bus = stage.robot.bus
    bus.timeout_s = 0.02  # of answers that will not come
    stage.arm.inject(kind, **more)  # pyright: ignore[reportArgumentType]
    stage.steps(1)
    bus.timeout_s = 2.0
    assert stage.session.status().mode in (Mode.HOLD, Mode.DAMP)  # within the tick
    finish(stage, stage.session.status().mode, words)


@pytest.mark.parametrize("mode", MODES)
def test_sensor_frozen(stage: Stage, mode: Mode):
    """A joint that reads the same for ever: the target goes no farther than its torque allows, and then that is a fault."""
    stage.bring_to(mode)
    stage.arm.inject("frozen", joint="shoulder_pan")
    if mode is Mode.READY:  # nothing moves, so nothing can be seen, and nothing happens
        stage.steps(100)
        assert stage.session.status().mode is Mode.READY
    else:
        for _ in range(300):
            stage.steps(1)
            if stage.session.status().mode not in (Mode.POLICY, Mode.TELEOP):
                assert "shoulder_pan" in stage.session.status().fault
                break
    stage.session.close()
    log = read_log(stage.log_path)
    check_commands(log)
    pan = SPEC.joint_names.index("shoulder_pan")
    lead = 2.0 * SPEC.joints[pan].effort_limit / SPEC.joints[pan].kp
    written = log.ticks[log.ticks["written_ns"] > 0]
    assert (np.abs(written["executed_target"] - written["joint_pos"])[:, pan] <= lead + STEP[pan]).all()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("jump_s", [-3600.0, 3600.0])
def test_clock_jump(stage: Stage, mode: Mode, jump_s: float, monkeypatch: pytest.MonkeyPatch):
    """The wall clock is set: it is recorded, and nothing else depends on it."""
    stage.bring_to(mode)
    before, real = len(stage.session._tee.ticks), time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + round(jump_s * 1e9))
    stage.steps(20)
    assert stage.session.status().mode is mode and not stage.session.status().fault
    assert len(stage.session._tee.ticks) >= before
    stage.session.close()
    log = read_log(stage.log_path)
    assert abs(np.diff(log.ticks["wall_ns"].astype(float)).sum() * 1e-9 - jump_s) < 60.0
    assert (np.diff(log.ticks["monotonic_ns"]) > 0).all()
    check_commands(log)


# processes, in real time


@dataclass(frozen=True, kw_only=True)
class Live:
    """A session of real processes on the virtual arm."""

    arm: VirtualArm
    session: Session
    log_path: Path

    def bring_to(self, mode: Mode) -> None:
        self.session.arm()
        self.session._use_operator(partial(Driver, drives=mode is Mode.TELEOP))
        if mode is not Mode.READY:
            self.session._ask(Mode.POLICY, episode=0, target=np.array(TARGET))
            self.wait(lambda: self.session.status().mode is mode, 5.0)

    def wait(self, done: Callable[[], bool], timeout_s: float) -> float:
        """Seconds until it was done."""
        begin = time.monotonic()
        while not done():
            assert time.monotonic() - begin < timeout_s, self.session.status()
            time.sleep(0.01)
        return time.monotonic() - begin

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        os.kill(self.session.process_ids[name], number)

    def rests(self) -> bool:
        before = self.arm.truth().joint_pos
        time.sleep(0.3)
        return bool(np.abs(self.arm.truth().joint_pos - before).max() < 0.01)


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    log_path = tmp_path / "log.mcap"
    with VirtualArm("soft") as arm:
        robot = partial(open_robot, SPEC, port=arm.port, calibration=ArmCalibration.nominal(SPEC))
        config = RuntimeConfig(fault_hold_s=60.0)  # what holds is looked at while it holds
        with Session(SPEC, make_robot=robot, make_policies=reach_policies, log_path=log_path, config=config) as session:
            yield Live(arm=arm, session=session, log_path=log_path)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_recorder_killed(live: Live, mode: Mode):
    live.bring_to(mode)
    live.kill("recorder")
    live.wait(lambda: not live.session._children[0].process.is_alive(), 5.0)
    with pytest.raises(SessionError, match=r"recorder .* SIGKILL"):
        live.session._check_children()
    live.wait(lambda: live.session.status().mode is Mode.HOLD, 2.0)
    live.wait(live.rests, 5.0)
    check_commands(read_log(live.log_path))


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_operator_killed(live: Live, mode: Mode):
    live.bring_to(mode)
    live.kill("operator")
    if mode is Mode.TELEOP:
        live.wait(lambda: live.session.status().mode is Mode.HOLD, 3.0)
        assert "operator" in live.session.status().fault
    live.wait(lambda: live.session._operator is not None and not live.session._operator.process.is_alive(), 5.0)
    with pytest.raises(SessionError, match=r"operator .* SIGKILL"):
        live.session._check_children()
    live.wait(lambda: live.session.status().mode is Mode.HOLD, 2.0)
    live.wait(live.rests, 5.0)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_supervisor_silent(live: Live, mode: Mode):
    live.bring_to(mode)
    live.session._stop_heartbeat.set()  # as when its process is dead
    live.wait(lambda: live.session.status().mode is Mode.HOLD, 4.0)
    assert "supervisor" in live.session.status().fault
    live.wait(live.rests, 5.0)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_runtime_killed(live: Live, mode: Mode):
    live.bring_to(mode)
    live.kill("runtime")
    live.wait(lambda: not live.session._children[1].process.is_alive(), 5.0)
    with pytest.raises(SessionError, match=r"runtime .* SIGKILL.*hold their last targets"):
        live.session._check_children()
    live.wait(live.rests, 5.0)
    check_commands(read_log(live.log_path))


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_runtime_stopped_for_two_seconds(live: Live, mode: Mode):
    live.bring_to(mode)
    live.kill("runtime", signal.SIGSTOP)
    time.sleep(2.0)
    live.kill("runtime", signal.SIGCONT)
    live.wait(lambda: live.session.status().mode is Mode.HOLD, 3.0)
    assert "stood still for" in live.session.status().fault
    assert live.session.status().missed >= 90  # skipped, not made up for
    live.wait(live.rests, 5.0)
    live.session.close()
    log = read_log(live.log_path)
    check_commands(log)
    assert np.diff(log.ticks["monotonic_ns"]).min() > 2e6  # no burst
