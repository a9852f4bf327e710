"""What can be wrong with the arm, before and while a command drives it, through the real-arm path of `isthmus run`."""

import os
import re
import resource
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import serial
from command_line import MOTION_RAD, PROGRAM, Outcome, Refuse, Running, isthmus, moved_rad, nominal_joints
from deploy_fakes import SPEC
from reach_bundle import write_reach_bundle

from isthmus.deploy.log import Log, read_log
from isthmus.hardware.feetech_bus import FeetechBus
from isthmus.hardware.joint_calibration import ArmCalibration
from isthmus.hardware.port_users import port_users
from isthmus.hardware.virtual.client import VirtualArm
from isthmus.hardware.virtual.faults import OVERLOAD
from isthmus.policies.learning.dataset import read_dataset

TARGET = (0.25, 0.1, 0.15)
NO_CORE = ("torch", "mujoco", "genesis", "rsl_rl", "onnx", "pyarrow", "scipy", "matplotlib", "tensorboard", "PIL")


@pytest.fixture
def arm() -> Iterator[VirtualArm]:
    with VirtualArm("soft") as arm:
        yield arm


def run_on(arm: VirtualArm, bundle: Path, folder: Path, *more: object) -> Running:
    """`isthmus run` on a port, as on a real arm."""
    return Running("run", bundle, "--port", arm.port, "--joints", nominal_joints(folder), *more, folder=folder)


def refused_without_motion(arm: VirtualArm, running: Running, *words: str) -> None:
    before = arm.truth().joint_pos
    running.outcome().refused(*words)
    assert moved_rad(arm, before) < MOTION_RAD


def disturbed(arm: VirtualArm, running: Running, log: Path, disturb: Callable[[], None]) -> tuple[Outcome, Log]:
    """Disturb in the midst of an attempt; what came of it, and the recording."""

    def in_an_attempt() -> bool:
        return log.exists() and log.stat().st_size > 0 and int((read_log(log).ticks["episode"] >= 0).sum()) >= 25

    running.until(in_an_attempt, "an attempt")
    disturbed_ns = time.monotonic_ns()
    disturb()
    outcome = running.outcome()
    recording = read_log(log)
    assert recording.complete
    assert recording.ticks["monotonic_ns"][-1] > disturbed_ns - 1_000_000_000
    return outcome, recording


def comes_to_rest(arm: VirtualArm) -> bool:
    """Whether the joints stand still soon: at once where they are held, after sinking where they are limp."""
    for _ in range(40):
        before = arm.truth().joint_pos
        time.sleep(0.3)
        if moved_rad(arm, before) < MOTION_RAD:
            return True
    return False


def test_a_port_that_another_process_has_is_told(arm: VirtualArm, reach_bundle: Path, tmp_path: Path):
    with serial.Serial(arm.port, SPEC.baudrate, exclusive=True):
        refused_without_motion(arm, run_on(arm, reach_bundle, tmp_path), arm.port, "in use by another process", "end")


FAULTS = [
    ({"kind": "missing", "joint": "elbow_flex"}, ("elbow_flex (id 3)", "check cable")),
    ({"kind": "missing"}, ("no answer", "check power, cable and baud rate")),
    ({"kind": "corrupt"}, ("no valid answer", "check cable")),
    ({"kind": "corrupt", "joint": "gripper"}, ("gripper", "check cable")),
    ({"kind": "error", "joint": "wrist_flex", "bits": OVERLOAD}, ("wrist_flex", "overload", "take the load off")),
    ({"kind": "duplicate", "joint": "gripper", "other": "elbow_flex"}, ("elbow_flex", "give one of them another id")),
]


