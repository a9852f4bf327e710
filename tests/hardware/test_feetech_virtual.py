"""The Feetech driver against the virtual SO-101: another implementation of the same servos, with a body."""

from collections.abc import Iterator, Mapping

import numpy as np
import pytest
from robot_contract import RobotBench, RobotContract

from isthmus.hardware.errors import BusTimeout, CorruptPacket, Disconnected, DuplicateId, MissingDevice, ServoFault
from isthmus.hardware.feetech import FeetechArm
from isthmus.hardware.feetech_bus import FeetechBus
from isthmus.hardware.joint_calibration import ArmCalibration
from isthmus.hardware.robot import load_robot
from isthmus.hardware.virtual.client import VirtualArm

SPEC = load_robot("so101")
TOLERANCE = 0.12  # rad: encoder offsets up to 3 deg, play up to 1 deg, sag under gravity
SETTLE_S = 1.5


class WatchedBus(FeetechBus):
    """Counts joint commands."""

    commands = 0

    def sync_write(self, name: str, values: Mapping[int, int]) -> None:
        self.commands += name == "goal_position"
        super().sync_write(name, values)


@pytest.fixture(scope="module")
def machine() -> Iterator[VirtualArm]:
    with VirtualArm("worn", lockstep=True) as machine:
        yield machine


@pytest.fixture
def arm(machine: VirtualArm) -> Iterator[FeetechArm]:
    """Not connected; the machine lies at rest with torque off."""
    arm = FeetechArm(SPEC, WatchedBus(machine.port, SPEC.baudrate, timeout_s=0.5), ArmCalibration.nominal(SPEC))
    arm.connect()
    arm.close()
    machine.advance(SETTLE_S)
    yield arm
    machine.clear()
    arm.close()


def torque(arm: FeetechArm) -> list[bool]:
    was_open = arm.bus.is_open
    arm.bus.open()
    on = [arm.bus.read_register(joint.bus_id, "torque_enable") == 1 for joint in SPEC.joints]
    if not was_open:
        arm.bus.close()
    return on


class TestFeetechArmOnTheVirtualArmKeepsTheRobotContract(RobotContract):
    @pytest.fixture
    def bench(self, machine: VirtualArm, arm: FeetechArm) -> RobotBench:
        bus = arm.bus
        assert isinstance(bus, WatchedBus)
        return RobotBench(
            robot=arm,
            commands=lambda: bus.commands,
            torque=lambda: torque(arm),
            joint_pos=lambda: machine.truth().joint_pos,
            settle=lambda: machine.advance(SETTLE_S),
            tolerance=TOLERANCE,
        )


def test_the_arm_goes_where_it_is_told_and_says_how_fast(machine: VirtualArm, arm: FeetechArm) -> None:
    arm.connect()
    target = SPEC.array("default_pos")
    arm.write(target)
    machine.advance(0.15)
    assert np.abs(arm.read().joint_vel).max() > 0.5
    machine.advance(SETTLE_S)
    np.testing.assert_allclose(machine.truth().joint_pos, target, atol=TOLERANCE)
    np.testing.assert_allclose(arm.read().joint_pos, target, atol=TOLERANCE)
    assert np.abs(arm.read().joint_vel).max() < 0.05


def test_a_missing_servo_is_named(machine: VirtualArm, arm: FeetechArm) -> None:
    machine.inject("missing", joint="wrist_flex")
    with pytest.raises(MissingDevice, match=r"wrist_flex \(id 4\); ids that answered: 1, 2, 3, 5, 6"):
        arm.connect()


def test_a_doubled_id_is_named(machine: VirtualArm, arm: FeetechArm) -> None:
    machine.inject("duplicate", joint="gripper", other="elbow_flex")
    with pytest.raises(DuplicateId, match=r"servo 3 \(elbow_flex\)"):
        arm.connect()


@pytest.mark.parametrize(("kind", "error"), [("drop", BusTimeout), ("corrupt", CorruptPacket)])
def test_bad_replies_are_repaired_until_they_do_not_end(
    machine: VirtualArm, arm: FeetechArm, kind: str, error: type[Exception]
) -> None:
    arm.connect()
    before = arm.read().errors
    machine.inject(kind, joint="elbow_flex", count=1)
    assert arm.read().errors == before + 1
    machine.inject(kind, joint="elbow_flex")
    with pytest.raises(error, match="elbow_flex"):
        arm.read()


def test_an_overload_is_a_fault_of_its_joint_and_the_arm_can_still_be_damped(
    machine: VirtualArm, arm: FeetechArm
) -> None:
    arm.connect()
    arm.hold()
    machine.inject("error", joint="shoulder_lift", bits=0x20)
    with pytest.raises(ServoFault, match="overload") as caught:
        arm.read()
    assert (caught.value.joint, caught.value.bits) == ("shoulder_lift", 0x20)
    arm.damp()
    machine.clear()
    assert not any(torque(arm))


def test_pulling_the_plug_is_a_disconnect() -> None:
    with VirtualArm("soft", lockstep=True) as machine:
        arm = FeetechArm(SPEC, FeetechBus(machine.port, SPEC.baudrate, timeout_s=0.5), ArmCalibration.nominal(SPEC))
        arm.connect()
        arm.read()
        machine.unplug()
        with pytest.raises(Disconnected, match="plug the adapter in"):
            arm.read()
        arm.close()
