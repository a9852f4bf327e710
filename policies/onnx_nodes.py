"""A little language for ONNX graphs: nodes by method, constants shared, names made up."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, inliner, numpy_helper, version_converter

from isthmus.hardware.errors import IsthmusError

OPSET = 18


class GraphError(IsthmusError, ValueError):
    """A graph is not what it is to become part of."""


class NodeList:
    """Nodes and constants of a graph in the making. Values are named; every method returns the name of its result."""

    def __init__(self, prefix: str = "contract") -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, TensorProto] = {}
        self._prefix, self._known = prefix, {}

    def constant(self, value: np.ndarray | np.generic) -> str:
        """A constant: float32, or int64 or bool as given; the same numbers are kept once."""
        array = np.asarray(value)
        array = array.astype(np.float32) if array.dtype.kind == "f" else array
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._known:
            name = self._known[key] = f"{self._prefix}/constant_{len(self.constants)}"
            self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
        return self._known[key]

    def add(self, op: str, *inputs: str, name: str | None = None, **attributes: int) -> str:
        """One node of one output, called `name` or by number."""
        output = name or f"{self._prefix}/{op.lower()}_{len(self.nodes)}"
        node = helper.make_node(op, list(inputs), [output])
        node.attribute.extend(helper.make_attribute(key, value) for key, value in attributes.items())
        self.nodes.append(node)
        return output

    def concat(self, parts: list[str]) -> str:
        """Side by side along the values."""
        return parts[0] if len(parts) == 1 else self.add("Concat", *parts, axis=1)

    def split(self, value: str, parts: Mapping[str, int]) -> None:
        """Side by side parts of a value, by name and width."""
        node = helper.make_node("Split", [value, self.constant(np.array(list(parts.values())))], list(parts))
        node.attribute.append(helper.make_attribute("axis", 1))
        self.nodes.append(node)

    def columns(self, value: str, places: list[int], width: int) -> str:
        """Columns of a value of so many."""
        if places == list(range(width)):
            return value
        start, stop = places[0], places[0] + len(places)
        if places == list(range(start, stop)):
            return self.add("Slice", value, *(self.constant(np.array([end])) for end in (start, stop, 1)))
        return self.add("Gather", value, self.constant(np.array(places, dtype=np.int64)), axis=1)

    def bounded(self, value: str, lower: np.ndarray, upper: np.ndarray, name: str | None = None) -> str:
        """Within bounds (w,), called `name`; infinite ones bound nothing."""
        if np.isfinite(lower[0]) and np.isfinite(upper[0]) and np.ptp(lower) == 0 and np.ptp(upper) == 0:
            ends = (self.constant(np.float32(lower[0])), self.constant(np.float32(upper[0])))
            return self.add("Clip", value, *ends, name=name)
        ops = [(op, bound) for op, bound in (("Max", lower), ("Min", upper)) if np.isfinite(bound).any()]
        for op, bound in ops:
            # Finite numbers, the largest that float32 has: runtimes and compilers treat infinity in their own ways.
            row = self.row(np.nan_to_num(bound.astype(np.float32)))
            value = self.add(op, value, row, name=name if op == ops[-1][0] else None)
        return value if ops or name is None else self.add("Identity", value, name=name)

    def row(self, numbers: np.ndarray) -> str:
        """A constant of shape (1, w)."""
        return self.constant(np.asarray(numbers, dtype=np.float32)[None])

    def shifted(self, value: str, numbers: np.ndarray) -> str:
        """Value + numbers (w,)."""
        return self.add("Add", value, self.row(numbers)) if numbers.any() else value

    def scaled(self, value: str, numbers: np.ndarray) -> str:
        """Value * numbers (w,)."""
        return value if (numbers == 1.0).all() else self.add("Mul", value, self.row(numbers))

    def where(self, condition: str, yes: str, no: str) -> str:
        """Choose by a bool value."""
        return self.add("Where", condition, yes, no)

    def above_half(self, value: str) -> str:
        """Whether a state of 0 or 1 is 1, as bool."""
        return self.add("Greater", value, self.constant(np.float32(0.5)))

    def model(
        self, name: str, inputs: Sequence[onnx.ValueInfoProto], outputs: Sequence[onnx.ValueInfoProto], opset: int
    ) -> onnx.ModelProto:
        """All of it as a model, checked; raises GraphError where it is not valid."""
        graph = helper.make_graph(self.nodes, name, inputs, outputs, list(self.constants.values()))
        opsets = [helper.make_opsetid("", opset)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=helper.find_min_ir_version_for(opsets))
        try:
            onnx.checker.check_model(model, full_check=True)
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
            raise GraphError(f"the parts do not make a valid graph: {error}") from error
        return model


def tensor(name: str, width: int) -> onnx.ValueInfoProto:
    """Declaration of a float32 value of shape (1, width)."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, width])


def prepared(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model without local functions, of opset OPSET at least; raises GraphError for operators that are not ONNX's own."""
    foreign = sorted(
        {f"{node.domain}.{node.op_type}" for node in model.graph.node if node.domain not in ("", "ai.onnx")}
    )
    local = {f"{function.domain}.{function.name}" for function in model.functions}
    if foreign := [name for name in foreign if name not in local]:
        raise GraphError(f"the network has operators {foreign}, which are not ONNX's own; export it without them")
    model = inliner.inline_local_functions(model)
    if opset_of(model) >= OPSET:
        return model
    try:
        return version_converter.convert_version(model, OPSET)
    except Exception as error:  # the converter raises whatever its C++ throws
        raise GraphError(f"the network's opset {opset_of(model)} cannot be brought to {OPSET}: {error}") from error


def opset_of(model: onnx.ModelProto) -> int:
    """Version of ONNX's own operators."""
    return max((opset.version for opset in model.opset_import if opset.domain in ("", "ai.onnx")), default=0)


def shape_of(value: onnx.ValueInfoProto) -> list[int | str]:
    """Sizes, by name where they are not fixed."""
    return [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]


def embed(nodes: NodeList, model: onnx.ModelProto, prefix: str, names: Mapping[str, str]) -> None:
    """Add a model's nodes and weights, values called `prefix/...` but for those that `names` gives another name."""
    taken = dict(names)

    def named(value: str) -> str:
        return taken.setdefault(value, f"{prefix}/{value}") if value else value

    ends = {value.name for value in model.graph.output}
    for weight in model.graph.initializer:
        copy = TensorProto()
        copy.CopyFrom(weight)
        if weight.name in ends:  # a weight that is an output as it is
            copy.name = f"{prefix}/{weight.name}/constant"
            nodes.add("Identity", copy.name, name=named(weight.name))
        else:
            copy.name = named(weight.name)
        nodes.constants[copy.name] = copy
    for node in model.graph.node:
        if any(a.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for a in node.attribute):
            raise GraphError(
                f"node {node.name!r} ({node.op_type}) has graphs of its own; export without branches or loops"
            )
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.name = f"{prefix}/{node.name}" if node.name else ""
        copy.input[:] = [named(name) for name in node.input]
        copy.output[:] = [named(name) for name in node.output]
        nodes.nodes.append(copy)
