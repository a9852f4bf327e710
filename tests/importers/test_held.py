"""What every importer is held to: nothing is given in vain, names are the policy's, numbers can be meant, and the network runs."""

import math
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from parity import Recorded
from recorded_a import RECORDED as RECORDED_A
from recorded_b import RECORDED as RECORDED_B
from spoiling import copied

from isthmus.hardware.robot import load_robot, robot_names
from isthmus.hardware.structure import FormatError
from isthmus.policies.importers.common import (
    AnchorJoint,
    CommandFacts,
    Facts,
    ImportFailed,
    JointFacts,
    read_facts,
    robot_facts,
)
from isthmus.policies.importers.facts import GIVEN
from isthmus.policies.importers.imported_bundle import write_imported
from isthmus.policies.importers.registry import IMPORTERS

EVERY = {f"{r.importer}-{r.rows.parent.name}-{r.rows.stem}": r for r in (*RECORDED_A, *RECORDED_B)}
MJLAB, BARE, KINFER, TRACKING = (
    EVERY[name] for name in ("mjlab-mjlab-velocity", "bare-bare-walk", "kinfer-kinfer-rows", "mjlab-mjlab-tracking")
)
WHATEVER: dict[str, object] = {
    "period_s": 0.02,
    "joints": ("a", "b"),
    "sdk_joints": ("a", "b"),
    "action_clip": 1.0,
    "command": CommandFacts(low=(-1.0,) * 3, high=(1.0,) * 3),
    "anchor": (AnchorJoint(joint="a", axis="z"),),
}
every = pytest.mark.parametrize("recorded", EVERY.values(), ids=EVERY)


def load(recorded: Recorded, **facts: object):
    return IMPORTERS[recorded.importer].load(recorded.path, replace(recorded.facts, **facts))


def test_every_fact_is_one_of_joints_or_watched() -> None:
    of_joints = {"defaults", "joint", "known", "source"}
    assert {field.name for field in fields(Facts)} == {*GIVEN, *of_joints}


@every
@pytest.mark.parametrize("key", WHATEVER)
def test_a_fact_changes_what_is_imported_or_is_refused_by_name(recorded: Recorded, key: str) -> None:
    """Whether it is compared with the files, or nobody asks for it: it never goes by unseen."""
    if getattr(recorded.facts, key) is not None:
        return
    try:
        imported = load(recorded, **{key: WHATEVER[key]})
    except ImportFailed as error:
        assert key in str(error)
    else:
        said = {"period_s": imported.contract.period_ns == 20_000_000}
        if imported.contract.command is not None:
            said["command"] = imported.contract.command.high == (1.0,) * 3
        assert said[key]


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("kinfer-kinfer-rows", "action_clip"),
        ("efferent-efferent-walk", "action_clip"),
        ("mjlab-mjlab-velocity", "anchor"),
        ("mjlab-mjlab-velocity", "joints"),
        ("mjlab-mjlab-velocity", "sdk_joints"),
        ("unitree_rl_gym-unitree_rl_gym-real", "joints"),
        ("unitree_rl_gym-unitree_rl_gym-mujoco", "sdk_joints"),
        ("mjlab-mjlab-tracking", "command"),
        ("motrix-motrix-walk", "command"),
    ],
)
def test_a_fact_that_an_importer_has_no_use_for_is_refused(name: str, key: str) -> None:
    with pytest.raises(ImportFailed, match=f"facts: {key} is not used by {EVERY[name].importer}: "):
        load(EVERY[name], **{key: WHATEVER[key]})


@every
def test_a_joint_that_the_policy_does_not_have_is_refused_with_those_it_has(recorded: Recorded) -> None:
    names = load(recorded).contract.joint_names
    with pytest.raises(ImportFailed) as error:
        load(recorded, joint={**recorded.facts.joint, "FL_thigh_jiont": JointFacts(lower=-1.0)})
    assert f"facts: joint.FL_thigh_jiont: no such joint; known: {', '.join(names)}" in str(error.value)


