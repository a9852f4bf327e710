"""What the supervisor does for a terminal that an operator's process may leave in raw mode when it is killed."""

import contextlib
import os
import termios
from typing import Any

_TERMINAL = "/dev/tty"


class SavedTerminal:
    """The settings of the controlling terminal as they are now; empty where there is none."""

    def __init__(self) -> None:
        """Look at the terminal; changes nothing."""
        self._settings: list[Any] | None = None
        with contextlib.suppress(OSError, termios.error):
            fd = os.open(_TERMINAL, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
            try:
                self._settings = termios.tcgetattr(fd)
            finally:
                os.close(fd)

    def restore(self) -> None:
        """Put the settings back where they have changed, and drop keys that nobody has read; as far as that is possible."""
        if self._settings is None:
            return
        with contextlib.suppress(OSError, termios.error):
            fd = os.open(_TERMINAL, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
            try:
                # Only then: a command in the background that touches the terminal is suspended.
                if termios.tcgetattr(fd) != self._settings:
                    termios.tcsetattr(fd, termios.TCSANOW, self._settings)
                    termios.tcflush(fd, termios.TCIFLUSH)
            finally:
                os.close(fd)
