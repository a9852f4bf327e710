from dataclasses import replace

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from onnx import numpy_helper

from isthmus.policies.compose import RESIDUAL_OUTPUTS, ComposeError, compose
from isthmus.policies.contract import JointPosition, observation_width
from isthmus.policies.learning.residual import GatedResidual, GateNet, ResidualNet, export_residual, hysteresis
from isthmus.policies.onnx_graph import policy_model
from isthmus.policies.onnx_nodes import OPSET, NodeList, tensor

ACTIONS, OBSERVATIONS = 5, 5 + 5 + 2 * 5 + 3


@pytest.fixture(scope="module")
def base(base_path):
    return onnx.load(base_path)


def gated_residual(alpha: float = 0.8) -> GatedResidual:
    """Trained nets as far as compose can tell: no weight is zero and the gate moves."""
    torch.manual_seed(3)
    residual = ResidualNet(OBSERVATIONS, ACTIONS, alpha=alpha, members=3)
    module = GatedResidual(residual, GateNet(OBSERVATIONS, ACTIONS, members=3)).eval()
    for net in (module.residual, module.gate):
        net.normalizer.mean.uniform_(-0.1, 0.1)
        net.normalizer.std.uniform_(0.2, 0.5)
        torch.nn.init.normal_(net.net.weights[-1], std=0.8)
    return module


@pytest.fixture(scope="module")
def exported() -> onnx.ModelProto:
    return export_residual(gated_residual(), OBSERVATIONS, ACTIONS)


