"""What the kernel says of devices that exist: axes, keys, ids, as `evtest` prints them."""

from operator_bench import FakeInput

from isthmus.deploy.operators.axis import AxisRange
from isthmus.deploy.operators.input_codes import Axis, Button

_BUTTONS = (0x130, 0x131, 0x133, 0x134, 0x136, 0x137, 0x13A, 0x13B, 0x13C, 0x13D, 0x13E)
_STICK16 = AxisRange(low=-32768, high=32767, flat=128)
_STICK8 = AxisRange(low=0, high=255, flat=0)
_TRIGGER = AxisRange(low=0, high=1023, flat=0)
_STICK_BLUETOOTH = AxisRange(low=0, high=65535, flat=4095)
_PUCK = AxisRange(low=-350, high=350, flat=0)
_SIX = (Axis.X, Axis.Y, Axis.Z, Axis.RX, Axis.RY, Axis.RZ)


def rest(pad: FakeInput) -> FakeInput:
    """Sticks in the middle, triggers let go."""
    for code, axis in pad.axes.items():
        pad.move(code, axis.low if axis in (_TRIGGER,) else (axis.low + axis.high) // 2)
    return pad


def xbox_by_cable() -> FakeInput:
    axes = {
        **dict.fromkeys((Axis.X, Axis.Y, Axis.RX, Axis.RY), _STICK16),
        **dict.fromkeys((Axis.Z, Axis.RZ), _TRIGGER),
    }
    return FakeInput(name="Microsoft Xbox Series S|X Controller", keys=_BUTTONS, axes=axes, vendor=0x045E)


def xbox_by_bluetooth() -> FakeInput:
    axes = {
        **dict.fromkeys((Axis.X, Axis.Y, Axis.Z, Axis.RZ), _STICK_BLUETOOTH),
        **dict.fromkeys((Axis.GAS, Axis.BRAKE), _TRIGGER),
    }
    return FakeInput(
        name="Xbox Wireless Controller", keys=(*_BUTTONS, 0x132, 0x135, 0x138, 0x139), axes=axes, vendor=0x045E
    )


def pad_with_trigger_buttons() -> FakeInput:
    axes = dict.fromkeys((Axis.X, Axis.Y, Axis.RX, Axis.RY), _STICK16)
    return FakeInput(name="Nintendo Switch Pro Controller", keys=(*_BUTTONS, 0x138, 0x139), axes=axes)


def old_pad() -> FakeInput:
    """Its second stick is where others have their triggers, so it rests in the middle."""
    axes = dict.fromkeys((Axis.X, Axis.Y, Axis.Z, Axis.RZ), _STICK8)
    return FakeInput(name="ShanWan PC/PS3/Android", keys=(*_BUTTONS, 0x138, 0x139), axes=axes)


def pedal(keys: tuple[int, ...] = tuple(range(1, 84))) -> FakeInput:
    return FakeInput(name="PCsensor FootSwitch", keys=keys, vendor=0x3553)


def spacemouse() -> FakeInput:
    return FakeInput(
        name="3Dconnexion SpaceMouse Compact",
        keys=(Button.LEFT_OF_PUCK, Button.RIGHT_OF_PUCK),
        axes=dict.fromkeys(_SIX, _PUCK),
        vendor=0x256F,
        product=0xC635,
    )


def relative_spacemouse() -> FakeInput:
    return FakeInput(
        name="3Dconnexion SpaceNavigator",
        keys=(Button.LEFT_OF_PUCK, Button.RIGHT_OF_PUCK),
        relative=_SIX,
        vendor=0x046D,
        product=0xC626,
    )
