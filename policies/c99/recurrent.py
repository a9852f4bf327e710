"""Layers with memory, taken apart into products and operations on elements."""

from collections.abc import Callable

import numpy as np

from .ir import Ref
from .lowering import Handler, Lowering
from .model import Node
from .names import CExportError

MOST_STEPS = 64  # of a sequence, each of which is compiled on its own
UPDATE = "(1.0f - {0}) * {1} + {0} * {2}"


def _gru(work: Lowering, node: Node) -> list[Ref]:
    """Gates z, r, h as in ONNX."""
    x, w, r, bias, size = _layer(work, node, 3, ("Sigmoid", "Tanh"))
    before_reset = bool(work.whole_number(node, "linear_before_reset", 0))
    wb, rb = bias[: 3 * size], bias[3 * size :]
    shape = (1, size)

    def step(given: Ref, states: tuple[Ref, ...]) -> tuple[Ref, ...]:
        (h,) = states
        from_input = _parts(work.dense(f"{node.label} W", w, given, (1, 3 * size), wb), size)
        count = 3 if before_reset else 2
        rows = count * size
        from_state = _parts(work.dense(f"{node.label} R", r[:rows], h, (1, rows), rb[:rows]), size)
        z, reset = (work.elementwise("k_sigmoid({0} + {1})", [from_input[k], from_state[k]], shape) for k in range(2))
        if before_reset:
            new = work.elementwise("k_tanh({0} + {1} * {2})", [from_input[2], reset, from_state[2]], shape)
        else:
            kept = work.elementwise("{0} * {1}", [reset, h], shape)
            last = work.dense(f"{node.label} R", r[2 * size :], kept, shape, rb[2 * size :])
            new = work.elementwise("k_tanh({0} + {1})", [from_input[2], last], shape)
        return (work.elementwise(UPDATE, [z, new, h], shape),)

    return _run(work, node, x, size, 1, step)


def _lstm(work: Lowering, node: Node) -> list[Ref]:
    """Gates i, o, f, c as in ONNX."""
    x, w, r, bias, size = _layer(work, node, 4, ("Sigmoid", "Tanh", "Tanh"))
    if work.given(node, 7) or work.whole_number(node, "input_forget", 0):
        raise CExportError(f"{node.label} has peepholes or coupled gates; only plain LSTM is compiled")
    shape = (1, size)

    def step(given: Ref, states: tuple[Ref, ...]) -> tuple[Ref, ...]:
        h, c = states
        both = np.concatenate([w, r], axis=1)
        joined = work.assemble([given, h], np.repeat([0, 1], [given.size, size]), (1, given.size + size))
        total = bias[: 4 * size] + bias[4 * size :]
        i, o, f, new = _parts(work.dense(f"{node.label} W, R", both, joined, (1, 4 * size), total), size)
        following = work.elementwise("k_sigmoid({0}) * {1} + k_sigmoid({2}) * k_tanh({3})", [f, c, i, new], shape)
        return work.elementwise("k_sigmoid({0}) * k_tanh({1})", [o, following], shape), following

    return _run(work, node, x, size, 2, step)


def _layer(
    work: Lowering, node: Node, gates: int, activations: tuple[str, ...]
) -> tuple[Ref, np.ndarray, np.ndarray, np.ndarray, int]:
    """Input (steps, 1, width), weights (gates * size, width) and (gates * size, size), biases (2 * gates * size,), size."""
    direction = node.attributes.get("direction", "forward")
    if direction != "forward" or work.whole_number(node, "layout", 0):
        raise CExportError(
            f"{node.label} has direction {direction!r} or layout 1; only forward with layout 0 is compiled"
        )
    if node.attributes.get("activations", activations) != activations or "clip" in node.attributes:
        raise CExportError(f"{node.label} has other activations than {activations} or clips; that is not compiled")
    x = work.ref(node.inputs[0])
    work.need_float(node, [x])
    if x.index.shape[1] != 1 or len(x.index) > MOST_STEPS:
        raise CExportError(
            f"{node.label}: input {x.index.shape}; compiled is a batch of 1 and at most {MOST_STEPS} steps"
        )
    if work.given(node, 4) and (work.fixed(node, 4) != len(x.index)).any():
        raise CExportError(f"{node.label} has sequences of other lengths than its input")
    w, r = work.fixed(node, 1)[0], work.fixed(node, 2)[0]
    bias = work.fixed(node, 3)[0] if work.given(node, 3) else np.zeros(2 * len(w), dtype=np.float32)
    return x, w, r, bias, len(w) // gates


def _parts(ref: Ref, size: int) -> list[Ref]:
    return [Ref(buffer=ref.buffer, index=piece) for piece in np.split(ref.index, ref.size // size, axis=1)]


def _run(
    work: Lowering,
    node: Node,
    x: Ref,
    size: int,
    count: int,
    step: Callable[[Ref, tuple[Ref, ...]], tuple[Ref, ...]],
) -> list[Ref]:
    """All steps of the sequence; results Y (steps, 1, 1, size), Y_h and Y_c (1, 1, size), as far as they are asked for."""
    zero = np.zeros((1, size), dtype=np.float32)
    states = tuple(
        _flat(work.ref(node.inputs[5 + k]), (1, size)) if work.given(node, 5 + k) else work.constant(zero, "state")
        for k in range(count)
    )
    seen = []
    for index in x.index:
        states = step(Ref(buffer=x.buffer, index=index), states)
        seen.append(states[0])
    results = []
    if node.outputs[0]:
        shape = work.shape(node)
        results.append(_flat(seen[0], shape) if len(seen) == 1 else _sequence(work, seen, shape))
    ends = [name for name in node.outputs[1:]]
    return [*results, *(_flat(states[k], (1, 1, size)) for k, name in enumerate(ends) if name)]


def _sequence(work: Lowering, seen: list[Ref], shape: tuple[int, ...]) -> Ref:
    return work.assemble(seen, np.repeat(np.arange(len(seen)), seen[0].size), shape)


def _flat(ref: Ref, shape: tuple[int, ...]) -> Ref:
    return Ref(buffer=ref.buffer, index=ref.index.reshape(shape))


RECURRENT: dict[str, Handler] = {"GRU": _gru, "LSTM": _lstm}
