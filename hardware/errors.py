"""What can go wrong between the runtime and a robot; every error says what to do about it."""


class IsthmusError(Exception):
    """Anything that a user can act on; commands print its text and exit with a code other than 0."""


class HardwareError(IsthmusError):
    """Any failure of a robot or its bus."""


class PortNotFound(HardwareError):
    """The serial port does not exist."""


class PortBusy(HardwareError):
    """Another process has the serial port."""


class PortForbidden(HardwareError):
    """This user may not open the serial port."""


class BusTooSlow(HardwareError):
    """The bus cannot carry a reading and a command in each control period."""


class RobotInUse(HardwareError):
    """Another runtime, or a foreign program, has the robot."""


class Disconnected(HardwareError):
    """The bus went away while in use: unplugged cable, dead adapter."""


class BusTimeout(HardwareError):
    """A device did not answer within its time, retries included."""


class CorruptPacket(HardwareError):
    """Bytes arrived that are no valid packet, retries included."""


class DuplicateId(HardwareError):
    """Two devices answer to one id."""


class MissingDevice(HardwareError):
    """A device that the robot needs is not on the bus."""


class ServoFault(HardwareError):
    """A servo reports a fault; `bits` is its error byte, `joint` its name."""

    def __init__(self, message: str, *, joint: str, bits: int) -> None:
        super().__init__(message)
        self.joint = joint
        self.bits = bits


class CalibrationError(HardwareError):
    """A calibration file does not fit the robot."""
