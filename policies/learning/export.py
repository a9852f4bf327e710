"""A trained network and its contract as one bundle."""

import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import helper
from torch import nn

from isthmus.sim.world import World

from ..bundle import Bundle, Manifest, Provenance, StateSpec, encode_metadata, load_bundle, seal, target_output
from ..contract import Contract
from .graph import PolicyGraph

OPSET = 18
GOLDEN_ROWS = 64


def export_bundle(path: Path, contract: Contract, network: nn.Module, world: World, provenance: Provenance) -> Bundle:
    """Write the bundle and load it again, golden rows replayed.

    Args:
        path: the .onnx file to write.
        contract: what the network was trained with.
        network: observation (batch, d) -> action (batch, a).
        world: gives the golden rows: consecutive ticks of its first environment under this policy.
        provenance: goes into the manifest.
    """
    graph = PolicyGraph(contract, network).eval()
    states = tuple(StateSpec(name=n, width=w) for n, w in graph.state_widths.items())
    manifest = Manifest(
        schema=1, name=contract.task, contract=contract, states=states, residual=None, provenance=provenance
    )
    write_bundle(path, to_onnx(graph), manifest, golden_rows(graph, world))
    return load_bundle(path)


def write_bundle(path: Path, model: onnx.ModelProto, manifest: Manifest, golden: Mapping[str, np.ndarray]) -> None:
    """Attach manifest and golden rows to a model and write it, whole or not at all."""
    helper.set_model_props(model, encode_metadata(manifest, golden))
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(seal(model.SerializeToString()))
    temporary.replace(path)


def to_onnx(graph: PolicyGraph) -> onnx.ModelProto:
    """The graph as ONNX: static batch 1, weights inline."""
    contract = graph.contract_graph.contract
    sizes = [contract.signal_width(name) for name in graph.signal_names]
    sizes += graph.state_widths.values()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.onnx"
        _torch_export(graph, sizes, path)
        model = onnx.load(str(path))
    _keep_inputs(model, graph.input_names, sizes)
    onnx.checker.check_model(model)
    return model


def _keep_inputs(model: onnx.ModelProto, names: list[str], sizes: list[int]) -> None:
    """Add the inputs that the exporter left out because this contract does not use them: a runtime gives every signal."""
    present = {value.name for value in model.graph.input}
    for name, size in zip(names, sizes, strict=True):
        if name not in present:
            model.graph.input.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, size]))


def _torch_export(graph: PolicyGraph, sizes: list[int], path: Path) -> None:
    with warnings.catch_warnings():
        # Of networks with memory: theirs is an input, and the batch is 1.
        warnings.filterwarnings("ignore", message="Exporting a model to ONNX with a batch_size other than 1")
        warnings.filterwarnings("ignore", module="torch.nn.modules.rnn")
        torch.onnx.export(
            graph,
            tuple(torch.zeros(1, size) for size in sizes),
            str(path),
            input_names=graph.input_names,
            output_names=graph.output_names,
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
