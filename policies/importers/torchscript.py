"""TorchScript archives (.pt), read as data: a zip of weights, of a pickle that names them, and of the model's code as text.

Nothing of it is run. `torch.jit.load` would be the tool's own way, but a TorchScript file is a program with access to files,
and the pickle inside is one for Python's unpickler too; so the pickle is read by `pickle_data`, and the code is translated by
`torchscript_graph` operation by operation, where what is not known is an error.
"""

import ast
import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

from .common import ImportFailed
from .files import read_archive
from .pickle_data import Made, Name, pickle_data

_MANGLED = re.compile(r"\.___torch_mangle_\d+")
_DTYPES = {
    "FloatStorage": "<f4",
    "DoubleStorage": "<f8",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "BoolStorage": "?",
    "HalfStorage": "<f2",
}


@dataclass(eq=False)
class ScriptModule:
    """A module of the archive: its class, and its attributes (modules, numpy arrays and plain values)."""

    kind: str  # qualified name as in Python, e.g. "torch.nn.modules.linear.Linear"
    code: ast.ClassDef
    attributes: dict[str, object] = field(default_factory=dict)

    def method(self, name: str, source: str) -> ast.FunctionDef:
        """One of its methods; raises ImportFailed for one that it does not have."""
        for node in self.code.body:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                return node
        raise ImportFailed(f"{source}: {self.kind} has no method {name!r}")

    def constant(self, name: str) -> object:
        """A value that the class keeps in its code; None where there is none."""
        for node in self.code.body:
            if (
                isinstance(node, ast.AnnAssign)
                and isinstance(node.target, ast.Name)
                and node.target.id == name
                and node.value
            ):
                return ast.literal_eval(node.value)
        return None


def read_torchscript(path: Path) -> tuple[ScriptModule, dict[str, object]]:
    """The module that an archive holds, and the constants of its code by name.

    Raises:
        ImportFailed: not a TorchScript archive, damaged, weights that are not finite, or a checkpoint (a pickle), which is never loaded.
    """
    files = _strip_root(read_archive(path), path)
    if "data.pkl" not in files or not any(name.startswith("code/") for name in files):
        raise ImportFailed(
            f"{path}: not a TorchScript archive (no code in it): a checkpoint is a pickle, which can run anything, and is not loaded. "
            "Export the policy with its own tool, to ONNX or with torch.jit.script"
        )
    if files.get("byteorder", b"little") != b"little":
        raise ImportFailed(f"{path}: written on a big-endian machine; export it on a usual one")
    try:
        return _read(files, path)
    except RecursionError:
        raise ImportFailed(f"{path}: modules within modules without end; do not use this file") from None


def _read(files: dict[str, bytes], path: Path) -> tuple[ScriptModule, dict[str, object]]:
    module = _Reader(files, path, "data").value(pickle_data(files["data.pkl"], f"{path}: data.pkl"))
    if not isinstance(module, ScriptModule):
        raise ImportFailed(f"{path}: holds {type(module).__name__}, expected a module")
    if "constants.pkl" not in files:
        return module, {}
    constants = _Reader(files, path, "constants").value(pickle_data(files["constants.pkl"], f"{path}: constants.pkl"))
    return module, {f"c{index}": value for index, value in enumerate(constants if isinstance(constants, tuple) else ())}


def _strip_root(files: dict[str, bytes], path: Path) -> dict[str, bytes]:
    roots = {name.partition("/")[0] for name in files}
    if len(roots) != 1:
        raise ImportFailed(f"{path}: not a TorchScript archive: {len(roots)} folders at the top, expected one")
    return {name.partition("/")[2]: content for name, content in files.items()}


class _Reader:
    """From what the pickle says to modules and arrays."""

    def __init__(self, files: dict[str, bytes], path: Path, folder: str) -> None:
        self._files, self._path, self._folder = files, path, folder
        self._done: dict[int, object] = {}
        self._classes = lru_cache(maxsize=None)(self._read_class)

    def value(self, item: object) -> object:
        if isinstance(item, Made):
            if id(item) not in self._done:
                self._done[id(item)] = self._made(item)
            return self._done[id(item)]
        if isinstance(item, (list, tuple)):
            return type(item)(self.value(part) for part in item)
        if item is None or isinstance(item, (str, int, float, bool)):
            return item
        if isinstance(item, dict):
            return {str(key): self.value(part) for key, part in item.items()}
        raise ImportFailed(f"{self._path}: a {type(item).__name__} where a module or a number is expected")

    def _made(self, made: Made) -> object:
        name = made.name
        if name.module == "torch._utils" and name.name.startswith("_rebuild_tensor"):
            return self._tensor(made)
        if name.module == "torch.jit._pickle" and name.name in (
            "build_intlist",
            "build_doublelist",
            "build_boollist",
            "build_tensorlist",
        ):
            return list(self._items(made.args))
        if name.module == "torch.jit._pickle" and name.name == "restore_type_tag" and isinstance(made.args, tuple):
            return self.value(made.args[0])
        if not name.module.startswith("__torch__"):
            raise ImportFailed(
                f"{self._path}: asks for {name.module}.{name.name}, which no TorchScript module needs; do not use this file"
            )
        state = made.state if isinstance(made.state, dict) else {}
        kind = f"{name.module}.{name.name}"
        module = ScriptModule(kind=_MANGLED.sub("", kind).removeprefix("__torch__."), code=self._classes(name))
        self._done[id(made)] = module  # a module may hold itself
        module.attributes = {str(key): self.value(part) for key, part in state.items()}
        return module

    def _items(self, args: object) -> list[object]:
        items = args[0] if isinstance(args, tuple) and len(args) == 1 else None
        if not isinstance(items, list):
            raise ImportFailed(f"{self._path}: data.pkl: a list without items")
        return [self.value(item) for item in items]

    def _read_class(self, name: Name) -> ast.ClassDef:
        place = f"code/{name.module.replace('.', '/')}.py"
        if place not in self._files:
            raise ImportFailed(f"{self._path}: {place} is missing, the code of {name.name}")
        try:
            tree = ast.parse(self._files[place].decode())
        except (SyntaxError, UnicodeDecodeError, ValueError, RecursionError, MemoryError) as error:
            raise ImportFailed(f"{self._path}: {place} cannot be read: {error}") from None
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name == name.name:
                return node
        raise ImportFailed(f"{self._path}: {place} has no class {name.name}")

    def _tensor(self, made: Made) -> np.ndarray:
        try:
            stored, offset, size, stride = made.args[:4]  # pyright: ignore[reportIndexIssue]
            _, kind, key, _, count = stored.key
            data = np.frombuffer(self._files[f"{self._folder}/{key}"], dtype=_DTYPES[kind.name])
            last = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
            if len(data) < count or min((offset, *size, *stride)) < 0 or (0 not in size and last >= len(data)):
                raise ValueError(f"{len(data)} numbers for a tensor of shape {size}")
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise ImportFailed(f"{self._path}: a tensor cannot be read: {error}") from None
        array = np.lib.stride_tricks.as_strided(data[offset:], size, [s * data.itemsize for s in stride]).copy()
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ImportFailed(f"{self._path}: a weight is not finite: the training diverged; do not run it")
        return array
