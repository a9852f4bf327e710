"""TOML and JSON to frozen dataclasses and back, strictly: unknown keys, missing values and wrong types are errors."""

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

import cattrs
from cattrs.v import format_exception

from .errors import IsthmusError
from .files import write_whole

T = TypeVar("T")


class FormatError(IsthmusError, ValueError):
    """A file or a mapping does not have the form its dataclass asks for."""


class _WrongType(TypeError):
    """A value of another type; says which."""


def _strict(kind: type, accepted: tuple[type, ...]) -> Any:
    def structure(value: object, _: type) -> object:
        if (isinstance(value, bool) and kind is not bool) or not isinstance(value, accepted):
            raise _WrongType(f"expected {kind.__name__}, got {value!r}")
        return kind(value)

    return structure


def _reason(error: BaseException, expected: type | None) -> str:
    return str(error) if isinstance(error, _WrongType) else format_exception(error, expected)


def _converter() -> cattrs.Converter:
    converter = cattrs.Converter(forbid_extra_keys=True, use_alias=False)
    for kind, accepted in ((float, (int, float)), (int, (int,)), (str, (str,)), (bool, (bool,))):
        converter.register_structure_hook(kind, _strict(kind, accepted))
    converter.register_structure_hook_func(_is_number_or_list, _number_or_list(converter))
    return converter


def _is_number_or_list(cls: Any) -> bool:
    """Such as `float | tuple[float, ...] | None`."""
    members = set(get_args(cls)) - {type(None)} if get_origin(cls) in (Union, UnionType) else set()
    return float in members and len(members) == 2 and all(m is float or get_origin(m) is tuple for m in members)


def _number_or_list(converter: cattrs.Converter) -> Any:
    def structure(value: object, cls: Any) -> object:
        members = get_args(cls)
        if value is None and type(None) in members:
            return None
        if not isinstance(value, (list, tuple)):
            return converter.structure(value, float)
        wanted = next(m for m in members if get_origin(m) is tuple)
        size = len(get_args(wanted))
        if Ellipsis not in get_args(wanted) and len(value) != size:
            raise _WrongType(f"expected a number or {size} numbers, got {len(value)}")
        return converter.structure(value, wanted)

    return structure


def structure(data: object, cls: type[T], *, source: str) -> T:
    """Build `cls` from plain data.

    Args:
        data: what a TOML or JSON parser returned.
        cls: a dataclass; its fields give keys, types and defaults.
        source: where the data came from, for the error text.

    Raises:
        FormatError: names every offending key with what was got and expected.
    """
    try:
        return _converter().structure(data, cls)
    except Exception as error:
        reasons = "; ".join(cattrs.transform_error(error, path=cls.__name__, format_exception=_reason))
        raise FormatError(f"{source}: {reasons}") from None


def unstructure(value: object) -> Any:
    """Plain data (dict, list, str, number) of a dataclass, at full precision."""
    return cattrs.Converter().unstructure(value)


def leaves(value: object, where: str = "") -> Iterator[tuple[str, object]]:
    """Every value below plain data with its place, e.g. `joints[2].kp`, and how many a list has."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from leaves(part, f"{where}.{name}".lstrip("."))
    elif isinstance(value, list | tuple):
        yield f"number of {where}", len(value)
        for index, part in enumerate(value):
            yield from leaves(part, f"{where}[{index}]")
    else:
        yield where, value


def read_toml(path: Path, cls: type[T]) -> T:
    """Read a TOML file into `cls`; raises FormatError naming the file and the cause."""
    try:
        data = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise FormatError(f"{path}: cannot be read as TOML: {error}") from None
    return structure(data, cls, source=str(path))


def read_json(path: Path, cls: type[T]) -> T:
    """Read a JSON file into `cls`; raises FormatError naming the file and the cause."""
    try:
        data = json.loads(path.read_text())
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise FormatError(f"{path}: cannot be read as JSON: {error}") from None
    return structure(data, cls, source=str(path))


def write_json(path: Path, value: object) -> None:
    """Write a dataclass as JSON, whole or not at all; raises OSError naming the file."""
    write_whole(path, (json.dumps(unstructure(value), indent=2) + "\n").encode())


__all__ = ["FormatError", "leaves", "read_json", "read_toml", "structure", "unstructure", "write_json"]
