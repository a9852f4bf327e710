"""Operations that put several values into one, and those that need such a value for each."""

import numpy as np

from .ir import Ref
from .lowering import Handler, Lowering
from .model import Node
from .names import CExportError, number

REDUCTIONS = {
    "ReduceL1": "k_sum_abs",
    "ReduceL2": "k_norm",
    "ReduceMax": "k_max",
    "ReduceMean": "k_mean",
    "ReduceMin": "k_min",
    "ReduceProd": "k_prod",
    "ReduceSum": "k_sum",
    "ReduceSumSquare": "k_sum_square",
}


def _axes(work: Lowering, node: Node, rank: int) -> tuple[int, ...]:
    given = node.attributes.get("axes")
    if given is None and work.given(node, 1):
        given = tuple(work.fixed(node, 1).tolist())
    if not given:
        return () if work.whole_number(node, "noop_with_empty_axes", 0) == 1 else tuple(range(rank))
    assert isinstance(given, tuple)
    return tuple(sorted({int(axis) % rank for axis in given}))


def _rows(ref: Ref, axes: tuple[int, ...]) -> tuple[Ref, int, int]:
    """The tensor with some axes last; how many rows that makes, and how long each is."""
    rest = [axis for axis in range(ref.index.ndim) if axis not in axes]
    moved = np.transpose(ref.index, (*rest, *axes))
    length = int(np.prod([ref.index.shape[axis] for axis in axes], dtype=np.int64))
    return Ref(buffer=ref.buffer, index=moved), ref.size // length, length


def _reduce(work: Lowering, node: Node) -> list[Ref]:
    x = work.ref(node.inputs[0])
    work.need_float(node, [x])
    axes = _axes(work, node, x.index.ndim)
    if not axes:
        return [x]
    rows, count, length = _rows(x, axes)
    template = f"{REDUCTIONS[node.op]}({{x}}, {{y}}, {count}, {length});"
    return [work.call(template, {"x": rows}, work.shape(node))]


def _arg(work: Lowering, node: Node) -> list[Ref]:
    x = work.ref(node.inputs[0])
    work.need_float(node, [x])
    if work.whole_number(node, "select_last_index", 0):
        raise CExportError(f"{node.label} asks for the last of equal values; only the first is compiled")
    rows, count, length = _rows(x, (work.whole_number(node, "axis", 0) % x.index.ndim,))
    template = f"k_{node.op.lower()}({{x}}, {{y}}, {count}, {length});"
    return [work.call(template, {"x": rows}, work.shape(node), "int64_t")]


def _softmax(work: Lowering, node: Node) -> list[Ref]:
    x = work.ref(node.inputs[0])
    work.need_float(node, [x])
    axis = work.whole_number(node, "axis", -1) % x.index.ndim
    rows, count, length = _rows(x, (axis,))
    kernel = {"Softmax": "k_softmax", "LogSoftmax": "k_log_softmax"}[node.op]
    result = work.call(f"{kernel}({{x}}, {{y}}, {count}, {length});", {"x": rows}, rows.index.shape)
    return [Ref(buffer=result.buffer, index=np.moveaxis(result.index, -1, axis))]


def _normalise(work: Lowering, node: Node) -> list[Ref]:
    """LayerNormalization, RMSNormalization: over the last axes, then scale and bias."""
    if any(node.outputs[1:]):
        raise CExportError(f"{node.label} gives mean or deviation; only the normalised values are compiled")
    x, shape = work.ref(node.inputs[0]), work.shape(node)
    work.need_float(node, [x])
    epsilon = node.attributes.get("epsilon", 1e-5)
    assert isinstance(epsilon, float)
    first = work.whole_number(node, "axis", -1) % x.index.ndim
    length = int(np.prod(x.index.shape[first:], dtype=np.int64))
    kernel = {"LayerNormalization": "k_layer_norm", "RMSNormalization": "k_rms_norm"}[node.op]
    template = f"{kernel}({{x}}, {{y}}, {x.size // length}, {length}, {number(epsilon)});"
    result = work.elementwise("{0} * {1}", [work.call(template, {"x": x}, shape), work.ref(node.inputs[1])], shape)
    if work.given(node, 2):
        result = work.elementwise("{0} + {1}", [result, work.ref(node.inputs[2])], shape)
    return [result]


GATHERING: dict[str, Handler] = {
    **dict.fromkeys(REDUCTIONS, _reduce),
    "ArgMax": _arg,
    "ArgMin": _arg,
    "LayerNormalization": _normalise,
    "LogSoftmax": _softmax,
    "RMSNormalization": _normalise,
    "Softmax": _softmax,
}
