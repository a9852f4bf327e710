"""Why no importer reads a file: what the likely ones miss in it."""

import json
from collections.abc import Callable
from pathlib import Path

from isthmus.hardware.errors import IsthmusError

from ..bundle import MANIFEST_KEY
from . import bare, leapp, mjlab, motrix, unitree_rl_gym
from .common import ImportFailed
from .files import metadata, read_bytes, read_onnx, read_text, toml_tables
from .tagged_yaml import read_yaml


def check_no_bundle(path: Path) -> None:
    """Refuse what is a bundle already."""
    if path.is_file() and MANIFEST_KEY.encode() in read_bytes(path):
        raise ImportFailed(f"{path}: this is a bundle already; `isthmus bundle show {path}` says what is in it")


def reasons(path: Path, reads: Callable[[Path], list[str]]) -> list[str]:
    """Why nobody reads a path.

    Args:
        path: a file or a folder.
        reads: names of the importers that read a path.
    """
    try:
        return _of_folder(path, reads) if path.is_dir() else _of_file(path)
    except ImportFailed as error:
        return [str(error)]


def _of_file(path: Path) -> list[str]:
    found = {".onnx": _of_network, ".pt": _of_network, ".toml": _of_toml, ".json": _of_json}
    found |= {".yaml": _of_yaml, ".yml": _of_yaml}
    if path.suffix not in found:
        return [f"files that end with {path.suffix!r} are not known"]
    return found[path.suffix](path)


def _of_folder(path: Path, reads: Callable[[Path], list[str]]) -> list[str]:
    files = sorted(file for file in path.iterdir() if file.is_file())
    if not any(path.iterdir()):
        return ["the folder is empty"]
    read = [(file, names) for file in files for names in [_names(reads, file)] if names]
    folders = [
        (sub, names) for sub in sorted(path.iterdir()) if sub.is_dir() for names in [_names(reads, sub)] if names
    ]
    lines = [f"{entry} is read by {', '.join(names)}: give that" for entry, names in (*read, *folders)]
    described = [file.name for file in files if leapp.IMPORTER.recognises(file)]
    if len(described) > 1:
        lines.append(f"leapp: several descriptions, {', '.join(described)}: give one of them")
    for file in files:
        if file.suffix in (".onnx", ".toml") and file not in [entry for entry, _ in read]:
            lines += _tried(file)
    lacks = {
        "isaaclab": ("params/env.yaml", "exported/policy.onnx"),
        "unitree": ("params/deploy.yaml", "exported/policy.onnx"),
    }
    for name, expected in lacks.items():
        absent = [part for part in expected if not (path / part).exists()]
        if absent and len(absent) < len(expected):
            lines.append(f"{name}: there is no {', '.join(absent)}")
    return lines or [f"it holds {', '.join(file.name for file in files) or 'folders only'}"]


def _names(reads: Callable[[Path], list[str]], path: Path) -> list[str]:
    try:
        return reads(path)
    except ImportFailed:
        return []


def _tried(path: Path) -> list[str]:
    try:
        check_no_bundle(path)
        return [f"{path.name}: {line}" for line in reasons(path, lambda _: [])]
    except IsthmusError as error:
        return [str(error)]


def _of_network(path: Path) -> list[str]:
    lines = list[str]()
    if path.suffix == ".onnx":
        keys = metadata(read_onnx(path))
        absent = [key for key in mjlab.KEYS if key not in keys]
        if len(absent) < len(mjlab.KEYS):
            lines.append(f"mjlab: it has no properties {', '.join(absent)}")
        if "dof_names" in keys:
            lines.append(f"holosoma: dof_names is {keys['dof_names'][:60]!r}; expected a list in JSON")
        if not lines:
            lines.append(f"it says nothing of itself (properties: {', '.join(sorted(keys)) or 'none'})")
    for name, config in (("isaaclab", "env.yaml"), ("unitree", "deploy.yaml")):
        if (path.parent.parent / "params" / config).is_file():
            lines.append(f"{name}: give the folder of the run, {path.parent.parent}")
    described = path.with_suffix(".toml")
    if described.is_file():
        return [*lines, *(f"{described.name}: {line}" for line in _of_toml(described))]
    return [*lines, f"bare: there is no {described.name} beside it that says what it sees and does (docs/policies.md)"]


def _of_toml(path: Path) -> list[str]:
    try:
        data = toml_tables(path)
    except ImportFailed as error:
        return [f"bare: {error}"]
    return [f"bare: it has no {', '.join(sorted(bare.KEYS - set(data)))} (docs/policies.md has an example)"]


def _of_json(path: Path) -> list[str]:
    try:
        data = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        return [f"motrix: cannot be read as JSON: {error}"]
    said = data.get("schema_version") if isinstance(data, dict) else None
    return [f"motrix: expected manifest.json of schema {motrix.VERSION!r}; this is {path.name} of schema {said!r}"]


def _of_yaml(path: Path) -> list[str]:
    data = read_yaml(path)
    lines = list[str]()
    for name, keys in (("unitree_rl_gym", unitree_rl_gym.KEYS), ("leapp", leapp.KEYS)):
        absent = [key for key in keys if key not in data]
        if len(absent) < len(keys):
            lines.append(f"{name}: it has no {', '.join(absent)}")
    expected = {"isaaclab": "env.yaml", "unitree": "deploy.yaml", "rl_sar": "config.yaml"}
    lines += [f"{name}: expected the name {file}" for name, file in expected.items() if file != path.name]
    return lines
