"""A person at a terminal."""

import os
import re
import select
import termios
import tty

from ..messages import OperatorCommand, Verdict
from .operator import OperatorError, ViewSource

KEYS_HELP = (
    "space takes over and gives back; arrows up down, or w s, move the tip forward and back (x), arrows left right, or a d, "
    "to the left and right (y), page up and down, or e q, up and down (z); after a takeover Enter says done and g gives up; "
    "x stops"
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
    "page up": (2, 1.0),
    "page down": (2, -1.0),
}
_ESCAPES = {
    b"\x1b[A": "up",
    b"\x1b[B": "down",
    b"\x1b[C": "right",
    b"\x1b[D": "left",
    b"\x1bOA": "up",
    b"\x1bOB": "down",
    b"\x1bOC": "right",
    b"\x1bOD": "left",
    b"\x1b[5~": "page up",
    b"\x1b[6~": "page down",
}
# ECMA-48 control sequences, single shifts of keypads and the Linux console's function keys; everything else is a key.
_KEY = re.compile(rb"\x1b(?:\[\[[@-~]|\[[0-?]*[ -/]*[@-~]|O[0-9;]*[@-~])|.", re.DOTALL)
_CUT_OFF = re.compile(rb"\x1b(?:\[\[|\[[0-?]*[ -/]*|O[0-9;]*)?\Z")
_KEY_S = 0.25  # terminals tell presses and repeats but no releases: a key counts as down for so long


def decode_keys(data: bytes) -> list[str]:
    """Names of the keys in what a terminal sent: arrows and page keys as words, other characters in lower case.

    Escape sequences of other keys are left out whole.
    """
    found = _KEY.findall(data)
    keys = (_ESCAPES.get(key, "") if len(key) > 1 else chr(key[0]).lower() for key in found)
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
        self._engaged = self._took_over = False
        self._verdict = Verdict.NONE
        self._stopped = False  # for good: a stop is not taken back by waiting
        self._cut_off = b""  # the beginning of an escape sequence whose rest has not come yet
        self._pressed: dict[str, int] = {}  # until when a key counts as down

    def poll(self, now_ns: int) -> OperatorCommand:
        """Read the keys pressed since the last call."""
        episode = self._view().episode
        keys = self._read()
        if episode != self._episode:
            self._episode, self._engaged, self._took_over, self._verdict = episode, False, False, Verdict.NONE
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
            values=tuple(velocity),
            stop=self._stopped,
            verdict=self._verdict,
        )

    def close(self) -> None:
        """Give the terminal back as it was, without keys that nobody has read: they would land in the shell."""
        if self._open:
            self._open = False
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._settings)
            termios.tcflush(self._fd, termios.TCIFLUSH)
            os.close(self._fd)

    def _read(self) -> list[str]:
        ready, _, _ = select.select([self._fd], [], [], 0.0)
        data, self._cut_off = self._cut_off + (os.read(self._fd, 1024) if ready else b""), b""
        cut = _CUT_OFF.search(data)
        if (
            ready and cut is not None
        ):  # wait for the rest, for one poll: a lone Escape must not swallow the key after it
            data, self._cut_off = data[: cut.start()], cut.group()
        return decode_keys(data)

    def _press(self, key: str, now_ns: int) -> None:
        if key in _AXES:
            self._pressed[key] = now_ns + round(_KEY_S * 1e9)
        elif key == "x":
            self._engaged, self._stopped = False, True
        elif self._episode < 0 or self._stopped:
            return
        elif key == " ":
            self._engaged = not self._engaged
            self._took_over = True
        elif not self._took_over:
            return
        elif key in ("\r", "\n"):
            self._verdict = Verdict.SUCCESS
        elif key == "g":
            self._verdict = Verdict.GIVE_UP
