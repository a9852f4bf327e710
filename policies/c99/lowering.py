"""From nodes to steps: the working state of the compiler's first pass. What each operation becomes is said beside its kind."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from .ir import Buffer, Call, Dense, Loop, Operation, Program, Ref, Region, Step, Store, c_type, whole
from .model import Graph, Node, Value
from .names import CExportError, MemberNames

Handler = Callable[["Lowering", Node], list[Ref]]


class Lowering:
    """Steps so far, and where each value of the graph is."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.steps: list[Step] = []
        self.refs: dict[str, Ref] = {}
        self.unbiased: dict[str, Dense] = {}  # by name of their result, while nothing else uses it
        self.uses = Counter(name for node in graph.nodes for name in node.inputs)
        self.uses.update(graph.outputs)

    def value(self, name: str) -> Value:
        """A tensor of the graph."""
        return self.graph.values[name]

    def ref(self, name: str) -> Ref:
        """Where a tensor is; constants become tables when they are first asked for."""
        if name not in self.refs:
            value = self.value(name)
            assert value.constant is not None, name
            self.refs[name] = self.constant(value.constant, name)
        return self.refs[name]

    def constant(self, array: np.ndarray, what: str) -> Ref:
        """A table. Raises CExportError for one that is not of numbers."""
        kind = c_type(array.dtype, f"constant {what!r}")
        if array.dtype == np.float32 and np.isnan(array).any():
            raise CExportError(f"constant {what!r} holds NaN; the network is broken: train or export it again")
        if array.size == 0:
            raise CExportError(f"constant {what!r} is empty; tensors without values are not compiled")
        buffer = Buffer(place="constant", name="", size=array.size, c_type=kind, data=array.reshape(-1))
        return whole(buffer, array.shape)

    def scratch(self, shape: tuple[int, ...], kind: str = "float") -> Ref:
        """A new place for a tensor."""
        size = int(np.prod(shape, dtype=np.int64))
        if size == 0:
            raise CExportError(f"a tensor of shape {list(shape)} is computed; tensors without values are not compiled")
        return whole(Buffer(place="scratch", name="", size=size, c_type=kind), shape)

    def elementwise(self, template: str, operands: Sequence[Ref], shape: tuple[int, ...], kind: str = "float") -> Ref:
        """An expression for each element of the operands, broadcast to a shape."""
        result = self.scratch(shape, kind)
        spread = [Ref(buffer=o.buffer, index=np.broadcast_to(o.index, shape)) for o in operands]
        operation = Operation(template=template, operands=list(spread), c_type=kind)
        store = Store(value=0, region=Region(buffer=result.buffer, start=0, size=result.size))
        self.steps.append(Loop(size=result.size, body=[operation], stores=[store]))
        return result

    def assemble(self, parts: Sequence[Ref], part: np.ndarray, shape: tuple[int, ...]) -> Ref:
        """A tensor whose element i is the next one of `parts[part.flat[i]]`, where parts are given flat and in order."""
        kind = parts[0].buffer.c_type
        result, flat = self.scratch(shape, kind), part.reshape(-1)
        taken = [0] * len(parts)
        edges = [0, *(np.flatnonzero(np.diff(flat)) + 1).tolist(), len(flat)]
        for start, end in pairwise(edges):
            source = int(flat[start])
            index = parts[source].index.reshape(-1)[taken[source] : taken[source] + end - start]
            taken[source] += end - start
            self.copy(Ref(buffer=parts[source].buffer, index=index), result.buffer, start)
        return result

    def copy(self, source: Ref, buffer: Buffer, start: int = 0) -> None:
        """Write a tensor into a buffer."""
        region = Region(buffer=buffer, start=start, size=source.size)
        self.steps.append(Loop(size=source.size, stores=[Store(value=source, region=region)]))

    def contiguous(self, ref: Ref, what: str = "constant") -> Ref:
        """The same tensor with its values one after another, as kernels read them."""
        if ref.start is not None:
            return ref
        values = ref.constant
        if values is not None:
            return self.constant(np.ascontiguousarray(values), what)
        result = self.scratch(ref.index.shape, ref.buffer.c_type)
        self.copy(ref, result.buffer)
        return result

    def dense(
        self, name: str, weights: np.ndarray, x: Ref, shape: tuple[int, ...], bias: np.ndarray | None = None
    ) -> Ref:
        """W x + b; weights (rows, columns)."""
        for array in (weights, bias):
            if array is not None and not np.isfinite(array).all():
                raise CExportError(
                    f"weights of {name!r} are not finite; the network is broken: train or export it again"
                )
        result = self.scratch(shape)
        region = Region(buffer=result.buffer, start=0, size=result.size)
        zero = np.zeros(len(weights), dtype=np.float32)
        step = Dense(
            name=name,
            weights=np.ascontiguousarray(weights, dtype=np.float32),
            bias=zero if bias is None else np.asarray(bias, dtype=np.float32).reshape(-1),
            x=self.contiguous(x),
            region=region,
        )
        self.steps.append(step)
        if bias is None and self.uses[name] == 1:
            self.unbiased[name] = step
        return result

    def call(self, template: str, arguments: dict[str, Ref], shape: tuple[int, ...], kind: str = "float") -> Ref:
        """A kernel's result; `{y}` in the template is where it goes."""
        result = self.scratch(shape, kind)
        region = Region(buffer=result.buffer, start=0, size=result.size)
        given = {name: self.contiguous(ref) for name, ref in arguments.items()}
        self.steps.append(Call(template=template, arguments=given, region=region))
        return result

    def need_float(self, node: Node, refs: Sequence[Ref]) -> None:
        """Refuse operands of other types."""
        for ref in refs:
            if ref.buffer.c_type != "float":
                raise CExportError(f"{node.label} works on {ref.buffer.c_type}; it is compiled for float32 only")

    def operands(self, node: Node) -> list[Ref]:
        """Tensors of a node's inputs, absent ones left out."""
        return [self.ref(name) for name in node.inputs if name]

    def fixed(self, node: Node, position: int) -> np.ndarray:
        """An input that must be constant."""
        constant = self.value(node.inputs[position]).constant
        if constant is None:
            raise CExportError(f"{node.label}: input {position} is computed; it must be constant to be compiled")
        return constant

    def given(self, node: Node, position: int) -> bool:
        """Whether an optional input is there."""
        return position < len(node.inputs) and node.inputs[position] != ""

    def whole_number(self, node: Node, name: str, default: int) -> int:
        """An attribute."""
        value = node.attributes.get(name, default)
        assert isinstance(value, int)
        return value

    def shape(self, node: Node, position: int = 0) -> tuple[int, ...]:
        """Shape of an output."""
        return self.value(node.outputs[position]).shape


