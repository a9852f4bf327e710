"""What rounding weights to int8 costs: the same model with rounded weights and activations, run beside the exact one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import onnxruntime as ort

from .dense import largest_activation, rounded_weights, worth_rounding
from .model import Value, read_model

if TYPE_CHECKING:
    import onnx

RANDOM_ROWS = 256
WIDENED = 0.25  # how far random rows go beyond the golden ones, of their range


@dataclass(frozen=True, kw_only=True)
class RoundingError:
    """Largest error of a result against float32, over consecutive rows."""

    output: str
    golden: float  # in its unit, on the golden rows
    random: float  # in its unit, on random rows around them
    largest: float  # largest value of the result itself, for comparison


def rounding_errors(
    data: bytes, signals: Mapping[str, np.ndarray], outputs: tuple[str, ...]
) -> tuple[RoundingError, ...]:
    """Errors of each output.

    Args:
        data: the serialised model.
        signals: the golden rows (rows, width) of every input that is no state.
        outputs: which results to compare.
    """
    rounded = rounded_model(data)
    found = []
    for rows in (dict(signals), _random_rows(signals)):
        found.append([_run(model, rows, outputs) for model in (data, rounded)])
    (exact, near), (exact_random, near_random) = found
    return tuple(
        RoundingError(
            output=name,
            golden=float(np.abs(exact[name] - near[name]).max()),
            random=float(np.abs(exact_random[name] - near_random[name]).max()),
            largest=float(np.abs(exact[name]).max()),
        )
        for name in outputs
    )


def rounded_model(data: bytes) -> bytes:
    """The model computing as the int8 code does: weights of layers rounded by rows, and what they multiply to 16 bits.

    Inside of GRU and LSTM, and in convolutions, what weights multiply is left exact.
    """
    import onnx
    from onnx import inliner

    model = inliner.inline_local_functions(onnx.load_model_from_string(data))
    values = read_model(data).values
    nodes = []
    for node in model.graph.node:
        constants = {k: values[name].constant for k, name in enumerate(node.input) if name in values}
        if node.op_type in ("MatMul", "Gemm") and _is_rounded(node, constants.get(1), values):
            nodes += _round_product(model, node, np.asarray(constants[1]))
        elif node.op_type == "Conv":
            _round_filters(model, node, np.asarray(constants[1]))
        elif node.op_type in ("GRU", "LSTM"):
            _round_gates(model, node, np.asarray(constants[1]), np.asarray(constants[2]))
        nodes.append(node)
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:], model.metadata_props[:]
    model.graph.node.extend(kept)
    return model.SerializeToString()


def _is_rounded(node: "onnx.NodeProto", weights: np.ndarray | None, values: Mapping[str, Value]) -> bool:
    """Whether it is a layer, or a stack of them, whose weights the code has as int8."""
    if weights is None or values[node.input[0]].shape[-2:-1] not in ((), (1,)):
        return False
    by_rows = any(a.name == "transB" and a.i for a in node.attribute)
    first = weights.reshape(-1, *weights.shape[-2:])[0] if weights.ndim > 1 else weights[:, None]
    return worth_rounding(first if by_rows else first.T)


def _round_product(model: "onnx.ModelProto", node: "onnx.NodeProto", weights: np.ndarray) -> list["onnx.NodeProto"]:
    """Give a product rounded weights; returns nodes that round what it multiplies."""
    from onnx import helper, numpy_helper

    by_rows = any(a.name == "transB" and a.i for a in node.attribute)
    matrices = weights.reshape(-1, *weights.shape[-2:]) if weights.ndim > 1 else weights.reshape(1, -1, 1)
    near = np.stack([_nearest(matrix if by_rows else matrix.T) for matrix in matrices])
    name, x, columns = node.output[0], node.input[0], near.shape[2]
    _add(model, f"{name}/rounded_weights", (near if by_rows else near.swapaxes(1, 2)).reshape(weights.shape))
    _add(model, f"{name}/most", np.asarray(float(largest_activation(columns))))
    _add(model, f"{name}/least", np.asarray(1e-30))
    model.graph.initializer.append(numpy_helper.from_array(np.array([-1]), f"{name}/axis"))
    newer = max(opset.version for opset in model.opset_import if opset.domain in ("", "ai.onnx")) >= 18
    size = [f"{name}/size", f"{name}/axis"] if newer else [f"{name}/size"]
    largest = helper.make_node("ReduceMax", size, [f"{name}/largest"], keepdims=1)
    if not newer:
        largest.attribute.append(helper.make_attribute("axes", [-1]))
    node.input[0], node.input[1] = f"{name}/near", f"{name}/rounded_weights"
    return [
        helper.make_node("Abs", [x], [f"{name}/size"]),
        largest,
        helper.make_node("Max", [f"{name}/largest", f"{name}/least"], [f"{name}/range"]),
        helper.make_node("Div", [f"{name}/range", f"{name}/most"], [f"{name}/unit"]),
        helper.make_node("Div", [x, f"{name}/unit"], [f"{name}/scaled"]),
        helper.make_node("Round", [f"{name}/scaled"], [f"{name}/whole"]),
        helper.make_node("Mul", [f"{name}/whole", f"{name}/unit"], [f"{name}/near"]),
    ]


def _round_filters(model: "onnx.ModelProto", node: "onnx.NodeProto", weights: np.ndarray) -> None:
    groups = next((a.i for a in node.attribute if a.name == "group"), 1)
    rows = weights.reshape(len(weights), -1)
    parts = [_nearest(part) if worth_rounding(part) else part for part in np.split(rows, groups)]
    _add(model, f"{node.output[0]}/rounded_weights", np.concatenate(parts).reshape(weights.shape))
    node.input[1] = f"{node.output[0]}/rounded_weights"


def _round_gates(model: "onnx.ModelProto", node: "onnx.NodeProto", w: np.ndarray, r: np.ndarray) -> None:
    if node.op_type == "LSTM":  # one product of both
        both = _nearest(np.concatenate([w[0], r[0]], axis=1))
        w, r = both[None, :, : w.shape[2]], both[None, :, w.shape[2] :]
    else:
        w, r = (_nearest(part[0])[None] if worth_rounding(part[0]) else part for part in (w, r))
    for position, part in ((1, w), (2, r)):
        name = f"{node.output[0] or node.output[1]}/rounded_{position}"
        _add(model, name, part)
        node.input[position] = name


def _nearest(weights: np.ndarray) -> np.ndarray:
    whole, scale = rounded_weights(weights)
    return whole * scale[:, None]


def _add(model: "onnx.ModelProto", name: str, values: np.ndarray) -> None:
    from onnx import numpy_helper

    model.graph.initializer.append(numpy_helper.from_array(np.asarray(values, dtype=np.float32), name))


def _random_rows(signals: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    rows = {}
    for name, values in signals.items():
        low, high = values.min(axis=0), values.max(axis=0)
        margin = WIDENED * (high - low)
        rows[name] = rng.uniform(low - margin, high + margin, (RANDOM_ROWS, values.shape[1])).astype(np.float32)
    return rows


def _run(model: bytes, rows: Mapping[str, np.ndarray], outputs: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Results (rows, width) of consecutive rows, from states of zero."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    states = {t.name: np.zeros(t.shape, dtype=np.float32) for t in session.get_inputs() if t.name.startswith("state.")}
    following = [f"next.{name.removeprefix('state.')}" for name in states]
    found: dict[str, list[np.ndarray]] = {name: [] for name in outputs}
    for row in range(len(next(iter(rows.values())))):
        feeds = {name: values[row : row + 1] for name, values in rows.items()}
        results = session.run([*outputs, *following], {**feeds, **states})
        for name, value in zip(outputs, results, strict=False):
            found[name].append(np.asarray(value).reshape(-1))
        states = dict(zip(states, map(np.asarray, results[len(outputs) :]), strict=True))
    return {name: np.stack(values) for name, values in found.items()}
