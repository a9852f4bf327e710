"""Matrix products: of weights and a vector, which are the layers of networks, and of anything else."""

import numpy as np

from .ir import Ref
from .lowering import Handler, Lowering
from .model import Node

MOST_MEMBERS = 64  # of a stack of weights


def _matmul(work: Lowering, node: Node) -> list[Ref]:
    a, b = work.operands(node)
    work.need_float(node, [a, b])
    shape, name = work.shape(node), node.outputs[0]
    left, right = a.constant, b.constant
    if right is not None and right.size == np.prod(right.shape[-2:]) and a.size == a.index.shape[-1]:
        weights = right.reshape(right.shape[-2:] if right.ndim > 1 else (-1, 1))
        return [work.dense(name, weights.T, a, shape)]
    if (
        right is not None
        and a.index.shape[-2:-1] in ((), (1,))
        and right.size // np.prod(right.shape[-2:]) <= MOST_MEMBERS
    ):
        return [_members(work, name, a, right, shape)]
    if left is not None and b.size == b.index.shape[-2 if b.index.ndim > 1 else 0]:
        weights = left.reshape(-1, left.shape[-1])
        return [work.dense(name, weights, b, shape)]
    return [_product(work, a, b, shape)]


def _members(work: Lowering, name: str, a: Ref, weights: np.ndarray, shape: tuple[int, ...]) -> Ref:
    """Vectors times a stack of weights, such as the members of an ensemble: a layer each."""
    k, n = weights.shape[-2:]
    batch = shape[:-2]
    vectors = np.broadcast_to(a.index, (*batch, 1, k)).reshape(-1, k)
    matrices = np.broadcast_to(weights, (*batch, k, n)).reshape(-1, k, n)
    layers = [
        work.dense(f"{name}[{member}]", matrix.T, Ref(buffer=a.buffer, index=vector), (1, n))
        for member, (vector, matrix) in enumerate(zip(vectors, matrices, strict=True))
    ]
    return work.assemble(layers, np.repeat(np.arange(len(layers)), n), shape)


def _product(work: Lowering, a: Ref, b: Ref, shape: tuple[int, ...]) -> Ref:
    """Any product as numpy's matmul: batches of (m, k) by (k, n)."""
    left = a.index[None, :] if a.index.ndim == 1 else a.index
    right = b.index[:, None] if b.index.ndim == 1 else b.index
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    (m, k), n = left.shape[-2:], right.shape[-1]
    left, right = np.broadcast_to(left, (*batch, m, k)), np.broadcast_to(right, (*batch, k, n))
    count = int(np.prod(batch, dtype=np.int64))
    template = f"k_matmul({{a}}, {{b}}, {{y}}, {count}, {m}, {k}, {n});"
    arguments = {"a": Ref(buffer=a.buffer, index=left), "b": Ref(buffer=b.buffer, index=right)}
    return work.call(template, arguments, shape)


def _gemm(work: Lowering, node: Node) -> list[Ref]:
    a, b = work.ref(node.inputs[0]), work.ref(node.inputs[1])
    work.need_float(node, [a, b])
    shape, name = work.shape(node), node.outputs[0]
    alpha, beta = (node.attributes.get(key, 1.0) for key in ("alpha", "beta"))
    assert isinstance(alpha, float) and isinstance(beta, float)
    a = Ref(buffer=a.buffer, index=a.index.T) if work.whole_number(node, "transA", 0) else a
    b = Ref(buffer=b.buffer, index=b.index.T) if work.whole_number(node, "transB", 0) else b
    weights, third = b.constant, node.inputs[2] if work.given(node, 2) else ""
    bias = work.value(third).constant if third else None
    if weights is not None and len(a.index) == 1:
        added = None if bias is None else beta * np.broadcast_to(bias, shape)
        result = work.dense(name, alpha * weights.T, a, shape, added)
        if not third or bias is not None:
            return [result]
    else:
        result = _product(work, a, b, shape)
        if alpha != 1.0:
            result = _scaled(work, result, alpha)
    if not third:
        return [result]
    added = work.ref(third)
    return [work.elementwise("{0} + {1}", [result, added if beta == 1.0 else _scaled(work, added, beta)], shape)]


def _scaled(work: Lowering, ref: Ref, factor: float) -> Ref:
    constant = work.constant(np.full((), factor, dtype=np.float32), "a factor")
    return work.elementwise("{0} * {1}", [ref, constant], ref.index.shape)


PRODUCTS: dict[str, Handler] = {"Gemm": _gemm, "MatMul": _matmul}
