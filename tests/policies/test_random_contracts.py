"""Whatever the contract: the words of its docstrings in float64 == torch == the exported ONNX graph, over consecutive ticks."""

import numpy as np
import onnxruntime as ort
import torch
from contract_oracle import Oracle
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_contracts import contracts, random_network, random_signals

from isthmus.policies.bundle import target_output
from isthmus.policies.learning.graph import PolicyGraph
from isthmus.policies.onnx_graph import policy_model
from isthmus.policies.onnx_nodes import OPSET, NodeList, tensor

TICKS = 24


def linear_tanh(weight, bias):
    layer = torch.nn.Linear(weight.shape[1], weight.shape[0])
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(weight))
        layer.bias.copy_(torch.from_numpy(bias))
    return torch.nn.Sequential(layer, torch.nn.Tanh(), torch.nn.Hardtanh(-5.0, 5.0))


def by_oracle(contract, rows, weight, bias):
    oracle, seen, targets = Oracle(contract), [], []
    for tick in range(TICKS):
        signals = {name: values[tick] for name, values in rows.items()}
        seen.append(oracle.observe(signals))
        targets.append(oracle.act(np.tanh(weight @ seen[-1] + bias), signals))
    return np.array(seen), np.array(targets)


def by_torch(graph, rows):
    state = {name: torch.zeros(1, width) for name, width in graph.state_widths.items()}
    seen, targets = [], []
    for tick in range(TICKS):
        signals = [torch.from_numpy(rows[name][tick : tick + 1]) for name in graph.signal_names]
        with torch.no_grad():
            named = dict(zip(graph.output_names, graph(*signals, *state.values()), strict=True))
        state = {name: named[f"next.{name}"] for name in state}
        seen.append(named["observation"][0].numpy())
        targets.append(named[target_output(graph.contract_graph.contract)][0].numpy())
    return np.array(seen), np.array(targets)


def network_model(weight, bias):
    """The same network, made by hand: exporting it three hundred times would take minutes."""
    nodes = NodeList("made")
    layer = nodes.add("Gemm", "observation", nodes.constant(weight.T), nodes.row(bias))
    nodes.add("Tanh", layer, name="action")
    return nodes.model("network", [tensor("observation", weight.shape[1])], [tensor("action", weight.shape[0])], OPSET)


def by_onnx(graph, rows, weight, bias):
    model = policy_model(graph.contract_graph.contract, network_model(weight, bias))
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    state = {f"state.{name}": np.zeros((1, width), np.float32) for name, width in graph.state_widths.items()}
    seen, targets = [], []
    for tick in range(TICKS):
        feeds = {name: rows[name][tick : tick + 1] for name in graph.signal_names}
        named = dict(zip(names, session.run(None, feeds | state), strict=True))
        state = {name: named["next." + name.removeprefix("state.")] for name in state}
        seen.append(np.asarray(named["observation"])[0])
        targets.append(np.asarray(named[target_output(graph.contract_graph.contract)])[0])
    return np.array(seen), np.array(targets)


@settings(max_examples=400, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(contract=contracts(), seed=st.integers(0, 1000))
def test_any_contract_means_the_same_to_everybody(contract, seed):
    rows = random_signals(contract, TICKS, seed)
    weight, bias = random_network(contract, seed)
    graph = PolicyGraph(contract, linear_tanh(weight, bias)).eval()
    wanted = by_oracle(contract, rows, weight, bias)
    for got in (by_torch(graph, rows), by_onnx(graph, rows, weight, bias)):
        for ours, theirs in zip(got, wanted, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=2e-5, rtol=1e-5)
