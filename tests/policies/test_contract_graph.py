"""The contract's torch graph against closed forms, MuJoCo and the exported ONNX graph."""

# mujoco builds its classes at run time and ships no type stubs for them.
# pyright: reportAttributeAccessIssue=false

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import mujoco
import numpy as np
import pytest
import torch

from isthmus.hardware.robot import load_robot
from isthmus.hardware.structure import structure, unstructure
from isthmus.policies.contract import Contract, ContractError, ObservationTerm, bind, history, observation_width
from isthmus.policies.contract_checks import check_contract
from isthmus.policies.contracts import get_contract
from isthmus.policies.learning.graph import ContractGraph

CONTRACT, ROBOT = get_contract("so101-reach"), load_robot("so101")


def signals(batch=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    pose = torch.rand(batch, 6, generator=generator) - 0.5
    return {
        "joint_pos": pose,
        "joint_vel": torch.randn(batch, 6, generator=generator),
        "joint_target": pose + 0.1 * torch.randn(batch, 6, generator=generator),
        "command.target": torch.rand(batch, 3, generator=generator) * 0.3,
    }


def zero_state(graph, batch):
    return {name: torch.zeros(batch, width) for name, width in graph.state_widths.items()}


def with_observation(*terms):
    return dataclasses.replace(CONTRACT, observation=terms)


def test_tip_error_is_the_error_in_the_first_links_frame_as_mujoco_sees_it():
    graph = ContractGraph(with_observation(ObservationTerm(name="tip_error", scale=1.0)))
    given = signals()
    observation, _ = graph.observe(given, {})
    model = mujoco.MjModel.from_xml_path(str(ROBOT.model_path))
    data = mujoco.MjData(model)
    for row in range(5):
        data.qpos[:] = given["joint_pos"][row].numpy()
        mujoco.mj_kinematics(model, data)
        error = given["command.target"][row].numpy() - data.site("tip").xpos
        np.testing.assert_allclose(observation[row], data.body("shoulder").xmat.reshape(3, 3).T @ error, atol=1e-6)


def test_clip_comes_before_scale():
    graph = ContractGraph(with_observation(ObservationTerm(name="target", scale=10.0, clip=0.1)))
    given = {**signals(1), "command.target": torch.tensor([[0.05, 0.2, -0.3]])}
    torch.testing.assert_close(graph.observe(given, {})[0], torch.tensor([[0.5, 1.0, -1.0]]))


def test_history_is_oldest_first_and_starts_with_copies_of_the_first_sample():
    graph = ContractGraph(with_observation(ObservationTerm(name="target", scale=1.0, lags=history(3))))
    state, given, seen = zero_state(graph, 1), signals(1), []
    for value in (1.0, 2.0, 3.0, 4.0):
        observation, state = graph.observe({**given, "command.target": torch.full((1, 3), value)}, state)
        seen.append(observation[0, ::3].tolist())
    assert seen == [[1, 1, 1], [1, 1, 2], [1, 2, 3], [2, 3, 4]]


def test_an_action_adds_to_the_executed_target_within_lead_and_limits():
    graph = ContractGraph(CONTRACT)
    given = signals(1)
    given["joint_pos"] = given["joint_target"] = torch.zeros(1, 6)
    rule = CONTRACT.action
    moved = graph.act(torch.tensor([[0.5, -2.0, 0.0, 0.0, 1.0]]), given, {})[0]
    torch.testing.assert_close(moved, torch.tensor([[0.5, -1.0, 0.0, 0.0, 1.0, 0.0]]) * rule.scale)
    ahead = {**given, "joint_target": torch.full((1, 6), 0.34)}
    assert torch.allclose(graph.act(torch.ones(1, 5), ahead, {})[0][0, :5], torch.tensor(rule.max_lead))
    edge = {**given, "joint_pos": torch.full((1, 6), 1.6), "joint_target": torch.full((1, 6), 1.65)}
    assert graph.act(torch.ones(1, 5), edge, {})[0][0, 3] == pytest.approx(CONTRACT.joints[3].upper)


def test_an_undriven_joint_keeps_its_executed_target():
    given = signals(4)
    target = ContractGraph(CONTRACT).act(torch.ones(4, 5), given, {})[0]
    torch.testing.assert_close(target[:, 5], given["joint_target"][:, 5])


def test_observation_width_counts_history():
    graph = ContractGraph(CONTRACT)
    observation, _ = graph.observe(signals(2), zero_state(graph, 2))
    assert observation.shape == (2, observation_width(CONTRACT))


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"schema": 99}, "schema 99"),
        ({"observation": (ObservationTerm(name="smell", scale=1.0),)}, "unknown observation term 'smell'"),
        ({"observation": (ObservationTerm(name="target", scale=0.0),)}, "must not be 0"),
        ({"period_ns": 0}, "must be positive"),
        ({"joints": CONTRACT.joints[1:]}, "not among the contract's joints"),
    ],
)
def test_inconsistent_contracts_are_refused(change, word):
    with pytest.raises(ContractError, match=word):
        check_contract(dataclasses.replace(CONTRACT, **change))


def places(data: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where the floats of plain data are."""
    if isinstance(data, float):
        yield path
    elif isinstance(data, (dict, list)):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from places(value, (*path, key))


PLAIN = json.dumps(unstructure(CONTRACT))
FLOATS = list(places(json.loads(PLAIN)))


@pytest.mark.parametrize("path", FLOATS, ids=lambda path: ".".join(map(str, path)))
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_contract_with_any_number_that_is_not_finite_is_refused(path, value):
    data = json.loads(PLAIN)
    holder = data
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    place = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)[1:]
    with pytest.raises(ContractError) as caught:
        check_contract(structure(data, Contract, source="test"))
    assert f"{place} = {value}" in str(caught.value)


@pytest.mark.parametrize("field", ["kp", "kd", "lower", "upper", "default_pos", "velocity_limit", "effort_limit"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("side", ["contract", "robot", "both"])
def test_binding_refuses_numbers_that_are_not_finite_on_either_side(field, value, side):
    contract, robot = CONTRACT, ROBOT
    if side != "robot":
        joint = dataclasses.replace(contract.joints[2], **{field: value})
        contract = dataclasses.replace(contract, joints=(*contract.joints[:2], joint, *contract.joints[3:]))
    if side != "contract":
        joint = dataclasses.replace(robot.joints[2], **{field: value})
        robot = dataclasses.replace(robot, joints=(*robot.joints[:2], joint, *robot.joints[3:]))
    with pytest.raises(ContractError, match=f"elbow_flex.*{field}"):
        bind(contract, robot)


def test_binding_is_by_name_and_refuses_every_difference():
    backwards = dataclasses.replace(CONTRACT, joints=CONTRACT.joints[::-1])
    assert bind(CONTRACT, ROBOT) == [0, 1, 2, 3, 4, 5] and bind(backwards, ROBOT) == [5, 4, 3, 2, 1, 0]
    with pytest.raises(ContractError, match="trained for robot 'go9'"):
        bind(dataclasses.replace(CONTRACT, robot="go9"), ROBOT)
    for field in ("kp", "kd", "lower", "upper", "default_pos", "velocity_limit", "effort_limit"):
        joint = dataclasses.replace(CONTRACT.joints[2], **{field: getattr(CONTRACT.joints[2], field) + 0.01})
        changed = dataclasses.replace(CONTRACT, joints=(*CONTRACT.joints[:2], joint, *CONTRACT.joints[3:]))
        with pytest.raises(ContractError, match=f"elbow_flex.*{field}"):
            bind(changed, ROBOT)
