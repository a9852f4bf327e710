"""The dashboard on this terminal while attempts run, and plain lines where there is no terminal."""

import contextlib
import time
from collections.abc import Callable, Iterator

import numpy as np
from rich.console import Console
from rich.live import Live

from .attempt import EpisodeResult, OnTick
from .dashboard import plain_line, render
from .progress import LINE_S, attempts_progress
from .snapshot import Scene, Snapshot, Watcher
from .status import Status

_PERIOD_S = 0.2

OnResult = Callable[[int, EpisodeResult], None]


@contextlib.contextmanager
def dashboard(title: str, scene: Scene) -> Iterator[tuple[OnResult, OnTick]]:
    """Show attempts as they run; gives what to call with index and EpisodeResult, and what to call after each tick.

    On a terminal the dashboard has a screen of its own, redrawn at the size that the terminal has then; afterwards, also after an error
    or Ctrl-C, the terminal is as before, with a line for each result. Without one: a line at times and for results.
    """
    console, watcher = Console(), Watcher(scene=scene)
    if not console.is_terminal or console.is_dumb_terminal:
        with _plain(console, title, watcher) as both:
            yield both
        return
    said: list[str] = []

    def ended(index: int, result: EpisodeResult) -> None:
        watcher.attempt = index + 1
        watcher.last_result = result_line(index, scene.episodes, result)
        said.append(watcher.last_result)

    try:
        with Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live:
            yield ended, _Screen(live, watcher).tick
    finally:
        for line in said:
            console.print(line, soft_wrap=True, markup=False, highlight=False)


def result_line(index: int, count: int, result: EpisodeResult) -> str:
    """How an attempt ended."""
    came = "reached" if result.success else "missed"
    return f"{index + 1}/{count}  {came}, {1e3 * result.final_error_m:.1f} mm, {result.ended}"


class _Screen:
    """Draws some times a second."""

    def __init__(self, live: Live, watcher: Watcher) -> None:
        self._live, self._watcher = live, watcher
        self._next_s = 0.0

    def tick(self, status: Status, tip: np.ndarray, left_s: float) -> None:
        """An `OnTick`."""
        now_s = time.monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + _PERIOD_S
            self._draw(self._watcher.look(status, tip, left_s))

    def _draw(self, snapshot: Snapshot) -> None:
        console = self._live.console
        width, height = console.size
        self._live.update(render(snapshot, width, height, ascii_only=console.options.ascii_only), refresh=True)


@contextlib.contextmanager
def _plain(console: Console, title: str, watcher: Watcher) -> Iterator[tuple[OnResult, OnTick]]:
    next_s = time.monotonic() + LINE_S

    def tick(status: Status, tip: np.ndarray, left_s: float) -> None:
        nonlocal next_s
        now_s = time.monotonic()
        if now_s >= next_s:
            next_s = now_s + LINE_S
            line = plain_line(watcher.look(status, tip, left_s))
            console.print(line, soft_wrap=True, markup=False, highlight=False)

    with attempts_progress(title, watcher.scene.episodes) as show:

        def ended(index: int, result: EpisodeResult) -> None:
            watcher.attempt = index + 1
            show(index, result)

        yield ended, tick
