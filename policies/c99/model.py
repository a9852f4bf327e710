"""An ONNX model read for compilation: functions inlined, every shape and type known, constants computed, dead nodes gone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .names import CExportError

if TYPE_CHECKING:
    import onnx

OLDEST_OPSET = 13
NEWEST_IR = 10  # that every supported onnxruntime reads; newer ones add types that are not compiled
MOST_VALUES = 1 << 22  # of one tensor, 16 MB of float32
MOST_NODES = 20_000
DRAWN = ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli")

Attribute = int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...] | np.ndarray


@dataclass(frozen=True, kw_only=True, eq=False)
class Value:
    """A tensor of the graph."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    constant: np.ndarray | None  # what it is, whatever the inputs are

    @property
    def size(self) -> int:
        """Number of values."""
        return int(np.prod(self.shape, dtype=np.int64))


@dataclass(frozen=True, kw_only=True, eq=False)
class Node:
    """An operation; absent optional inputs are ""."""

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Attribute]

    @property
    def label(self) -> str:
        """How errors name it."""
        return f"node {self.name or self.outputs[0]!r} ({self.op})"


@dataclass(frozen=True, kw_only=True, eq=False)
class Graph:
    """A whole model. Nodes are in topological order and none of them is constant."""

    nodes: tuple[Node, ...]
    values: dict[str, Value]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def read_model(data: bytes, outputs: Sequence[str] | None = None) -> Graph:
    """The part of a serialised model that some of its outputs need; None: all outputs.

    Raises:
        CExportError: the model is damaged, has dynamic shapes, weights elsewhere, or operations that are not of ONNX itself.
    """
    model = _parse(data)
    names = tuple(outputs) if outputs is not None else tuple(v.name for v in model.graph.output)
    _check(model, names)
    inputs = {v.name: _static_shape(v) for v in _true_inputs(model)}
    live = _live_nodes(model, names)
    del model.graph.node[:]
    model.graph.node.extend(live)
    _check_sizes(model)
    found = _evaluate(model, inputs)
    values = _values(model, inputs, found)
    nodes = tuple(_node(n) for n in live if any(values[o].constant is None for o in n.output if o))
    return Graph(nodes=nodes, values=values, inputs=tuple(inputs), outputs=names)


def _parse(data: bytes) -> "onnx.ModelProto":
    import onnx
    from google.protobuf.message import DecodeError
    from onnx import inliner

    try:
        model = onnx.load_model_from_string(data)
    except DecodeError as error:
        raise CExportError(f"not an ONNX model: {error}") from None
    _check_valid(model)
    return inliner.inline_local_functions(model) if model.functions else model


def _check_valid(model: "onnx.ModelProto") -> None:
    """Refuse a damaged model before anything looks into it."""
    import onnx

    graph = model.graph
    names = [*(v.name for v in (*graph.input, *graph.output, *graph.initializer)), *(n.op_type for n in graph.node)]
    names += [name for node in graph.node for name in (node.name, *node.input, *node.output)]
    if not all(isinstance(name, str) for name in names):
        raise CExportError("the model is damaged: it has names that are no text")
    for tensor in model.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise CExportError(
                f"weight {tensor.name!r} is kept in another file; save the model with its weights inside"
            )
    try:
        onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, ValueError) as error:  # ValueError where not even the parts can be read
        raise CExportError(f"not a valid ONNX model: {error}") from None


def _check(model: "onnx.ModelProto", outputs: Sequence[str]) -> None:

    versions = {opset.domain: opset.version for opset in model.opset_import}
    version = versions.get("", versions.get("ai.onnx", 0))
    if version < OLDEST_OPSET:
        raise CExportError(f"the model is of ONNX opset {version}; export it with opset {OLDEST_OPSET} or newer")
    if len(model.graph.node) > MOST_NODES:
        raise CExportError(f"the model has {len(model.graph.node)} nodes; at most {MOST_NODES} are compiled")
    given = [v.name for v in model.graph.output]
    missing = [name for name in outputs if name not in given]
    if missing:
        raise CExportError(f"the model has no outputs {missing}; it has {given}")
    for node in model.graph.node:
        _check_node(node)


def _check_node(node: "onnx.NodeProto") -> None:
    from onnx import AttributeProto

    where = f"node {node.name or (node.output[0] if node.output else '')!r} ({node.op_type})"
    if node.domain not in ("", "ai.onnx"):
        raise CExportError(f"{where} is of domain {node.domain!r}; only operations of ONNX itself are compiled")
    if node.op_type in DRAWN:
        raise CExportError(f"{where} draws random numbers; export the policy's mean instead")
    if any(a.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) for a in node.attribute):
        raise CExportError(
            f"{where} has a graph of its own; control flow is not compiled: export without branches or loops"
        )


def _true_inputs(model: "onnx.ModelProto") -> list["onnx.ValueInfoProto"]:
    weights = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in weights]


