"""Several networks as one: the weighted mean of their actions, by fixed weights or by those that a further network gives.

The result is a network like any other: `onnx_graph.policy_model` puts a contract around it. An expert whose action is not finite does
not count, and neither does a weight that is not; where none counts the action is NaN, and whoever runs it holds the robot.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx

from .onnx_nodes import GraphError, NodeList, embed, opset_of, prepared, shape_of, tensor

WEIGHTS, ACTIONS = "part.expert_weight", "part.expert_action"


@dataclass(frozen=True, kw_only=True)
class Expert:
    """A network: observation (1, d) -> action (1, a), and for each state it keeps one further input and output (1, width)."""

    network: onnx.ModelProto
    memory: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """What `mixture` makes, as `policy_model` takes it."""

    network: onnx.ModelProto
    memory: dict[str, int]
    parts: dict[
        str, int
    ]  # further outputs: each expert's share in the action (k), and their actions one after the other (k a)


def mixture(experts: Sequence[Expert], weights: Sequence[float] | onnx.ModelProto) -> Mixture:
    """One network of several.

    Args:
        experts: for the same observation and actions.
        weights: one for each, not negative; or a network, observation (1, d) -> (1, k), whose negative outputs count as 0.

    Raises:
        GraphError: networks that do not fit together, or weights that cannot be.
    """
    nodes, models = NodeList("mixture"), [prepared(expert.network) for expert in experts]
    width, actions = _common_widths(models)
    memory = {f"expert{i}.{name}": size for i, expert in enumerate(experts) for name, size in expert.memory.items()}
    given = [
        _expert(nodes, index, model, expert) for index, (model, expert) in enumerate(zip(models, experts, strict=True))
    ]
    opsets = [opset_of(model) for model in models]
    if isinstance(weights, onnx.ModelProto):
        chooser = prepared(weights)
        opsets.append(opset_of(chooser))
        share = _chosen(nodes, chooser, width, len(experts))
    else:
        share = nodes.row(_checked(weights, len(experts)))
    _mean(nodes, given, share, actions)
    parts = {WEIGHTS: len(experts), ACTIONS: len(experts) * actions}
    inputs = [tensor("observation", width), *(tensor(f"state.{name}", size) for name, size in memory.items())]
    outputs = [tensor("action", actions), *(tensor(f"next.{name}", size) for name, size in memory.items())]
    outputs += [tensor(name, size) for name, size in parts.items()]
    return Mixture(network=nodes.model("mixture", inputs, outputs, max(opsets)), memory=memory, parts=parts)


def _expert(nodes: NodeList, index: int, model: onnx.ModelProto, expert: Expert) -> str:
    """Add an expert; returns its action's name."""
    action, own = f"expert{index}/action", [f"expert{index}.{name}" for name in expert.memory]
    inner, outer = ["observation", *(f"state.{n}" for n in own)], [action, *(f"next.{n}" for n in own)]
    ends = (*model.graph.input, *model.graph.output)
    if len(ends) != len(inner) + len(outer):
        raise GraphError(
            f"expert {index} has tensors {[v.name for v in ends]}; expected observation, action and the memory {list(expert.memory)}"
        )
    embed(nodes, model, f"expert{index}", {v.name: n for v, n in zip(ends, (*inner, *outer), strict=True)})
    return action


def _chosen(nodes: NodeList, chooser: onnx.ModelProto, width: int, count: int) -> str:
    shapes = [[shape_of(v) for v in values] for values in (chooser.graph.input, chooser.graph.output)]
    if shapes != [[[1, width]], [[1, count]]]:
        raise GraphError(
            f"the network of weights goes from {shapes[0]} to {shapes[1]}; expected {[1, width]} to {[1, count]}"
        )
    names = {chooser.graph.input[0].name: "observation", chooser.graph.output[0].name: "chooser/weights"}
    embed(nodes, chooser, "chooser", names)
    return nodes.add("Relu", "chooser/weights")


def _mean(nodes: NodeList, actions: list[str], share: str, width: int) -> None:
    """Weighted mean of what is finite; x * 0 is 0 exactly for finite x, else NaN."""
    zero, axis = nodes.constant(np.float32(0.0)), nodes.constant(np.array([1]))
    whole = [_is_finite(nodes, action, zero, axis) for action in actions]
    counts = nodes.add("And", nodes.concat(whole), _each_is_finite(nodes, share, zero))
    share = nodes.where(counts, share, zero)
    share = nodes.add("Div", share, nodes.add("ReduceSum", share, axis, keepdims=1), name=WEIGHTS)
    kept = [nodes.where(fine, action, zero) for fine, action in zip(whole, actions, strict=True)]
    by_expert = nodes.add("Concat", *kept, axis=1, name=ACTIONS)
    table = nodes.add("Reshape", by_expert, nodes.constant(np.array([len(actions), width])))
    nodes.add("MatMul", share, table, name="action")


def _is_finite(nodes: NodeList, value: str, zero: str, axis: str) -> str:
    """Whether all of a value is finite, (1, 1) bool."""
    total = nodes.add("ReduceSum", nodes.add("Mul", value, zero), axis, keepdims=1)
    return nodes.add("Not", nodes.add("IsNaN", total))


def _each_is_finite(nodes: NodeList, value: str, zero: str) -> str:
    return nodes.add("Not", nodes.add("IsNaN", nodes.add("Mul", value, zero)))


def _common_widths(models: Sequence[onnx.ModelProto]) -> tuple[int, int]:
    """Widths of observation and action, the same in all."""
    if len(models) < 2:
        raise GraphError(f"a mixture is of two experts at least, got {len(models)}")
    found = {(tuple(shape_of(m.graph.input[0])), tuple(shape_of(m.graph.output[0]))) for m in models}
    if len(found) != 1:
        raise GraphError(
            f"experts have observations and actions of shapes {sorted(map(str, found))}; they must be the same"
        )
    observation, action = found.pop()
    for shape in (observation, action):
        if len(shape) != 2 or shape[0] != 1 or not isinstance(shape[1], int):
            raise GraphError(f"experts have a tensor of shape {list(shape)}; expected [1, width]")
    return int(observation[1]), int(action[1])


def _checked(weights: Sequence[float], count: int) -> np.ndarray:
    numbers = np.asarray(weights, dtype=np.float64)
    if numbers.shape != (count,) or not np.isfinite(numbers).all() or (numbers < 0).any() or not numbers.any():
        raise GraphError(f"weights {list(weights)} must be {count} finite numbers, none negative, not all 0")
    return numbers
