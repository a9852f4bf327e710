"""What a dry run says, against numbers made by hand."""

import numpy as np
import pytest
from deploy_fakes import SPEC, FakeClock, FakeRobot

from isthmus.deploy.dry_run import dry_config, dry_run_report, measured_pose
from isthmus.deploy.log import Log
from isthmus.deploy.modes import Mode
from isthmus.deploy.ports import RuntimeConfig
from isthmus.deploy.record import LogMetadata
from isthmus.deploy.safety import Flag
from isthmus.hardware.errors import BusTimeout

N = len(SPEC.joints)
METADATA = LogMetadata(
    robot=SPEC.name,
    joint_names=SPEC.joint_names,
    policy_ids=("p",),
    num_actions=5,
    period_ns=20_000_000,
    calibration="",
    lockstep=True,
)


def log_of(modes: list[Mode], episodes: list[int]) -> Log:
    ticks = np.zeros(len(modes), dtype=METADATA.dtype)
    ticks["mode"], ticks["episode"] = modes, episodes
    return Log(metadata=METADATA, ticks=ticks, events=(), complete=True)


def test_the_largest_of_each_is_named_and_only_driven_ticks_count():
    log = log_of([Mode.READY, Mode.POLICY, Mode.POLICY, Mode.POLICY, Mode.TELEOP], [-1, 0, 0, 1, 1])
    ticks = log.ticks
    ticks["executed_target"][0, 0] = 3.0  # not driven
    ticks["executed_target"][2, 1] = -0.2
    ticks["policy_target"][1, 3] = 0.5
    ticks["policy_target"][2, 3] = 0.4
    ticks["policy_target"][3, 3] = -9.0  # another attempt: no step from the last one
    ticks["policy_target"][4, 3] = -9.2
    ticks["policy_target"][4, 5] = np.nan  # proposed nothing there
    ticks["flags"][1:] = [Flag.RATE, Flag.RATE | Flag.TORQUE, 0, 0]
    report = dry_run_report(log, SPEC, 0.02)
    assert report.ticks == 4
    assert (report.commanded.joint, report.commanded.value) == ("shoulder_lift", pytest.approx(0.2))
    assert (report.proposed.joint, report.proposed.value) == ("wrist_flex", pytest.approx(9.2))
    assert (report.fastest.joint, report.fastest.value) == ("wrist_flex", pytest.approx(0.2 / 0.02))
    assert report.saturated == (("rate", 2), ("torque", 1))
    text = "\n".join(report.lines())
    assert (
        "4 ticks" in text
        and "11.5 deg (shoulder_lift)" in text
        and "573 deg/s" in text
        and "rate in 2, torque in 1" in text
    )


def test_a_run_in_which_nothing_drove_is_told_as_such():
    report = dry_run_report(log_of([Mode.IDLE], [-1]), SPEC, 0.02)
    assert report.lines() == ["dry run: the policy ran in no tick, so there is nothing to say of what it would do"]


def test_the_runtime_starts_where_the_robot_is_and_waits_for_no_motion():
    pose = SPEC.array("lower") - 0.05
    config = dry_config(RuntimeConfig(period_ns=5_000_000), SPEC, pose)
    assert config.start_pose is not None and config.period_ns == 5_000_000
    np.testing.assert_array_equal(config.start_pose, SPEC.array("lower"))
    assert config.monitor.following_timeout_s > 1e6


def test_the_pose_is_measured_and_the_robot_given_back_also_when_it_cannot_be_read():
    robot = FakeRobot(FakeClock())
    np.testing.assert_array_equal(measured_pose(lambda: robot), robot.joint_pos)
    assert robot.calls == ["connect", "close"] and robot.written == []
    robot.fail_read = BusTimeout("no answer")
    with pytest.raises(BusTimeout):
        measured_pose(lambda: robot)
    assert robot.calls[-1] == "close"
