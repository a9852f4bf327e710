"""Tiny motions on the virtual arm, with a driver that is right and drivers that are not."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from isthmus.deploy.clock import LockstepClock
from isthmus.deploy.doctor.findings import Finding
from isthmus.deploy.doctor.probe import ProbeConfig, judge, probe
from isthmus.deploy.doctor.rigid_body import read_model
from isthmus.hardware.drivers import open_robot
from isthmus.hardware.interface import JointState, Robot
from isthmus.hardware.joint_calibration import ArmCalibration
from isthmus.hardware.robot import RobotSpec, load_robot
from isthmus.hardware.virtual.client import VirtualArm
from isthmus.policies.contracts.so101_reach import so101_reach

SPEC = load_robot("so101")
SAME = np.arange(6)


class Crossed:
    """A driver that gets joints, signs or sizes wrong in what it reads."""

    def __init__(self, robot: Robot, order: np.ndarray, factor: np.ndarray) -> None:
        self.robot, self.order, self.factor = robot, order, factor
        self.spec: RobotSpec = robot.spec
        self.senses, self.silence = robot.senses, robot.silence
        self.most = 0.0  # rad that a target was away from the first reading
        self.first: np.ndarray | None = None

    def connect(self) -> None:
        self.robot.connect()

    def read(self) -> JointState:
        state = self.robot.read()
        state.joint_pos[:] = state.joint_pos[self.order] * self.factor
        state.joint_vel[:] = state.joint_vel[self.order] * self.factor
        self.first = state.joint_pos.copy() if self.first is None else self.first
        return state

    def write(self, joint_target: np.ndarray) -> None:
        assert self.first is not None
        self.most = max(self.most, float(np.abs(joint_target - self.first).max()))
        self.robot.write(joint_target)

    def hold(self) -> None:
        self.robot.hold()

    def damp(self) -> None:
        self.robot.damp()

    def close(self) -> None:
        self.robot.close()


@pytest.fixture
def arm() -> Iterator[VirtualArm]:
    with VirtualArm("soft", lockstep=True) as virtual:
        yield virtual


def _probed(
    arm: VirtualArm, order: np.ndarray = SAME, factor: float | np.ndarray = 1.0
) -> tuple[list[Finding], Crossed, np.ndarray]:
    robot = open_robot(SPEC, port=arm.port, calibration=ArmCalibration.nominal(SPEC), timeout_s=2.0)
    crossed = Crossed(robot, order, np.broadcast_to(np.asarray(factor), 6))
    crossed.connect()
    before = arm.truth().joint_pos
    try:
        result = probe(crossed, LockstepClock(arm.advance, start_ns=1), period_ns=20_000_000)
        moved = arm.truth().joint_pos - before
    finally:
        crossed.close()
    model = read_model(SPEC.model_path, SPEC.joint_names, SPEC.base_body)
    return judge(result, SPEC, so101_reach(), model), crossed, moved


def _causes(found: list[Finding]) -> str:
    return " | ".join(finding.cause for finding in found if finding.severity == "fault")


def test_an_arm_that_is_right_is_left_where_it_was(arm: VirtualArm) -> None:
    found, crossed, moved = _probed(arm)
    assert _causes(found) == ""
    assert crossed.most < 2.2 * ProbeConfig().amplitude
    assert np.abs(moved).max() < 0.05


def test_joints_that_are_swapped_are_named_before_they_go_far(arm: VirtualArm) -> None:
    order = SAME.copy()
    order[[1, 2]] = 2, 1
    found, _, moved = _probed(arm, order)
    assert "joints 2 and 3" in _causes(found) and "swapped" in _causes(found)
    assert np.abs(moved).max() < 0.3


def test_a_sign_that_is_turned_round_is_named_before_the_joint_goes_far(arm: VirtualArm) -> None:
    found, _, moved = _probed(arm, factor=np.array([1.0, 1.0, 1.0, -1.0, 1.0, 1.0]))
    assert "joint 4" in _causes(found) and "sign" in _causes(found)
    assert np.abs(moved).max() < 0.3


def test_degrees_do_not_move_the_arm_at_all(arm: VirtualArm) -> None:
    found, crossed, moved = _probed(arm, factor=180.0 / np.pi)
    assert "outside its range" in _causes(found)
    assert crossed.most == 0.0
    assert np.abs(moved).max() < 1e-3


def test_a_joint_that_answers_too_little_is_named(arm: VirtualArm) -> None:
    found, _, _ = _probed(arm, factor=np.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.3]))
    assert "joint 6" in _causes(found)


def test_a_joint_without_torque_is_named(arm: VirtualArm) -> None:
    arm.inject("frozen", joint="wrist_roll")
    found, _, _ = _probed(arm)
    assert "joint 5" in _causes(found) and "does not move" in _causes(found)


def test_the_probe_is_also_a_log(arm: VirtualArm, tmp_path: Path) -> None:
    from isthmus.deploy.doctor.signal_file import read_signals, write_signals

    robot = open_robot(SPEC, port=arm.port, calibration=ArmCalibration.nominal(SPEC), timeout_s=2.0)
    robot.connect()
    try:
        result = probe(robot, LockstepClock(arm.advance, start_ns=1), period_ns=20_000_000)
    finally:
        robot.close()
    write_signals(tmp_path / "probe.mcap", result.log)
    assert len(read_signals(tmp_path / "probe.mcap")) == len(result.log) > 100
