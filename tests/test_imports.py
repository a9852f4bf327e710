"""The layers, and what may be imported where; read from the syntax trees and tried in fresh interpreters."""

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[1]
LAYERS = ("hardware", "sim", "policies", "calibration", "deploy")  # from the bottom
SOURCES = sorted(path for folder in LAYERS for path in (ROOT / folder).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))

# What `pip install isthmus` does not bring: a module that runs on a robot must be importable without.
TRAINING_ONLY = (
    *("torch", "mujoco", "genesis", "rsl_rl", "tensordict", "tensorboard", "onnx", "onnxscript"),
    *("pyarrow", "scipy", "matplotlib", "yaml", "isthmus.sim"),
)
NEEDS_TRAINING = (
    *("isthmus.sim", "isthmus.policies.learning", "isthmus.policies.compose", "isthmus.calibration"),
    *("isthmus.hardware.virtual", "isthmus.policies.importers", "isthmus.policies.exporters"),
    *(
        "isthmus.policies.bundle_writer",
        "isthmus.policies.mixture",
        "isthmus.policies.onnx_graph",
        "isthmus.policies.onnx_nodes",
        "isthmus.policies.onnx_terms",
        "isthmus.policies.signature",  # needs isthmus[sign]
    ),
)
RUNS_ANYWHERE = ("isthmus.hardware.virtual.client",)

BLOCKER = f"""
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        for blocked in {TRAINING_ONLY!r}:
            if name == blocked or name.startswith(blocked + "."):
                raise ModuleNotFoundError(f"{{name}} is not part of the core install")

sys.meta_path.insert(0, Blocker())
"""


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(("isthmus", *parts[: -1 if parts[-1] == "__init__" else None]))


