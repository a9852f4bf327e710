"""Not one packet that writes leaves a bus that is only read, whatever is asked of the robot behind it."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from fake_bus import GOAL, PING, READ, SYNC_READ, TORQUE, FakeBus

from isthmus.hardware import feetech_protocol as sts
from isthmus.hardware.errors import HardwareError
from isthmus.hardware.joint_calibration import ArmCalibration
from isthmus.hardware.read_only import ReadOnlyBus, ReadOnlyRobot, open_read_only
from isthmus.hardware.robot import load_robot

SPEC = load_robot("so101")
CALIBRATION = ArmCalibration.nominal(SPEC)


@pytest.fixture
def fake() -> Iterator[FakeBus]:
    bus = FakeBus()
    for servo in bus.servos.values():
        servo.memory[TORQUE] = 1  # held by whoever was there before
        servo.put(GOAL, 2048, 2)
    yield bus
    bus.unplug()


@pytest.fixture
def robot(fake: FakeBus) -> Iterator[ReadOnlyRobot]:
    robot = open_read_only(SPEC, port=fake.port, calibration=CALIBRATION, timeout_s=0.25)
    yield robot
    robot.close()


def test_a_whole_session_writes_to_no_register_and_torque_stays_as_it_was(fake: FakeBus, robot: ReadOnlyRobot) -> None:
    before = {servo_id: bytes(servo.memory) for servo_id, servo in fake.servos.items()}
    robot.connect()
    pose = robot.read().joint_pos.copy()
    for _ in range(3):
        robot.write(robot.read().joint_pos + 0.1)
        robot.hold()
    robot.damp()
    robot.close()
    assert {packet[4] for packet in fake.received} == {PING, READ, SYNC_READ}
    assert {servo_id: bytes(servo.memory) for servo_id, servo in fake.servos.items()} == before
    assert robot.commands == 7
    np.testing.assert_allclose(robot.target, pose + 0.1)


def test_a_driver_that_writes_by_itself_is_stopped_at_the_wire(fake: FakeBus) -> None:
    bus = ReadOnlyBus(fake.port, 1_000_000, timeout_s=0.25)
    bus.open()
    bus.write_register(1, "torque_enable", 0)
    bus.sync_write("goal_position", {1: 0})
    assert bus.withheld == 2
    for packet in (sts.write_packet(1, GOAL, b"\0\0"), sts.sync_write_packet(GOAL, 2, {1: b"\0\0"})):
        with pytest.raises(HardwareError, match="only read; nothing was sent"):
            bus._send(packet)
    bus.close()
    assert fake.received == []


@pytest.mark.parametrize("target", [np.full(6, np.nan), np.zeros(5), np.full(6, np.inf)])
def test_a_target_that_no_robot_would_take_is_refused(target: np.ndarray, robot: ReadOnlyRobot) -> None:
    with pytest.raises(HardwareError, match="expected 6 finite angles"):
        robot.write(target)
    assert robot.commands == 0


def test_a_bus_that_nobody_can_read_without_writing_is_refused() -> None:
    with pytest.raises(HardwareError, match=r"bus 'carrier pigeon'.*known for: feetech"):
        open_read_only(replace(SPEC, bus="carrier pigeon"), port="/dev/null", calibration=CALIBRATION)
