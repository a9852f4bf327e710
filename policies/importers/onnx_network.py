"""Other tools' ONNX networks in the form that `onnx_graph.policy_model` takes: (1, d) -> (1, a), then each state (1, width)."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

from isthmus.hardware.errors import IsthmusError

from ..onnx_nodes import NodeList, prepared, tensor
from .common import ImportFailed

# Counters and flags are kept as float32, which counts whole numbers up to 2^24.
STATES = (TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL)


def plain_network(
    model: onnx.ModelProto,
    source: str,
    *,
    observation: str | Sequence[str],
    action: str,
    memory: Mapping[str, str] | None = None,
    initial: Mapping[str, np.ndarray] | None = None,
) -> tuple[onnx.ModelProto, dict[str, int]]:
    """A network with one observation, one action and states of one row each, which are zero at reset.

    Args:
        model: of any opset; the first dimension of its tensors may be open.
        source: the file, for errors.
        observation: name of its input, or of several that stand side by side in the observation.
        action: name of its output.
        memory: for each input that is a state the output that is its next value.
        initial: what a state is at reset where that is not 0; its difference from that is kept.

    Returns:
        The network, and the width of each state.

    Raises:
        ImportFailed: an input or output that is missing, or one too many.
    """
    memory, initial = memory or {}, initial or {}
    seen = [observation] if isinstance(observation, str) else list(observation)
    model = pruned(modern(model, source), [action, *memory.values()], source)
    inputs = {value.name: value for value in model.graph.input}
    if sorted(inputs) != sorted((*seen, *memory)):
        raise ImportFailed(f"{source}: inputs {sorted(inputs)}; expected {[*seen, *memory]}")
    shapes = {name: shape(inputs[name], source) for name in seen}
    shapes |= {name: shape(inputs[name], source, STATES) for name in memory}
    widths = {name: int(np.prod(dims)) for name, dims in shapes.items()}
    nodes, total = NodeList("import"), sum(widths[name] for name in seen)
    start = 0
    for name in seen:
        places = list(range(start, start + widths[name]))
        _shaped(nodes, nodes.columns("observation/row", places, total), name, shapes[name])
        start += widths[name]
    for name in memory:
        row = nodes.shifted(_row(name), _flat(initial, name, widths))
        row = nodes.add("Cast", row, to=inputs[name].type.tensor_type.elem_type)
        _shaped(nodes, row, name, shapes[name])
    nodes.nodes += model.graph.node
    count = output_width(model, action, source)
    _shaped(nodes, action, _row(action), (1, count))
    for name, following in memory.items():
        _shaped(nodes, nodes.add("Cast", following, to=TensorProto.FLOAT), f"{following}/flat", (1, widths[name]))
        nodes.add("Add", f"{following}/flat", nodes.row(-_flat(initial, name, widths)), name=_row(following))
    graph = helper.make_graph(
        nodes.nodes,
        "network",
        [tensor("observation/row", total), *(tensor(_row(name), widths[name]) for name in memory)],
        [tensor(_row(action), count), *(tensor(_row(out), widths[name]) for name, out in memory.items())],
        [*model.graph.initializer, *nodes.constants.values()],
    )
    return rebuilt(model, graph, source), {name: widths[name] for name in memory}


def _shaped(nodes: NodeList, value: str, name: str, dims: tuple[int, ...]) -> None:
    nodes.add("Reshape", value, nodes.constant(np.array(dims, dtype=np.int64)), name=name)


def _flat(initial: Mapping[str, np.ndarray], name: str, widths: Mapping[str, int]) -> np.ndarray:
    """A state's value at reset, (width,)."""
    value = np.asarray(initial.get(name, np.zeros(widths[name])), dtype=np.float32).reshape(-1)
    if value.shape != (widths[name],) or not np.isfinite(value).all():
        raise ImportFailed(f"initial value of {name!r}: expected {widths[name]} finite numbers, got {value.size}")
    return value


