"""A robot that is read and never written to: for looking before anything moves."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from . import feetech_protocol as sts
from .errors import HardwareError
from .feetech import FeetechArm
from .feetech_bus import FeetechBus
from .interface import JointState, Robot
from .joint_calibration import ArmCalibration
from .robot import RobotSpec

_INSTRUCTION = 4  # index in a packet
_READING = (sts.Instruction.PING, sts.Instruction.READ, sts.Instruction.SYNC_READ)


class ReadOnlyBus(FeetechBus):
    """A bus on which nothing is written: registers keep what they hold, torque and gains included."""

    withheld = 0  # writes that were asked for

    def write_register(self, servo_id: int, name: str, value: int, *, ignore_fault: bool = False) -> None:
        """Count, and write nothing."""
        self.withheld += 1

    def sync_write(self, name: str, values: Mapping[int, int]) -> None:
        """Count, and write nothing."""
        self.withheld += 1

    def _send(self, packet: bytes) -> None:
        """Whatever else the bus learns to write, it does not leave this computer."""
        if packet[_INSTRUCTION] not in _READING:
            raise HardwareError(
                f"a packet with instruction 0x{packet[_INSTRUCTION]:02x} on a bus that is only read; nothing was sent"
            )
        super()._send(packet)


class ReadOnlyRobot:
    """Passes readings on and keeps commands for itself: `write`, `hold` and `damp` only count. A `Robot`."""

    def __init__(self, robot: Robot) -> None:
        """Look at this robot; its `connect` must not write either, see `open_read_only`."""
        self.spec, self.silence = robot.spec, robot.silence
        self.senses: Mapping[str, int] = robot.senses
        self._robot = robot
        self.commands = 0  # withheld so far
        self.target = np.full(len(robot.spec.joints), np.nan)  # (n,) rad, the last one asked for

    def connect(self) -> None:
        """Connect the robot."""
        self._robot.connect()

    def read(self) -> JointState:
        """Read the robot."""
        return self._robot.read()

    def write(self, joint_target: np.ndarray) -> None:
        """Keep the target, shape (n,), rad; raises HardwareError for one that no robot would take."""
        if np.shape(joint_target) != self.target.shape or not np.isfinite(joint_target).all():
            raise HardwareError(
                f"joint_target is {np.asarray(joint_target).tolist()}, expected {len(self.target)} finite angles; nothing is sent anyway"
            )
        self.commands += 1
        self.target[:] = joint_target

    def hold(self) -> None:
        """Count."""
        self.commands += 1

    def damp(self) -> None:
        """Count: torque stays as it was found."""
        self.commands += 1

    def close(self) -> None:
        """Release the bus."""
        self._robot.close()


def _feetech(spec: RobotSpec, port: str, calibration: ArmCalibration, timeout_s: float) -> Robot:
    return FeetechArm(spec, ReadOnlyBus(port, spec.baudrate, timeout_s=timeout_s), calibration)


READ_ONLY_DRIVERS: Mapping[str, Callable[[RobotSpec, str, ArmCalibration, float], Robot]] = MappingProxyType(
    {"feetech": _feetech}
)
"""Drivers whose connecting, too, writes nothing, by `spec.bus`."""


def open_read_only(
    spec: RobotSpec, *, port: str, calibration: ArmCalibration, timeout_s: float = 0.05
) -> ReadOnlyRobot:
    """As `drivers.open_robot`, of a robot that nothing is written to, from `connect` to `close`.

    Raises:
        HardwareError: nobody knows how to read that bus without writing; names the buses where it is known.
        CalibrationError: the calibration is not for this robot.
    """
    if spec.bus not in READ_ONLY_DRIVERS:
        raise HardwareError(
            f"robot {spec.name!r} has bus {spec.bus!r}, which cannot be read without writing to it; "
            f"known for: {', '.join(READ_ONLY_DRIVERS)}"
        )
    return ReadOnlyRobot(READ_ONLY_DRIVERS[spec.bus](spec, port, calibration, timeout_s))
