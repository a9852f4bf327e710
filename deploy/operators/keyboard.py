"""A person at a terminal."""

import contextlib
import os
import select
import termios
import tty
from dataclasses import dataclass, field

from ..messages import Drive, Verdict
from .device import DeviceOperator
from .hand_drive import HandDrive, tip_drive
from .key_motion import TipKeys, key_motion
from .keys import decode_keys, split_cut_off
from .operator import OperatorError, View, ViewSource
from .person import Person

TIP_SPEED = 0.06  # m/s
_REWIND_S = 0.7  # longer than terminals wait before they repeat a key that is held
_REPEAT_S = 0.1  # a space sooner after the last one is the terminal's repeat, not a person's second thought


def keys_help(motion_help: str) -> str:
    """What the keys do."""
    return (
        f"space takes over and gives back; {motion_help}; r, held, takes over and goes back along the path; "
        "c gives back and lets a policy that waits go on; after a takeover Enter says done and g gives up; x stops"
    )


KEYS_HELP = keys_help(TipKeys.help)


@dataclass(frozen=True, kw_only=True)
class KeyboardConfig:
    """A terminal's keyboard."""

    drive: HandDrive = field(default_factory=lambda: tip_drive(TIP_SPEED))
    terminal: str = "/dev/tty"
    name: str = field(default="keyboard", init=False)
    moves: bool = field(default=True, init=False)
    engages: bool = field(default=True, init=False)

    @property
    def first_line(self) -> str:
        """What the keys do."""
        return keys_help(key_motion(self.drive).help)

    def build(self) -> "Keyboard":
        """Take the terminal into raw mode; raises OperatorError where there is none."""
        return Keyboard(self)


class Keyboard:
    """Keys of a terminal; see `keys_help`."""

    def __init__(self, config: KeyboardConfig) -> None:
        """See `KeyboardConfig.build`."""
        terminal = config.terminal
        try:
            self._fd = os.open(terminal, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
            self._settings = termios.tcgetattr(self._fd)
        except (OSError, termios.error) as error:
            raise OperatorError(
                f"the keyboard needs a terminal, but {terminal} cannot be used ({error}); run in a terminal, or choose another operator"
            ) from None
        tty.setcbreak(self._fd)  # single keys, no echo; Ctrl-C still ends the command
        self._open = True
        self._terminal, self._drive = terminal, config.drive
        self._motion = key_motion(config.drive)
        self._cut_off = b""  # the beginning of an escape sequence whose rest has not come yet
        self._rewind_until_ns = self._space_ns = 0

    @property
    def drive(self) -> Drive:
        """What the values mean."""
        return self._drive.drive

    def filenos(self) -> tuple[int, ...]:
        """The terminal."""
        return (self._fd,)

    def read(self, person: Person) -> None:
        """Read the keys pressed since the last call."""
        for key in self._keys():
            person.act()
            self._press(key, person)
        person.rewind("keyboard", person.now_ns < self._rewind_until_ns)

    def admits(self, view: View) -> bool:
        """Always: the robot starts from where it is."""
        return True

    def values(self, person: Person, view: View) -> tuple[float, ...]:
        """What the keys that are down mean."""
        if not person.engaged:
            self._motion.rest()
        return self._drive.values(self._motion.deflection(person.now_ns))

    def close(self) -> None:
        """Give the terminal back as it was, without keys that nobody has read: they would land in the shell."""
        if self._open:
            self._open = False
            with contextlib.suppress(termios.error):  # a terminal that is gone needs nothing
                termios.tcsetattr(self._fd, termios.TCSADRAIN, self._settings)
                termios.tcflush(self._fd, termios.TCIFLUSH)
            os.close(self._fd)

    def _keys(self) -> list[str]:
        ready, _, _ = select.select([self._fd], [], [], 0.0)
        if not ready:  # the rest was waited for, for one poll: a lone Escape must not swallow the key after it
            data, self._cut_off = self._cut_off, b""
            return decode_keys(data)
        try:
            new = os.read(self._fd, 1024)
        except OSError as error:
            raise OperatorError(
                f"the terminal {self._terminal} is gone ({error}); the keyboard cannot be read"
            ) from None
        if not new:
            raise OperatorError(f"the terminal {self._terminal} was closed; the keyboard cannot be read")
        data, self._cut_off = split_cut_off(self._cut_off + new)
        return decode_keys(data)

    def _press(self, key: str, person: Person) -> None:
        if key != "r":
            self._rewind_until_ns = 0
        if self._motion.press(key, person.now_ns):
            return
        if key == "x":
            person.stop()
        elif key == " ":
            repeat = person.now_ns - self._space_ns < _REPEAT_S * 1e9
            self._space_ns = person.now_ns
            if not repeat:
                person.toggle()
        elif key == "r":
            person.want()
            self._rewind_until_ns = person.now_ns + round(_REWIND_S * 1e9)
        elif key == "c":
            person.release()
            person.resume()
        elif key in ("\r", "\n"):
            person.judge(Verdict.SUCCESS)
        elif key == "g":
            person.judge(Verdict.GIVE_UP)


class KeyboardOperator(DeviceOperator):
    """A person with nothing but a terminal's keyboard."""

    def __init__(
        self, view: ViewSource, *, speed: float = TIP_SPEED, terminal: str = "/dev/tty", drive: HandDrive | None = None
    ) -> None:
        """Take the terminal into raw mode.

        Args:
            view: of the session.
            speed: m/s along each axis.
            terminal: device of the terminal.
            drive: what the keys move; None for the tip, at `speed`.

        Raises:
            OperatorError: there is no terminal.
        """
        config = KeyboardConfig(drive=tip_drive(speed) if drive is None else drive, terminal=terminal)
        super().__init__(view, [config.build()])
