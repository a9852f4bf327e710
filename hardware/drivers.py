"""Which driver speaks to which robot."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from .errors import HardwareError
from .feetech import FeetechArm
from .feetech_bus import FeetechBus
from .interface import Robot
from .joint_calibration import ArmCalibration
from .robot import RobotSpec


def _feetech(spec: RobotSpec, port: str, calibration: ArmCalibration) -> Robot:
    return FeetechArm(spec, FeetechBus(port, spec.baudrate), calibration)


DRIVERS: Mapping[str, Callable[[RobotSpec, str, ArmCalibration], Robot]] = MappingProxyType({"feetech": _feetech})


def open_robot(spec: RobotSpec, *, port: str, calibration: ArmCalibration) -> Robot:
    """The driver of a robot, by `spec.bus`; call its `connect` to open the port.

    Raises:
        HardwareError: no driver for that bus; names the buses there are.
        CalibrationError: the calibration is not for this robot.
    """
    if spec.bus not in DRIVERS:
        raise HardwareError(
            f"robot {spec.name!r} has bus {spec.bus!r}, which no driver speaks; available: {', '.join(DRIVERS)}"
        )
    return DRIVERS[spec.bus](spec, port, calibration)
