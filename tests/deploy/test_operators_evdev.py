"""The adapter to evdev: with a stand-in for one of its devices, and with the kernel's own where this machine has uinput."""

import errno
import os
import time
from collections.abc import Iterator
from multiprocessing.connection import wait
from pathlib import Path
from types import SimpleNamespace

import pytest
from input_devices import xbox_by_cable

from isthmus.deploy.operators import input_device
from isthmus.deploy.operators.gamepad import is_gamepad
from isthmus.deploy.operators.input_codes import SYN_DROPPED, Axis, Button, Kind
from isthmus.deploy.operators.input_device import EvdevDevice, InputEvent, open_input
from isthmus.deploy.operators.operator import OperatorError

evdev = pytest.importorskip("evdev", reason="EVDEV IS NOT TESTED: pip install 'isthmus[operators]'")


class KernelDevice:
    """Answers as evdev.InputDevice does."""

    plugged_in: dict[str, "KernelDevice"]

    def __init__(self, path: str) -> None:
        pad = xbox_by_cable()
        self.path, self.name = path, pad.name
        self.info = SimpleNamespace(vendor=0x045E, product=0x0B12)
        self.fd = 99
        self.waiting: list[SimpleNamespace] = []
        self.down: list[int] = []
        self.position = dict.fromkeys(pad.axes, 7)
        self.error: OSError | None = None
        self.grabbed_by_another = False
        self.closed = 0
        self._pad = pad

    def capabilities(self) -> dict[int, list]:
        axes = [(code, self.absinfo(code)) for code in self._pad.axes]
        return {Kind.SYN: [0, 1, 3], Kind.KEY: list(self._pad.keys), Kind.ABS: axes}

    def absinfo(self, code: int) -> SimpleNamespace:
        axis = self._pad.axes[code]
        return SimpleNamespace(min=axis.low, max=axis.high, flat=axis.flat, value=self.position[code])

    def active_keys(self) -> list[int]:
        return self.down

    def read(self) -> Iterator[SimpleNamespace]:
        if self.error is not None:
            raise self.error
        if not self.waiting:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        events, self.waiting = self.waiting, []
        yield from events

    def grab(self) -> None:
        if self.grabbed_by_another:
            raise OSError(errno.EBUSY, "Device or resource busy")

    def close(self) -> None:
        self.closed += 1

    def happens(self, kind: int, code: int, value: int) -> None:
        self.waiting.append(SimpleNamespace(type=kind, code=code, value=value))


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, KernelDevice]:
    """Two pads that are plugged in."""
    devices = {path: KernelDevice(path) for path in ("/dev/input/event3", "/dev/input/event4")}

    def opened(path: str) -> KernelDevice:
        if path not in devices:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return devices[path]

    monkeypatch.setattr(evdev, "InputDevice", opened)
    monkeypatch.setattr(input_device.glob, "glob", lambda pattern: list(devices))
    monkeypatch.setattr(input_device.os, "access", lambda path, mode: True)
    return devices


def test_the_codes_are_the_kernels():
    ecodes = evdev.ecodes
    for ours, theirs in {
        Kind.SYN: ecodes.EV_SYN,
        Kind.KEY: ecodes.EV_KEY,
        Kind.REL: ecodes.EV_REL,
        Kind.ABS: ecodes.EV_ABS,
        SYN_DROPPED: ecodes.SYN_DROPPED,
        Button.LEFT_OF_PUCK: ecodes.BTN_0,
        Button.RIGHT_OF_PUCK: ecodes.BTN_1,
        Button.SOUTH: ecodes.BTN_SOUTH,
        Button.EAST: ecodes.BTN_EAST,
        Button.NORTH: ecodes.BTN_NORTH,
        Button.LEFT_BUMPER: ecodes.BTN_TL,
        Button.RIGHT_TRIGGER: ecodes.BTN_TR2,
        Button.START: ecodes.BTN_START,
        Axis.GAS: ecodes.ABS_GAS,
        Axis.BRAKE: ecodes.ABS_BRAKE,
    }.items():
        assert ours == theirs
    for axis in (Axis.X, Axis.Y, Axis.Z, Axis.RX, Axis.RY, Axis.RZ):
        assert axis == getattr(ecodes, f"ABS_{axis.name}") == getattr(ecodes, f"REL_{axis.name}")
    assert (ecodes.KEY_A, ecodes.KEY_B, ecodes.KEY_C) == (30, 48, 46)


def test_a_device_tells_at_first_what_is_down_already_and_then_what_happens(kernel: dict[str, KernelDevice]):
    pad = kernel["/dev/input/event3"]
    pad.down = [Button.SOUTH]
    device = EvdevDevice(pad.path)
    assert is_gamepad(device) and device.axes == xbox_by_cable().axes and device.fileno() == 99
    first = device.read()
    assert InputEvent(Kind.KEY, Button.SOUTH, 1) in first and InputEvent(Kind.KEY, Button.EAST, 0) in first
    assert InputEvent(Kind.ABS, Axis.X, 7) in first
    assert device.read() == []
    pad.happens(Kind.KEY, Button.EAST, 1)
    assert device.read() == [InputEvent(Kind.KEY, Button.EAST, 1)]


