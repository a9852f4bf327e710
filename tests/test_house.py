"""The documents say what happens, and the code keeps the rules of CONTRIBUTING.md."""

import ast
import importlib.metadata
import os
import re
import shlex
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

from isthmus.deploy.cli import BENCH_NAMES, BUNDLE_NAMES, COMMAND_NAMES, EXPORT_NAMES

ROOT = Path(__file__).parents[1]
FOLDERS = ("hardware", "sim", "policies", "calibration", "deploy")
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
SOURCES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
PYTHON = [*SOURCES, *sorted((ROOT / "tests").rglob("*.py"))]


def _relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _blocks(language: str) -> list[tuple[str, str]]:
    """Document and text of every fenced block of a language."""
    pattern = re.compile(rf"^```{language}\n(.*?)^```", re.DOTALL | re.MULTILINE)
    return [(_relative(path), text) for path in DOCUMENTS for text in pattern.findall(path.read_text())]


def _commands() -> list[str]:
    """Every `isthmus ...` and `make ...` of the documents, in blocks and in running text."""
    found = [line.split("#")[0].strip() for _, text in _blocks("sh") for line in text.replace("\\\n", " ").splitlines()]
    prose = [text for path in DOCUMENTS for text in re.findall(r"`((?:isthmus|make) [^`\n]+)`", path.read_text())]
    return sorted({line for line in [*found, *prose] if line.startswith(("isthmus ", "make ")) and "|" not in line})


@cache
def _help(*command: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", "import sys; from isthmus.deploy.cli import main; sys.exit(main())", *command, "--help"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"},
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_documents_are_found() -> None:
    assert len(_commands()) >= 5
    assert _blocks("python")


@pytest.mark.parametrize("line", [line for line in _commands() if line.startswith("make ")])
def test_a_make_target_in_the_documents_exists(line: str) -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert shlex.split(line)[1] in targets


@pytest.mark.parametrize("line", [line for line in _commands() if line.startswith("isthmus ")])
def test_a_command_in_the_documents_exists_with_its_options(line: str) -> None:
    words = shlex.split(line)[1:]
    options = [word.split("=")[0] for word in words if word.startswith("--")]
    if words[0].startswith(("-", "<")):
        text = _help()
    else:
        assert words[0] in COMMAND_NAMES, f"{line}: no such command"
        inner = words[1:2] if words[0] == "bench" and words[1:2] != options[:1] else []
        assert not inner or inner[0] in BENCH_NAMES, f"{line}: no such bench"
        further = {"export": EXPORT_NAMES, "bundle": BUNDLE_NAMES}.get(words[0], ())
        inner = words[1:2] if words[1:2] in ([name] for name in further) else inner
        text = _help(words[0], *inner)
    assert not [option for option in options if option not in text], f"{line}: not in its --help"


@pytest.mark.parametrize("command", COMMAND_NAMES)
def test_each_command_is_listed_and_has_help(command: str) -> None:
    assert re.search(rf"\b{command}\b", _help())
    assert len(_help(command).split()) > 10


def _examples() -> list[tuple[str, str]]:
    """Python blocks that stand for themselves; those that name a file are installed and run by test_tutorial.py."""
    return [(document, code) for document, code in _blocks("python") if not code.startswith("# src/")]


@pytest.mark.parametrize(("document", "code"), _examples())
def test_a_python_example_in_the_documents_runs(document: str, code: str, tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 0, f"{document}:\n{result.stderr}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=_relative)
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text())
    assert not [link for link in links if not (document.parent / link).exists()]


def test_the_layout_in_the_readme_is_the_layout() -> None:
    text = (ROOT / "README.md").read_text()
    for folder in (*FOLDERS, "tests"):
        assert f"| `{folder}/` |" in text
    for mentioned in re.findall(r"`([a-z_]+/[a-z_/]*)`", text):
        places = [ROOT / mentioned, *(ROOT / folder / mentioned for folder in FOLDERS)]
        assert any(place.is_dir() for place in places), f"README.md names {mentioned}, which does not exist"


def test_the_changelog_knows_the_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    numbered = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert numbered[0] == version == importlib.metadata.version("isthmus")


@pytest.mark.parametrize("path", SOURCES, ids=_relative)
def test_a_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


def test_files_and_functions_stay_short() -> None:
    wrong = []
    for path in PYTHON:
        text = path.read_text()
        if text.count("\n") > 400:
            wrong.append(f"{_relative(path)}: {text.count(chr(10))} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
                length = node.end_lineno - node.lineno + 1
                if length > 60:
                    wrong.append(f"{_relative(path)}:{node.lineno} {node.name}: {length} lines")
    assert not wrong


def test_no_work_is_left_for_later() -> None:
    words = re.compile(r"\b(TODO|FIXME|XXX)\b|raise NotImplementedError|type: ignore")
    wrong = [
        f"{_relative(p)}:{n}" for p in SOURCES for n, t in enumerate(p.read_text().splitlines(), 1) if words.search(t)
    ]
    assert not wrong