@pytest.mark.parametrize(("fault", "says"), FAULTS)
def test_a_fault_before_the_start_is_told_and_the_arm_does_not_move(
    fault: dict, says: tuple[str, ...], arm: VirtualArm, reach_bundle: Path, tmp_path: Path
):
    arm.inject(**fault)
    refused_without_motion(arm, run_on(arm, reach_bundle, tmp_path), *says)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ({"kind": "missing", "joint": "elbow_flex"}, ("elbow_flex", "check")),
        ({"kind": "corrupt"}, ("no valid answer", "check cable")),
        ({"kind": "error", "joint": "wrist_flex", "bits": OVERLOAD}, ("wrist_flex", "overload", "take the load off")),
    ],
)
def test_a_fault_in_the_midst_is_told_and_what_was_recorded_is_there(
    fault: dict, says: tuple[str, ...], arm: VirtualArm, reach_bundle: Path, tmp_path: Path
):
    running = run_on(arm, reach_bundle, tmp_path)
    outcome, recording = disturbed(arm, running, tmp_path / "run.mcap", lambda: arm.inject(**fault))
    said = outcome.refused(*says)
    assert re.search(r"mode (HOLD|DAMP|ESTOP)", said)
    assert any(event.kind == "fault" and says[0] in event.text for event in recording.events)
    assert comes_to_rest(arm)


def test_an_adapter_unplugged_in_the_midst_is_told_and_what_was_recorded_is_there(
    arm: VirtualArm, reach_bundle: Path, tmp_path: Path
):
    running = run_on(arm, reach_bundle, tmp_path)
    outcome, recording = disturbed(arm, running, tmp_path / "run.mcap", arm.unplug)
    outcome.refused(arm.port, "went away", "plug the adapter in again")
    assert not recording.episodes()[-1].success
    assert comes_to_rest(arm)


def at_a_keyboard(arm: VirtualArm, bundle: Path, folder: Path) -> Running:
    """`isthmus correct` with a person, who takes over in the first attempt and says that it is done."""
    log = folder / "correct.mcap"
    arguments = ("--port", arm.port, "--joints", nominal_joints(folder), "--out", "data")
    running = Running("correct", bundle, *arguments, folder=folder, keyboard=True)

    def seen(what: Callable[[Log], bool]) -> Callable[[], bool]:
        return lambda: log.exists() and log.stat().st_size > 0 and what(read_log(log))

    running.until(seen(lambda log: bool((log.ticks["episode"] == 0).any())), "the first attempt")
    running.press(" ")
    running.until(seen(lambda log: bool(log.ticks["intervention"].any())), "a takeover")
    running.press("\n")
    running.until(seen(lambda log: int((log.ticks["episode"] == 1).sum()) > 25), "the second attempt")
    return running


def check_one_correction(folder: Path) -> None:
    (episode,) = [e for e in read_dataset(folder / "data") if e.ticks["intervention"].any()]
    assert episode.operator == "keyboard" and episode.success
    assert read_log(folder / "correct.mcap").complete


def test_an_arm_unplugged_during_corrections_keeps_what_was_finished(
    arm: VirtualArm, reach_bundle: Path, tmp_path: Path
):
    running = at_a_keyboard(arm, reach_bundle, tmp_path)
    arm.unplug()
    running.outcome().refused("went away")
    check_one_correction(tmp_path)


def test_ctrl_c_of_the_person_who_corrects_keeps_what_was_finished(arm: VirtualArm, reach_bundle: Path, tmp_path: Path):
    running = at_a_keyboard(arm, reach_bundle, tmp_path)
    running.press("\x03")
    ended = running.outcome()
    assert ended.code == 130 and "Traceback" not in ended.err, ended.err
    check_one_correction(tmp_path)
    assert comes_to_rest(arm)


def test_nan_of_a_policy_is_told_and_the_arm_holds(arm: VirtualArm, tmp_path: Path):
    bundle = tmp_path / "nan.onnx"
    write_reach_bundle(bundle, nan_at_x=TARGET[0])  # its golden rows pass
    done = run_on(arm, bundle, tmp_path, "--target", *TARGET).outcome()
    done.refused("nan", "finite", "holding", "run another policy")
    recording = read_log(tmp_path / "run.mcap")
    assert recording.complete
    assert np.isfinite(recording.ticks["executed_target"][recording.ticks["episode"] >= 0]).all()
    np.testing.assert_allclose(arm.truth().joint_pos, SPEC.array("default_pos"), atol=0.2)
    assert comes_to_rest(arm)


