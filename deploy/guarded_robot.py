"""A robot that is ours alone, and whose bus is fast enough, before anybody may drive it."""

from collections.abc import Mapping

import numpy as np

from isthmus.hardware.drivers import open_robot
from isthmus.hardware.interface import JointState, Robot
from isthmus.hardware.joint_calibration import ArmCalibration
from isthmus.hardware.read_only import open_read_only
from isthmus.hardware.robot import RobotSpec

from .bus_rate import check_bus_rate
from .robot_lock import RobotLock, refuse_foreign


class GuardedRobot:
    """A `Robot` that `connect` locks and measures first; the lock ends with `close` or with this process."""

    def __init__(self, robot: Robot, device: str, *, period_ns: int | None) -> None:
        """Guard a robot.

        Args:
            robot: not yet connected.
            device: what is locked: its port, or a name of its own.
            period_ns: of control, which the bus must carry; None where time stands still between ticks.
        """
        self.spec, self.silence = robot.spec, robot.silence
        self.senses: Mapping[str, int] = robot.senses
        self._robot, self._device, self._period_ns = robot, device, period_ns
        self._lock: RobotLock | None = None

    def connect(self) -> None:
        """Lock, look for foreign programs, connect, measure the bus.

        Raises:
            RobotInUse: another runtime drives it, or a foreign program has its port open.
            BusTooSlow: see `check_bus_rate`.
            HardwareError: as the robot's own `connect`.
        """
        if self._lock is None:
            self._lock = RobotLock(self._device)
        try:
            refuse_foreign(self._device)
            self._robot.connect()
            if self._period_ns is not None:
                check_bus_rate(self._robot, self._period_ns)
        except BaseException:
            self.close()
            raise

    def read(self) -> JointState:
        """Read the robot."""
        return self._robot.read()

    def write(self, joint_target: np.ndarray) -> None:
        """Command the robot; joint targets of shape (n,), rad."""
        self._robot.write(joint_target)

    def hold(self) -> None:
        """Let the robot hold."""
        self._robot.hold()

    def damp(self) -> None:
        """Let the robot go limp."""
        self._robot.damp()

    def close(self) -> None:
        """Release the bus, then the lock; may be called twice."""
        self._robot.close()
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()


def open_guarded(
    spec: RobotSpec,
    *,
    port: str,
    calibration: ArmCalibration,
    timeout_s: float,
    period_ns: int | None,
    read_only: bool,
) -> GuardedRobot:
    """The driver of a robot behind its guard; a module's function, so that a partial of it goes to the runtime process.

    Args:
        spec: the robot.
        port: device name.
        calibration: of this very specimen.
        timeout_s: s to wait for an answer on the bus.
        period_ns: see `GuardedRobot`.
        read_only: nothing is ever written to it.

    Raises:
        HardwareError: no such driver.
        CalibrationError: the calibration is not for this robot.
    """
    make = open_read_only if read_only else open_robot
    robot = make(spec, port=port, calibration=calibration, timeout_s=timeout_s)
    return GuardedRobot(robot, port, period_ns=period_ns)