def edited(model: onnx.ModelProto, **values: float) -> onnx.ModelProto:
    """A copy with whole tensors set to one number; names with __ for dots."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    tensors = {tensor.name: tensor for tensor in copy.graph.initializer}
    for name, value in values.items():
        tensor = tensors[name.replace("__", ".")]
        shape = tuple(tensor.dims)
        tensor.CopyFrom(numpy_helper.from_array(np.full(shape, value, dtype=np.float32), tensor.name))
    return copy


def constant_gate(model: onnx.ModelProto, logit: float) -> onnx.ModelProto:
    return edited(model, gate__net__weights__2=0.0, gate__net__biases__2=logit)


def run(model: onnx.ModelProto, rows, states=None):
    """Outputs by name, stacked over consecutive rows."""
    session = ort.InferenceSession(model.SerializeToString())
    names = [value.name for value in session.get_outputs()]
    shapes = {value.name: value.shape for value in session.get_inputs()}
    state = {name: np.zeros(shape, np.float32) for name, shape in shapes.items() if name.startswith("state.")}
    collected = []
    for row in rows:
        inputs = {name: value for name, value in row.items() if name in shapes}
        outputs = dict(zip(names, session.run(names, inputs | state), strict=True))
        state = {name: outputs[f"next.{name.removeprefix('state.')}"] for name in state}
        collected.append(outputs)
    return {name: np.concatenate([one[name] for one in collected]) for name in names}


@pytest.fixture(scope="module")
def rows(contract):
    """Consecutive signals, limits and leads included."""
    rng = np.random.default_rng(5)
    lower, upper = (np.array([getattr(joint, key) for joint in contract.joints]) for key in ("lower", "upper"))
    consecutive = []
    for _ in range(200):
        joint_pos = rng.uniform(lower, upper)
        signals = {
            "joint_pos": joint_pos,
            "joint_vel": rng.normal(0.0, 0.5, 6),
            "joint_target": joint_pos + rng.normal(0.0, 0.2, 6),
            "command.target": rng.uniform([0.0, -0.3, 0.0], [0.4, 0.3, 0.4]),
        }
        consecutive.append({name: value.astype(np.float32)[None] for name, value in signals.items()})
    return consecutive


def test_with_the_gate_closed_the_composed_policy_is_the_base(base, contract, exported, rows):
    model = compose(base, constant_gate(exported, -5.0), contract)
    alone, together = run(base, rows), run(model, rows)
    assert together["gate"].max() == 0.0
    assert np.abs(together["residual_action"]).max() > 0.1  # a residual is there, the gate keeps it out
    np.testing.assert_allclose(together["joint_target_next"], alone["joint_target_next"], atol=1e-6)
    for name in ("observation", "base_action", "next.started", "next.history"):
        np.testing.assert_array_equal(together[name], alone[name])


def test_the_composed_graph_agrees_with_torch(base, contract, exported, rows):
    module = gated_residual()
    together = run(compose(base, exported, contract), rows)
    gate = torch.zeros(1, 1)
    gates = []
    for index, row in enumerate(rows):
        observation = torch.from_numpy(together["observation"][index : index + 1])
        base_action = torch.from_numpy(together["base_action"][index : index + 1])
        with torch.no_grad():
            residual, probability, gate = module(observation, base_action, gate)
        np.testing.assert_allclose(together["residual_action"][index], residual[0], atol=1e-5)
        np.testing.assert_allclose(together["gate_prob"][index], probability[0], atol=1e-5)
        assert together["gate"][index, 0] == gate[0, 0] == together["next.gate"][index, 0]
        gates.append(float(gate))
        np.testing.assert_allclose(
            together["joint_target_next"][index], by_hand(contract, row, base_action, gate * residual), atol=1e-5
        )
    assert 0.1 < np.mean(gates) < 0.9  # both sides of the gate were compared


def by_hand(contract, row, base_action, added) -> np.ndarray:
    """The increment rule of contract.JointIncrement, joint by joint, in float64."""
    target = row["joint_target"][0].astype(np.float64)
    for index, name in enumerate(contract.action.joints):
        joint = contract.joint_names.index(name)
        action = np.clip(np.clip(float(base_action[0, index]), -1, 1) + float(added[0, index]), -1, 1)
        measured, lead = float(row["joint_pos"][0, joint]), contract.action.max_lead
        moved = np.clip(target[joint] + contract.action.scale * action, measured - lead, measured + lead)
        target[joint] = np.clip(moved, contract.joints[joint].lower, contract.joints[joint].upper)
    return target


def test_the_residual_has_its_say_against_a_saturated_base(base, contract, exported, rows):
    """The base action is clipped before the residual is added, so that a residual of -1 stops the strongest base."""
    stopping = edited(
        constant_gate(exported, 5.0),
        residual__alpha=2.0,
        residual__net__weights__2=0.0,
        residual__net__biases__2=float(np.arctanh(-0.5)),
    )
    together = run(compose(base, stopping, contract), rows)
    strong = together["base_action"] > 1.5
    assert strong.sum() > 10
    driven = [contract.joint_names.index(name) for name in contract.action.joints]
    joint_pos, previous = (
        np.concatenate([row[key] for row in rows])[:, driven] for key in ("joint_pos", "joint_target")
    )
    lower, upper = (np.array([getattr(contract.joints[i], key) for i in driven]) for key in ("lower", "upper"))
    free = (np.abs(previous - joint_pos) < 0.2) & (previous > lower) & (previous < upper)
    moved = together["joint_target_next"][:, driven] - previous
    assert (strong & free).sum() > 10
    np.testing.assert_allclose(moved[strong & free], 0.0, atol=1e-6)


@pytest.mark.parametrize(
    "broken", ["residual__net__weights__0", "residual__net__biases__2", "gate__net__weights__1", "gate__net__biases__2"]
)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_leave_the_base_alone(base, contract, exported, rows, broken, value):
    if value == np.inf and broken.endswith("biases__2"):
        value = np.nan  # tanh and sigmoid of infinity are finite
    model = edited(constant_gate(exported, 5.0), **{broken: value})
    if broken == "gate__net__weights__1":
        model = edited(model, gate__net__weights__2=1.0)  # so that it reaches the output
    alone, together = run(base, rows), run(compose(base, model, contract), rows)
    finite = run_is_finite(model, together)
    bad = ~finite
    assert bad.mean() > 0.5
    for name in ("residual_action", "gate", "gate_prob", "next.gate"):
        np.testing.assert_array_equal(together[name][bad], 0.0)
    np.testing.assert_allclose(together["joint_target_next"][bad], alone["joint_target_next"][bad], atol=1e-6)
    assert np.isfinite(together["joint_target_next"]).all()


def run_is_finite(residual: onnx.ModelProto, together) -> np.ndarray:
    """Rows in which the residual graph, run by itself, gives finite residual and probability."""
    inputs = [
        {"observation": together["observation"][i : i + 1], "base_action": together["base_action"][i : i + 1]}
        for i in range(len(together["observation"]))
    ]
    session = ort.InferenceSession(residual.SerializeToString())
    gate = np.zeros((1, 1), np.float32)
    outputs = [
        map(np.asarray, session.run(["residual_action", "gate_prob"], {**row, "state.gate": gate})) for row in inputs
    ]
    return np.array([np.isfinite(a).all() and np.isfinite(p).all() for a, p in outputs])


def test_a_base_that_is_not_finite_is_not_hidden(base, contract, exported, rows):
    broken = [{**rows[0], "command.target": np.full((1, 3), np.nan, np.float32)}]
    together = run(compose(base, exported, contract), broken)
    assert np.isnan(together["base_action"]).any()
    assert np.isnan(together["joint_target_next"]).any()


def test_the_gate_state_is_the_only_new_state_and_the_weights_of_the_base_are_untouched(base, contract, exported):
    model = compose(base, exported, contract)
    names = [value.name for value in base.graph.input]
    assert [value.name for value in model.graph.input] == [*names, "state.gate"]
    assert [v.name for v in model.graph.output] == [*(v.name for v in base.graph.output), "next.gate"]
    weights = {w.name: numpy_helper.to_array(w).tobytes() for w in model.graph.initializer}
    for weight in base.graph.initializer:
        if weight.name in weights:
            assert weights[weight.name] == numpy_helper.to_array(weight).tobytes()
    kept = {output: node for node in model.graph.node for output in node.output}
    shared = [
        node
        for node in base.graph.node
        if node.output[0] in kept and node.output[0] not in ("joint_target_next", *RESIDUAL_OUTPUTS)
    ]
    assert len(shared) > 0.6 * len(base.graph.node)  # all but the base's own increment rule and empty parts
    for node in shared:  # constants may be nodes
        same = kept[node.output[0]]
        assert same.op_type == node.op_type and list(same.input) == list(node.input)
        assert [a.SerializeToString() for a in same.attribute] == [a.SerializeToString() for a in node.attribute]


def test_the_gate_opens_at_one_threshold_and_closes_at_another():
    state, gates = torch.zeros(1, 1), []
    for probability in (0.5, 0.59, 0.61, 0.5, 0.41, 0.39, 0.5, float("nan")):
        state = hysteresis(torch.tensor([[probability]]), state, on=0.6, off=0.4)
        gates.append(float(state))
    assert gates == [0, 0, 1, 1, 1, 0, 0, 0]


def test_a_new_residual_adds_nothing_and_a_trained_one_stays_within_alpha():
    observation, base_action = torch.randn(100, OBSERVATIONS) * 50, torch.randn(100, ACTIONS) * 50
    assert torch.equal(
        ResidualNet(OBSERVATIONS, ACTIONS, alpha=0.3)(observation, base_action), torch.zeros(100, ACTIONS)
    )
    trained = gated_residual(alpha=0.3).residual(observation, base_action)
    assert 0.2 < trained.abs().max() <= 0.3


def test_gate_thresholds_the_wrong_way_round_are_refused():
    with pytest.raises(ValueError, match=r"off = 0\.7 and on = 0\.6"):
        GatedResidual(ResidualNet(3, 2, alpha=1.0), GateNet(3, 2), on=0.6, off=0.7)


def test_a_composed_policy_is_no_base(base, contract, exported):
    with pytest.raises(ComposeError, match="has a gate already"):
        compose(compose(base, exported, contract), exported, contract)


def test_a_residual_for_another_observation_is_refused(base, contract):
    other = GatedResidual(ResidualNet(7, ACTIONS, alpha=1.0), GateNet(7, ACTIONS))
    with pytest.raises(ComposeError, match=r"reads observation with shape \[1, 7\], the base gives \[1, 23\]"):
        compose(base, export_residual(other, 7, ACTIONS), contract)


def test_a_contract_with_other_joints_is_refused(base, contract, exported):
    fewer = replace(contract, action=replace(contract.action, joints=contract.action.joints[:3]))
    with pytest.raises(ComposeError, match=r"base output base_action has shape \[1, 5\], the contract says \[1, 3\]"):
        compose(base, exported, fewer)


def test_a_graph_without_the_parts_is_named(base, contract, exported):
    with pytest.raises(ComposeError, match=r"the residual graph has no outputs \['gate_prob'\]"):
        lacking = onnx.ModelProto()
        lacking.CopyFrom(exported)
        del lacking.graph.output[1]
        compose(base, lacking, contract)


def test_a_bound_holds_whatever_the_residual_network_says_joint_by_joint(base, contract, exported, rows):
    loud = edited(constant_gate(exported, 5.0), residual__alpha=50.0, residual__net__weights__2=3.0)
    bound = (0.1, 0.2, 0.3, 0.4, 0.5)
    together = run(compose(base, loud, contract, bound=bound), rows)
    size = np.abs(together["residual_action"]).max(axis=0)
    np.testing.assert_allclose(size, bound, rtol=1e-6)  # reached, and not passed
    with pytest.raises(ComposeError, match="expected positive numbers"):
        compose(base, loud, contract, bound=0.0)


def test_a_residual_rides_on_a_base_that_gives_chunks_and_on_other_actions(rows, contract):
    """Position targets, three at a time: the composed target is the base's of this tick plus the gated residual."""
    chunked = replace(
        contract, action=JointPosition(joints=contract.action.joints, scale=0.3, clip=1.0, chunk=3, limited=False)
    )
    width = observation_width(chunked)
    weight = np.random.default_rng(0).normal(0, 0.3, (width, 3 * ACTIONS))
    nodes = NodeList("made")
    nodes.add("Gemm", "observation", nodes.constant(weight), nodes.row(np.zeros(3 * ACTIONS)), name="action")
    network = nodes.model("base", [tensor("observation", width)], [tensor("action", 3 * ACTIONS)], OPSET)
    plain = policy_model(chunked, network)
    residual = export_residual(
        GatedResidual(ResidualNet(width, ACTIONS, alpha=0.4), GateNet(width, ACTIONS)), width, ACTIONS
    )
    residual = edited(constant_gate(residual, 5.0), residual__net__biases__2=0.7)
    alone, together = run(plain, rows), run(compose(plain, residual, chunked), rows)
    np.testing.assert_array_equal(alone["base_action"], together["base_action"])
    assert np.abs(np.diff(alone["base_action"], axis=0)).max() > 0.01
    whole = np.clip(np.clip(alone["base_action"], -1, 1) + together["residual_action"], -1, 1)
    default = np.array([joint.default_pos for joint in chunked.joints])[:ACTIONS]
    np.testing.assert_allclose(together["joint_target_next"][:, :ACTIONS], default + 0.3 * whole, atol=1e-5)
