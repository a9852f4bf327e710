"""A trained network and its contract as one bundle."""

import tempfile
import warnings
from pathlib import Path

import numpy as np
import onnx
import torch
from torch import nn

from isthmus.sim.world import World

from ..bundle import Bundle, target_output
from ..bundle_writer import write_bundle
from ..contract import Contract
from ..manifest import SCHEMA, Manifest, Provenance, StateSpec
from ..onnx_graph import policy_model
from ..onnx_nodes import OPSET
from .graph import PolicyGraph
from .met import observe_training

GOLDEN_ROWS = 64


def export_bundle(path: Path, contract: Contract, network: nn.Module, world: World, provenance: Provenance) -> Bundle:
    """Write the bundle, its golden rows replayed.

    Args:
        path: the .onnx file to write.
        contract: what the network was trained with.
        network: observation (batch, d) -> action (batch, a).
        world: gives what the policy meets there in an episode of each environment, and the golden rows: consecutive ticks of the first.
        provenance: goes into the manifest.
    """
    graph = PolicyGraph(contract, network).eval()
    states = tuple(StateSpec(name=n, width=w) for n, w in graph.state_widths.items())
    met = observe_training(graph, world)
    manifest = Manifest(
        schema=SCHEMA,
        name=contract.task,
        contract=contract,
        states=states,
        residual=None,
        provenance=provenance,
        distribution=met.distribution(),
        envelope=met.envelope(contract),
        sources=(),
    )
    return write_bundle(path, to_onnx(graph), manifest, golden_rows(graph, world))


def to_onnx(graph: PolicyGraph) -> onnx.ModelProto:
    """The contract's plan around the network, as ONNX: static batch 1, weights inline."""
    network, memory = graph.network, getattr(graph.network, "state_widths", {})
    sizes = [graph.observation_width, *memory.values()]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.onnx"
        _torch_export(network, sizes, list(memory), path)
        model = onnx.load(str(path))
    return policy_model(graph.contract_graph.contract, model, memory=memory)


def _torch_export(network: nn.Module, sizes: list[int], memory: list[str], path: Path) -> None:
    with warnings.catch_warnings():
        # Of networks with memory: theirs is an input, and the batch is 1.
        warnings.filterwarnings("ignore", message="Exporting a model to ONNX with a batch_size other than 1")
        warnings.filterwarnings("ignore", module="torch.nn.modules.rnn")
        torch.onnx.export(
            network,
            tuple(torch.zeros(1, size) for size in sizes),
            str(path),
            input_names=["observation", *(f"state.{name}" for name in memory)],
            output_names=["action", *(f"next.{name}" for name in memory)],
            opset_version=OPSET,
            dynamo=False,  # the other exporter writes the weights to a second file
        )


@torch.no_grad()
def golden_rows(graph: PolicyGraph, world: World) -> dict[str, np.ndarray]:
    """Consecutive signals and outputs from torch itself, (GOLDEN_ROWS, width) by tensor name."""
    world.reset(torch.arange(world.num_envs))
    state = {name: torch.zeros(world.num_envs, width) for name, width in graph.state_widths.items()}
    target = target_output(graph.contract_graph.contract)
    rows: dict[str, list[np.ndarray]] = {}
    for _ in range(GOLDEN_ROWS):
        signals = world.read()
        outputs = graph(*(signals[name] for name in graph.signal_names), *state.values())
        named = dict(zip(graph.output_names, outputs, strict=True))
        for name in graph.signal_names:
            rows.setdefault(name, []).append(signals[name][0].numpy().copy())
        for name in (target, "base_action"):
            rows.setdefault(name, []).append(named[name][0].numpy().copy())
        state = {name: named[f"next.{name}"] for name in state}
        world.write(named[target])
        world.step()
    return {name: np.stack(values) for name, values in rows.items()}
