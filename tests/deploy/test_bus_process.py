"""A bus in a process of its own: the same robot, and a watchdog of its own."""

import os
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from deploy_fakes import SPEC, FakeClock, FakeRobot, N, reach_policies

from isthmus.deploy.bus_process import BusRobot, BusSetup, _Bus, order_dtype, reading_dtype
from isthmus.deploy.log import read_log
from isthmus.deploy.modes import Mode
from isthmus.deploy.session import Session, SessionError
from isthmus.deploy.shm import Mailbox
from isthmus.hardware.drivers import open_robot
from isthmus.hardware.errors import BusTimeout, HardwareError, ServoFault
from isthmus.hardware.interface import Silence
from isthmus.hardware.joint_calibration import ArmCalibration
from isthmus.hardware.virtual.client import VirtualArm

HOLD_S, DAMP_S = 0.05, 0.2


class Pair:
    """Both ends in one process: the bus on a fake robot, and what the runtime has instead of it."""

    def __init__(self) -> None:
        self.boxes = Mailbox(order_dtype(N)), Mailbox(reading_dtype(N, {}))
        orders, readings = (box.name for box in self.boxes)
        silence = Silence(after_s=HOLD_S, then="hold")
        self.robot = FakeRobot(FakeClock())
        self.bus = _Bus(
            self.robot,
            BusSetup(
                make_robot=lambda: self.robot, orders=orders, readings=readings, silence=silence, damp_after_s=DAMP_S
            ),
        )
        self.far = BusRobot(SPEC, senses={}, silence=silence, orders=orders, readings=readings)

    def close(self) -> None:
        self.far.close()
        for box in (self.bus._orders, self.bus._readings, *self.boxes):
            box.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    pair = Pair()
    yield pair
    pair.close()


def test_readings_and_targets_pass_through_unchanged(pair: Pair):
    with pytest.raises(HardwareError, match="nothing yet"):
        pair.far.read()
    pair.bus.turn()
    np.testing.assert_array_equal(pair.far.read().joint_pos, pair.robot.joint_pos)
    assert pair.robot.written == [] and not pair.bus.driving  # nothing moves because it started
    target = SPEC.array("default_pos") + 0.1
    pair.far.write(target)
    pair.bus.turn()
    np.testing.assert_array_equal(pair.robot.written, [target])
    pair.far.hold()
    pair.bus.turn()
    pair.far.damp()
    pair.bus.turn()
    assert pair.robot.calls == ["hold", "damp"] and not pair.bus.driving


@pytest.mark.parametrize("bad", [np.full(N, np.nan), np.full(N, np.inf), np.zeros(N + 1)])
def test_bad_targets_never_reach_the_bus(pair: Pair, bad: np.ndarray):
    with pytest.raises(HardwareError, match="nothing was sent"):
        pair.far.write(bad)
    pair.bus.turn()
    assert pair.robot.written == []


@pytest.mark.parametrize(
    "error", [BusTimeout("gripper: no answer"), ServoFault("gripper is hot", joint="gripper", bits=4)]
)
def test_an_error_of_the_bus_is_raised_where_the_runtime_reads(pair: Pair, error: HardwareError):
    pair.robot.fail_read = error
    pair.bus.turn()
    with pytest.raises(HardwareError, match="gripper") as raised:
        pair.far.read()
    assert isinstance(raised.value, type(error)) or type(error) is ServoFault
    pair.robot.fail_read = None
    pair.bus.turn()
    pair.far.read()
    pair.robot.fail_write = BusTimeout("elbow_flex: no answer")
    pair.far.write(SPEC.array("default_pos"))
    pair.bus.turn()
    with pytest.raises(BusTimeout, match="elbow_flex"):
        pair.far.read()


def test_a_reading_that_does_not_come_gets_old(pair: Pair):
    pair.bus.turn()
    first = pair.far.read().stamp_ns
    assert pair.far.read().stamp_ns == first  # its age tells that nothing new has come


def test_where_orders_stop_coming_the_robot_holds_and_then_goes_limp(pair: Pair):
    pair.far.write(SPEC.array("default_pos"))
    pair.bus.turn()
    time.sleep(1.2 * HOLD_S)
    pair.bus.turn()
    pair.bus.turn()
    assert pair.robot.calls == ["hold"]
    time.sleep(DAMP_S)
    pair.bus.turn()
    assert pair.robot.calls == ["hold", "damp"] and not pair.bus.driving
    pair.bus.turn()
    assert pair.robot.calls == ["hold", "damp"]


@pytest.fixture
def arm() -> Iterator[VirtualArm]:
    with VirtualArm("soft") as arm:
        yield arm


def session_on(port: str, log_path: Path) -> Session:
    robot = partial(open_robot, SPEC, port=port, calibration=ArmCalibration.nominal(SPEC))
    return Session(SPEC, make_robot=robot, make_policies=reach_policies, log_path=log_path, bus_process=True)


@pytest.mark.slow
def test_a_session_with_it_reaches_as_without(arm: VirtualArm, tmp_path: Path):
    with session_on(arm.port, tmp_path / "log.mcap") as session:
        session.arm()
        result = session.run_episode([0.25, 0.1, 0.15], 15.0)
        assert set(session.process_ids) == {"recorder", "bus", "runtime"}
    assert result.success
    ticks = read_log(tmp_path / "log.mcap").ticks
    assert (np.diff(ticks["tick"]) == 1).all()


@pytest.mark.slow
def test_a_killed_bus_process_is_told_and_nothing_is_commanded(arm: VirtualArm, tmp_path: Path):
    with session_on(arm.port, tmp_path / "log.mcap") as session:
        session.arm()
        os.kill(session.process_ids["bus"], signal.SIGKILL)
        with pytest.raises(SessionError, match="bus"):
            session.run_episode([0.25, 0.1, 0.15], 15.0)
        time.sleep(0.5)
        assert session.status().mode in (Mode.HOLD, Mode.DAMP) and "old" in session.status().fault


@pytest.mark.slow
def test_a_killed_runtime_leaves_the_arm_holding_and_then_limp(arm: VirtualArm, tmp_path: Path):
    with session_on(arm.port, tmp_path / "log.mcap") as session:
        session.arm()
        os.kill(session.process_ids["runtime"], signal.SIGKILL)
        time.sleep(0.6)
        before = arm.truth().joint_pos
        time.sleep(0.6)
        assert np.abs(arm.truth().joint_pos - before).max() < 0.01  # held by the bus process
        time.sleep(3.0)
        assert np.abs(arm.truth().joint_pos - before).max() > 0.05  # limp: it sinks
