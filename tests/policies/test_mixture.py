"""Mixtures of experts against numpy, also where an expert or a weight is not finite."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from isthmus.policies.contract import observation_width
from isthmus.policies.contracts import get_contract
from isthmus.policies.mixture import ACTIONS, WEIGHTS, Expert, mixture
from isthmus.policies.onnx_graph import policy_model
from isthmus.policies.onnx_nodes import OPSET, GraphError, NodeList, tensor

WIDTH, COUNT = 7, 3


def linear(weight, bias=None):
    nodes = NodeList("made")
    row = nodes.row(np.zeros(weight.shape[1]) if bias is None else bias)
    nodes.add("Gemm", "obs", nodes.constant(weight), row, name="out")
    return nodes.model("linear", [tensor("obs", weight.shape[0])], [tensor("out", weight.shape[1])], OPSET)


def counting(width, actions):
    """A network that remembers how often it was called, and says so in every action."""
    nodes = NodeList("made")
    nodes.add("Add", "calls", nodes.constant(np.ones((1, 1))), name="calls_next")
    nodes.add("Add", nodes.constant(np.zeros((1, actions))), "calls_next", name="out")
    ends = [tensor("obs", width), tensor("calls", 1)], [tensor("out", actions), tensor("calls_next", 1)]
    return nodes.model("counting", *ends, OPSET)


def weights_of(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def run(made, observation, **states):
    session = ort.InferenceSession(made.network.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    given = {"observation": observation[None].astype(np.float32), **{f"state.{k}": v for k, v in states.items()}}
    return {name: np.asarray(value)[0] for name, value in zip(names, session.run(None, given), strict=True)}


def test_the_action_is_the_weighted_mean_and_the_parts_say_of_what():
    matrices = [weights_of(i, WIDTH, COUNT) for i in range(3)]
    made = mixture([Expert(network=linear(matrix)) for matrix in matrices], [1.0, 2.0, 5.0])
    observation = weights_of(9, WIDTH)
    got = run(made, observation)
    actions = np.array([observation @ matrix for matrix in matrices])
    np.testing.assert_allclose(got["action"], np.array([1, 2, 5]) / 8 @ actions, atol=1e-6)
    np.testing.assert_allclose(got[WEIGHTS], np.array([1, 2, 5]) / 8, atol=1e-7)
    np.testing.assert_allclose(got[ACTIONS], actions.reshape(-1), atol=1e-6)


def test_a_network_chooses_by_the_observation():
    matrices, chooser = [weights_of(i, WIDTH, COUNT) for i in range(2)], weights_of(5, WIDTH, 2)
    made = mixture([Expert(network=linear(matrix)) for matrix in matrices], linear(chooser))
    for seed in range(20):
        observation = weights_of(100 + seed, WIDTH)
        share = np.maximum(observation @ chooser, 0.0)
        got = run(made, observation)
        if share.sum() == 0.0:
            assert np.isnan(got["action"]).all()  # nobody was chosen: the robot is held
            continue
        wanted = share / share.sum() @ np.array([observation @ matrix for matrix in matrices])
        np.testing.assert_allclose(got["action"], wanted, atol=1e-5)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_expert_that_is_not_finite_does_not_count(value):
    matrices = [weights_of(i, WIDTH, COUNT) for i in range(3)]
    bias = np.zeros(COUNT)
    bias[1] = value
    experts = [Expert(network=linear(matrix, bias if i == 1 else None)) for i, matrix in enumerate(matrices)]
    observation = weights_of(9, WIDTH)
    got = run(mixture(experts, [1.0, 2.0, 5.0]), observation)
    wanted = (observation @ matrices[0] + 5 * (observation @ matrices[2])) / 6
    np.testing.assert_allclose(got["action"], wanted, atol=1e-6)
    np.testing.assert_allclose(got[WEIGHTS], [1 / 6, 0, 5 / 6], atol=1e-7)
    assert np.isfinite(got[ACTIONS]).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_weight_that_is_not_finite_does_not_count(value):
    matrices = [weights_of(i, WIDTH, COUNT) for i in range(2)]
    chooser = linear(np.zeros((WIDTH, 2)), np.array([value, 3.0]))
    observation = weights_of(9, WIDTH)
    got = run(mixture([Expert(network=linear(matrix)) for matrix in matrices], chooser), observation)
    np.testing.assert_allclose(got["action"], observation @ matrices[1], atol=1e-6)


def test_where_no_expert_is_finite_the_action_is_not_either():
    experts = [Expert(network=linear(weights_of(i, WIDTH, COUNT), np.full(COUNT, np.nan))) for i in range(2)]
    assert np.isnan(run(mixture(experts, [1.0, 1.0]), weights_of(9, WIDTH))["action"]).all()


def test_each_expert_keeps_its_own_memory():
    experts = [Expert(network=counting(WIDTH, COUNT), memory={"calls": 1}) for _ in range(2)]
    made = mixture(experts, [1.0, 3.0])
    assert made.memory == {"expert0.calls": 1, "expert1.calls": 1}
    states = {"expert0.calls": np.array([[4.0]], np.float32), "expert1.calls": np.array([[8.0]], np.float32)}
    got = run(made, weights_of(1, WIDTH), **states)
    np.testing.assert_allclose(got["action"], (5 + 3 * 9) / 4)
    assert (got["next.expert0.calls"], got["next.expert1.calls"]) == (5.0, 9.0)


def test_a_contract_around_a_mixture_is_a_policy_whose_parts_can_be_recorded():
    contract = get_contract("go2-velocity")
    width, count = observation_width(contract), len(contract.action.joints)
    made = mixture([Expert(network=linear(weights_of(i, width, count))) for i in range(2)], [1.0, 1.0])
    model = policy_model(contract, made.network, memory=made.memory, parts=made.parts)
    names = [value.name for value in model.graph.output]
    assert names[-2:] == [WEIGHTS, ACTIONS] and "joint_target_next" in names
    onnx.checker.check_model(model, full_check=True)


@pytest.mark.parametrize(
    ("experts", "weights", "words"),
    [
        ((WIDTH,), [1.0], "two experts at least"),
        ((WIDTH, WIDTH + 1), [1.0, 1.0], "must be the same"),
        ((WIDTH, WIDTH), [1.0], "must be 2 finite numbers"),
        ((WIDTH, WIDTH), [1.0, -1.0], "none negative"),
        ((WIDTH, WIDTH), [0.0, 0.0], "not all 0"),
        ((WIDTH, WIDTH), [1.0, np.nan], "finite"),
    ],
)
def test_what_does_not_fit_together_is_refused(experts, weights, words):
    with pytest.raises(GraphError, match=words):
        mixture([Expert(network=linear(np.ones((width, COUNT)))) for width in experts], weights)


def test_a_chooser_for_another_number_of_experts_is_refused():
    experts = [Expert(network=linear(np.ones((WIDTH, COUNT)))) for _ in range(2)]
    with pytest.raises(GraphError, match="network of weights"):
        mixture(experts, linear(np.ones((WIDTH, 3))))
