"""Files become dataclasses strictly, and come back unchanged."""

import math
import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.hardware.structure import FormatError, read_json, read_toml, structure, unstructure, write_json


@dataclass(frozen=True, kw_only=True)
class Inner:
    gain: float


@dataclass(frozen=True, kw_only=True)
class Outer:
    name: str
    count: int
    on: bool
    inner: Inner
    items: tuple[Inner, ...]
    pair: tuple[float, float] = (0.0, 1.0)
    extra: float | None = None


GOOD: dict[str, Any] = {"name": "a", "count": 3, "on": True, "inner": {"gain": 0.5}, "items": [{"gain": 1.0}]}
VALUE = Outer(name="a", count=3, on=True, inner=Inner(gain=0.5), items=(Inner(gain=1.0),))


def test_plain_data_becomes_the_dataclass() -> None:
    assert structure(GOOD, Outer, source="test") == VALUE


def test_a_whole_number_is_a_float_where_one_is_asked_for() -> None:
    gain = structure({"gain": 2}, Inner, source="test").gain
    assert (gain, type(gain)) == (2.0, float)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"nam": "b"}, "nam"),
        ({"count": 3.0}, "expected int, got 3.0"),
        ({"count": "3"}, "expected int, got '3'"),
        ({"count": True}, "expected int, got True"),
        ({"on": 1}, "expected bool, got 1"),
        ({"name": 5}, "expected str, got 5"),
        ({"inner": {"gain": "x"}}, "expected float, got 'x'"),
        ({"inner": {"gain": True}}, "expected float, got True"),
        ({"inner": {}}, "inner"),
        ({"items": [{"gain": 1.0}, {"gian": 1.0}]}, "gian"),
        ({"pair": [1.0]}, "pair"),
    ],
)
def test_what_does_not_fit_is_named_with_its_source(change: dict[str, Any], expected: str) -> None:
    with pytest.raises(FormatError, match=r"robot\.toml") as caught:
        structure({**GOOD, **change}, Outer, source="robot.toml")
    assert expected in str(caught.value)


@pytest.mark.parametrize("key", sorted(GOOD))
def test_a_missing_value_is_named(key: str) -> None:
    with pytest.raises(FormatError, match=key):
        structure({k: v for k, v in GOOD.items() if k != key}, Outer, source="test")


def test_every_offending_key_is_named() -> None:
    with pytest.raises(FormatError) as caught:
        structure({**GOOD, "count": "3", "on": 7}, Outer, source="test")
    assert "count" in str(caught.value)
    assert "on" in str(caught.value)


@pytest.mark.parametrize("data", [[], None, "text", 5])
def test_data_that_is_no_mapping_is_refused(data: object) -> None:
    with pytest.raises(FormatError, match="test"):
        structure(data, Outer, source="test")


@given(gain=st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_keep_full_precision(gain: float) -> None:
    assert structure(unstructure(Inner(gain=gain)), Inner, source="test").gain == gain


def test_json_returns_what_was_written(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", VALUE)
    assert read_json(tmp_path / "a.json", Outer) == VALUE
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", VALUE)
    with pytest.raises(TypeError):
        write_json(tmp_path / "a.json", {"bad": object()})
    assert read_json(tmp_path / "a.json", Outer) == VALUE


def test_toml_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("gain = 0.1\n")
    assert read_toml(tmp_path / "a.toml", Inner) == Inner(gain=0.1)
    (tmp_path / "b.toml").write_text("gain = inf\n")
    assert math.isinf(read_toml(tmp_path / "b.toml", Inner).gain)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"{", b"= 3"])
def test_unreadable_files_are_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken"
    path.write_bytes(content)
    with pytest.raises(FormatError, match="broken: cannot be read as TOML"):
        read_toml(path, Inner)
    with pytest.raises(FormatError, match="broken: cannot be read as JSON"):
        read_json(path, Inner)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"none\.toml"):
        read_toml(tmp_path / "none.toml", Inner)


def test_a_full_disk_names_the_file_and_keeps_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, VALUE)
    before, limits = path.read_text(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))  # no file may become longer
    try:
        with pytest.raises(OSError, match=r"'.*a\.json'"):
            write_json(path, VALUE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_text() == before and list(tmp_path.iterdir()) == [path]


@dataclass(frozen=True, kw_only=True)
class Either:
    scale: float | tuple[float, ...]
    clip: float | tuple[float, float] | None = None


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        ({"scale": 2}, Either(scale=2.0)),
        ({"scale": [1, 2.5], "clip": [-1, 1]}, Either(scale=(1.0, 2.5), clip=(-1.0, 1.0))),
        ({"scale": [], "clip": None}, Either(scale=())),
    ],
)
def test_a_number_or_a_list_of_numbers(data, wanted):
    assert structure(data, Either, source="file") == wanted


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"scale": "x"}, "expected float, got 'x'"),
        ({"scale": [1, "x"]}, r"expected float, got 'x' @ Either.scale\[1\]"),
        ({"scale": None}, "expected float, got None"),
        ({"scale": True}, "expected float, got True"),
        ({"scale": 1, "clip": [1, 2, 3]}, "expected a number or 2 numbers, got 3"),
    ],
)
def test_what_is_neither_is_named(data, words):
    with pytest.raises(FormatError, match=words):
        structure(data, Either, source="file")
