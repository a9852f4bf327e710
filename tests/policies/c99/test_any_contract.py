"""Whatever the contract - lags, fills, clocks, chunks, every action space - its graph in C gives what the graph gives."""

import tempfile
from pathlib import Path

import numpy as np
import onnx
from c_graphs import OPSET, GraphMaker
from c_policies import OnnxPolicy, build, largest_error, needs_gcc
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_contracts import contracts, random_network, random_signals

from isthmus.policies.bundle import target_output
from isthmus.policies.c99.compiler import compile_model
from isthmus.policies.contract import Contract
from isthmus.policies.onnx_graph import policy_model

pytestmark = needs_gcc
CONTRACTS, TICKS = 16, 40  # in one library
LARGE = [HealthCheck.data_too_large, HealthCheck.too_slow, HealthCheck.large_base_example]


def graph(contract: Contract) -> onnx.ModelProto:
    weight, bias = random_network(contract, 0)
    maker = GraphMaker()
    names = [maker.constant(np.asarray(values, dtype=np.float32)) for values in (weight, bias)]
    layer = maker.add("Gemm", maker.input((1, weight.shape[1]), "observation"), *names, transB=1)
    maker.add("Tanh", layer, output="action")
    network = onnx.load_model_from_string(maker.model(["action"], opset=min(OPSET, 18)))
    del network.graph.output[0].type.tensor_type.shape.dim[:]
    network.graph.output[0].type.tensor_type.shape.dim.add().dim_value = 1
    network.graph.output[0].type.tensor_type.shape.dim.add().dim_value = weight.shape[0]
    return policy_model(contract, network)


@settings(max_examples=4, deadline=None, suppress_health_check=LARGE)
@given(st.lists(contracts(), min_size=CONTRACTS, max_size=CONTRACTS))
def test_any_contract_in_c_gives_what_its_graph_gives(drawn: list[Contract]) -> None:
    models = [graph(contract).SerializeToString() for contract in drawn]
    with tempfile.TemporaryDirectory() as folder:
        policies = build([compile_model(m, name=f"policy{k}") for k, m in enumerate(models)], Path(folder))
        for policy, model, contract in zip(policies, models, drawn, strict=True):
            rows, outputs = random_signals(contract, TICKS, 1), [target_output(contract), "observation"]
            theirs = OnnxPolicy(model, outputs)
            for tick in range(TICKS):
                code, found = policy.step({name: rows[name][tick] for name in policy.inputs})
                assert code == 0
                for name, expected in theirs.step({name: values[tick] for name, values in rows.items()}).items():
                    assert largest_error(found[name], expected) < 1e-5, (tick, name)
