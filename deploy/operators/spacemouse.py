"""A 3Dconnexion SpaceMouse: its left button, held, drives; the puck gives the direction."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ..messages import Drive
from .axis import AxisRange, deflection
from .hand_drive import HandDrive, need_three
from .input_codes import Axis, Button, Kind
from .input_device import InputDevice, open_input
from .operator import View
from .person import Person

_CONNEXION = 0x256F
_LOGITECH = 0x046D
_OF_LOGITECH = range(0xC603, 0xC62C)  # 3Dconnexion's products while it belonged to Logitech
_AXES = (Axis.X, Axis.Y, Axis.Z, Axis.RZ)
_RANGE = AxisRange(low=-350, high=350, flat=0)  # counts; of pucks that report relative axes, which tell no range
_SILENCE_S = (
    0.1  # a deflected puck reports over and over; as a relative axis it does not say that it is back in the middle
)


def is_spacemouse(device: InputDevice) -> bool:
    """Whether a device is a puck: by its maker, and by its axes and a button to hold."""
    ours = device.vendor == _CONNEXION or (device.vendor == _LOGITECH and device.product in _OF_LOGITECH)
    return (
        ours
        and Button.LEFT_OF_PUCK in device.keys
        and all(axis in device.axes or axis in device.relative for axis in _AXES)
    )


def open_spacemouse(path: Path | None) -> InputDevice:
    """The SpaceMouse of this machine; raises OperatorError."""
    return open_input(path, is_spacemouse, what="SpaceMouse", option="--spacemouse")


@dataclass(frozen=True, kw_only=True)
class SpaceMouseConfig:
    """A puck with six axes, of which three are used."""

    drive: HandDrive
    device: Path | None = None  # None: the only one
    dead_zone: float = 0.08  # of the puck's way
    open: Callable[[Path | None], InputDevice] = open_spacemouse
    name: str = field(default="spacemouse", init=False)
    moves: bool = field(default=True, init=False)
    engages: bool = field(default=True, init=False)

    @property
    def first_line(self) -> str:
        """What to hold."""
        third = "lift and press" if self.drive.names[2] == "up" else "twist"
        return (
            "SpaceMouse: HOLD ITS LEFT BUTTON to drive, let it go to give back; push the puck away for forward and to the left for "
            f"left, {third} it for {self.drive.names[2]}; the right button, held too, goes back along the path"
        )

    def build(self) -> "SpaceMouse":
        """Open the puck; raises OperatorError."""
        need_three(self.drive, "SpaceMouse")
        return SpaceMouse(self, self.open(self.device))


class SpaceMouse:
    """Puck and buttons."""

    def __init__(self, config: SpaceMouseConfig, device: InputDevice) -> None:
        """The device is open."""
        self._config, self._device = config, device
        self._position: dict[int, int] = dict.fromkeys(_AXES, 0)
        self._moved_ns: dict[int, int] = dict.fromkeys(_AXES, 0)  # monotonic
        self._down: set[int] = set()

    @property
    def drive(self) -> Drive:
        """What the values mean."""
        return self._config.drive.drive

    def filenos(self) -> tuple[int, ...]:
        """The puck."""
        return (self._device.fileno(),)

    def read(self, person: Person) -> None:
        """Read what happened."""
        self._tell(person)
        for event in self._device.read():
            if event.kind in (Kind.ABS, Kind.REL) and event.code in self._position:
                self._position[event.code], self._moved_ns[event.code] = event.value, person.now_ns
            elif event.kind == Kind.KEY and event.value == 0:
                self._down.discard(event.code)
            elif event.kind == Kind.KEY:
                self._down.add(event.code)
            else:
                continue
            person.act()
            self._tell(person)

    def admits(self, view: View) -> bool:
        """Always: the robot starts from where it is."""
        return True

    def values(self, person: Person, view: View) -> tuple[float, ...]:
        """What the puck says; nothing as long as the person does not drive."""
        drive = self._config.drive
        if not person.engaged:
            return drive.rest
        third = Axis.RZ if drive.drive is Drive.COMMAND else Axis.Z
        # 3Dconnexion: x to the right, y towards the person, z down.
        return drive.values([-self._axis(axis, person.now_ns) for axis in (Axis.Y, Axis.X, third)])

    def close(self) -> None:
        """Let others have the puck."""
        self._device.close()

    def _axis(self, axis: Axis, now_ns: int) -> float:
        if axis in self._device.axes:
            return deflection(self._position[axis], self._device.axes[axis], self._config.dead_zone)
        silent = now_ns - self._moved_ns[axis] > _SILENCE_S * 1e9
        return 0.0 if silent else deflection(self._position[axis], _RANGE, self._config.dead_zone)

    def _tell(self, person: Person) -> None:
        person.hold("spacemouse", Button.LEFT_OF_PUCK in self._down)
        person.rewind("spacemouse", Button.RIGHT_OF_PUCK in self._down)
