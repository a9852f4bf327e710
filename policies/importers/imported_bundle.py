"""An imported policy as a bundle: the merged graph, its manifest with the source of every number, and golden rows."""

import importlib.metadata
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort

from isthmus.hardware.signals import SIGNALS

from ..bundle import PART_OUTPUTS, Bundle, target_output
from ..bundle_writer import write_bundle
from ..contract import Contract
from ..manifest import SCHEMA, Manifest, Provenance, StateSpec
from ..onnx_graph import policy_model
from .common import Imported, ImportFailed

GOLDEN_ROWS = 64
_STATE, _NEXT = "state.", "next."


def write_imported(
    path: Path, imported: Imported, *, name: str, tool: str, signals: Mapping[str, np.ndarray] | None = None
) -> Bundle:
    """Write the bundle and load it again, golden rows replayed.

    Args:
        path: the .onnx file to write.
        imported: from an importer.
        name: of the policy.
        tool: what trained it, and its version where known.
        signals: consecutive ticks that the tool saw, by name, (rows, width); None: made up within the contract's ranges.

    Raises:
        ImportFailed: a name that is none.
    """
    if not name.strip() or not name.isprintable():
        raise ImportFailed(f"name = {name!r}; expected one line of text")
    model = policy_model(imported.contract, imported.network, memory=imported.memory, reference=imported.reference)
    widths = {value.name: value.type.tensor_type.shape.dim[1].dim_value for value in model.graph.input}
    states = {key.removeprefix(_STATE): width for key, width in widths.items() if key.startswith(_STATE)}
    manifest = Manifest(
        schema=SCHEMA,
        name=name,
        contract=imported.contract,
        states=tuple(StateSpec(name=key, width=width) for key, width in states.items()),
        residual=None,
        provenance=Provenance(
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            isthmus=importlib.metadata.version("isthmus"),
            trainer=tool,
            seed=0,
            environment_steps=0,
            simulated_success=None,
        ),
        distribution=None,
        envelope=None,
        sources=imported.sources,
    )
    made_up = plausible_signals(imported.contract, GOLDEN_ROWS)
    return write_bundle(path, model, manifest, golden_rows(model, imported.contract, {**made_up, **(signals or {})}))


def plausible_signals(contract: Contract, rows: int) -> dict[str, np.ndarray]:
    """Signals such as a robot might give, always the same: joints swing within their limits, the base sways, commands stay in range."""
    random = np.random.default_rng(0)
    ticks = np.arange(rows)[:, None] * contract.period_ns * 1e-9
    found = {name: 0.3 * random.standard_normal((rows, contract.signal_width(name))) for name in contract.signals}
    low, high, rest = (
        np.array([getattr(j, key) for j in contract.joints]) for key in ("lower", "upper", "default_pos")
    )
    reach = 0.5 * np.minimum(np.clip(np.minimum(high - rest, rest - low), 0.0, None), 1.0)
    turns = 2.0 * math.pi * random.uniform(0.5, 2.0, len(rest))
    if contract.joints:
        found["joint_pos"] = rest + reach * np.sin(turns * ticks)
        found["joint_vel"] = reach * turns * np.cos(turns * ticks)
    quat = np.array([1.0, 0.0, 0.0, 0.0]) + np.cumsum(0.01 * random.standard_normal((rows, 4)), axis=0)
    quat /= np.linalg.norm(quat, axis=1, keepdims=True)
    w, x, y, z = quat.T
    found |= {
        "base_quat": quat,
        "gravity": np.stack([2 * (w * y - x * z), -2 * (y * z + w * x), 2 * (x * x + y * y) - 1], axis=1),
    }
    command = contract.command
    if command is not None and command.low:
        low, high = np.array(command.low), np.array(command.high)
        found[command.signal] = low + (high - low) * random.uniform(0.0, 1.0, (rows, len(low)))
    return {name: found[name].astype(np.float32) for name in contract.signals}


def golden_rows(model: onnx.ModelProto, contract: Contract, signals: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Rows of signals with what the graph makes of them from reset, each target executed."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    target, outputs = target_output(contract), [value.name for value in session.get_outputs()]
    widths = {value.name: int(value.shape[1]) for value in session.get_inputs()}
    states = {name: np.zeros((1, width), dtype=np.float32) for name, width in widths.items() if name.startswith(_STATE)}
    kept = {name: list[np.ndarray]() for name in (*contract.signals, target, *PART_OUTPUTS)}
    executed = np.zeros((1, widths[contract.action.target]), dtype=np.float32)
    known = {spec.name for spec in SIGNALS} | {own.name for own in contract.own_signals}
    for row in range(min(len(values) for name, values in signals.items() if name in known)):
        given = {name: np.asarray(signals[name][row : row + 1], dtype=np.float32) for name in contract.signals}
        given[contract.action.target] = executed
        found = dict(zip(outputs, session.run(outputs, {**given, **states}), strict=True))
        states = {name: np.asarray(found[name.replace(_STATE, _NEXT, 1)]) for name in states}
        executed = np.asarray(found[target])
        for name, rows in kept.items():
            rows.append(np.asarray(given[name] if name in given else found[name])[0])
    return {name: np.array(rows) for name, rows in kept.items()}