@pytest.mark.parametrize("what", ["target", "operator", "bundle", "log"])
def test_a_refusal_leaves_an_arm_of_flesh_where_it_was(what: str, arm: VirtualArm, reach_bundle: Path, tmp_path: Path):
    (tmp_path / "file").write_text("")
    (tmp_path / "part.onnx").write_bytes(reach_bundle.read_bytes()[:1000])
    more, says = {
        "target": (("--target", 9, 9, 9), "outside the workspace"),
        "operator": (("--operator", "keyboard"), "needs a terminal"),
        "bundle": ((), "part.onnx"),
        "log": (("--log", tmp_path / "file" / "x.mcap"), "cannot write"),
    }[what]
    bundle = tmp_path / "part.onnx" if what == "bundle" else reach_bundle
    refused_without_motion(arm, run_on(arm, bundle, tmp_path, *more), says)


def test_a_calibration_that_disagrees_with_the_servos_is_told(arm: VirtualArm, reach_bundle: Path, tmp_path: Path):
    path = nominal_joints(tmp_path)
    text = path.read_text()
    path.write_text(text.replace('"homing_offset": 0', '"homing_offset": 12', 1))
    assert ArmCalibration.load(path, SPEC).joints["shoulder_pan"].homing_offset == 12
    running = Running("run", reach_bundle, "--port", arm.port, "--joints", path, folder=tmp_path)
    refused_without_motion(arm, running, "shoulder_pan", "homing")


def test_the_core_install_runs_a_policy_on_an_arm(arm: VirtualArm, reach_bundle: Path, tmp_path: Path):
    blocker = textwrap.dedent(f"""
        import sys
        from importlib.abc import MetaPathFinder

        class Absent(MetaPathFinder):
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in {NO_CORE} or name.startswith("isthmus.sim"):
                    raise ModuleNotFoundError(f"{{name}} is not installed here", name=name)

        sys.meta_path.insert(0, Absent())
    """)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(blocker)  # also of the processes that the command starts
    program = ("env", f"PYTHONPATH={tmp_path / 'site'}", *PROGRAM)
    arguments = ("--port", arm.port, "--joints", nominal_joints(tmp_path), "--target", *TARGET)
    done = Running("run", reach_bundle, *arguments, folder=tmp_path, program=program).outcome()
    assert done.code == 0, done.err
    assert "1 targets reached" in done.out
    refused = Running("train", "--out", "run", folder=tmp_path, program=program).outcome()
    refused.refused("torch", "pip install 'isthmus[train]'")


def registers(arm: VirtualArm) -> dict[tuple[str, str], int]:
    """What the servos hold of everything that a host may set."""
    names = ("torque_enable", "goal_position", "p_gain", "d_gain", "acceleration", "return_delay", "homing_offset")
    bus = FeetechBus(arm.port, SPEC.baudrate)
    bus.open()
    try:
        return {(j.name, name): bus.read_register(j.bus_id, name) for j in SPEC.joints for name in names}
    finally:
        bus.close()


def test_a_dry_run_reads_and_infers_and_writes_to_no_register(arm: VirtualArm, reach_bundle: Path, tmp_path: Path):
    bus = FeetechBus(arm.port, SPEC.baudrate)
    bus.open()
    for joint in SPEC.joints:
        bus.write_register(joint.bus_id, "p_gain", 7)  # a run that moves would set it
        bus.write_register(joint.bus_id, "goal_position", bus.read_register(joint.bus_id, "present_position"))
        bus.write_register(joint.bus_id, "torque_enable", 1)  # somebody left it held: it must not sink
    bus.close()
    before, pose = registers(arm), arm.truth().joint_pos
    done = run_on(arm, reach_bundle, tmp_path, "--dry-run", "--targets", 1).outcome()
    assert done.code == 0, done.err
    assert registers(arm) == before
    assert moved_rad(arm, pose) < MOTION_RAD
    assert "nothing is written; torque stays as it is" in done.out and "moving to the ready pose" not in done.out
    assert re.search(r"dry run: \d+ ticks, nothing was written", done.out)
    assert re.search(r"at most \d+\.\d deg \(\w+\) from where it stood", done.out)
    assert re.search(r"the policy proposed at most \d+\.\d deg \(\w+\).* by at most \d+ deg/s", done.out)
    ticks = read_log(tmp_path / "run.mcap").ticks
    driven = ticks[ticks["episode"] == 0]
    assert len(driven) > 50 and np.isfinite(driven["policy_target"]).all()
    assert (np.abs(driven["executed_target"] - driven["policy_target"]) > 1e-3).any()  # limits held it near the arm


