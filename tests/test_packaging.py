"""What `pip install` gets: built from the sdist, as a user would."""

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
FOLDERS = ("sim", "policies", "deploy", "hardware", "calibration")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Paths of the sdist, and of the wheel that was built from it."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return next(out.glob("*.tar.gz")), next(out.glob("*.whl"))


def _metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(name))


def test_the_wheel_holds_every_file_of_the_five_folders_and_nothing_else(built: tuple[Path, Path]) -> None:
    expected = {
        f"isthmus/{path.relative_to(ROOT)}"
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(built[1]) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == expected
    assert {"isthmus/hardware/robots/so101/robot.toml", "isthmus/hardware/py.typed"} <= names


def test_the_wheel_has_the_command_and_the_licence(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[1]) as archive:
        info = {name.split(".dist-info/")[1]: name for name in archive.namelist() if ".dist-info/" in name}
        assert "isthmus = isthmus.deploy.start:main" in archive.read(info["entry_points.txt"]).decode()
        assert archive.read(info["licenses/LICENSE"]) == (ROOT / "LICENSE").read_bytes()
    assert _metadata(built[1])["License-Expression"] == "Apache-2.0"


def test_the_core_needs_no_training_package(built: tuple[Path, Path]) -> None:
    requirements = [Requirement(text) for text in _metadata(built[1]).get_all("Requires-Dist", [])]
    core = {r.name for r in requirements if r.marker is None or r.marker.evaluate({"extra": ""})}
    assert "onnxruntime" in core
    assert not core & {"torch", "mujoco", "genesis-world", "rsl-rl-lib", "onnx", "pyarrow", "scipy", "matplotlib"}


def test_the_sdist_has_what_building_and_testing_need(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[0]) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "constraints.txt",
        "tests/test_packaging.py",
    } <= names
    assert not [name for name in names if name.startswith((".venv", ".links", "runs", "isthmus"))]


def test_every_dependency_is_pinned_to_a_version_that_the_project_allows() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line) for line in lines), "only exact, public versions"
    pins = {canonicalize_name(name): version for name, version in (line.split("==") for line in lines)}
    extras = PROJECT["optional-dependencies"].values()
    for text in [*PROJECT["dependencies"], *(text for extra in extras for text in extra)]:
        requirement = Requirement(text)
        if requirement.name != "isthmus":
            pin = pins.get(canonicalize_name(requirement.name))
            assert pin is not None, f"{requirement.name} is not in constraints.txt"
            assert requirement.specifier.contains(pin), (
                f"constraints.txt has {requirement.name} {pin}, asked for is {requirement}"
            )
