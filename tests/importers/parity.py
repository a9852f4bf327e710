"""What the tests of all importers share: a recorded policy, and running the merged graph over its rows."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime as ort

from isthmus.policies.importers.common import Facts, Imported
from isthmus.policies.onnx_graph import policy_model

DATA = Path(__file__).parent / "data"
TOLERANCE = 1e-5  # of angles, actions and observations


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """One policy as its tool ran it."""

    importer: str
    path: Path  # what the importer is given
    facts: Facts
    rows: Path  # npz: what the tool saw, and what it made of it
    signals: Callable[
        [dict[str, np.ndarray], tuple[str, ...]], dict[str, np.ndarray]
    ]  # of rows and joint names: by name, (rows, width)
    target: Callable[[dict[str, np.ndarray], tuple[str, ...]], np.ndarray]  # likewise; (rows, joints)


def load_rows(path: Path) -> dict[str, np.ndarray]:
    """Every array of an npz file."""
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def by_name(values: np.ndarray, names: np.ndarray | tuple[str, ...] | list[str], wanted: tuple[str, ...]) -> np.ndarray:
    """Columns of values (rows, n), named, in another order."""
    order = [str(name) for name in names]
    return values[:, [order.index(name) for name in wanted]]


def run_rows(imported: Imported, signals: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Run the merged graph from reset over consecutive rows; every output, (rows, width)."""
    model = policy_model(imported.contract, imported.network, memory=imported.memory, reference=imported.reference)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    inputs = {tensor.name: tensor.shape for tensor in session.get_inputs()}
    outputs = [tensor.name for tensor in session.get_outputs()]
    states = {name: np.zeros(size, dtype=np.float32) for name, size in inputs.items() if name.startswith("state.")}
    collected = {name: list[np.ndarray]() for name in outputs}
    count = len(next(iter(signals.values())))
    executed = np.zeros((1, len(imported.contract.joints)), dtype=np.float32)
    for row in range(count):
        given = {name: signals[name][row : row + 1].astype(np.float32) for name in inputs if name in signals}
        given |= {imported.contract.action.target: executed, **states}
        found = dict(zip(outputs, session.run(outputs, {n: given[n] for n in inputs}), strict=True))
        states = {name: found[name.replace("state.", "next.", 1)] for name in states}
        executed = found[f"{imported.contract.action.target}_next"]
        for name, value in found.items():
            collected[name].append(np.asarray(value)[0])
    return {name: np.array(values) for name, values in collected.items()}
