"""The Feetech arm over a pty: the robot contract, configuration, units, and what happens when servos fail."""

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from fake_bus import GOAL, SYNC_READ, SYNC_WRITE, WRITE, FakeBus, FakeServo
from robot_contract import RobotBench, RobotContract

from isthmus.hardware.drivers import open_robot
from isthmus.hardware.errors import (
    CalibrationError,
    Disconnected,
    HardwareError,
    MissingDevice,
    ServoFault,
)
from isthmus.hardware.feetech import FeetechArm
from isthmus.hardware.feetech_bus import FeetechBus
from isthmus.hardware.joint_calibration import ArmCalibration
from isthmus.hardware.robot import load_robot

SPEC = load_robot("so101")
COUNT = 2 * np.pi / 4096
GIVE_UP_S = 5.0  # far above 3 attempts, far below for ever: a bound, not a latency


def flip(reply: bytes) -> bytes:
    return reply[:-2] + bytes([reply[-2] ^ 0x10]) + reply[-1:]


@pytest.fixture
def fake() -> Iterator[FakeBus]:
    bus = FakeBus()
    yield bus
    bus.unplug()


@pytest.fixture
def arm(fake: FakeBus) -> Iterator[FeetechArm]:
    arm = FeetechArm(SPEC, FeetechBus(fake.port, 1_000_000, timeout_s=0.25), ArmCalibration.nominal(SPEC))
    arm.connect()
    yield arm
    arm.close()


def positions(fake: FakeBus) -> np.ndarray:
    return np.array([(servo.get(56, 2) - 2048) * COUNT for servo in fake.servos.values()])


class TestFeetechArmKeepsTheRobotContract(RobotContract):
    @pytest.fixture
    def bench(self, fake: FakeBus) -> Iterator[RobotBench]:
        robot = open_robot(SPEC, port=fake.port, calibration=ArmCalibration.nominal(SPEC))
        yield RobotBench(
            robot=robot,
            commands=lambda: fake.count(SYNC_WRITE, GOAL) + fake.count(WRITE, GOAL),
            torque=lambda: [servo.memory[40] == 1 for servo in fake.servos.values()],
            joint_pos=lambda: positions(fake),
            settle=fake.settle,
            tolerance=0.51 * COUNT,
        )
        robot.close()


@pytest.mark.parametrize(
    ("bits", "words"), [(0x01, "voltage"), (0x04, "overheat"), (0x20, "overload"), (0x28, "overcurrent")]
)
def test_a_fault_has_its_bits_words_and_joint(fake: FakeBus, arm: FeetechArm, bits: int, words: str) -> None:
    fake.servos[3].error = bits
    with pytest.raises(ServoFault, match=words) as caught:
        arm.read()
    assert (caught.value.joint, caught.value.bits) == ("elbow_flex", bits)


def test_connect_configures_gains_and_checks_each_servo(fake: FakeBus, arm: FeetechArm) -> None:
    for servo in fake.servos.values():
        p_d_i = tuple(servo.memory[21:24])
        assert p_d_i == (16, 32, 0)
        assert servo.memory[7] == 0  # return delay
        assert servo.memory[33] == 0  # position mode
        assert servo.memory[55] == 1  # EPROM locked again


def test_connecting_again_writes_no_eprom(fake: FakeBus, arm: FeetechArm) -> None:
    arm.close()
    fake.received.clear()
    arm.connect()
    written = {packet[5] for packet in fake.received if packet[4] == WRITE}
    assert written == {40}  # torque off only


def test_missing_servos_are_named_with_those_that_answered(fake: FakeBus) -> None:
    del fake.servos[2], fake.servos[6]
    arm = FeetechArm(SPEC, FeetechBus(fake.port, 1_000_000), ArmCalibration.nominal(SPEC))
    with pytest.raises(MissingDevice, match=r"shoulder_lift \(id 2\), gripper \(id 6\).*answered: 1, 3, 4, 5"):
        arm.connect()
    assert fake.count(WRITE) == 0
    assert not arm.bus.is_open


def test_another_model_is_refused(fake: FakeBus) -> None:
    fake.servos[4].put(3, 1284, 2)
    arm = FeetechArm(SPEC, FeetechBus(fake.port, 1_000_000), ArmCalibration.nominal(SPEC))
    with pytest.raises(HardwareError, match=r"servo 4 \(wrist_flex\) is of model 1284, expected 777"):
        arm.connect()


def test_a_servo_with_another_homing_offset_is_refused(fake: FakeBus) -> None:
    fake.servos[5].put(31, 34, 2)
    arm = FeetechArm(SPEC, FeetechBus(fake.port, 1_000_000), ArmCalibration.nominal(SPEC))
    with pytest.raises(CalibrationError, match=r"wrist_roll.*homing_offset 34, its calibration says 0"):
        arm.connect()


def test_readings_are_in_rad_with_signs(fake: FakeBus, arm: FeetechArm) -> None:
    fake.servos[1].put(56, 2048 + 1024, 2)
    fake.servos[2].put(58, 100 | 1 << 15, 2)
    fake.servos[3].put(58, 4096, 2)
    state = arm.read()
    assert state.joint_pos[0] == pytest.approx(np.pi / 2)
    assert state.joint_vel[1] == pytest.approx(-100 * COUNT)
    assert state.joint_vel[2] == pytest.approx(2 * np.pi)
    assert state.temperature.tolist() == [31.0] * 6