def _static_shape(value: "onnx.ValueInfoProto") -> tuple[int, ...]:
    from onnx import TensorProto

    tensor = value.type.tensor_type
    if tensor.elem_type != TensorProto.FLOAT:
        kinds = {number: name for name, number in TensorProto.DataType.items()}
        kind = kinds.get(tensor.elem_type, f"number {tensor.elem_type}")
        raise CExportError(f"input {value.name!r} is of type {kind}; inputs must be float32")
    dims = tensor.shape.dim
    if not tensor.HasField("shape") or any(not dim.HasField("dim_value") or dim.dim_value < 1 for dim in dims):
        shape = [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?" for dim in dims]
        raise CExportError(
            f"input {value.name!r} has shape {shape}; every size must be a fixed number: export with batch 1"
        )
    shape = tuple(dim.dim_value for dim in dims)
    _check_size(value.name, shape)
    return shape


def _check_size(name: str, shape: tuple[int, ...]) -> None:
    count = 1
    for size in shape:
        count *= size
    if count > MOST_VALUES:
        raise CExportError(f"tensor {name!r} has {count} values; at most {MOST_VALUES} are compiled")


def _live_nodes(model: "onnx.ModelProto", outputs: Sequence[str]) -> list["onnx.NodeProto"]:
    wanted, live = set(outputs), []
    for node in reversed(model.graph.node):  # nodes are in topological order
        if wanted.intersection(node.output):
            wanted.update(node.input)
            live.append(node)
    return live[::-1]


def _check_sizes(model: "onnx.ModelProto") -> None:
    """Before anything is computed: a small file can ask for a huge tensor."""
    from onnx import shape_inference

    for tensor in model.graph.initializer:
        _check_size(tensor.name, tuple(tensor.dims))
    try:
        inferred = shape_inference.infer_shapes(model, data_prop=True)
    except (shape_inference.InferenceError, RuntimeError, ValueError) as error:
        raise CExportError(f"the model's shapes do not fit together: {error}") from None
    for value in inferred.graph.value_info:
        _check_size(value.name, tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim))


def _evaluate(model: "onnx.ModelProto", inputs: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Every value between inputs and outputs for inputs of zero: gives shapes, types and constants."""
    import onnx
    import onnxruntime as ort

    names = [name for node in model.graph.node for name in node.output if name]
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    copy.ir_version = min(copy.ir_version, NEWEST_IR)
    del copy.metadata_props[:], copy.graph.value_info[:], copy.graph.output[:]
    copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if not names:
        return {}
    try:
        session = ort.InferenceSession(copy.SerializeToString(), options, providers=["CPUExecutionProvider"])
        known = {value.name for value in session.get_inputs()}
        feeds = {name: np.zeros(shape, dtype=np.float32) for name, shape in inputs.items() if name in known}
        results = session.run(names, feeds)
    except Exception as error:  # onnxruntime raises its own classes, one per cause
        raise CExportError(f"onnxruntime {ort.__version__} cannot run the model: {error}") from None
    wrong = [name for name, result in zip(names, results, strict=True) if not isinstance(result, np.ndarray)]
    if wrong:
        raise CExportError(f"values {wrong} are no tensors; sequences and maps are not compiled")
    return {name: np.asarray(result) for name, result in zip(names, results, strict=True)}


def _values(
    model: "onnx.ModelProto", inputs: dict[str, tuple[int, ...]], found: dict[str, np.ndarray]
) -> dict[str, Value]:
    from onnx import numpy_helper

    single = np.dtype(np.float32)
    values = {n: Value(name=n, shape=s, dtype=single, constant=None) for n, s in inputs.items()}
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        values[tensor.name] = Value(name=tensor.name, shape=array.shape, dtype=array.dtype, constant=array)
    for node in model.graph.node:
        # Shapes are static, so what depends on shapes alone is constant.
        fixed = node.op_type in ("Shape", "Size") or all(values[n].constant is not None for n in node.input if n)
        for name in node.output:
            if name:
                array = found[name]
                _check_size(name, array.shape)
                if array.size == 0 and not fixed:
                    raise CExportError(
                        f"tensor {name!r} has shape {array.shape}; tensors without values are not compiled"
                    )
                constant = array if fixed else None
                values[name] = Value(name=name, shape=array.shape, dtype=array.dtype, constant=constant)
    return values


def _node(proto: "onnx.NodeProto") -> Node:
    attributes = {a.name: _attribute(a) for a in proto.attribute}
    return Node(
        op=proto.op_type,
        name=proto.name,
        inputs=tuple(proto.input),
        outputs=tuple(proto.output),
        attributes=attributes,
    )


def _attribute(proto: "onnx.AttributeProto") -> Attribute:
    import onnx
    from onnx import helper, numpy_helper

    value = helper.get_attribute_value(proto)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, (int, float, str)):
        return value
    if isinstance(value, Sequence):
        return tuple(v.decode(errors="replace") if isinstance(v, bytes) else v for v in value)
    raise CExportError(f"attribute {proto.name!r} is of a kind that is not compiled")
