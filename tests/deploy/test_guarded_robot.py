"""Before anybody may drive: the robot is ours alone, and its bus carries the rate."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from deploy_fakes import SPEC, FakeClock, FakeRobot
from fake_bus import GOAL, SYNC_WRITE, WRITE, FakeBus
from robot_contract import RobotBench, RobotContract

from isthmus.deploy import guarded_robot, robot_lock
from isthmus.deploy.bus_rate import check_bus_rate
from isthmus.deploy.guarded_robot import GuardedRobot
from isthmus.hardware.errors import BusTimeout, BusTooSlow, RobotInUse
from isthmus.hardware.interface import JointState
from isthmus.hardware.joint_calibration import ArmCalibration
from isthmus.hardware.port_users import PortUser


class TestAGuardedRobotKeepsTheRobotContract(RobotContract):
    @pytest.fixture
    def bench(self) -> Iterator[RobotBench]:
        fake, count = FakeBus(), 2 * np.pi / 4096
        robot = guarded_robot.open_guarded(
            SPEC,
            port=fake.port,
            calibration=ArmCalibration.nominal(SPEC),
            timeout_s=0.25,
            period_ns=1_000_000_000,
            read_only=False,
        )
        yield RobotBench(
            robot=robot,
            commands=lambda: fake.count(SYNC_WRITE, GOAL) + fake.count(WRITE, GOAL),
            torque=lambda: [servo.memory[40] == 1 for servo in fake.servos.values()],
            joint_pos=lambda: np.array([(servo.get(56, 2) - 2048) * count for servo in fake.servos.values()]),
            settle=fake.settle,
            tolerance=0.51 * count,
        )
        robot.close()
        fake.unplug()


class SlowRobot(FakeRobot):
    """Every reading takes so long, on a clock of its own."""

    def __init__(self, reading_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(FakeClock())
        self._reading_s = reading_s
        monkeypatch.setattr(time, "monotonic_ns", lambda: self.clock.time_ns)

    def read(self) -> JointState:
        self.clock.time_ns += round(self._reading_s * 1e9)
        self.calls.append("read")
        return super().read()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(robot_lock, "lock_folder", lambda: tmp_path)
    return tmp_path


def test_a_bus_that_carries_the_rate_is_measured(monkeypatch: pytest.MonkeyPatch):
    rate = check_bus_rate(SlowRobot(0.004, monkeypatch), 20_000_000)
    assert rate.fastest_s == pytest.approx(0.004) and rate.median_s == pytest.approx(0.004)
    assert rate.most_hz == pytest.approx(200.0)


def test_a_bus_that_is_too_slow_names_both_times_the_highest_rate_and_what_to_do(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(BusTooSlow) as refused:
        check_bus_rate(SlowRobot(0.0045, monkeypatch), 5_000_000)
    said = str(refused.value)
    assert "takes 4.50 ms" in said and "5 ms (200 Hz)" in said and "at most 178 Hz" in said and "lower rate" in said


def test_a_computer_that_is_busy_at_times_does_not_make_a_bus_slow(monkeypatch: pytest.MonkeyPatch):
    robot = SlowRobot(0.004, monkeypatch)
    stalls = iter([0.5, 0.5, 0.0] * 10)

    def read(calm: Callable[[], JointState] = robot.read) -> JointState:
        robot.clock.time_ns += round(next(stalls) * 1e9)
        return calm()

    monkeypatch.setattr(robot, "read", read)
    rate = check_bus_rate(robot, 20_000_000)
    assert rate.fastest_s == pytest.approx(0.004) and rate.median_s > 0.5


def test_a_slow_bus_is_refused_when_connecting_and_the_robot_given_back_unmoved(monkeypatch: pytest.MonkeyPatch):
    robot = SlowRobot(0.03, monkeypatch)
    guarded = GuardedRobot(robot, "arm", period_ns=20_000_000)
    with pytest.raises(BusTooSlow):
        guarded.connect()
    assert robot.calls[0] == "connect" and robot.calls[-1] == "close" and robot.written == []
    assert not {"hold", "damp"} & set(robot.calls)
    GuardedRobot(FakeRobot(FakeClock()), "arm", period_ns=None).connect()  # the lock is free again


def test_the_second_runtime_does_not_even_connect(folder: Path):
    first, second = (FakeRobot(FakeClock()) for _ in range(2))
    held = GuardedRobot(first, "arm", period_ns=None)
    held.connect()
    with pytest.raises(RobotInUse, match=r"arm is driven by process \d+ .* one runtime per robot"):
        GuardedRobot(second, "arm", period_ns=None).connect()
    assert second.calls == [] and first.calls == ["connect"]
    held.close()
    held.close()
    GuardedRobot(second, "arm", period_ns=None).connect()
    assert second.calls == ["connect"]


def test_a_foreign_program_on_the_port_keeps_the_robot_from_being_connected(monkeypatch: pytest.MonkeyPatch):
    robot = FakeRobot(FakeClock())
    monkeypatch.setattr(robot_lock, "port_users", lambda port: [PortUser(pid=7, command="screen /dev/ttyUSB0")])
    with pytest.raises(RobotInUse, match=r"process 7 \(screen /dev/ttyUSB0\); end it first \(kill 7\)"):
        GuardedRobot(robot, "arm", period_ns=None).connect()
    assert "connect" not in robot.calls


def test_a_robot_that_cannot_be_connected_is_given_back(folder: Path, monkeypatch: pytest.MonkeyPatch):
    robot = FakeRobot(FakeClock())

    def connect() -> None:
        raise BusTimeout("no answer")

    monkeypatch.setattr(robot, "connect", connect)
    for _ in range(2):  # the lock is free the second time
        with pytest.raises(BusTimeout):
            GuardedRobot(robot, "arm", period_ns=None).connect()


def test_connecting_again_keeps_the_lock(folder: Path):
    guarded = GuardedRobot(FakeRobot(FakeClock()), "arm", period_ns=None)
    guarded.connect()
    guarded.connect()
    with pytest.raises(RobotInUse):
        robot_lock.RobotLock("arm", folder=folder)
    guarded.close()
    robot_lock.RobotLock("arm", folder=folder).close()


def test_a_guarded_robot_is_the_robot():
    robot = FakeRobot(FakeClock())
    guarded = GuardedRobot(robot, "arm", period_ns=None)
    guarded.connect()
    pose = SPEC.array("default_pos")
    guarded.write(pose)
    guarded.hold()
    guarded.damp()
    assert guarded.read().joint_pos.shape == pose.shape
    assert guarded.spec is robot.spec and guarded.silence is robot.silence
    assert robot.calls == ["connect", "hold", "damp"] and len(robot.written) == 1
    guarded.close()


def test_opening_travels_to_another_process():
    import multiprocessing

    ours, theirs = multiprocessing.Pipe()
    ours.send(partial(guarded_robot.open_guarded, port="x"))
    assert theirs.recv().keywords == {"port": "x"}
