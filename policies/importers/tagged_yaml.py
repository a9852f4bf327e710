"""YAML as other tools dump it: python tags are read as plain data, nothing is imported, called or built."""

import re
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import yaml

from .common import ImportFailed
from .files import read_text

_EXPONENT = re.compile(r"[-+]?\d+[eE][-+]?\d+")
_PYTHON = "tag:yaml.org,2002:python/"


@dataclass(frozen=True, kw_only=True)
class Slice:
    """What was a python slice: which of a list's items; all of them where every part is None."""

    start: object
    stop: object
    step: object

    @property
    def everything(self) -> bool:
        """Whether it means all items."""
        return self.start in (None, 0) and self.stop is None and self.step in (None, 1)


@dataclass(frozen=True, kw_only=True)
class Opaque:
    """A python object that is not looked into; an error where its value would be needed."""

    tag: str


def _tuple(loader: yaml.SafeLoader, node: yaml.Node) -> object:
    if not isinstance(node, yaml.SequenceNode):
        return Opaque(tag="python/tuple")
    return loader.construct_sequence(node, deep=True)


def _slice(loader: yaml.SafeLoader, node: yaml.Node) -> object:
    parts = loader.construct_sequence(node, deep=True) if isinstance(node, yaml.SequenceNode) else []
    if len(parts) != 3:
        return Opaque(tag="python slice")
    return Slice(start=parts[0], stop=parts[1], step=parts[2])


def _name(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> object:
    return suffix  # of a function or class: its dotted name, never the thing itself


def _opaque(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> object:
    return Opaque(tag=f"python/{suffix}")


class _Loader(yaml.SafeLoader):
    """Plain YAML, with python tags as data."""

    yaml_constructors = {  # noqa: RUF012  (as the base class has it)
        **yaml.SafeLoader.yaml_constructors,
        f"{_PYTHON}tuple": _tuple,
        f"{_PYTHON}object/apply:builtins.slice": _slice,
    }
    yaml_multi_constructors = {f"{_PYTHON}name:": _name, _PYTHON: _opaque}  # noqa: RUF012


def read_yaml(path: Path) -> "Mapping":
    """A YAML file that holds a mapping.

    Raises:
        ImportFailed: not YAML, or no mapping.
    """
    return parse_yaml(read_text(path), str(path))


def parse_yaml(text: str, source: str) -> "Mapping":
    """A mapping from YAML text."""
    try:
        data: object = yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ImportFailed(f"{source}: not YAML that can be read: {str(error).splitlines()[0]}") from None
    if not isinstance(data, dict):
        raise ImportFailed(f"{source}: expected a mapping, got {type(data).__name__}")
    return Mapping(data=cast("dict[Hashable, object]", data), source=source)


class Mapping:
    """A mapping of a file, with typed access and errors that say where."""

    def __init__(self, *, data: dict[Hashable, object], source: str) -> None:
        self._data, self.source = data, source

    def __contains__(self, key: str) -> bool:
        return self._data.get(key) is not None

    def names(self) -> list[str]:
        """Keys in the file's order."""
        return [str(key) for key in self._data]

    def where(self, key: str) -> str:
        """File and key, for errors and provenance."""
        return f"{self.source}: {key}"

    def raw(self, key: str) -> object:
        """The value as it stands; None where there is none."""
        return self._data.get(key)

    def mapping(self, key: str) -> "Mapping":
        """A mapping below; an empty one counts."""
        value = self._data.get(key)
        if not isinstance(value, dict):
            raise ImportFailed(f"{self.where(key)}: expected a mapping, got {_shown(value)}")
        return Mapping(data=cast("dict[Hashable, object]", value), source=self.where(key))

    def item(self, key: str, index: int) -> "Mapping":
        """A mapping in a list below."""
        value = as_list(self._data.get(key), self.where(key))[index]
        return Mapping(data={str(index): value}, source=self.where(key)).mapping(str(index))

    def number(self, key: str) -> float:
        """A number."""
        return as_number(self._data.get(key), self.where(key))

    def whole(self, key: str) -> int:
        """A whole number."""
        value = self.number(key)
        if value != int(value):
            raise ImportFailed(f"{self.where(key)}: expected a whole number, got {value}")
        return int(value)

    def text(self, key: str) -> str:
        """A text."""
        value = self._data.get(key)
        if not isinstance(value, str):
            raise ImportFailed(f"{self.where(key)}: expected a text, got {_shown(value)}")
        return value

    def flag(self, key: str) -> bool:
        """True or false."""
        value = self._data.get(key)
        if not isinstance(value, bool):
            raise ImportFailed(f"{self.where(key)}: expected true or false, got {_shown(value)}")
        return value

    def numbers(self, key: str) -> tuple[float, ...]:
        """A list of numbers."""
        return tuple(as_number(value, self.where(key)) for value in as_list(self._data.get(key), self.where(key)))

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts."""
        values = as_list(self._data.get(key), self.where(key))
        if not all(isinstance(value, str) for value in values):
            raise ImportFailed(f"{self.where(key)}: expected texts, got {_shown(values)}")
        return tuple(str(value) for value in values)


def as_list(value: object, where: str) -> list[object]:
    """A list; raises ImportFailed naming the place."""
    if not isinstance(value, list):
        raise ImportFailed(f"{where}: expected a list, got {_shown(value)}")
    return cast("list[object]", value)


def as_number(value: object, where: str) -> float:
    """A finite number; raises ImportFailed naming the place."""
    if isinstance(value, str) and _EXPONENT.fullmatch(value):
        value = float(value)  # 1e-3, which YAML's own rule takes for a text
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < float("inf"):
        raise ImportFailed(f"{where}: expected a finite number, got {_shown(value)}")
    return float(value)


def _shown(value: object) -> str:
    """A value for an error's text; of a container only what it is, for aliases may make its text endless."""
    if isinstance(value, Opaque):
        return f"a python object ({value.tag})"
    if isinstance(value, (list, tuple, dict)):
        return f"a {type(value).__name__} of {len(cast('list[object]', value))}"
    return repr(value)[:80]