def recurrent_network(model: onnx.ModelProto, source: str) -> tuple[onnx.ModelProto, dict[str, int]]:
    """A network of the exporters of Isaac Lab and rsl-rl: obs -> actions, with h_in, c_in -> h_out, c_out where it has memory."""
    inputs = {value.name for value in model.graph.input}
    memory = {name: out for name, out in (("h_in", "h_out"), ("c_in", "c_out")) if name in inputs}
    return plain_network(model, source, observation="obs", action="actions", memory=memory)


def modern(model: onnx.ModelProto, source: str) -> onnx.ModelProto:
    """The model in an opset that contracts are written in, or newer."""
    try:
        return prepared(model)
    except IsthmusError as error:
        raise ImportFailed(f"{source}: {error}") from None


def _row(name: str) -> str:
    return f"{name}/row"


def pruned(model: onnx.ModelProto, outputs: Iterable[str], source: str) -> onnx.ModelProto:
    """The part of a model that some of its outputs depend on; inputs that it does not need are gone."""
    outputs = list(outputs)
    known = {value.name: value for value in model.graph.output}
    absent = [name for name in outputs if name not in known]
    if absent:
        raise ImportFailed(f"{source}: no outputs {absent}; it has {sorted(known)}")
    wanted, kept = set(outputs), list[onnx.NodeProto]()
    for node in reversed(model.graph.node):  # nodes are in topological order
        if wanted.intersection(node.output):
            wanted.update(node.input)
            wanted.update(_captured(node))
            kept.append(node)
    weights = {weight.name for weight in model.graph.initializer}
    graph = helper.make_graph(
        kept[::-1],
        model.graph.name or "network",
        [value for value in model.graph.input if value.name in wanted and value.name not in weights],
        [known[name] for name in outputs],
        [weight for weight in model.graph.initializer if weight.name in wanted],
    )
    return rebuilt(model, graph, source)


def _captured(node: onnx.NodeProto) -> set[str]:
    """Values that the graphs inside a node take from outside."""
    graphs = [attribute.g for attribute in node.attribute if attribute.type == onnx.AttributeProto.GRAPH]
    return {name for graph in graphs for inner in graph.node for name in (*inner.input, *_captured(inner))}


def rebuilt(model: onnx.ModelProto, graph: onnx.GraphProto, source: str) -> onnx.ModelProto:
    """A checked model of another graph, with the opset of the one it was made from and no metadata."""
    new = helper.make_model(graph, opset_imports=list(model.opset_import), ir_version=model.ir_version)
    try:
        onnx.checker.check_model(new)
    except onnx.checker.ValidationError as error:
        raise ImportFailed(f"{source}: its parts do not make a valid model: {error}") from None
    return new


def shape(value: onnx.ValueInfoProto, source: str, kinds: tuple[int, ...] = (TensorProto.FLOAT,)) -> tuple[int, ...]:
    """A tensor's shape, of one of the element types, one row: an open first dimension counts as 1; other open ones are refused."""
    kind, dims = value.type.tensor_type, value.type.tensor_type.shape.dim
    sizes = [dim.dim_value if dim.HasField("dim_value") else -1 for dim in dims]
    if sizes and sizes[0] == -1:
        sizes[0] = 1
    if kind.elem_type not in kinds or not sizes or min(sizes) < 1:
        names = [TensorProto.DataType.Name(known) for known in (kind.elem_type, *kinds)]
        raise ImportFailed(
            f"{source}: {value.name!r} is {names[0]} of shape {sizes}; expected {names[1:]} of known size"
        )
    return tuple(sizes)


def output_width(model: onnx.ModelProto, name: str, source: str) -> int:
    """Number of values of an output."""
    inferred = onnx.shape_inference.infer_shapes(model)
    value = next(value for value in (*inferred.graph.output, *inferred.graph.value_info) if value.name == name)
    return int(np.prod(shape(value, source)))