def lower(graph: Graph, names: MemberNames, handlers: dict[str, Handler]) -> Program:
    """The program of a graph. Inputs `state.<x>` and outputs `next.<x>` are its memory."""
    work = Lowering(graph)
    inputs, memory = [], []
    for name in graph.inputs:
        value = work.value(name)
        kept = name.startswith("state.")
        buffer = Buffer(place="memory" if kept else "input", name=names.inputs[name], size=value.size, c_type="float")
        (memory if kept else inputs).append(buffer)
        work.refs[name] = whole(buffer, value.shape)
    for node in graph.nodes:
        handler = handlers.get(node.op)
        if handler is None:
            raise CExportError(f"{node.label} is not compiled; compiled are {', '.join(sorted(handlers))}")
        results, wanted = handler(work, node), [name for name in node.outputs if name]
        if len(results) != len(wanted):
            raise CExportError(f"{node.label} gives {wanted}; only {wanted[: len(results)]} is compiled")
        work.refs.update(zip(wanted, results, strict=True))
    outputs, following = [], []
    for name in graph.outputs:
        value, kept = work.value(name), name.startswith("next.")
        if value.dtype != np.float32:
            raise CExportError(f"output {name!r} is of type {value.dtype}; outputs must be float32")
        buffer = Buffer(place="next" if kept else "output", name=names.outputs[name], size=value.size, c_type="float")
        (following if kept else outputs).append(buffer)
        work.copy(work.ref(name), buffer)
    return Program(inputs=inputs, memory=memory, following=following, outputs=outputs, steps=work.steps)