def test_after_dropped_events_the_state_is_read_anew(kernel: dict[str, KernelDevice]):
    pad = kernel["/dev/input/event3"]
    pad.down = [Button.SOUTH]
    device = EvdevDevice(pad.path)
    device.read()
    pad.down = []  # let go, but the reader was too slow to be told
    pad.happens(Kind.SYN, SYN_DROPPED, 0)
    assert InputEvent(Kind.KEY, Button.SOUTH, 0) in device.read()


def test_a_device_that_is_unplugged_is_an_error_and_can_be_closed(kernel: dict[str, KernelDevice]):
    pad = kernel["/dev/input/event3"]
    device = EvdevDevice(pad.path)
    device.read()
    pad.error = OSError(errno.ENODEV, "No such device")
    with pytest.raises(OperatorError, match=r"event3. is gone .No such device.; plug it in again"):
        device.read()
    device.close()
    device.close()
    assert pad.closed == 1


def choose(path: str | None = None) -> input_device.InputDevice:
    return open_input(None if path is None else Path(path), is_gamepad, what="gamepad", option="--gamepad")


def test_the_only_device_that_fits_is_taken_and_the_others_are_left(kernel: dict[str, KernelDevice]):
    other = kernel["/dev/input/event3"]
    other._pad.keys = frozenset()
    assert choose().path == "/dev/input/event4"
    assert other.closed == 1 and kernel["/dev/input/event4"].closed == 0


def test_of_two_that_fit_one_must_be_chosen(kernel: dict[str, KernelDevice]):
    with pytest.raises(
        OperatorError, match=r"there are 2 of gamepad: .*event3 .Microsoft.*event4.*choose one with --gamepad"
    ):
        choose()
    assert choose("/dev/input/event4").path == "/dev/input/event4"


def test_where_none_fits_what_is_there_is_named(kernel: dict[str, KernelDevice], monkeypatch: pytest.MonkeyPatch):
    for device in kernel.values():
        device._pad.axes = {}
    with pytest.raises(
        OperatorError, match=r"no gamepad found: there are Microsoft.*plug it in, or name its device with --gamepad"
    ):
        choose()
    with pytest.raises(OperatorError, match=r"is 'Microsoft.*' and no gamepad; choose another with --gamepad"):
        choose("/dev/input/event3")
    monkeypatch.setattr(input_device.os, "access", lambda path, mode: False)
    with pytest.raises(OperatorError, match=r"no input devices that you may read; 2 more .* join the group input"):
        choose()


def test_a_device_that_another_program_has_is_named(kernel: dict[str, KernelDevice]):
    pad = kernel["/dev/input/event3"]
    pad.grabbed_by_another = True
    with pytest.raises(OperatorError, match=r"used by another program .*spacenavd"):
        choose(pad.path)
    assert pad.closed == 1


def test_a_device_that_is_not_there_is_named():
    with pytest.raises(OperatorError, match=r"/dev/input/event99 cannot be opened .*plugged in.*group that owns it"):
        EvdevDevice("/dev/input/event99")


def test_without_the_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    import sys

    monkeypatch.setitem(sys.modules, "evdev", None)
    with pytest.raises(OperatorError, match=r"pip install 'isthmus\[operators\]'.*C compiler"):
        EvdevDevice("/dev/input/event0")


@pytest.mark.skipif(
    not os.access("/dev/uinput", os.W_OK),
    reason="THE KERNEL'S INPUT DEVICES ARE NOT TESTED: /dev/uinput cannot be written here",
)
def test_a_gamepad_of_the_kernel_is_found_read_and_missed():
    from evdev import AbsInfo, UInput  # pyright: ignore[reportMissingImports]

    pad = xbox_by_cable()
    axes = [(code, AbsInfo(0, a.low, a.high, 0, a.flat, 0)) for code, a in pad.axes.items()]
    made = UInput({Kind.KEY: sorted(pad.keys), Kind.ABS: axes}, name="isthmus test pad")  # pyright: ignore[reportArgumentType]
    try:
        time.sleep(0.5)  # udev
        device = choose(str(made.device.path))
        device.read()
        made.write(Kind.KEY, Button.SOUTH, 1)
        made.syn()
        assert wait([device.fileno()], 2.0)
        assert InputEvent(Kind.KEY, Button.SOUTH, 1) in device.read()
    finally:
        made.close()
    assert wait([device.fileno()], 2.0)
    with pytest.raises(OperatorError, match=r"is gone"):
        device.read()
    device.close()
