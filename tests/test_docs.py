"""What docs/policies.md says of importers is so; its Python runs in test_house.py."""

import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from isthmus.policies.importers import bare
from isthmus.policies.importers.common import Facts, JointFacts, read_facts
from isthmus.policies.importers.registry import IMPORTERS, find_importer

PAGE = (Path(__file__).parents[1] / "docs" / "policies.md").read_text()


def blocks(language):
    found = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found
    return found


def test_the_facts_on_the_page_are_facts(tmp_path):
    path = tmp_path / "facts.toml"
    path.write_text(blocks("toml")[0])
    facts = read_facts(path)
    assert facts.robot == "g1" and facts.of("left_knee_joint").upper == 2.7
    assert facts.of("left_knee_joint").velocity_limit == 20.0


def test_the_keys_on_the_page_are_those_of_facts():
    rows = re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)
    named = {word.partition(".")[0] for row in rows for word in re.findall(r"`([^`]+)`", row)}
    assert named == {field.name for field in fields(Facts)} - {"known", "source"}
    joint = next(line for line in PAGE.splitlines() if line.startswith("| `defaults`"))
    assert set(re.findall(r"`(\w+)`", joint)) - {"defaults"} == {field.name for field in fields(JointFacts)}


def test_the_anchor_on_the_page_is_one(tmp_path):
    path = tmp_path / "facts.toml"
    path.write_text(next(block for block in blocks("toml") if block.startswith("[[anchor]]")))
    anchor = read_facts(path).anchor
    assert anchor is not None and [joint.axis for joint in anchor] == ["z", "x"]
    assert anchor[0].pos == (-0.004, 0.0, 0.044)


def test_the_description_on_the_page_makes_a_policy_of_a_network(tmp_path):
    described, facts = (
        next(block for block in blocks("toml") if block.startswith(first)) for first in ("network", 'robot = "hopper"')
    )
    (tmp_path / "hopper.toml").write_text(described)
    (tmp_path / "facts.toml").write_text(facts)
    width, actions = 3 + 3 + 3 + 3 * 2 + 2 + 1 + 1, 2
    weights = numpy_helper.from_array(np.full((width, actions), 0.01, dtype=np.float32), "weights")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["obs", "weights"], ["actions"])],
        "hopper",
        [helper.make_tensor_value_info("obs", TensorProto.FLOAT, [1, width])],
        [helper.make_tensor_value_info("actions", TensorProto.FLOAT, [1, actions])],
        [weights],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), tmp_path / "hopper.onnx")
    path = tmp_path / "hopper.onnx"
    assert find_importer(path).name == "bare"
    contract = find_importer(path).load(path, read_facts(tmp_path / "facts.toml")).contract
    assert contract.joint_names == ("hip", "knee", "waist") and contract.action.joints == ("hip", "knee")
    assert contract.action.clip is None and contract.action.scale == (0.5, 0.25)


def test_the_page_names_every_kind_of_action_that_a_description_may_have():
    assert [kind for kind in bare.KINDS if kind not in PAGE and kind != "rotor-speed"] == []


def test_the_page_names_every_importer():
    words = PAGE.lower()
    shown = {"bare": "anything else", "isaaclab": "isaac lab", "unitree": "unitree_rl_lab", "motrix": "motrix-deploy"}
    assert [name for name in IMPORTERS if shown.get(name, name) not in words] == []
