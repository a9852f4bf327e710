"""Convolutions, as over a history of samples: a layer for each place of the output, all with the same weights."""

from itertools import product

import numpy as np

from .ir import Ref
from .lowering import Handler, Lowering
from .model import Node
from .names import CExportError

MOST_PLACES = 512  # of the output, times groups; each is a call of its own


def _conv(work: Lowering, node: Node) -> list[Ref]:
    x, shape = work.ref(node.inputs[0]), work.shape(node)
    work.need_float(node, [x])
    weights = work.fixed(node, 1)
    bias = work.fixed(node, 2) if work.given(node, 2) else np.zeros(len(weights), dtype=np.float32)
    groups, places = work.whole_number(node, "group", 1), int(np.prod(shape[2:], dtype=np.int64))
    if shape[0] != 1 or groups * places > MOST_PLACES:
        raise CExportError(f"{node.label}: output {shape}; compiled is a batch of 1 and at most {MOST_PLACES} places")
    windows = _windows(work, node, x, weights.shape[2:])
    rows, columns = len(weights) // groups, weights[0].size
    parts = []
    for place, group in product(range(places), range(groups)):
        window = np.split(windows[place], groups)[group].reshape(1, columns)
        own = slice(group * rows, (group + 1) * rows)
        name = f"{node.outputs[0]}[{place}, {group}]"
        parts.append(work.dense(name, weights[own].reshape(rows, columns), _at(work, x, window), (1, rows), bias[own]))
    channel, place = np.divmod(np.arange(len(weights) * places), places)
    return [work.assemble(parts, place * groups + channel // rows, shape)]


def _windows(work: Lowering, node: Node, x: Ref, kernel: tuple[int, ...]) -> np.ndarray:
    """Places of what each output place sees, (places, channels, *kernel); -1 where it sees padding."""
    rank = len(kernel)
    strides, dilations = _each(node, "strides", rank), _each(node, "dilations", rank)
    if node.attributes.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise CExportError(f"{node.label} pads by itself; export it with pads given as numbers")
    pads = node.attributes.get("pads", (0,) * 2 * rank)
    assert isinstance(pads, tuple)
    around = [(0, 0), *((int(pads[k]), int(pads[rank + k])) for k in range(rank))]
    padded = np.pad(np.arange(x.size).reshape(x.index.shape[1:]), around, constant_values=-1)
    reach = tuple((size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True))
    axes = tuple(range(1, rank + 1))
    seen = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=axes)
    seen = seen[(slice(None), *(slice(None, None, s) for s in strides), *(slice(None, None, d) for d in dilations))]
    return np.moveaxis(seen, 0, rank).reshape(-1, len(padded), *kernel)


def _each(node: Node, name: str, rank: int) -> tuple[int, ...]:
    given = node.attributes.get(name, (1,) * rank)
    assert isinstance(given, tuple)
    return tuple(int(value) for value in given)


def _at(work: Lowering, x: Ref, window: np.ndarray) -> Ref:
    """Values of a tensor at places of its own, 0 where there is padding."""
    flat, inside = x.index.reshape(-1), window >= 0
    own = Ref(buffer=x.buffer, index=flat[window[inside]] if not inside.all() else flat[window])
    if inside.all():
        return own
    zeros = work.constant(np.zeros(int((~inside).sum()), dtype=np.float32), "padding")
    return work.assemble([zeros, own], inside.astype(np.int64), window.shape)


def _global_mean(work: Lowering, node: Node) -> list[Ref]:
    x = work.ref(node.inputs[0])
    work.need_float(node, [x])
    rows = int(np.prod(x.index.shape[:2]))
    return [work.call(f"k_mean({{x}}, {{y}}, {rows}, {x.size // rows});", {"x": x}, work.shape(node))]


CONVOLUTIONS: dict[str, Handler] = {"Conv": _conv, "GlobalAveragePool": _global_mean}
