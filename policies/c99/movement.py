"""Operations that only move values: nothing is computed, the places where values are read change."""

from collections.abc import Callable

import numpy as np

from .ir import Ref
from .lowering import Handler, Lowering
from .model import Node
from .names import CExportError


def _moved(change: Callable[[Lowering, Node, np.ndarray], np.ndarray]) -> Handler:
    """A handler from a function of the places."""

    def handle(work: Lowering, node: Node) -> list[Ref]:
        ref = work.ref(node.inputs[0])
        return [Ref(buffer=ref.buffer, index=change(work, node, ref.index))]

    return handle


def _reshape(work: Lowering, node: Node, index: np.ndarray) -> np.ndarray:
    return index.reshape(work.shape(node))


def _expand(work: Lowering, node: Node, index: np.ndarray) -> np.ndarray:
    return np.broadcast_to(index, work.shape(node))


def _tile(work: Lowering, node: Node, index: np.ndarray) -> np.ndarray:
    return np.tile(index, work.fixed(node, 1))


def _transpose(work: Lowering, node: Node, index: np.ndarray) -> np.ndarray:
    order = node.attributes.get("perm", tuple(range(index.ndim))[::-1])
    assert isinstance(order, tuple)
    return np.transpose(index, [int(axis) for axis in order])


def _slice(work: Lowering, node: Node, index: np.ndarray) -> np.ndarray:
    starts, ends = work.fixed(node, 1), work.fixed(node, 2)
    axes = work.fixed(node, 3) if work.given(node, 3) else np.arange(len(starts))
    steps = work.fixed(node, 4) if work.given(node, 4) else np.ones(len(starts), dtype=np.int64)
    for start, end, axis, step in zip(starts.tolist(), ends.tolist(), axes.tolist(), steps.tolist(), strict=True):
        index = np.take(index, _along(start, end, step, index.shape[axis]), axis=axis)
    return index


def _along(start: int, end: int, step: int, size: int) -> range:
    """Places of a slice as ONNX counts them: ends beyond the tensor mean its ends."""
    start, end = (value + size if value < 0 else value for value in (start, end))
    if step > 0:
        return range(min(max(start, 0), size), min(max(end, 0), size), step)
    return range(min(max(start, 0), size - 1), min(max(end, -1), size - 1), step)


def _gather_elements(work: Lowering, node: Node, index: np.ndarray) -> np.ndarray:
    axis, places = work.whole_number(node, "axis", 0) % index.ndim, work.fixed(node, 1)
    within = tuple(slice(None) if k == axis else slice(size) for k, size in enumerate(places.shape))
    return np.take_along_axis(index[within], places % index.shape[axis], axis)


def _gather_nd(work: Lowering, node: Node, index: np.ndarray) -> np.ndarray:
    if work.whole_number(node, "batch_dims", 0):
        raise CExportError(f"{node.label} has batch_dims; only those without are compiled")
    return index[tuple(np.moveaxis(work.fixed(node, 1), -1, 0))]


def _gather(work: Lowering, node: Node) -> list[Ref]:
    ref, places = work.ref(node.inputs[0]), work.value(node.inputs[1]).constant
    axis = work.whole_number(node, "axis", 0)
    if places is not None:
        return [Ref(buffer=ref.buffer, index=np.take(ref.index, places, axis=axis))]
    return [_gather_at(work, node, ref, axis)]


def _gather_at(work: Lowering, node: Node, ref: Ref, axis: int) -> Ref:
    """Rows whose numbers are computed, such as a motion's at this tick. Numbers outside are brought inside."""
    places = work.ref(node.inputs[1])
    if places.buffer.c_type != "int64_t":
        raise CExportError(f"{node.label}: computed indices are compiled as int64, got {places.buffer.c_type}")
    work.need_float(node, [ref])
    rows = np.moveaxis(ref.index, axis, 0)
    width = rows[0].size
    template = f"k_gather({{x}}, {{i}}, {{y}}, {len(rows)}, {places.size}, {width});"
    shape = (*places.index.shape, *rows.shape[1:])
    found = work.call(template, {"x": Ref(buffer=ref.buffer, index=rows), "i": places}, shape)
    count, back = places.index.ndim, axis % ref.index.ndim
    moved = np.moveaxis(found.index, range(count), range(back, back + count))
    return Ref(buffer=found.buffer, index=moved)