def test_reading_and_writing_are_one_packet_each(fake: FakeBus, arm: FeetechArm) -> None:
    arm.hold()
    fake.settle()
    fake.received.clear()
    arm.read()
    arm.write(SPEC.array("default_pos"))
    fake.settle()
    assert [packet[4] for packet in fake.received] == [SYNC_READ, SYNC_WRITE]


def test_the_first_write_never_drives_to_a_stale_goal(fake: FakeBus, arm: FeetechArm) -> None:
    pose = [servo.get(56, 2) for servo in fake.servos.values()]
    target = positions(fake) + 10 * COUNT
    arm.write(target)
    fake.settle()
    for servo, start in zip(fake.servos.values(), pose, strict=True):
        assert servo.visited == [start, start + 10]


def test_targets_are_rounded_to_the_nearest_count(fake: FakeBus, arm: FeetechArm) -> None:
    arm.write(np.array([0.4, 0.6, -0.4, -0.6, 1.4, 1.6]) * COUNT)
    fake.settle()
    assert [servo.get(GOAL, 2) - 2048 for servo in fake.servos.values()] == [0, 1, 0, -1, 1, 2]


def test_the_model_range_itself_may_be_commanded(fake: FakeBus, arm: FeetechArm) -> None:
    arm.write(SPEC.array("lower"))
    arm.write(SPEC.array("upper") + 0.9e-6)
    assert arm.spec == SPEC


def test_offsets_move_counts_and_not_the_range(fake: FakeBus) -> None:
    calibration = ArmCalibration.nominal(SPEC).with_offsets({"elbow_flex": 10 * COUNT})
    arm = FeetechArm(SPEC, FeetechBus(fake.port, 1_000_000), calibration)
    assert arm.spec == SPEC
    arm.connect()
    fake.servos[3].put(56, 2048, 2)
    assert arm.read().joint_pos[2] == pytest.approx(-10 * COUNT)
    arm.close()


def test_a_measured_range_narrows_the_spec() -> None:
    nominal = ArmCalibration.nominal(SPEC)
    joints = dict(nominal.joints)
    joints["elbow_flex"] = replace(joints["elbow_flex"], range_min=2048 - 1000)
    arm = FeetechArm(SPEC, FeetechBus("unused", 1_000_000), replace(nominal, joints=joints))
    assert arm.spec.joints[2].lower == pytest.approx(-1000 * COUNT)
    joints["elbow_flex"] = replace(joints["elbow_flex"], range_max=2048 + 10)
    with pytest.raises(CalibrationError, match=r"elbow_flex.*leaves out the default pose"):
        FeetechArm(SPEC, FeetechBus("unused", 1_000_000), replace(nominal, joints=joints))


def test_hold_works_while_one_servo_reports_a_fault(fake: FakeBus, arm: FeetechArm) -> None:
    arm.hold()
    fake.servos[3].error = 0x20
    arm.hold()
    fake.settle()
    assert fake.count(SYNC_WRITE, GOAL) == 2


def test_torque_goes_off_everywhere_when_one_servo_refuses_it(fake: FakeBus, arm: FeetechArm) -> None:
    fake.servos[3].error = 0x20
    with pytest.raises(ServoFault, match="elbow_flex"):
        arm.write(SPEC.array("default_pos"))
    fake.settle()
    assert [servo.memory[40] for servo in fake.servos.values()] == [0] * 6


def test_damp_reaches_every_servo_though_one_is_silent(fake: FakeBus, arm: FeetechArm) -> None:
    arm.hold()
    silent = fake.servos.pop(2)
    fake.servos[4].error = 0x20
    start = time.monotonic()
    with pytest.raises(HardwareError, match=r"shoulder_lift: no answer") as caught:
        arm.damp()
    assert "wrist_flex" not in str(caught.value)  # it reports a fault, but it did switch off
    assert time.monotonic() - start < GIVE_UP_S
    assert isinstance(silent, FakeServo)
    assert [servo.memory[40] for servo in fake.servos.values()] == [0] * 5


def test_repaired_errors_show_in_the_reading(fake: FakeBus, arm: FeetechArm) -> None:
    before = arm.read().errors
    fake.mangles.append(flip)
    state = arm.read()
    assert state.errors == before + 1
    np.testing.assert_allclose(state.joint_pos, positions(fake), atol=1e-12)


def test_unplugging_between_reads_is_a_disconnect(fake: FakeBus, arm: FeetechArm) -> None:
    arm.read()
    fake.unplug()
    for call in (arm.read, arm.hold, arm.damp):
        with pytest.raises(Disconnected):
            call()
    arm.close()


def test_a_bus_without_a_driver_is_named() -> None:
    with pytest.raises(HardwareError, match=r"'canopen'.*feetech"):
        open_robot(replace(SPEC, bus="canopen"), port="x", calibration=ArmCalibration.nominal(SPEC))
