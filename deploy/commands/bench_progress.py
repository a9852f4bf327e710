"""Progress of a bench."""

import contextlib
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


@contextlib.contextmanager
def bench_progress(title: str, count: int, console: Console) -> Iterator[Callable[[str], None]]:
    """A bar over `count` measurements, or a line each without a terminal; gives what to call after each, with what it gave."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[last]}"),
        TimeElapsedColumn(),
        TextColumn("eta"),
        TimeRemainingColumn(),
    )
    start, finished = time.monotonic(), 0
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=count, last="")

        def done(last: str) -> None:
            nonlocal finished
            finished += 1
            bar.update(task, completed=finished, last=last)
            if not console.is_terminal:
                remaining = (time.monotonic() - start) * (count / finished - 1)
                console.print(f"{title}: {finished}/{count}  {last}  eta {remaining:.0f} s")

        yield done


@contextlib.contextmanager
def level_progress(
    title: str, level: float, limit: float, console: Console
) -> Iterator[Callable[[float, float], None]]:
    """A bar up to a level, or a line each time without a terminal; gives what to call with seconds so far and the value.

    The remaining time is the longest that it can last: up to `limit` s.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[figures]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=level, figures="")

        def show(seconds: float, value: float) -> None:
            figures = f"{value:.3f} after {seconds:.0f} s  eta at most {max(limit - seconds, 0.0):.0f} s"
            bar.update(task, completed=max(value, 0.0), figures=figures)
            if not console.is_terminal:
                console.print(f"{title}: {figures}")

        yield show
