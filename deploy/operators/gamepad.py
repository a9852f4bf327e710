"""A gamepad: the right trigger, held, drives."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ..messages import Drive, Verdict
from .axis import deflection
from .hand_drive import HandDrive, need_three
from .input_codes import Axis, Button, Kind
from .input_device import InputDevice, open_input
from .operator import OperatorError, View
from .person import Person

_PULLED, _LET_GO = 0.6, 0.4  # of the trigger's way, apart so that a finger at the edge does not flutter


@dataclass(frozen=True, kw_only=True)
class GamepadLayout:
    """Where a pad has its trigger and its right stick: the kernel's drivers differ."""

    trigger: int | None  # absolute axis; None: only the button BTN_TR2
    stick_x: int  # right stick
    stick_y: int


def layout_of(device: InputDevice) -> GamepadLayout:
    """Find trigger and right stick.

    A trigger that were taken for a stick's axis would rest half pulled, so what is not clear is refused.

    Raises:
        OperatorError: no trigger, or no second stick.
    """
    axes = device.axes
    if Axis.GAS in axes and Axis.Z in axes and Axis.RZ in axes:  # Xbox pads by Bluetooth
        return GamepadLayout(trigger=Axis.GAS, stick_x=Axis.Z, stick_y=Axis.RZ)
    if Axis.RX in axes and Axis.RY in axes and (Axis.RZ in axes or Button.RIGHT_TRIGGER in device.keys):
        return GamepadLayout(trigger=Axis.RZ if Axis.RZ in axes else None, stick_x=Axis.RX, stick_y=Axis.RY)
    if Button.RIGHT_TRIGGER in device.keys and Axis.Z in axes and Axis.RZ in axes:
        return GamepadLayout(trigger=None, stick_x=Axis.Z, stick_y=Axis.RZ)
    raise OperatorError(
        f"{device.name} has no right trigger and two sticks where Linux puts them (axes {sorted(axes)}); "
        "switch it to its X-input mode, or use another pad"
    )


def is_gamepad(device: InputDevice) -> bool:
    """Whether a device calls itself one."""
    return Button.SOUTH in device.keys and {Axis.X, Axis.Y} <= set(device.axes)


def open_gamepad(path: Path | None) -> InputDevice:
    """The gamepad of this machine; raises OperatorError."""
    return open_input(path, is_gamepad, what="gamepad", option="--gamepad")


@dataclass(frozen=True, kw_only=True)
class GamepadConfig:
    """A gamepad with two sticks."""

    drive: HandDrive
    device: Path | None = None  # None: the only one
    dead_zone: float = 0.12  # of a stick's way
    open: Callable[[Path | None], InputDevice] = open_gamepad
    name: str = field(default="gamepad", init=False)
    moves: bool = field(default=True, init=False)
    engages: bool = field(default=True, init=False)

    @property
    def first_line(self) -> str:
        """What to hold."""
        forward, left, third = self.drive.names
        up = "up and down" if third == "up" else "to the sides"
        return (
            "gamepad: HOLD THE RIGHT TRIGGER to drive, let it go to give back; "
            f"left stick {forward} and {left}, right stick {up} {third}; left bumper, held too, goes back along the path; "
            "south (A, cross) done, north (Y, triangle) gives up, start lets a policy that waits go on, east (B, circle) stops"
        )

    def build(self) -> "Gamepad":
        """Open the pad; raises OperatorError."""
        need_three(self.drive, "gamepad")
        return Gamepad(self, self.open(self.device))


class Gamepad:
    """Sticks and buttons of a pad."""

    def __init__(self, config: GamepadConfig, device: InputDevice) -> None:
        """Find trigger and sticks; raises OperatorError and closes the device where they are not clear."""
        self._config, self._device = config, device
        try:
            self._layout = layout_of(device)
        except OperatorError:
            device.close()
            raise
        self._position = {code: (axis.low + axis.high) // 2 for code, axis in device.axes.items()}
        if self._layout.trigger is not None:
            self._position[self._layout.trigger] = device.axes[self._layout.trigger].low
        self._down: set[int] = set()
        self._pulled = False

    @property
    def drive(self) -> Drive:
        """What the values mean."""
        return self._config.drive.drive

    def filenos(self) -> tuple[int, ...]:
        """The pad."""
        return (self._device.fileno(),)

    def read(self, person: Person) -> None:
        """Read what happened."""
        self._tell(person)
        for event in self._device.read():
            if event.kind == Kind.ABS and event.code in self._position:
                self._position[event.code] = event.value
            elif event.kind == Kind.KEY:
                self._key(event.code, event.value, person)
            else:
                continue
            person.act()
            self._tell(person)

    def admits(self, view: View) -> bool:
        """Always: the robot starts from where it is."""
        return True

    def values(self, person: Person, view: View) -> tuple[float, ...]:
        """What the sticks say; nothing as long as the person does not drive."""
        drive, layout = self._config.drive, self._layout
        if not person.engaged:
            return drive.rest
        third = -self._stick(layout.stick_x) if drive.drive is Drive.COMMAND else -self._stick(layout.stick_y)
        return drive.values((-self._stick(Axis.Y), -self._stick(Axis.X), third))  # evdev: right and down are positive

    def close(self) -> None:
        """Let others have the pad."""
        self._device.close()

    def _stick(self, code: int) -> float:
        return deflection(self._position[code], self._device.axes[code], self._config.dead_zone)

    def _tell(self, person: Person) -> None:
        trigger = self._layout.trigger
        if trigger is None:
            self._pulled = Button.RIGHT_TRIGGER in self._down
        else:
            axis = self._device.axes[trigger]
            way = (self._position[trigger] - axis.low) / (axis.high - axis.low)
            self._pulled = way >= (_LET_GO if self._pulled else _PULLED)
        person.hold("gamepad", self._pulled)
        person.rewind("gamepad", Button.LEFT_BUMPER in self._down)

    def _key(self, code: int, value: int, person: Person) -> None:
        if value == 0:
            self._down.discard(code)
        elif value == 1 and code not in self._down:
            self._down.add(code)
            press_button(code, person)


def press_button(code: int, person: Person) -> None:
    """What the buttons of a pad mean that act when pressed."""
    if code == Button.EAST:
        person.stop()
    elif code == Button.SOUTH:
        person.judge(Verdict.SUCCESS)
    elif code == Button.NORTH:
        person.judge(Verdict.GIVE_UP)
    elif code == Button.START:
        person.resume()
