"""What a user adds to a format, as a TOML file, and what a robot knows of itself."""

from dataclasses import replace
from pathlib import Path

import pytest
from recorded_a import RECORDED

from isthmus.hardware.robot import load_robot
from isthmus.hardware.structure import FormatError
from isthmus.policies.importers.common import (
    AnchorJoint,
    Facts,
    ImportFailed,
    JointFacts,
    Missing,
    Numbers,
    build_joints,
    parse_csv,
    printed_step,
    read_facts,
    robot_facts,
)
from isthmus.policies.importers.registry import IMPORTERS

TRACKING = next(r for r in RECORDED if r.rows.stem == "tracking")

TOML = """
robot = "made_up"
task = "walk"
period_s = 0.02
latency_s = [0.0, 0.02]
action_clip = inf

[defaults]
lower = -3.5
upper = 3.5
velocity_limit = 20.0
effort_limit = 40.0

[joint.waist_yaw_joint]
lower = -2.6

[[anchor]]
joint = "waist_yaw_joint"
axis = "z"
pos = [-0.004, 0.0, 0.044]

[[anchor]]
joint = "waist_roll_joint"
axis = "x"
pos = [0.0, 0.0, 0.035]

[[anchor]]
joint = "waist_pitch_joint"
axis = "y"
pos = [0.0, 0.01, 0.019]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "facts.toml"
    path.write_text(text)
    return path


def test_a_toml_file_gives_what_a_format_lacks(tmp_path: Path) -> None:
    facts = read_facts(written(tmp_path, TOML))
    assert facts.anchor is not None
    assert facts.anchor[0] == AnchorJoint(joint="waist_yaw_joint", axis="z", pos=(-0.004, 0.0, 0.044))
    imported = IMPORTERS["mjlab"].load(TRACKING.path, facts)
    lower = {joint.name: joint.lower for joint in imported.contract.joints}
    assert lower["waist_yaw_joint"] == -2.6
    assert lower["left_hip_joint"] == -3.5
    sources = {source.path: source for source in imported.sources}
    index = imported.contract.joint_names.index("waist_yaw_joint")
    assert sources[f"joints[{index}].lower"].source == "facts.toml"
    assert sources[f"joints[{index}].kp"].source == "tracking.onnx: joint_stiffness"
    assert sources[f"joints[{index}].kp"].resolution == 0.0005
    assert dict(imported.contract.joints[index].rounding)["kp"] == pytest.approx(0.0005, rel=0.02)


def test_the_list_of_what_is_missing_names_keys_of_the_file(tmp_path: Path) -> None:
    without = "\n".join(line for line in TOML.splitlines() if not line.startswith(("period_s", "upper")))
    with pytest.raises(ImportFailed) as error:
        IMPORTERS["mjlab"].load(TRACKING.path, read_facts(written(tmp_path, without)))
    assert "facts.toml" in str(error.value)
    assert " period_s: s, control period" in str(error.value)
    assert " joint.<name>.upper: rad, limit of the joint; of left_hip_joint, " in str(error.value)


@pytest.mark.parametrize("line", ["rate = 50.0", "period_s = 'fast'", "joint = 3", "[joint.a]\nmass = 1.0"])
def test_facts_that_nobody_asks_for_are_refused(line: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"facts\.toml"):
        read_facts(written(tmp_path, line))


def test_limits_are_the_robots_and_gains_are_the_policys() -> None:
    robot, missing = load_robot("go2"), Missing(Path("policy"), Facts())
    name = robot.joint_names[0]
    facts = robot_facts(robot, Facts())
    joints, sources = build_joints(robot.joint_names, {}, facts, missing)
    assert [joint.lower for joint in joints] == [joint.lower for joint in robot.joints]
    assert {source.path for source in sources} == {
        f"joints[{i}].{key}" for key in ("lower", "upper", "velocity_limit", "effort_limit") for i in range(len(joints))
    }
    with pytest.raises(ImportFailed) as error:
        missing.check()
    assert "joint.<name>.kp" in str(error.value)
    assert "joint.<name>.default_pos" in str(error.value)
    assert name in str(error.value)
    assert "lower" not in str(error.value)


def test_what_is_said_of_one_joint_goes_before_what_is_said_of_all() -> None:
    facts = Facts(defaults=JointFacts(kp=20.0, kd=1.0), joint={"a": JointFacts(kp=30.0)})
    assert (facts.of("a").kp, facts.of("a").kd, facts.of("b").kp) == (30.0, 1.0, 20.0)


def test_a_number_printed_in_the_file_and_given_finely_keeps_the_fine_one() -> None:
    facts = replace(Facts(), joint={"a": JointFacts(kp=40.1794)}, defaults=JointFacts(
        kd=1.0, default_pos=0.0, lower=-1.0, upper=1.0, velocity_limit=1.0, effort_limit=1.0))  # fmt: skip
    missing = Missing(Path("policy"), facts)
    joints, _ = build_joints(("a",), {"kp": parse_csv("40.179", "file: kp")}, facts, missing)
    assert joints[0].kp == 40.1794
    assert joints[0].rounding == ()
    with pytest.raises(ImportFailed, match=r"kp of a\[0\]: file: kp says 40\.17"):
        build_joints(("a",), {"kp": parse_csv("40.17", "file: kp")}, replace(facts), missing)


@pytest.mark.parametrize(
    ("text", "step"), [("0.250", 0.0005), ("-1.5", 0.05), ("20", 0.5), ("1e-3", 0.0005), ("2.5E+01", 0.5)]
)
def test_a_printed_number_stands_for_half_a_unit_of_its_last_place(text: str, step: float) -> None:
    assert printed_step(text) == pytest.approx(step)


def test_float32_numbers_agree_with_the_decimals_they_were_made_from() -> None:
    given = {"kp": Numbers(values=(0.10000000149011612,), source="graph")}
    facts = Facts(defaults=JointFacts(
        kp=0.1, kd=1.0, default_pos=0.0, lower=-1.0, upper=1.0, velocity_limit=1.0, effort_limit=1.0))  # fmt: skip
    joints, _ = build_joints(("a",), given, facts, Missing(Path("policy"), facts))
    assert joints[0].kp == pytest.approx(0.1)
