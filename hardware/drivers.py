"""Which driver speaks to which robot."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from .errors import HardwareError
from .feetech import FeetechArm
from .feetech_bus import FeetechBus
from .interface import Robot
from .joint_calibration import ArmCalibration
from .robot import RobotSpec


def _feetech(spec: RobotSpec, port: str, calibration: ArmCalibration, timeout_s: float) -> Robot:
    return FeetechArm(spec, FeetechBus(port, spec.baudrate, timeout_s=timeout_s), calibration)


DRIVERS: Mapping[str, Callable[[RobotSpec, str, ArmCalibration, float], Robot]] = MappingProxyType(
    {"feetech": _feetech}
)


def open_robot(spec: RobotSpec, *, port: str, calibration: ArmCalibration, timeout_s: float = 0.05) -> Robot:
    """The driver of a robot, by `spec.bus`; call its `connect` to open the port.

    Args:
        spec: the robot.
        port: device name.
        calibration: of this very specimen.
        timeout_s: s to wait for an answer on the bus, before it is asked for again.

    Raises:
        HardwareError: no driver for that bus; names the buses there are.
        CalibrationError: the calibration is not for this robot.
    """
    if spec.bus not in DRIVERS:
        raise HardwareError(
            f"robot {spec.name!r} has bus {spec.bus!r}, which no driver speaks; available: {', '.join(DRIVERS)}"
        )
    return DRIVERS[spec.bus](spec, port, calibration, timeout_s)
