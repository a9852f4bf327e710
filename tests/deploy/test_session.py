"""Real processes on a virtual arm in real time, and what happens when one is killed."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from deploy_fakes import SPEC, STEP, failing_policies, no_robot, reach_policies

from isthmus.deploy.child import Child
from isthmus.deploy.log import read_log
from isthmus.deploy.modes import Mode
from isthmus.deploy.operators.keyboard import KeyboardOperator
from isthmus.deploy.operators.scripted import ScriptedConfig, scripted_on_virtual_arm
from isthmus.deploy.session import Session, SessionError
from isthmus.hardware.drivers import open_robot
from isthmus.hardware.joint_calibration import ArmCalibration
from isthmus.hardware.virtual.client import VirtualArm

TARGET = np.array([0.25, 0.1, 0.15])

pytestmark = pytest.mark.slow


@pytest.fixture
def arm() -> Iterator[VirtualArm]:
    with VirtualArm("hard") as arm:
        yield arm


def session_on(port: str, log_path: Path) -> Session:
    robot = partial(open_robot, SPEC, port=port, calibration=ArmCalibration.nominal(SPEC))
    return Session(SPEC, make_robot=robot, make_policies=reach_policies, log_path=log_path)


def operator_of(arm: VirtualArm, **config: float):
    return partial(scripted_on_virtual_arm, control_path=arm.control_path, config=ScriptedConfig(**config), seed=1)


def resting_speed(arm: VirtualArm) -> float:
    """Largest joint speed over 0.4 s, rad/s."""
    before = arm.truth()
    time.sleep(0.4)
    after = arm.truth()
    return float(np.abs(after.joint_pos - before.joint_pos).max() / (after.time_s - before.time_s))


def test_an_operator_corrects_an_episode_and_all_of_it_is_in_the_log(arm: VirtualArm, tmp_path: Path):
    log_path = tmp_path / "log.mcap"
    with session_on(arm.port, log_path) as session:
        session.arm()
        result = session.run_episode(
            TARGET,
            15.0,
            operator=operator_of(arm, patience_s=0.5, tolerance_m=0.003),
            referee=lambda: arm.truth().tip_pos,
        )
        played = session.run_trajectory(SPEC.array("default_pos") + 0.1 * np.sin(np.arange(50) / 10)[:, None])
        status = session.status()
    assert result.intervened and result.success and result.ended == "operator"
    assert status.dropped == 0
    assert "granted" in status.granted
    log = read_log(log_path)
    assert log.complete
    assert (np.diff(log.ticks["tick"]) == 1).all()
    corrected, trajectory = log.episodes()
    assert corrected.success and corrected.operator == "scripted_on_virtual_arm"
    assert corrected.info["final_error_m"] == result.final_error_m
    assert corrected.ticks["intervention"].any() and not corrected.ticks["intervention"][:10].any()
    assert (np.abs(np.diff(corrected.ticks["executed_target"], axis=0)) <= STEP * (1 + 1e-9)).all()
    np.testing.assert_array_equal(trajectory.ticks["executed_target"], played.ticks["executed_target"])
    np.testing.assert_allclose(
        trajectory.ticks["executed_target"][-1], SPEC.array("default_pos") + 0.1 * np.sin(4.9), atol=1e-9
    )


def test_the_loop_keeps_its_rate_on_average(arm: VirtualArm, tmp_path: Path):
    log_path = tmp_path / "log.mcap"
    with session_on(arm.port, log_path):
        time.sleep(4.0)
    ticks = read_log(log_path).ticks
    deadlines = ticks["tick"] + ticks["missed"]
    span_ns = ticks["monotonic_ns"] - 1e3 * ticks["lateness_us"]
    slope = np.polyfit(deadlines - deadlines[0], span_ns - span_ns[0], 1)[0]
    assert slope == pytest.approx(20e6, rel=5e-3)  # skipped deadlines are counted, so the grid stays where it was


def test_a_killed_operator_makes_the_arm_hold(arm: VirtualArm, tmp_path: Path):
    with session_on(arm.port, tmp_path / "log.mcap") as session:
        session.arm()
        referee = kill_when(session, "operator", lambda status: status.mode is Mode.TELEOP, arm)
        with pytest.raises(SessionError, match=r"operator"):
            session.run_episode(
                TARGET, 15.0, operator=operator_of(arm, patience_s=0.4, tolerance_m=0.0), referee=referee
            )
        time.sleep(1.0)
        assert session.status().mode is Mode.HOLD
        assert resting_speed(arm) < 0.02


def test_a_killed_recorder_loses_at_most_its_last_second_and_the_arm_holds(arm: VirtualArm, tmp_path: Path):
    log_path = tmp_path / "log.mcap"
    with session_on(arm.port, log_path) as session:
        session.arm()
        killed: list[int] = []
        referee = kill_when(session, "recorder", lambda status: status.mode is Mode.POLICY, arm, killed)
        with pytest.raises(SessionError, match=r"recorder .* SIGKILL"):
            session.run_episode(TARGET, 15.0, referee=referee)
        time.sleep(0.6)
        assert session.status().mode is Mode.HOLD
        assert resting_speed(arm) < 0.02
    log = read_log(log_path)
    assert not log.complete
    assert killed[0] - log.ticks["monotonic_ns"][-1] < 1e9


def test_a_killed_runtime_leaves_servos_that_hold_and_a_whole_log(arm: VirtualArm, tmp_path: Path):
    log_path = tmp_path / "log.mcap"
    with session_on(arm.port, log_path) as session:
        session.arm()
        killed: list[int] = []
        referee = kill_when(session, "runtime", lambda status: status.mode is Mode.POLICY, arm, killed)
        with pytest.raises(SessionError, match=r"runtime .* SIGKILL"):
            session.run_episode(TARGET, 15.0, referee=referee)
        time.sleep(1.0)
        assert resting_speed(arm) < 0.02
    log = read_log(log_path)
    assert log.complete
    assert killed[0] - log.ticks["monotonic_ns"][-1] < 1e9


def test_a_killed_supervisor_leaves_an_arm_that_holds_then_goes_limp_and_a_whole_log(arm: VirtualArm, tmp_path: Path):
    log_path = tmp_path / "log.mcap"
    command = [sys.executable, str(Path(__file__).with_name("orphan.py")), arm.port, str(log_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as supervisor:
        assert supervisor.stdout is not None
        children = [int(word) for word in supervisor.stdout.readline().split()]
        assert len(children) == 2
        time.sleep(1.0)
        supervisor.kill()
    deadline = time.monotonic() + 40.0
    while any(Path(f"/proc/{child}/stat").exists() and not is_zombie(child) for child in children):
        assert time.monotonic() < deadline, "the children of a killed supervisor did not end"
        time.sleep(0.2)
    log = read_log(log_path)
    assert log.complete
    said = [event.text for event in log.events if event.kind == "mode"]
    assert said[-2:] == ["POLICY -> HOLD (SUPERVISOR_LOST)", "HOLD -> DAMP (FAULT_EXPIRED)"]


def is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def kill_when(session: Session, name: str, when, arm: VirtualArm, killed: list[int] | None = None):
    """A referee that kills a process of the session 0.3 s after a condition first held."""
    since: list[float] = []

    def referee() -> np.ndarray:
        if when(session.status()):
            since.append(time.monotonic())
        if since and time.monotonic() - since[0] > 0.3 and name in session.process_ids and len(since) > 0:
            os.kill(session.process_ids[name], signal.SIGKILL)
            if killed is not None:
                killed.append(time.monotonic_ns())
            since[0] = float("inf")
        return arm.truth().tip_pos + 1.0

    return referee


def test_a_wrong_port_is_told_by_its_name(tmp_path: Path):
    with pytest.raises(SessionError, match="/dev/isthmus-nothing"):
        session_on("/dev/isthmus-nothing", tmp_path / "log.mcap")


def test_a_log_that_cannot_be_written_is_told(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SessionError, match="cannot record"):
        session_on("/dev/null", tmp_path / "file" / "log.mcap")


def test_a_bad_bundle_is_told_before_any_process_starts(tmp_path: Path):
    with pytest.raises(ValueError, match="golden row 3"):
        Session(SPEC, make_robot=no_robot, make_policies=failing_policies, log_path=tmp_path / "log.mcap")


def test_a_keyboard_without_a_terminal_is_told(arm: VirtualArm, tmp_path: Path):
    with session_on(arm.port, tmp_path / "log.mcap") as session:
        session.arm()
        operator = partial(KeyboardOperator, terminal=str(tmp_path / "no-terminal"))
        with pytest.raises(SessionError, match="needs a terminal"):
            session.run_episode(TARGET, 5.0, operator=operator)
        assert session.status().mode is Mode.READY


def test_an_unplugged_adapter_is_told_and_nothing_is_lost(arm: VirtualArm, tmp_path: Path):
    log_path = tmp_path / "log.mcap"
    with session_on(arm.port, log_path) as session:
        session.arm()

        def referee() -> np.ndarray:
            if len(unplug) and session.status().mode is Mode.POLICY:
                unplug.pop()()
            return arm.truth().tip_pos + 1.0

        unplug = [arm.unplug]
        with pytest.raises(SessionError, match="Disconnected"):
            session.run_episode(TARGET, 5.0, referee=referee)
        assert session.status().mode is Mode.DAMP
    log = read_log(log_path)
    assert log.complete
    assert any(event.kind == "fault" and "Disconnected" in event.text for event in log.events)
    assert not log.episodes()[0].success


def nothing(setup: object, control: object) -> None:
    """What a process does that has nothing to do."""


@pytest.mark.parametrize("thread", [False, True])
def test_an_interruption_waits_until_a_process_has_started_whole(thread: bool, capfd: pytest.CaptureFixture[str]):
    child = None
    timer = threading.Timer(0.001, os.kill, (os.getpid(), signal.SIGINT))
    if thread:  # another thread may get the signal, as the one that beats
        threading.Thread(target=time.sleep, args=(1.0,), daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        for _ in range(20):
            child = Child("test", nothing, None)
            child.end(ask=False)
    assert "Traceback" not in capfd.readouterr().err