def test_a_second_runtime_on_a_robot_is_refused_by_name_and_the_first_goes_on(
    arm: VirtualArm, reach_bundle: Path, tmp_path: Path
):
    (tmp_path / "other-name").symlink_to(arm.port)
    first = run_on(arm, reach_bundle, tmp_path, "--targets", 200)
    log = tmp_path / "run.mcap"
    first.until(lambda: log.exists() and log.stat().st_size > 0 and len(read_log(log).episodes()) > 0, "an attempt")
    second = ("--port", tmp_path / "other-name", "--joints", nominal_joints(tmp_path))
    for more in ((), ("--dry-run",)):
        refused = isthmus("run", reach_bundle, *second, *more, folder=tmp_path)
        refused.refused("other-name is driven by process", f"kill {first.group}", "since 20", "one runtime per robot")
    attempts = len(read_log(log).episodes())
    first.until(lambda: len(read_log(log).episodes()) > attempts, "one more attempt")
    first.interrupt()
    assert first.outcome().code == 130
    assert [path.name for path in tmp_path.glob("*.mcap")] == ["run.mcap"] and read_log(
        log
    ).complete  # nobody renamed it


def test_a_policy_faster_than_the_bus_is_refused_before_anything_moves(
    arm: VirtualArm, reach_bundle: Path, tmp_path: Path, refuse: Refuse, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("isthmus.deploy.commands.run_session.common_period", lambda periods: 50_000)
    before = arm.truth().joint_pos
    port = ("--port", arm.port, "--joints", nominal_joints(tmp_path), "--target", *TARGET)
    refuse(
        "run",
        reach_bundle,
        *port,
        says=("reading 6 joints takes", "0.05 ms (20000 Hz)", "carries at most", "lower rate"),
    )
    assert moved_rad(arm, before) < MOTION_RAD


def test_a_run_without_permission_for_real_time_goes_on_and_says_what_would_help(
    arm: VirtualArm, reach_bundle: Path, tmp_path: Path
):
    unprivileged = ("setpriv", "--bounding-set", "-sys_nice,-ipc_lock") if os.geteuid() == 0 else ("env",)
    arguments = ("--port", arm.port, "--joints", nominal_joints(tmp_path), "--target", *TARGET)
    program = ("prlimit", "--rtprio=0:0", *unprivileged, *PROGRAM)
    done = Running("run", reach_bundle, *arguments, folder=tmp_path, program=program).outcome()
    assert done.code == 0, done.err
    assert re.search(r"going on without SCHED_FIFO: put .*rtprio", done.out)


def test_a_disk_that_fills_up_in_the_midst_ends_the_run_and_the_arm_holds(
    arm: VirtualArm, reach_bundle: Path, tmp_path: Path
):
    log = tmp_path / "run.mcap"
    running = run_on(arm, reach_bundle, tmp_path, "--targets", 20)
    running.until(lambda: log.exists() and log.stat().st_size > 30_000, "a recording")
    (recorder,) = port_users(str(log))
    size = log.stat().st_size
    resource.prlimit(recorder.pid, resource.RLIMIT_FSIZE, (size, size))  # as a full disk, without one
    done = running.outcome()
    assert done.code == 2 and "cannot go on recording to" in done.err and "the arm holds" in done.err
    assert "Traceback" not in done.err
    assert comes_to_rest(arm)
    assert len(read_log(log).ticks) > 25
