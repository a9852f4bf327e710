"""What a command checks of its options before anything moves or is computed."""

import contextlib
import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

from isthmus.hardware.errors import IsthmusError


class OptionError(IsthmusError):
    """An option with a value that cannot work; the text says what would."""


def check_range(option: str, value: float | None, least: float, most: float = float("inf")) -> None:
    """Refuse a number outside `least` .. `most`, nan and infinity; None means that the option was not given."""
    if value is None or (least <= value <= most and abs(value) != float("inf")):
        return
    expected = f"at least {_text(least)}" if most == float("inf") else f"{_text(least)} to {_text(most)}"
    finite = " and finite" if value == most else ""
    raise OptionError(f"{option} is {_text(value)}, expected {expected}{finite}")


def _text(number: float) -> str:
    """Whole numbers with every digit: the largest seed has many."""
    return f"{number}" if isinstance(number, int) else f"{number:g}"


def check_output(option: str, path: Path) -> None:
    """Refuse a file that could not be written at the end; makes its folder."""
    if path.is_dir():
        raise OptionError(f"{option} {path} is a directory, expected the name of a file; add one")
    check_folder(option, path.parent)


def check_bundle_name(option: str, path: Path) -> None:
    """As `check_output`, of a bundle, which other commands know by its ending."""
    check_output(option, path)
    if path.suffix != ".onnx":
        raise OptionError(f"{option} {path} must end with .onnx, by which other commands know a bundle")


def check_not_input(option: str, output: Path, source: Path | None, what: str) -> None:
    """Refuse to write over a file that the command reads."""
    if source is not None and output.resolve() == source.resolve():
        raise OptionError(f"{option} {output} would replace {what}; choose another name")


def keep_existing(path: Path) -> None:
    """Give a file that is already there a free name beside it: run.mcap becomes run-1.mcap."""
    if path.is_file():
        free = next(name for k in itertools.count(1) if not (name := path.with_stem(f"{path.stem}-{k}")).exists())
        path.rename(free)


def check_folder(option: str, folder: Path) -> None:
    """Refuse a folder in which nothing can be written; makes it where it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OptionError(
            f"{option}: cannot write in {folder}: {error.strerror}; choose another place, or free this one"
        ) from None


@contextlib.contextmanager
def option_for_memory(option: str, num_envs: int) -> Iterator[None]:
    """Blame the option that asks for so many environments where memory does not hold them."""
    from isthmus.sim.memory import MemoryShortageError, telling_shortage

    try:
        with telling_shortage(num_envs):
            yield
    except MemoryShortageError as error:
        raise OptionError(f"{option}: {error}") from None
