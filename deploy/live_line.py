"""One line that is written again and again, for a person who drives the tip: who drives, how far it is, how long is left."""

import os
import time
from typing import TextIO

import numpy as np

from .attempt import EpisodeResult
from .modes import Mode
from .status import Status

_PERIOD_S = 0.1
_WIDTH = 80  # where a terminal does not say
_DRIVERS = {Mode.POLICY: "POLICY", Mode.TELEOP: "YOU"}


def live_text(status: Status, tip: np.ndarray, left_s: float, width: int) -> str:
    """The line, shorter than `width`, with what matters most first; `tip` has shape (3,), m, base frame."""
    gap = status.target - tip
    x, y, z = 1e2 * gap
    who = _DRIVERS.get(status.mode, "HOLD")
    distance, left = f"{1e3 * np.linalg.norm(gap):.0f} mm", f"{max(left_s, 0.0):.1f} s"
    forms = (
        f"{who:<6}  target - tip: x (forward) {x:+6.1f}  y (left) {y:+6.1f}  z (up) {z:+6.1f} cm  {distance:>6}  {left} left",
        f"{who:<6} x {x:+5.1f} y {y:+5.1f} z {z:+5.1f} cm {distance:>6} {left} left",
        f"{who} {x:+.1f} {y:+.1f} {z:+.1f} cm {distance} {left}",
    )
    return next((form for form in forms if len(form) < width), forms[-1][: max(width - 1, 0)])


class LiveLine:
    """Writes the line about ten times a second, and a lasting one for each result."""

    def __init__(self, count: int, stream: TextIO) -> None:
        """Write for `count` targets to a terminal."""
        self._count, self._stream = count, stream
        self._next_s = 0.0

    def tick(self, status: Status, tip: np.ndarray, left_s: float) -> None:
        """An `OnTick`."""
        now_s = time.monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + _PERIOD_S
            self._write(live_text(status, tip, left_s, self._width()))

    def result(self, index: int, result: EpisodeResult) -> None:
        """An attempt has ended."""
        came = "reached" if result.success else "missed"
        self._write(f"{index + 1}/{self._count}  {came}, {1e3 * result.final_error_m:.1f} mm, {result.ended}", end="\n")

    def clear(self) -> None:
        """Leave an empty line to whoever writes next."""
        self._write("")

    def _write(self, text: str, end: str = "") -> None:
        self._stream.write(f"\r{text}\x1b[K{end}")
        self._stream.flush()

    def _width(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or _WIDTH
        except OSError:
            return _WIDTH