def _nodes(path: Path) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(path.read_text(), filename=str(path)))


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and absolute name of everything that a file imports, wherever in the file."""
    package = ".".join(_module(path).split(".")[: None if path.name == "__init__.py" else -1])
    for node in _nodes(path):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            prefix = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{prefix}.{alias.name}") for alias in node.names)


def _at(path: Path, line: int, what: str) -> str:
    return f"{path.relative_to(ROOT)}:{line} {what}"


def _name(node: ast.AST) -> str:
    return ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""


def test_nothing_imports_a_folder_by_its_bare_name() -> None:
    wrong = [_at(p, n, name) for p in SOURCES + TESTS for n, name in _imports(p) if name.split(".")[0] in LAYERS]
    assert not wrong


def test_imports_are_relative_beside_each_other_and_absolute_between_folders() -> None:
    wrong = []
    for path in SOURCES:
        parent = path.relative_to(ROOT).parent.parts
        beside = {_module(other) for other in path.parent.glob("*.py")} - {".".join(("isthmus", *parent))}
        for node in _nodes(path):
            if isinstance(node, ast.ImportFrom) and node.level > len(parent):
                wrong.append(_at(path, node.lineno, "leaves its folder by dots"))
            if isinstance(node, ast.ImportFrom) and not node.level and node.module in beside:
                wrong.append(_at(path, node.lineno, f"{node.module} should be relative"))
    assert not wrong


def test_folders_import_downwards_only() -> None:
    wrong = []
    for path in SOURCES:
        own = LAYERS.index(path.relative_to(ROOT).parts[0])
        for line, name in _imports(path):
            parts = name.split(".")
            if parts[0] == "isthmus" and (parts[1] not in LAYERS or LAYERS.index(parts[1]) > own):
                wrong.append(_at(path, line, name))
    assert not wrong


def test_nothing_unpickles() -> None:
    wrong = []
    for path in SOURCES + TESTS:
        wrong += [
            _at(path, line, name)
            for line, name in _imports(path)
            if name.split(".")[0] in ("pickle", "cPickle", "cloudpickle", "dill", "joblib", "shelve", "marshal")
        ]
        for node in _nodes(path):
            if not isinstance(node, ast.Call):
                continue
            flags = {k.arg: k.value.value for k in node.keywords if isinstance(k.value, ast.Constant)}
            if _name(node.func) == "torch.load" and flags.get("weights_only") is not True:
                wrong.append(_at(path, node.lineno, "torch.load without weights_only=True"))
            if any(k.arg == "allow_pickle" and flags.get("allow_pickle") is not False for k in node.keywords):
                wrong.append(_at(path, node.lineno, "allow_pickle"))
    assert not wrong


def test_constructors_do_not_print() -> None:
    wrong = [
        _at(path, call.lineno, "prints in a constructor")
        for path in SOURCES
        for function in _nodes(path)
        if isinstance(function, ast.FunctionDef) and function.name in ("__init__", "__post_init__", "__new__")
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and _name(call.func) == "print"
    ]
    assert not wrong


def test_modules_do_nothing_on_import() -> None:
    wrong = [
        _at(path, node.lineno, ast.unparse(node))
        for path in SOURCES
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Expr | ast.For | ast.While | ast.With)
        and not isinstance(getattr(node, "value", None), ast.Constant)
    ]
    assert not wrong


def test_import_linter_sees_every_module() -> None:
    graph = grimp.build_graph(*(f"isthmus.{folder}" for folder in LAYERS), cache_dir=None)
    assert {_module(path) for path in SOURCES} <= graph.modules, "does a folder lack __init__.py below one that has it?"


def _lint_imports(tree: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on a copy of the project, which stands before the installed one."""
    code = (
        "import sys; sys.path[:] = [p for p in sys.path if not p.endswith('.links')]; sys.path.insert(0, '.')\n"
        "from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    )
    return subprocess.run(
        [sys.executable, "-c", code], cwd=tree, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture(scope="module")
def project_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = tmp_path_factory.mktemp("project")
    shutil.copy(ROOT / "pyproject.toml", tree)
    for path in SOURCES:
        target = tree / "isthmus" / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    return tree


def test_the_contracts_are_kept(project_copy: Path) -> None:
    result = _lint_imports(project_copy)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "0 broken" in result.stdout


@pytest.mark.parametrize(
    ("module", "statement", "contract"),
    [
        ("hardware/bad.py", "import isthmus.sim.world", "downwards only"),
        ("sim/bad.py", "from isthmus.deploy import cli", "downwards only"),
        ("policies/bad.py", "def f() -> None:\n    import torch", "Training parts"),
        ("deploy/bad.py", "import mujoco", "Training parts"),
        ("hardware/bad.py", "import torch", "Training parts"),
        ("policies/bad.py", "def f() -> None:\n    import genesis", "Training parts"),
        ("deploy/bad.py", "from isthmus.policies.learning import ppo", "Training parts"),
        ("sim/bad.py", "from isthmus.hardware.virtual import client", "secrets"),
    ],
)
def test_a_forbidden_import_breaks_its_contract(project_copy: Path, module: str, statement: str, contract: str) -> None:
    bad = project_copy / "isthmus" / module
    bad.write_text(statement + "\n")
    try:
        result = _lint_imports(project_copy)
    finally:
        bad.unlink()
    assert result.returncode != 0
    broken = [line for line in result.stdout.splitlines() if line.endswith("BROKEN")]
    assert any(contract in line for line in broken), result.stdout


def _run_blocked(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BLOCKER + code], capture_output=True, text=True, timeout=120, check=False
    )


def test_what_runs_on_a_robot_imports_without_the_training_packages() -> None:
    light = [m for m in map(_module, SOURCES) if m in RUNS_ANYWHERE or not m.startswith(NEEDS_TRAINING)]
    assert "isthmus.hardware.robot" in light
    code = f"""
import importlib
failed = []
for name in {light!r}:
    try:
        importlib.import_module(name)
    except ImportError as error:
        failed.append(f"{{name}}: {{error}}")
sys.exit("\\n".join(failed) or 0)
"""
    result = _run_blocked(code)
    assert result.returncode == 0, result.stderr


def test_the_blocker_blocks() -> None:
    assert _run_blocked("import torch").returncode != 0
    assert _run_blocked("import isthmus.sim.engine").returncode != 0


def test_help_needs_no_training_package() -> None:
    result = _run_blocked("from isthmus.deploy.cli import main; sys.argv = ['isthmus', '--help']; sys.exit(main())")
    assert result.returncode == 0, result.stderr
    assert "calibrate" in result.stdout
