"""A person at a terminal."""

import os
import select
import termios
import tty

from ..messages import OperatorCommand, Verdict
from .operator import OperatorError, ViewSource

KEYS_HELP = (
    "space: take over / give back   w s or up down: x+ x-   a d or left right: y+ y-   e q: z+ z-   "
    "enter: success   g: give up   x: stop"
)

_AXES = {
    "w": (0, 1.0),
    "s": (0, -1.0),
    "a": (1, 1.0),
    "d": (1, -1.0),
    "e": (2, 1.0),
    "q": (2, -1.0),
    "up": (0, 1.0),
    "down": (0, -1.0),
    "left": (1, 1.0),
    "right": (1, -1.0),
}
_ESCAPES = {b"A": "up", b"B": "down", b"C": "right", b"D": "left"}
_KEY_S = 0.25  # terminals tell presses and repeats but no releases: a key counts as down for so long
_STOP_S = 0.5  # long enough that nobody who polls misses it


def decode_keys(data: bytes) -> list[str]:
    """Names of the keys in what a terminal sent: arrows as words, the rest as lower-case characters."""
    keys: list[str] = []
    index = 0
    while index < len(data):
        if data[index : index + 1] == b"\x1b" and data[index + 1 : index + 2] in (b"[", b"O"):
            keys.append(_ESCAPES.get(data[index + 2 : index + 3], ""))
            index += 3
        else:
            keys.append(chr(data[index]).lower())
            index += 1
    return [key for key in keys if key]


class KeyboardOperator:
    """Drives the tip with keys of a terminal; see KEYS_HELP."""

    def __init__(self, view: ViewSource, *, speed: float = 0.06, terminal: str = "/dev/tty") -> None:
        """Take the terminal into raw mode.

        Args:
            view: episode and target.
            speed: m/s along each axis.
            terminal: device of the terminal.

        Raises:
            OperatorError: there is no terminal.
        """
        try:
            self._fd = os.open(terminal, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
            self._settings = termios.tcgetattr(self._fd)
        except (OSError, termios.error) as error:
            raise OperatorError(
                f"the keyboard needs a terminal, but {terminal} cannot be used ({error}); run in a terminal, or choose another operator"
            ) from None
        tty.setcbreak(self._fd)  # single keys, no echo; Ctrl-C still ends the command
        self._open = True
        self._view, self._speed = view, speed
        self._sequence = 0
        self._episode = -1
        self._engaged = False
        self._verdict = Verdict.NONE
        self._stop_until_ns = 0
        self._pressed: dict[str, int] = {}  # until when a key counts as down

    def poll(self, now_ns: int) -> OperatorCommand:
        """Read the keys pressed since the last call."""
        episode = self._view().episode
        keys = self._read()
        if episode != self._episode:
            self._episode, self._engaged, self._verdict = episode, False, Verdict.NONE
        for key in keys:
            self._press(key, now_ns)
        velocity = [0.0, 0.0, 0.0]
        for key, until_ns in self._pressed.items():
            axis, sign = _AXES[key]
            velocity[axis] += sign * self._speed if self._engaged and until_ns > now_ns else 0.0
        self._sequence += 1
        return OperatorCommand(
            sequence=self._sequence,
            heartbeat_ns=now_ns,
            engaged=self._engaged,
            tip_velocity=(velocity[0], velocity[1], velocity[2]),
            stop=now_ns < self._stop_until_ns,
            verdict=self._verdict,
        )

    def close(self) -> None:
        """Give the terminal back as it was."""
        if self._open:
            self._open = False
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._settings)
            os.close(self._fd)

    def _read(self) -> list[str]:
        ready, _, _ = select.select([self._fd], [], [], 0.0)
        return decode_keys(os.read(self._fd, 1024)) if ready else []

    def _press(self, key: str, now_ns: int) -> None:
        if key in _AXES:
            self._pressed[key] = now_ns + round(_KEY_S * 1e9)
        elif key == "x":
            self._engaged = False
            self._stop_until_ns = now_ns + round(_STOP_S * 1e9)
        elif self._episode < 0:
            return
        elif key == " ":
            self._engaged = not self._engaged
        elif key in ("\r", "\n"):
            self._verdict = Verdict.SUCCESS
        elif key == "g":
            self._verdict = Verdict.GIVE_UP