@every
def test_everything_that_is_missing_is_asked_for_at_once(recorded: Recorded) -> None:
    """What was asked for, given with nothing else: nothing more is asked for, and no joint has a made-up name."""
    importer = IMPORTERS[recorded.importer]
    with pytest.raises(ImportFailed) as error:
        importer.load(recorded.path, Facts())
    said = str(error.value)
    assert "joint_0" not in said and "<name>, " not in said
    asked = {line.partition(":")[0].strip(" -") for line in said.splitlines()[1:]}
    keys = {key for key in GIVEN if any(key in line.replace(".", ", ").split(", ") for line in asked)}
    joint_keys = {line.rpartition(".")[2] for line in asked if line.startswith("joint.")}
    kept = {key: getattr(recorded.facts, key) for key in keys}
    of_joints = {
        name: JointFacts(**{key: getattr(recorded.facts.of(name), key) for key in joint_keys})
        for name in load(recorded).contract.joint_names
    }
    importer.load(recorded.path, Facts(**kept, joint=of_joints))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("unitree_rl_gym-unitree_rl_gym-mujoco", "joints: 8 names of joints, in the simulator's order"),
        ("unitree_rl_gym-unitree_rl_gym-real", "sdk_joints: 11 names of joints, in the order of the robot's motors"),
        ("unitree-walk-rows", "sdk_joints: 12 names of joints, in the order of the SDK's motors"),
    ],
)
def test_names_of_joints_are_asked_for_with_their_number(name: str, words: str) -> None:
    with pytest.raises(ImportFailed, match=words):
        load(EVERY[name], joints=None, sdk_joints=None)


NOT_NUMBERS = {
    "period_s": lambda x: {"period_s": x},
    "latency_s[1]": lambda x: {"latency_s": (0.0, x)},
    "action_clip": lambda x: {"action_clip": x},
    "command.high[2]": lambda x: {"command": CommandFacts(low=(-1.0,) * 3, high=(1.0, 1.0, x))},
    "defaults.kp": lambda x: {"defaults": JointFacts(kp=x)},
    "joint.FL_hip_joint.upper": lambda x: {"joint": {"FL_hip_joint": JointFacts(upper=x)}},
    "anchor[0].pos[1]": lambda x: {"anchor": (AnchorJoint(joint="a", axis="x", pos=(0.0, x, 0.0)),)},
}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e39, -3.5e38])
@pytest.mark.parametrize("where", NOT_NUMBERS)
def test_numbers_that_are_none_are_refused_wherever_they_stand(where: str, value: float) -> None:
    facts = NOT_NUMBERS[where](value)
    if where == "action_clip" and value == math.inf:
        assert load(MJLAB, **facts).contract.action.clip is None
        return
    with pytest.raises(ImportFailed) as error:
        load(MJLAB, **facts)
    assert f"facts: {where} = {value}" in str(error.value)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"latency_s": (-0.01, 0.02)}, "latency_s = .*within 0 .. 1"),
        ({"latency_s": (0.0, 20.0)}, "latency_s = .*within 0 .. 1"),
        ({"latency_s": (0.02, 0.01)}, "latency_s = .*within 0 .. 1"),
        ({"action_clip": 0.0}, "action_clip = 0.0; expected a positive number, or inf"),
        ({"action_clip": -1.0}, "action_clip = -1.0; expected a positive number, or inf"),
        *(({"period_s": x}, r"positive number of seconds, 1e-06 \.\. 10") for x in (-0.02, 0.0, 1e-12, 1000.0)),
        *(({"robot": x}, r"facts: robot = .*; expected a name in one line") for x in ("", " ", "..", "a/b", "a\\b", "a\nb", "a\0")),
        *(({"task": x}, r"facts: task = .*; expected a name in one line") for x in ("a\nb", "x/../y", "\x1b[2J")),
    ],
)  # fmt: skip
def test_facts_that_nobody_can_have_meant_are_refused(facts: dict[str, object], words: str) -> None:
    with pytest.raises(ImportFailed, match=words):
        load(MJLAB, **facts)


@every
@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("lower", -120.0, "looks like degrees|says -120.0"),
        ("upper", 120.0, "looks like degrees|says 120.0"),
        ("velocity_limit", 0.0, "expected more than 0|says 0.0"),
        ("effort_limit", -1.0, "expected more than 0|must not be negative|says -1.0"),
    ],
)
def test_limits_that_no_joint_has_are_refused(recorded: Recorded, key: str, value: float, words: str) -> None:
    name = load(recorded).contract.action.joints[0]
    own = replace(recorded.facts.joint.get(name, JointFacts()), **{key: value})
    with pytest.raises(ImportFailed, match=words) as error:
        load(recorded, joint={**recorded.facts.joint, name: own})
    assert name in str(error.value) and key in str(error.value)


@pytest.mark.parametrize("value", [-3.6, 3.6])
def test_a_default_pose_outside_the_limits_is_refused(value: float) -> None:
    joint = {**BARE.facts.joint, "knee": replace(BARE.facts.joint["knee"], default_pos=value)}
    with pytest.raises(ImportFailed, match=r"walk\.toml: .*default_pos of joint 'knee' is .*within its limits"):
        load(BARE, joint=joint)


