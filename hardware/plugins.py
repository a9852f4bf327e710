"""What other installed packages bring: tasks, contracts and presets, found by entry point."""

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from .structure import FormatError

T = TypeVar("T")


def plugins(group: str, kind: type[T], known: dict[str, Callable[[], T]]) -> dict[str, Callable[[], T]]:
    """Makers by name: `known` and those of entry point group `group`, each checked when it is called.

    A package declares, for instance, in its pyproject.toml:

        [project.entry-points."isthmus.tasks"]
        lift = "my_robot.lift:task"

    Raises:
        FormatError: two packages, or a package and isthmus itself, bring the same name.
    """
    makers = dict(known)
    for entry in entry_points(group=group):
        if entry.name in makers:
            raise FormatError(f"{_where(entry)}: {entry.name!r} exists already; give it another name")
        makers[entry.name] = _checked(entry, kind)
    return makers


def _checked(entry: EntryPoint, kind: type[T]) -> Callable[[], T]:
    def make() -> T:
        try:
            made = entry.load()()
        except Exception as error:  # whatever somebody else's package raises
            raise FormatError(f"{_where(entry)}: cannot be made: {type(error).__name__}: {error}") from error
        if not isinstance(made, kind):
            raise FormatError(
                f"{_where(entry)}: gave a {type(made).__name__}; expected a function that returns a {kind.__name__}"
            )
        return made

    return make


def _where(entry: EntryPoint) -> str:
    package = "a package" if entry.dist is None else f"package {entry.dist.name!r}"
    return f"entry point {entry.group}:{entry.name} = {entry.value} of {package}"
