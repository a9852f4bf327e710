"""Base, residual and gate merged into one ONNX graph that runs like any other policy.

a = clip(clip(base) + gate * residual) with the contract's own clip, then the contract's rule. The base's nodes and weights are kept as
they are; only its own target and its empty parts give way to the composed ones. Metadata (manifest, golden rows) belongs to the
base alone and is left behind; `learning.composed_bundle` makes a bundle of the result.
"""

from collections.abc import Iterable

import numpy as np
import onnx
from onnx import TensorProto, helper, inliner

from isthmus.hardware.errors import IsthmusError

from .bundle import target_output
from .contract import Contract, JointIntegral, PerJoint
from .onnx_graph import PARTS, add_target
from .onnx_nodes import NodeList
from .plan import action_plan

RESIDUAL_INPUTS = ("observation", "base_action", "state.gate")
RESIDUAL_OUTPUTS = ("residual_action", "gate_prob", "gate")


class ComposeError(IsthmusError, ValueError):
    """Two graphs do not fit together."""


def compose(
    base: onnx.ModelProto, residual: onnx.ModelProto, contract: Contract, *, bound: PerJoint | None = None
) -> onnx.ModelProto:
    """One graph of base, residual and gate.

    A residual, or a gate probability, that is not finite counts as residual 0, probability 0 and gate 0: the base continues.

    Args:
        base: signals and `state.*` -> BASE_OUTPUTS and `next.*`; has no gate of its own.
        residual: RESIDUAL_INPUTS -> RESIDUAL_OUTPUTS, e.g. from `learning.residual.export_residual`.
        contract: the base's; gives driven joints, rule and limits.
        bound: of the residual, either way, in action units, one for all driven joints or one each; None: what its network keeps by itself.

    Raises:
        ComposeError: a graph lacks a tensor or has one too many, shapes differ, opsets differ, or the result is not valid ONNX.
    """
    base, residual = inliner.inline_local_functions(base), inliner.inline_local_functions(residual)
    _check_action(contract)
    _check_graphs(base, residual, contract)
    replaced = {target_output(contract), *RESIDUAL_OUTPUTS}
    base_nodes, base_kept = _live_part(base.graph, [v.name for v in base.graph.output if v.name not in replaced])
    base_names = {name: f"base/{name}" for name in replaced}
    residual_names = {name: f"residual/{name}" for name in _value_names(residual.graph)}
    residual_names |= {"observation": "observation", "base_action": "base_action", "state.gate": "state.gate"}
    rule, guard = _rule(contract), _guard(contract, bound)
    graph = helper.make_graph(
        [
            *_renamed(base_nodes, base_names, "base"),
            *_renamed(residual.graph.node, residual_names, "residual"),
            *guard.nodes,
            *rule.nodes,
        ],
        "composed_policy",
        [*base.graph.input, _tensor("state.gate", 1)],
        [*base.graph.output, _tensor("next.gate", 1)],
        [
            *_renamed_weights(base.graph.initializer, base_names, base_kept),
            *_renamed_weights(residual.graph.initializer, residual_names, set(residual_names)),
            *guard.constants.values(),
            *rule.constants.values(),
        ],
    )
    model = helper.make_model(
        graph, opset_imports=list(base.opset_import), ir_version=max(base.ir_version, residual.ir_version)
    )
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise ComposeError(f"base and residual do not make a valid graph: {error}") from error
    return model


def _guard(contract: Contract, bound: PerJoint | None) -> NodeList:
    """Residual, probability and gate of 0 unless all are finite: x * 0 is 0 exactly for finite x, else NaN. Then the bound."""
    nodes, count = NodeList("guard"), len(contract.action.joints)
    zero, axis = nodes.constant(np.float32(0.0)), nodes.constant(np.array([1]))
    parts = [f"residual/{name}" for name in RESIDUAL_OUTPUTS]
    total = nodes.add("ReduceSum", nodes.add("Mul", nodes.concat(parts), zero), axis, keepdims=1)
    bad = nodes.add("IsNaN", total)
    residual = nodes.where(bad, zero, parts[0])
    if bound is not None:
        limit = np.broadcast_to(np.asarray(bound, dtype=np.float64), count)
        if not (np.isfinite(limit).all() and (limit > 0).all()):
            raise ComposeError(f"bound of the residual is {bound}; expected positive numbers")
        residual = nodes.bounded(residual, -limit, limit)
    nodes.add("Identity", residual, name=RESIDUAL_OUTPUTS[0])
    for part, name in zip(parts[1:], RESIDUAL_OUTPUTS[1:], strict=True):
        nodes.add("Where", bad, zero, part, name=name)
    nodes.add("Identity", "gate", name="next.gate")
    return nodes