@pytest.mark.parametrize("robot", [name for name in robot_names() if load_robot(name).joints])
def test_a_robot_of_other_joints_than_the_policys_is_refused_with_the_difference(robot: str) -> None:
    spec, names = load_robot(robot), set(load(KINFER).contract.joint_names)
    with pytest.raises(ImportFailed) as error:
        IMPORTERS["kinfer"].load(KINFER.path, robot_facts(spec, replace(KINFER.facts, robot=None)))
    said = str(error.value)
    assert f"not those of robot '{robot}'" in said
    assert all(repr(name) in said for name in names ^ set(spec.joint_names))


def test_a_robot_with_only_some_of_the_joints_is_refused() -> None:
    spec = load_robot("go2")
    fewer = replace(spec, joints=spec.joints[:-1])
    with pytest.raises(ImportFailed) as error:
        IMPORTERS["mjlab"].load(MJLAB.path, robot_facts(fewer, replace(MJLAB.facts, robot=None)))
    assert f"only the policy has ['{spec.joints[-1].name}'], only the robot has []" in str(error.value)
    IMPORTERS["mjlab"].load(MJLAB.path, robot_facts(spec, replace(MJLAB.facts, robot=None)))


def test_two_robots_are_refused_and_the_same_twice_is_one() -> None:
    with pytest.raises(ImportFailed, match="facts: robot = 'g1', but --robot gives 'go2'"):
        robot_facts("go2", Facts(robot="g1"))
    assert robot_facts("go2", Facts(robot="go2")).robot == "go2"


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "facts.toml"
    path.write_bytes(b'\xef\xbb\xbfrobot = "g1"\n')
    assert read_facts(path).robot == "g1"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("latency_s = [0.02]", "latency_s: expected 2 numbers, the least and the most"),
        ("latency_s = [0.0, 0.01, 0.02]", "latency_s: expected 2 numbers"),
        ("latency_s = 0.02", "latency_s: expected 2 numbers"),
        ("command = [-1.0, 1.0]", r"command: expected a table \"\[command\]\" with a list low"),
        ("[command]\nlow = [1.0]", r"command: expected a table"),
        ("[command]\nlow = [1.0]\nhigh = [2.0, 3.0]", r"as long as each other"),
        *((f"{anchor}", r"\[\[anchor\]\] for each joint.*axis = \"x\", \"y\" or \"z\", pos = \[") for anchor in (
            'anchor = ["waist"]', '[anchor]\njoint = "waist"\naxis = "z"', '[[anchor]]\njoint = "waist"',
            '[[anchor]]\njoint = "waist"\naxis = "yaw"', '[[anchor]]\njoint = "waist"\naxis = [0, 0, 1]',
            '[[anchor]]\njoint = "waist"\naxis = "z"\npos = [0.0]', '[[anchor]]\njoint = "waist"\naxis = "z"\nposition = [0.0, 0.0, 0.0]')),
    ],
)  # fmt: skip
def test_a_value_of_another_form_is_refused_with_the_form_that_is_read(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "facts.toml"
    path.write_text(text)
    with pytest.raises(FormatError, match=words):
        read_facts(path)


def test_a_missing_anchor_is_asked_for_with_the_form_that_is_read() -> None:
    with pytest.raises(ImportFailed, match=r"anchor: joints from .*\[\[anchor\]\] for each joint.*anchor = \[\]"):
        load(TRACKING, anchor=None)


@pytest.mark.parametrize("name", ["bare-bare-walk", "holosoma-walk-rows", "mjlab-mjlab-velocity", "isaaclab-flat-rows"])
def test_a_network_whose_outputs_overflow_is_refused_before_anything_is_written(name: str, tmp_path: Path) -> None:
    recorded = EVERY[name]
    path = copied(recorded, tmp_path)
    file = next(path.rglob("policy.onnx")) if path.is_dir() else path.with_suffix(".onnx")
    model = onnx.load(str(file))
    for weight in model.graph.initializer:
        values = numpy_helper.to_array(weight)
        if values.dtype == np.float32 and values.ndim == 2:
            weight.CopyFrom(numpy_helper.from_array(np.sign(values) * np.float32(1e20), weight.name))
    file.write_bytes(model.SerializeToString())
    with pytest.raises(ImportFailed, match="outputs are not finite on plausible signals"):
        IMPORTERS[recorded.importer].load(path, recorded.facts)


@pytest.mark.parametrize("name", ["", " ", "a\nb", "\x1b[2J"])
def test_a_bundle_has_a_name_in_one_line(name: str, tmp_path: Path) -> None:
    with pytest.raises(ImportFailed, match=r"name = .*one line"):
        write_imported(tmp_path / "policy.onnx", load(MJLAB), name=name, tool="test")
    assert not list(tmp_path.iterdir())