def _concat(work: Lowering, node: Node) -> list[Ref]:
    parts = work.operands(node)
    axis = work.whole_number(node, "axis", 0)
    if len({id(part.buffer) for part in parts}) == 1:
        return [Ref(buffer=parts[0].buffer, index=np.concatenate([part.index for part in parts], axis=axis))]
    which = np.concatenate([np.full(part.index.shape, k) for k, part in enumerate(parts)], axis=axis)
    return [work.assemble(parts, which, which.shape)]


def _split(work: Lowering, node: Node) -> list[Ref]:
    ref = work.ref(node.inputs[0])
    axis = work.whole_number(node, "axis", 0)
    sizes = [work.value(name).shape[axis] if name else 0 for name in node.outputs]
    if "" in node.outputs:
        raise CExportError(f"{node.label} leaves out one of its outputs; name each")
    pieces = np.split(ref.index, np.cumsum(sizes)[:-1], axis=axis)
    return [Ref(buffer=ref.buffer, index=piece) for piece in pieces]


def _scatter(work: Lowering, node: Node, places: np.ndarray) -> list[Ref]:
    """`places` (of the updates' shape): which element of the data each update replaces; the last one wins."""
    if node.attributes.get("reduction", "none") != "none":
        raise CExportError(f"{node.label} adds up what it writes; only replacing is compiled")
    data, updates = work.ref(node.inputs[0]), work.ref(node.inputs[2])
    taken = np.full(data.size, -1)
    taken[places.reshape(-1)] = np.arange(places.size)
    part = (taken >= 0).astype(np.int64)
    old = Ref(buffer=data.buffer, index=data.index.reshape(-1)[part == 0])
    new = Ref(buffer=updates.buffer, index=updates.index.reshape(-1)[taken[part == 1]])
    return [work.assemble([old, new], part, data.index.shape)]


def _scatter_nd(work: Lowering, node: Node) -> list[Ref]:
    shape = work.value(node.inputs[0]).shape
    places = np.arange(int(np.prod(shape))).reshape(shape)[tuple(np.moveaxis(work.fixed(node, 1), -1, 0))]
    return _scatter(work, node, places)


def _scatter_elements(work: Lowering, node: Node) -> list[Ref]:
    shape, indices = work.value(node.inputs[0]).shape, work.fixed(node, 1)
    axis = work.whole_number(node, "axis", 0)
    own = np.asarray(np.indices(indices.shape))
    at = tuple(indices % shape[axis] if k == axis % len(shape) else own[k] for k in range(len(shape)))
    return _scatter(work, node, np.asarray(np.ravel_multi_index(at, shape)))


def _dropout(work: Lowering, node: Node) -> list[Ref]:
    training = work.given(node, 2) and bool(work.fixed(node, 2).any())
    if training or len([name for name in node.outputs if name]) > 1:
        raise CExportError(f"{node.label} is in training mode; export the model for inference")
    return [work.ref(node.inputs[0])]


MOVEMENTS: dict[str, Handler] = {
    "Concat": _concat,
    "Dropout": _dropout,
    "Expand": _moved(_expand),
    "Flatten": _moved(_reshape),
    "Gather": _gather,
    "GatherElements": _moved(_gather_elements),
    "GatherND": _moved(_gather_nd),
    "Identity": _moved(_reshape),
    "Reshape": _moved(_reshape),
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "Slice": _moved(_slice),
    "Split": _split,
    "Squeeze": _moved(_reshape),
    "Tile": _moved(_tile),
    "Transpose": _moved(_transpose),
    "Unsqueeze": _moved(_reshape),
}
