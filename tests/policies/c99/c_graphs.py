"""Small ONNX models for tests."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
import onnx.shape_inference
from onnx import helper, numpy_helper

OPSET = 20


class GraphMaker:
    """Collects nodes, weights and inputs; values are known by name."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.count = 0

    def new(self, prefix: str = "v") -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def input(self, shape: Sequence[int], name: str = "") -> str:
        name = name or self.new("in")
        self.inputs.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, list(shape)))
        return name

    def constant(self, values: np.ndarray | np.generic, name: str = "") -> str:
        name = name or self.new("c")
        self.weights.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def add(self, op: str, *inputs: str, outputs: int = 1, output: str = "", **attributes: Any) -> str:
        names = [output] if output else [self.new() for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, name=f"{op}_{self.count}", **attributes))
        return names[0]

    def last_outputs(self) -> list[str]:
        return list(self.nodes[-1].output)

    def model(self, outputs: Mapping[str, str] | Sequence[str], opset: int = OPSET) -> bytes:
        """The model with float outputs; a mapping names them anew."""
        nodes, names = list(self.nodes), list(outputs)
        if isinstance(outputs, Mapping):
            nodes += [helper.make_node("Identity", [inner], [name]) for name, inner in outputs.items()]
        results = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in names]
        graph = helper.make_graph(nodes, "test", self.inputs, results, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
        return onnx.shape_inference.infer_shapes(model, data_prop=True).SerializeToString()


def one(
    op: str,
    shapes: Sequence[Sequence[int]],
    *constants: np.ndarray | None,
    cast: bool = False,
    opset: int = OPSET,
    **attributes: Any,
) -> bytes:
    """A model of one operation on inputs of these shapes and constants after them; None for an absent one."""
    maker = GraphMaker()
    names = [maker.input(shape) for shape in shapes]
    names += ["" if values is None else maker.constant(values) for values in constants]
    result = maker.add(op, *names, **attributes)
    if cast:
        result = maker.add("Cast", result, to=onnx.TensorProto.FLOAT)
    return maker.model({"y": result}, opset)


def mlp(sizes: Sequence[int], activation: str = "Elu", seed: int = 0, opset: int = OPSET) -> bytes:
    """Layers with random weights and an activation between them, from `obs` to `action`."""
    rng, maker = np.random.default_rng(seed), GraphMaker()
    value = maker.input([1, sizes[0]], "obs")
    for layer, (width, rows) in enumerate(pairwise(sizes)):
        weights = maker.constant(rng.normal(0.0, width**-0.5, (rows, width)).astype(np.float32))
        bias = maker.constant(rng.normal(0.0, 0.1, rows).astype(np.float32))
        last = layer == len(sizes) - 2
        value = maker.add("Gemm", value, weights, bias, transB=1, output="action" if last else "")
        value = value if last else maker.add(activation, value)
    return maker.model(["action"], opset)
