"""The network inside a bundle's graph: observation -> action, as other tools' runtimes take it, which build the observation themselves."""

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from isthmus.hardware.errors import IsthmusError

from ..contract import Contract, observation_width
from ..manifest import Manifest
from ..onnx_nodes import NodeList, embed, opset_of, prepared, tensor
from ..plan import action_plan


class ExportFailed(IsthmusError, ValueError):
    """A bundle is not expressible in another tool's format; says what it cannot say."""


@dataclass(frozen=True, kw_only=True)
class Exported:
    """A bundle in another tool's form."""

    model: onnx.ModelProto
    files: dict[str, str]  # what belongs beside it, by the ending that its name has instead of .onnx
    notes: tuple[str, ...]  # what the other tool's runtime does otherwise


def network_of(model: onnx.ModelProto, manifest: Manifest) -> onnx.ModelProto:
    """`observation` -> `base_action` out of a bundle's graph.

    Raises:
        ExportFailed: the policy has memory, a residual, or gives several actions at a time.
    """
    memory = [state.name for state in manifest.states if state.name.startswith("network.")]
    if memory or manifest.residual is not None or manifest.contract.action.chunk > 1:
        what = f"memory {memory}" if memory else "a residual" if manifest.residual else "several actions at a time"
        raise ExportFailed(f"this format takes one network from an observation to an action; the bundle has {what}")
    wanted, nodes = {"base_action"}, list[onnx.NodeProto]()
    for node in reversed(model.graph.node):  # nodes are in topological order
        if wanted.intersection(node.output) and "observation" not in node.output:
            wanted.update(node.input)
            nodes.append(node)
    weights = [weight for weight in model.graph.initializer if weight.name in wanted]
    made = {name for node in nodes for name in node.output} | {weight.name for weight in weights}
    loose = sorted(wanted - made - {"observation", ""})
    if loose:
        raise ExportFailed(f"the bundle's network reads {loose} beside the observation; this format cannot give them")
    contract = manifest.contract
    inputs = [tensor("observation", observation_width(contract))]
    outputs = [tensor("base_action", len(contract.action.joints))]
    graph = helper.make_graph(nodes[::-1], "network", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=list(model.opset_import), ir_version=model.ir_version)


@dataclass(frozen=True, kw_only=True, eq=False)
class Wiring:
    """From another tool's observation to the bundle's: value = clip(theirs[place], lower, upper) * scale."""

    width: int  # of theirs
    places: np.ndarray  # for each value of the bundle's observation its place in theirs
    lower: np.ndarray  # likewise; infinite where nothing is clipped
    upper: np.ndarray
    scale: np.ndarray


def wired(
    network: onnx.ModelProto, contract: Contract, wiring: Wiring, names: tuple[str, str], share: np.ndarray
) -> onnx.ModelProto:
    """The network from their observation, names[0], to share (a,) times the action within the contract's clip, names[1]."""
    network, nodes, done = prepared(network), NodeList("flavour"), action_plan(contract)
    seen = nodes.columns(names[0], wiring.places.tolist(), wiring.width)
    seen = nodes.scaled(nodes.bounded(seen, wiring.lower, wiring.upper), wiring.scale)
    embed(nodes, network, "network", {"observation": seen, "base_action": "flavour/action"})
    action = nodes.scaled(nodes.bounded("flavour/action", done.clip_low, done.clip_high), share)
    nodes.add("Identity", action, name=names[1])
    inputs, outputs = [tensor(names[0], wiring.width)], [tensor(names[1], len(contract.action.joints))]
    return nodes.model("policy", inputs, outputs, opset_of(network))