def _rule(contract: Contract) -> NodeList:
    """What the composed action becomes: the contract's own rule, on clip(clip(base) + gate * residual)."""
    nodes, done = NodeList("rule"), action_plan(contract)
    base = nodes.bounded("base_action", done.clip_low, done.clip_high)
    whole = nodes.add("Add", base, nodes.add("Mul", "gate", "residual_action"))
    add_target(nodes, contract, nodes.bounded(whole, done.clip_low, done.clip_high))
    return nodes


def _check_action(contract: Contract) -> None:
    rule = contract.action
    if isinstance(rule, JointIntegral) or rule.smoothing < 1.0:
        raise ComposeError(
            f"a residual is not composed onto {rule.kind!r} with smoothing {rule.smoothing}: what the base remembers of its action would"
            " not be what was done; use a base without memory of that kind"
        )


def _check_graphs(base: onnx.ModelProto, residual: onnx.ModelProto, contract: Contract) -> None:
    inputs, outputs = _shapes(base.graph.input), _shapes(base.graph.output)
    if "state.gate" in inputs:
        raise ComposeError(
            "the base has a gate already; compose with the plain base, corrections are always relative to it"
        )
    target = target_output(contract)
    _need("base", "inputs", contract.signals, inputs)
    _need("base", "outputs", (target, *PARTS), outputs)
    residual_inputs, residual_outputs = _shapes(residual.graph.input), _shapes(residual.graph.output)
    _need("residual", "outputs", RESIDUAL_OUTPUTS, residual_outputs)
    if set(residual_inputs) - set(RESIDUAL_INPUTS):
        raise ComposeError(f"the residual has inputs {sorted(residual_inputs)}; known: {', '.join(RESIDUAL_INPUTS)}")
    actions = [1, len(contract.action.joints)]
    expected = {target: [1, contract.signal_width(contract.action.target)], "base_action": actions, "gate": [1, 1]}
    expected_residual = {"residual_action": actions, "gate_prob": [1, 1], "gate": [1, 1]}
    for side, shapes, wanted in (("base", outputs, expected), ("residual", residual_outputs, expected_residual)):
        for name, shape in wanted.items():
            if shapes[name] != shape:
                raise ComposeError(f"{side} output {name} has shape {shapes[name]}, the contract says {shape}")
    for name, shape in residual_inputs.items():
        produced = [1, 1] if name == "state.gate" else outputs[name]
        if shape != produced:
            raise ComposeError(
                f"the residual reads {name} with shape {shape}, the base gives {produced}; train it on this base"
            )
    versions = [{opset.domain: opset.version for opset in model.opset_import}.get("") for model in (base, residual)]
    if versions[0] != versions[1]:
        raise ComposeError(
            f"base and residual must use one ONNX opset, got {versions[0]} and {versions[1]}; export both with the same"
        )


def _need(side: str, kind: str, names: Iterable[str], available: dict[str, list[int]]) -> None:
    absent = [name for name in names if name not in available]
    if absent:
        raise ComposeError(f"the {side} graph has no {kind} {absent}; it has {sorted(available)}")


def _shapes(values: Iterable[onnx.ValueInfoProto]) -> dict[str, list[int]]:
    return {value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in values}


def _tensor(name: str, width: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, width])


def _value_names(graph: onnx.GraphProto) -> set[str]:
    names = {name for node in graph.node for name in (*node.input, *node.output)}
    return {name for name in names | {tensor.name for tensor in graph.initializer} if name}


def _renamed(nodes: Iterable[onnx.NodeProto], names: dict[str, str], prefix: str) -> list[onnx.NodeProto]:
    copies = []
    for node in nodes:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.name = f"{prefix}/{node.name}" if node.name else ""
        copy.input[:] = [names.get(name, name) for name in node.input]
        copy.output[:] = [names.get(name, name) for name in node.output]
        copies.append(copy)
    return copies


def _renamed_weights(tensors: Iterable[TensorProto], names: dict[str, str], kept: set[str]) -> list[TensorProto]:
    copies = []
    for tensor in tensors:
        if tensor.name in kept:
            copy = TensorProto()
            copy.CopyFrom(tensor)
            copy.name = names.get(tensor.name, tensor.name)
            copies.append(copy)
    return copies


def _live_part(graph: onnx.GraphProto, outputs: Iterable[str]) -> tuple[list[onnx.NodeProto], set[str]]:
    """Nodes that the outputs depend on, in order, and every value among them; the rest only served what is replaced."""
    wanted, nodes = set(outputs), []
    for node in reversed(graph.node):  # nodes are in topological order
        if wanted.intersection(node.output):
            wanted.update(node.input)
            nodes.append(node)
    return nodes[::-1], wanted
