"""Keys of a terminal that move the robot; terminals tell presses and repeats but no releases."""

from typing import Protocol

from ..messages import Drive
from .hand_drive import HandDrive

KEY_S = 0.25  # a key counts as down for so long after a press or repeat
_COMMAND_STEP = 0.1  # of full deflection, for each press

_AXES = {
    "w": (0, 1.0),
    "s": (0, -1.0),
    "a": (1, 1.0),
    "d": (1, -1.0),
    "up": (0, 1.0),
    "down": (0, -1.0),
    "left": (1, 1.0),
    "right": (1, -1.0),
}
_TIP_AXES = {**_AXES, "e": (2, 1.0), "q": (2, -1.0), "page up": (2, 1.0), "page down": (2, -1.0)}
_COMMAND_AXES = {**_AXES, "q": (2, 1.0), "e": (2, -1.0)}
_JOG = {"+": 1.0, "=": 1.0, "up": 1.0, "-": -1.0, "_": -1.0, "down": -1.0}


class KeyMotion(Protocol):
    """Turns keys into deflections."""

    help: str

    def press(self, key: str, now_ns: int) -> bool:
        """A key was pressed or repeated; returns whether it is one of these."""
        ...

    def deflection(self, now_ns: int) -> list[float]:
        """One of -1 .. 1 for each value of the drive."""
        ...

    def rest(self) -> None:
        """Forget what was pressed."""
        ...


class TipKeys:
    """Moves the tip while a key is down."""

    help = (
        "arrows up down, or w s, move the tip forward and back (x), arrows left right, or a d, to the left and right (y), "
        "page up and down, or e q, up and down (z)"
    )

    def __init__(self) -> None:
        """Nothing is pressed."""
        self._down_until: dict[str, int] = {}

    def press(self, key: str, now_ns: int) -> bool:
        """See `KeyMotion`."""
        if key in _TIP_AXES:
            self._down_until[key] = now_ns + round(KEY_S * 1e9)
        return key in _TIP_AXES

    def deflection(self, now_ns: int) -> list[float]:
        """See `KeyMotion`."""
        deflection = [0.0, 0.0, 0.0]
        for key, until_ns in self._down_until.items():
            axis, sign = _TIP_AXES[key]
            deflection[axis] += sign if until_ns > now_ns else 0.0
        return deflection

    def rest(self) -> None:
        """See `KeyMotion`."""
        self._down_until.clear()


class JointKeys:
    """Moves one joint while a key is down."""

    def __init__(self, names: tuple[str, ...]) -> None:
        """The first joint is chosen."""
        self._count = len(names)
        self._joint = 0
        self._sign = 0.0
        self._until_ns = 0
        self.help = (
            f"digits choose a joint ({', '.join(f'{i + 1} {name}' for i, name in enumerate(names[:9]))}), arrows left right "
            "the previous and next one; + - or arrows up down move it"
        )

    def press(self, key: str, now_ns: int) -> bool:
        """See `KeyMotion`."""
        if key in _JOG:
            self._sign, self._until_ns = _JOG[key], now_ns + round(KEY_S * 1e9)
        elif key in ("left", "right"):
            self._choose((self._joint + (1 if key == "right" else -1)) % self._count)
        elif key in "123456789" and int(key) <= self._count:
            self._choose(int(key) - 1)
        else:
            return False
        return True

    def deflection(self, now_ns: int) -> list[float]:
        """See `KeyMotion`."""
        deflection = [0.0] * self._count
        deflection[self._joint] = self._sign if self._until_ns > now_ns else 0.0
        return deflection

    def rest(self) -> None:
        """See `KeyMotion`."""
        self._until_ns = 0

    def _choose(self, joint: int) -> None:
        self._joint, self._until_ns = joint, 0  # what is pressed for one joint does not move another


class CommandKeys:
    """Sets a velocity command step by step; it stays until it is changed or the person gives back."""

    help = (
        "w s, or arrows up down, make it walk faster forward and back, a d, or arrows left right, to the left and right, "
        "q e turn it to the left and right; each press is a tenth, 0 stands still"
    )

    def __init__(self) -> None:
        """Stand still."""
        self._steps = [0, 0, 0]

    def press(self, key: str, now_ns: int) -> bool:
        """See `KeyMotion`."""
        if key == "0":
            self.rest()
            return True
        if key not in _COMMAND_AXES:
            return False
        axis, sign = _COMMAND_AXES[key]
        most = round(1.0 / _COMMAND_STEP)
        self._steps[axis] = max(-most, min(most, self._steps[axis] + int(sign)))
        return True

    def deflection(self, now_ns: int) -> list[float]:
        """See `KeyMotion`."""
        return [steps * _COMMAND_STEP for steps in self._steps]

    def rest(self) -> None:
        """See `KeyMotion`."""
        self._steps = [0, 0, 0]


def key_motion(drive: HandDrive) -> KeyMotion:
    """The keys for a drive."""
    if drive.drive is Drive.COMMAND:
        return CommandKeys()
    return JointKeys(drive.names) if drive.drive is Drive.JOINT_VELOCITY else TipKeys()
