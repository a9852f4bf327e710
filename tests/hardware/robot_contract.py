"""What every `Robot` must do. A test module subclasses `RobotContract` and gives a fixture `bench`."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from isthmus.hardware.errors import HardwareError
from isthmus.hardware.interface import Robot


@dataclass(frozen=True, kw_only=True)
class RobotBench:
    """A robot, not yet connected, and how to look at the machine itself."""

    robot: Robot
    commands: Callable[[], int]  # joint commands that were sent to the machine so far
    torque: Callable[[], list[bool]]  # of each joint
    joint_pos: Callable[[], np.ndarray]  # where the machine is, rad
    settle: Callable[[], None]  # let the machine act on what was sent
    tolerance: float  # rad, between what the driver says or asks for and where the machine is


class RobotContract:
    """Subclass as `class TestMyRobot(RobotContract)` and define the fixture `bench`, which also cleans up."""

    @pytest.fixture
    def connected(self, bench: RobotBench) -> RobotBench:
        bench.robot.connect()
        return bench

    def test_connecting_moves_nothing_and_leaves_torque_off(self, bench: RobotBench) -> None:
        before = bench.joint_pos()
        bench.robot.connect()
        bench.robot.read()
        bench.settle()
        assert bench.commands() == 0
        assert not any(bench.torque())
        np.testing.assert_allclose(bench.joint_pos(), before, atol=bench.tolerance)

    def test_a_reading_has_shapes_and_units(self, connected: RobotBench) -> None:
        n = len(connected.robot.spec.joints)
        state = connected.robot.read()
        for values in (state.joint_pos, state.joint_vel, state.temperature):
            assert values.shape == (n,)
            assert np.isfinite(values).all()
        assert state.joint_pos.dtype == state.joint_vel.dtype == np.float64
        np.testing.assert_allclose(state.joint_pos, connected.joint_pos(), atol=connected.tolerance)
        assert (state.temperature > -40).all()
        assert (state.temperature < 120).all()
        assert state.errors >= 0

    def test_stamps_increase_on_the_monotonic_clock(self, connected: RobotBench) -> None:
        before = time.monotonic_ns()
        stamps = [connected.robot.read().stamp_ns for _ in range(3)]
        assert before < stamps[0] < stamps[1] < stamps[2] <= time.monotonic_ns()

    def test_a_target_near_the_pose_is_reached(self, connected: RobotBench) -> None:
        lower, upper = connected.robot.spec.array("lower"), connected.robot.spec.array("upper")
        target = np.clip(connected.robot.read().joint_pos, lower + 0.02, upper - 0.02) + 0.02
        connected.robot.write(target)
        connected.settle()
        assert all(connected.torque())
        np.testing.assert_allclose(connected.joint_pos(), target, atol=connected.tolerance)

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_a_target_that_is_not_finite_is_refused_and_not_sent(self, connected: RobotBench, bad: float) -> None:
        robot = connected.robot
        target = robot.read().joint_pos.copy()
        target[-1] = bad
        with pytest.raises(HardwareError, match=robot.spec.joint_names[-1]):
            robot.write(target)
        connected.settle()
        assert connected.commands() == 0
        assert not any(connected.torque())

    @pytest.mark.parametrize("shape", ["short", "long", "column"])
    def test_a_target_of_another_shape_is_refused_and_not_sent(self, connected: RobotBench, shape: str) -> None:
        pose = connected.robot.read().joint_pos
        target = {"short": pose[:-1], "long": np.append(pose, 0.0), "column": pose[:, None]}[shape]
        with pytest.raises(HardwareError, match="shape"):
            connected.robot.write(target)
        connected.settle()
        assert connected.commands() == 0

    @pytest.mark.parametrize("side", ["lower", "upper"])
    def test_a_target_out_of_range_is_refused_and_not_sent(self, connected: RobotBench, side: str) -> None:
        robot = connected.robot
        target = robot.read().joint_pos.copy()
        target[0] = robot.spec.array(side)[0] + (1e-3 if side == "upper" else -1e-3)
        with pytest.raises(HardwareError, match=robot.spec.joint_names[0]):
            robot.write(target)
        connected.settle()
        assert connected.commands() == 0

    def test_hold_keeps_the_pose(self, connected: RobotBench) -> None:
        pose = connected.joint_pos()
        connected.robot.hold()
        connected.settle()
        assert all(connected.torque())
        np.testing.assert_allclose(connected.joint_pos(), pose, atol=connected.tolerance)

    def test_damp_switches_torque_off_and_a_write_switches_it_on_again(self, connected: RobotBench) -> None:
        robot = connected.robot
        robot.hold()
        robot.damp()
        connected.settle()
        assert not any(connected.torque())
        robot.write(np.clip(robot.read().joint_pos, robot.spec.array("lower"), robot.spec.array("upper")))
        connected.settle()
        assert all(connected.torque())

    def test_closing_leaves_torque_as_it_is_and_may_be_repeated(self, connected: RobotBench) -> None:
        connected.robot.hold()
        connected.robot.close()
        connected.robot.close()
        connected.settle()
        assert all(connected.torque())

    @pytest.mark.parametrize("closed", [False, True])
    def test_nothing_works_without_a_connection(self, bench: RobotBench, closed: bool) -> None:
        robot = bench.robot
        if closed:
            robot.connect()
            robot.close()
        pose = robot.spec.array("default_pos")
        for call in (robot.read, robot.hold, robot.damp, lambda: robot.write(pose)):
            with pytest.raises(HardwareError, match="connect"):
                call()
        robot.close()

    def test_it_connects_again_after_closing(self, connected: RobotBench) -> None:
        connected.robot.close()
        connected.robot.connect()
        assert np.isfinite(connected.robot.read().joint_pos).all()
