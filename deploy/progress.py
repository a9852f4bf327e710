"""Progress of long work on a terminal."""

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

LINE_S = 15.0  # between lines where there is no terminal


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[figures]}"),
        TimeElapsedColumn(),
        TextColumn("eta"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )


@contextlib.contextmanager
def training_progress(title: str, time_limit: float | None) -> Iterator[Callable[[Any], None]]:
    """A bar for training; gives the function to call with each `ppo.Progress`. Without a terminal, a line from time to time."""
    console = Console()
    with _bar(console) as bar:
        task = bar.add_task(title, total=None, figures="")
        told = -math.inf

        def show(progress: Any) -> None:
            nonlocal told
            share = None if time_limit is None else progress.seconds / time_limit
            total = progress.iterations
            if share is not None and share > 0:
                total = min(total, max(progress.iteration, round(progress.iteration / share)))
            success = progress.metrics.get("episode/success")
            figures = f"{progress.steps_per_second:,.0f} steps/s  reward {progress.metrics['reward/total']:.3f} a tick"
            figures += "" if success is None else f"  success {100 * success:.0f} % while exploring"
            bar.update(task, completed=progress.iteration, total=total, figures=figures)
            last, now = progress.iteration >= total, time.monotonic()
            if not console.is_terminal and (last or now - told >= LINE_S):
                told = now
                remaining = progress.seconds * (total / progress.iteration - 1)
                line = f"{title}: iteration {progress.iteration}/{total}  {figures}  eta {remaining:.0f} s"
                console.print(line, soft_wrap=True)

        yield show


@contextlib.contextmanager
def attempts_progress(title: str, count: int) -> Iterator[Callable[[int, Any], None]]:
    """A bar for a row of attempts; gives the function to call with index and EpisodeResult."""
    console = Console()
    with _bar(console) as bar:
        task = bar.add_task(title, total=count, figures="")
        good = 0

        def show(index: int, result: Any) -> None:
            nonlocal good
            good += bool(result.success)
            figures = f"{good} reached, last miss {1e3 * result.final_error_m:.1f} mm"
            bar.update(task, completed=index + 1, figures=figures)
            if not console.is_terminal and ((index + 1) % 10 == 0 or index + 1 == count):
                console.print(f"{title}: {index + 1}/{count}  {figures}")

        yield show
