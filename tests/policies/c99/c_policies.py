"""Compiled models in this process: gcc makes a shared library of them, ctypes calls it."""

import ctypes
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

from isthmus.policies.c99.source import CSource

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wconversion", "-Wshadow", "-Wdouble-promotion")
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


def build(sources: Sequence[CSource], folder: Path, *flags: str) -> list["CPolicy"]:
    """All of them in one library; their names must differ."""
    for source in sources:
        source.write(folder)
    sizes = [
        f'#include "{s.name}.h"\nint {s.name}_size(void) {{ return (int)sizeof({s.name}_state); }}' for s in sources
    ]
    (folder / "sizes.c").write_text("\n".join(sizes))
    library = folder / "policies.so"
    files = [str(folder / f"{s.name}.c") for s in sources]
    run(["gcc", *STRICT, "-Wno-missing-prototypes", "-O1", "-shared", "-fPIC", *flags, "-o", str(library), *files,
         str(folder / "sizes.c"), "-lm"])  # fmt: skip
    loaded = ctypes.CDLL(str(library))
    return [CPolicy(source, loaded) for source in sources]


def run(command: list[str]) -> str:
    """Run a tool; its output, and all of it when it fails."""
    result = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-4000:]
    return result.stdout


class CPolicy:
    """A compiled model with its state. Structs hold floats only, so they are passed as arrays."""

    def __init__(self, source: CSource, library: ctypes.CDLL) -> None:
        self.name = source.name
        self._names = source.names
        self.inputs = tuple(name for name in source.names.inputs if not name.startswith("state."))
        self._widths = [members(source, "input"), members(source, "output")]
        self._library = library
        self._state = ctypes.create_string_buffer(self._call("size"))
        ctypes.memset(self._state, 0xA5, len(self._state))  # a reset must not count on zeros
        self.reset()

    def _call(self, function: str, *arguments: object) -> int:
        return int(getattr(self._library, f"{self.name}_{function}")(*arguments))

    def reset(self) -> None:
        getattr(self._library, f"{self.name}_reset")(self._state)

    def step(self, inputs: Mapping[str, np.ndarray]) -> tuple[int, dict[str, np.ndarray]]:
        """Returns the code and every output by the graph's name."""
        widths, results = self._widths
        by_member = {self._names.inputs[name]: np.ravel(value) for name, value in inputs.items()}
        given = np.concatenate([np.zeros(0), *(by_member[member] for member in widths)]).astype(np.float32)
        out = np.full(sum(results.values()), np.nan, dtype=np.float32)
        pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (given, out)]
        code = self._call("step", self._state, *pointers)
        pieces = dict(zip(results, np.split(out, np.cumsum(list(results.values()))[:-1]), strict=True))
        outputs = {name: member for name, member in self._names.outputs.items() if not name.startswith("next.")}
        return code, {name: pieces[member] for name, member in outputs.items()}


def members(source: CSource, kind: str) -> dict[str, int]:
    """Members of a struct of the header and their sizes, in order."""
    text = source.header.split(f"}} {source.name}_{kind};")[0].rsplit("typedef struct {", 1)[1]
    found = {}
    for line in text.splitlines():
        if line.strip().startswith("float "):
            name, size = line.split("float ", 1)[1].split("]")[0].split("[")
            found[name] = int(size)
    return found


class OnnxPolicy:
    """The same model in onnxruntime with its state."""

    def __init__(self, data: bytes, outputs: Sequence[str]) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        self._session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        self._outputs = list(outputs)
        self.inputs = {t.name: tuple(t.shape) for t in self._session.get_inputs()}
        self._states = [name for name in self.inputs if name.startswith("state.")]
        self.reset()

    def reset(self) -> None:
        self._state = {name: np.zeros(self.inputs[name], dtype=np.float32) for name in self._states}

    def step(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        following = [f"next.{name.removeprefix('state.')}" for name in self._states]
        feeds = {
            n: np.asarray(v, dtype=np.float32).reshape(self.inputs[n]) for n, v in inputs.items() if n in self.inputs
        }
        results = self._session.run([*self._outputs, *following], {**feeds, **self._state})
        values = [np.asarray(result) for result in results]
        self._state = dict(zip(self._states, values[len(self._outputs) :], strict=True))
        return {name: value.reshape(-1) for name, value in zip(self._outputs, values, strict=False)}


def largest_error(found: np.ndarray, expected: np.ndarray) -> float:
    """Relative to the largest value of the row, or to 1; infinite where only one is NaN."""
    both = np.isnan(found) & np.isnan(expected) | (found == expected)
    difference = np.where(both, 0.0, np.abs(np.float64(found) - np.float64(expected)))
    size = max(1.0, float(np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected))))
    return float(np.nan_to_num(difference, nan=np.inf).max()) / size
