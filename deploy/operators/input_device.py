"""Input devices of Linux, by evdev: the only file that knows that library."""

import contextlib
import glob
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from .axis import AxisRange
from .input_codes import SYN_DROPPED, Kind
from .operator import OperatorError


class InputEvent(NamedTuple):
    """Something that happened to a key or an axis."""

    kind: int
    code: int
    value: int  # key: 0 up, 1 down, 2 repeated; axis: its position


class InputDevice(Protocol):
    """A device of the kernel's, opened for us alone."""

    name: str
    path: str
    vendor: int
    product: int
    keys: frozenset[int]  # codes that it has
    axes: dict[int, AxisRange]  # absolute ones
    relative: frozenset[int]  # codes of relative axes

    def fileno(self) -> int:
        """Readable when there are events."""
        ...

    def read(self) -> list[InputEvent]:
        """What happened since the last call, never waits; first the present state. Raises OperatorError where it is unplugged."""
        ...

    def close(self) -> None:
        """Let others have it; may be called twice."""
        ...


class EvdevDevice:
    """An `InputDevice` of this machine."""

    def __init__(self, path: str) -> None:
        """Open a device; see `grab` for having it alone.

        Raises:
            OperatorError: no such device, no permission, or the library is not installed.
        """
        try:
            import evdev  # pyright: ignore[reportMissingImports] - an extra that development does without where it cannot be compiled
        except ModuleNotFoundError:
            raise OperatorError(
                "input devices need evdev; install it with: pip install 'isthmus[operators]' "
                "(it is compiled: that needs a C compiler, the kernel's headers and Python's)"
            ) from None
        try:
            self._device = evdev.InputDevice(path)
        except OSError as error:
            raise OperatorError(
                f"{path} cannot be opened as an input device ({error.strerror or error}); is it plugged in, "
                "and are you in the group that owns it (often input)?"
            ) from None
        found = self._device.capabilities()
        info = self._device.info
        self.name, self.path, self.vendor, self.product = self._device.name, path, info.vendor, info.product
        self.keys = frozenset(found.get(Kind.KEY, ()))
        self.relative = frozenset(found.get(Kind.REL, ()))
        axes = [(code, self._device.absinfo(code)) for code, *_ in found.get(Kind.ABS, ())]  # pyright: ignore[reportGeneralTypeIssues]
        self.axes = {code: AxisRange(low=a.min, high=a.max, flat=a.flat) for code, a in axes}
        self._know_state, self._open = False, True

    def grab(self) -> None:
        """Have it alone: a pedal shall not type into a window, nor another program move the mouse by it; raises OperatorError."""
        try:
            self._device.grab()
        except OSError as error:
            self.close()
            raise OperatorError(
                f"{self.name} ({self.path}) is used by another program ({error.strerror or error}); "
                "end that one first, e.g. spacenavd or a program that maps joysticks to keys"
            ) from None

    def fileno(self) -> int:
        """See `InputDevice`."""
        return self._device.fd

    def read(self) -> list[InputEvent]:
        """See `InputDevice`."""
        try:
            new = [InputEvent(event.type, event.code, event.value) for event in self._pending()]
            if not self._know_state or any(e.kind == Kind.SYN and e.code == SYN_DROPPED for e in new):
                new += self._state()  # the kernel dropped events of a reader too slow, so what is known may be wrong
                self._know_state = True
        except OSError as error:
            raise OperatorError(
                f"{self.name} ({self.path}) is gone ({error.strerror or error}); plug it in again, and start anew"
            ) from None
        return new

    def close(self) -> None:
        """See `InputDevice`."""
        if self._open:
            self._open = False
            with contextlib.suppress(OSError):  # it may be gone
                self._device.close()

    def _pending(self) -> list:
        try:
            return list(self._device.read())
        except BlockingIOError:
            return []

    def _state(self) -> list[InputEvent]:
        down = set(self._device.active_keys())
        keys = [InputEvent(Kind.KEY, code, int(code in down)) for code in sorted(self.keys)]
        return keys + [InputEvent(Kind.ABS, code, self._device.absinfo(code).value) for code in sorted(self.axes)]


def open_input(path: Path | None, fits: Callable[[InputDevice], bool], *, what: str, option: str) -> InputDevice:
    """Open an input device for us alone.

    Args:
        path: of the device, e.g. `/dev/input/by-id/...-event-joystick`; None for the only one that fits.
        fits: whether a device is of the wanted kind.
        what: the kind, for errors.
        option: that chooses a device, for errors.

    Raises:
        OperatorError: none fits, or several; names what is there and what to do.
    """
    if path is not None:
        device = EvdevDevice(str(path))
        if not fits(device):
            device.close()
            raise OperatorError(f"{path} is {device.name!r} and no {what}; choose another with {option}")
    else:
        device = _only_one(fits, what, option)
    device.grab()
    return device


def _only_one(fits: Callable[[InputDevice], bool], what: str, option: str) -> EvdevDevice:
    devices: list[EvdevDevice] = []
    paths = sorted(glob.glob("/dev/input/event*"))
    for one in paths:
        if os.access(one, os.R_OK | os.W_OK):
            with contextlib.suppress(OperatorError):  # unplugged in between
                devices.append(EvdevDevice(one))
    fitting = [device for device in devices if fits(device)]
    for device in devices:
        if len(fitting) != 1 or device is not fitting[0]:
            device.close()
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        names = ", ".join(f"{device.path} ({device.name})" for device in fitting)
        raise OperatorError(f"there are {len(fitting)} of {what}: {names}; choose one with {option}")
    raise OperatorError(_none_fits(what, option, [device.name for device in devices], len(paths) - len(devices)))


def _none_fits(what: str, option: str, names: list[str], closed_to_us: int) -> str:
    hidden = f"; {closed_to_us} more may not be read by you: join the group input" if closed_to_us else ""
    there = f"there are {', '.join(names)}" if names else "there are no input devices that you may read"
    return f"no {what} found: {there}{hidden}; plug it in, or name its device with {option}"
