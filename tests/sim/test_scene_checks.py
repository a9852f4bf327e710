"""Model files that an engine would leave parts out of, or read otherwise than meant, are refused with file and element."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from isthmus.hardware.robot import ROBOTS_DIR, RobotSpec, load_robot
from isthmus.hardware.structure import FormatError
from isthmus.sim.genesis_scene import _object_xml, _robot_xml
from isthmus.sim.mujoco_scene import build_model
from isthmus.sim.scene import Scene, SceneObject

WORLD, END, OPTION = "</worldbody>", "</mujoco>", "<option"
TENDON = '<tendon><fixed name="rope" stiffness="9"><joint joint="slider" coef="1"/></fixed></tendon>'


def body(inside: str) -> str:
    return f'<body name="extra" pos="1 0 1">{inside}<geom size="0.05" mass="1"/></body>'


def changed(folder: Path, robot: str, old: str, new: str, spec: RobotSpec | None = None) -> RobotSpec:
    """A robot whose model has `new` before `old`."""
    path = folder / "model.xml"
    shutil.copy(ROBOTS_DIR / robot / "model.xml", path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new + old, 1))
    return replace(spec or load_robot(robot), model_path=path)


UNREADABLE = {
    "an unclosed element": (END, "<asset>", "XML"),
    "an unknown element": (END, "<assets/>", "unrecognized element"),
    "a word for a number": (WORLD, '<geom size="a"/>', "size"),
    "a missing mesh": (END, '<asset><mesh name="m" file="gone.stl"/></asset>', r"gone\.stl"),
    "a missing texture": (END, '<asset><texture name="t" type="2d" file="gone.png"/></asset>', r"gone\.png"),
    "a missing include": (WORLD, '<include file="gone.xml"/>', r"gone\.xml"),
    "an unknown plugin": (OPTION, '<extension><plugin plugin="my.own"/></extension>', r"my\.own"),
    "an equality of unknown joints": (END, '<equality><joint joint1="slider" joint2="gone"/></equality>', "gone"),
    "a keyframe of another size": (END, '<keyframe><key name="k" qpos="0 0 0"/></keyframe>', "'k'.*expected 2, got 3"),
}
UNSUPPORTED = {
    "a ball joint": (WORLD, body('<joint name="b" type="ball"/>'), "'extra': joint 'b': ball joints .*three hinges"),
    "a joint that robot.toml lacks": (
        WORLD,
        body('<joint name="b" range="-1 1"/>'),
        r"'extra': joint 'b' is not among .*passive",
    ),
    "a joint without a name": (WORLD, body("<joint/>"), r"'extra': joint '' is not among the \[\[joints\]\]"),
    "a thing that moves freely": (WORLD, body("<freejoint/>"), "'extra': .*free joint .*'rail'.* SceneObject"),
    "a mocap body": (WORLD, '<body name="extra" mocap="true"><geom size="1"/></body>', "body 'extra': mocap"),
    "a soft body": (
        WORLD,
        '<flexcomp name="cloth" type="grid" count="3 3 1" spacing=".1 .1 .1" mass="1" radius=".01" dim="2"/>',
        "flex 'cloth': soft bodies",
    ),
    "a motor of a tendon": (END, TENDON + '<actuator><motor name="a" tendon="rope"/></actuator>', "actuator 'a' is no"),
    "a muscle": (END, '<actuator><muscle name="a" joint="slider" lengthrange="0 1"/></actuator>', "actuator 'a' is no"),
    "a motor with a memory": (
        END,
        '<actuator><general name="a" joint="slider" dyntype="integrator"/></actuator>',
        "actuator 'a' is no",
    ),
    "a plugin for a motor": (
        END,
        '<extension><plugin plugin="mujoco.pid"/></extension>'
        '<actuator><plugin plugin="mujoco.pid" name="a" joint="slider" actdim="0"/></actuator>',
        "actuator 'a' is no",
    ),
    "another gravity": (END, '<option gravity="0 0 -1.62"/>', r"gravity = \[0\.0, 0\.0, -1\.62\]; .*gravity_m_s2"),
}


@pytest.mark.parametrize("case", UNREADABLE | UNSUPPORTED)
def test_a_model_that_cannot_be_built_as_it_says_is_refused_with_file_and_element(case: str, tmp_path: Path):
    old, new, message = (UNREADABLE | UNSUPPORTED)[case]
    robot = changed(tmp_path, "cartpole", old, new)
    with pytest.raises(FormatError, match=rf"(?s)model\.xml.*{message}"):
        build_model(Scene(robot=robot), 0.005)


@pytest.mark.parametrize(
    "case", sorted(UNSUPPORTED.keys() - {"a motor of a tendon"})
)  # there the tendon itself is refused
def test_genesis_refuses_the_same_models(case: str, tmp_path: Path):
    old, new, message = UNSUPPORTED[case]
    with pytest.raises(FormatError, match=rf"model\.xml.*{message}"):
        _robot_xml(Scene(robot=changed(tmp_path, "cartpole", old, new)))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (END, TENDON, "tendon 'rope'"),
        (END, '<option density="1.2"/>', r"option density = 1\.2"),
        (END, '<option wind="0 1 0"/>', "option wind"),
        (' type="slide"', ' stiffness="5" springref="0.3"', r"joint 'slider': springref = 0\.3"),
    ],
)
def test_what_genesis_alone_would_leave_out_is_refused_there_and_works_in_mujoco(
    old: str, new: str, message: str, tmp_path: Path
):
    scene = Scene(robot=changed(tmp_path, "cartpole", old, new))
    with pytest.raises(FormatError, match=rf"model\.xml: {message}.*use engine 'mujoco'"):
        _robot_xml(scene)
    assert build_model(scene, 0.005).nq == 2


def test_what_every_engine_takes_is_left_alone(tmp_path: Path):
    extras = (
        '<keyframe><key name="home" qpos="0.1 0"/></keyframe><contact><exclude body1="cart" body2="pole"/></contact>'
    )
    model = build_model(Scene(robot=changed(tmp_path, "cartpole", END, extras)), 0.005)
    assert (model.nkey, model.nexclude) == (1, 1)


def test_a_floating_robot_needs_its_free_joint(tmp_path: Path):
    robot = load_robot("crazyflie")
    path = tmp_path / "model.xml"
    path.write_text(robot.model_path.read_text().replace('<freejoint name="base"/>', ""))
    with pytest.raises(FormatError, match=r"model\.xml: base_body .* has no free joint"):
        build_model(Scene(robot=replace(robot, model_path=path)), 0.005)


def test_joints_in_another_order_than_the_models_are_told_apart_by_name():
    robot = load_robot("so101")
    turned = replace(robot, joints=tuple(reversed(robot.joints)))
    model = build_model(Scene(robot=turned), 0.005)
    assert [model.actuator(i).name for i in range(model.nu)] == list(turned.joint_names)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('axis="0 0 1" range="-1.69 1.69"', 'axis="0 1 0" range="-1.69 1.69"', "accepted"),
        ('axis="0 0 1" range="-1.69 1.69"', 'range="-1.69 1.69" pos="0.01 0 0"', "'elbow_flex': pos = '0.01 0 0'"),
        ('axis="0 0 1" range="-1.69 1.69"', 'range="-1.69 1.69" ref="0.1"', "'elbow_flex': .*ref = '0.1'"),
        ('axis="0 0 1" range="-1.69 1.69"', 'axis="0 0 2" range="-1.69 1.69"', "accepted"),
    ],
)
def test_the_tip_that_mujoco_has_is_the_one_that_is_read_from_the_file(old: str, new: str, words: str, tmp_path: Path):
    robot = load_robot("so101")
    path = tmp_path / "model.xml"
    path.write_text(robot.model_path.read_text().replace(old, new, 1))
    scene = Scene(robot=replace(robot, model_path=path))
    if words == "accepted":
        build_model(scene, 0.005)
    else:
        with pytest.raises(FormatError, match=words):
            build_model(scene, 0.005)


def test_a_tip_that_is_read_otherwise_than_mujoco_reads_it_is_refused(tmp_path: Path):
    """Here by a class of defaults that moves the site, which the chain does not know."""
    robot = load_robot("so101")
    path = tmp_path / "model.xml"
    text = robot.model_path.read_text()
    text = text.replace('<site name="tip" pos="0.012 -0.000218 -0.098127"', '<site name="tip" class="far"')
    path.write_text(
        text.replace(
            "<worldbody>", '<default><default class="far"><site pos="0 0 -0.1"/></default></default><worldbody>'
        )
    )
    with pytest.raises(FormatError, match=r"model\.xml: site 'tip': MuJoCo has the tip at .* and the chain"):
        build_model(Scene(robot=replace(robot, model_path=path)), 0.005)


BODY = '<body name="thing"><geom size="0.02" mass="0.1"/></body>'
OBJECTS = {
    "a joint below its body": (
        '<body name="thing"><geom size="0.02"/><body name="lid"><joint/><geom size="0.01"/></body></body>',
        "",
        "joints on body 'lid'",
    ),
    "two bodies": (BODY + BODY.replace("thing", "other"), "", "exactly one body without joints, got 2"),
    "a geom outside of its body": (BODY + '<geom type="plane" size="1 1 1"/>', "", "geoms lie in the worldbody itself"),
    "an equality": (BODY, '<equality><weld body1="thing"/></equality>', "equality number 0 is not supported"),
    "a motor": (BODY, '<actuator><adhesion name="glue" body="thing" ctrlrange="0 1"/></actuator>', "actuator 'glue'"),
    "another gravity": (BODY, '<option gravity="0 0 0"/>', "gravity"),
}


@pytest.mark.parametrize("case", OBJECTS)
def test_an_object_with_more_than_its_body_is_refused(case: str, tmp_path: Path):
    inside, beside, message = OBJECTS[case]
    path = tmp_path / "thing.xml"
    path.write_text(f"<mujoco><worldbody>{inside}</worldbody>{beside}</mujoco>")
    item = SceneObject(name="thing", model_path=path, free=True, pos=(0.0, 0.0, 1.0))
    with pytest.raises(FormatError, match=rf"thing\.xml: .*{message}"):
        build_model(Scene(robot=load_robot("cartpole"), objects=(item,)), 0.005)
    with pytest.raises(FormatError, match=rf"thing\.xml: .*{message}"):
        _object_xml(item)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ground_friction": 0.0}, r"Scene\.ground_friction = 0\.0; expected a positive"),
        ({"ground_friction": -1.0}, "ground_friction"),
        ({"ground_friction": float("nan")}, "ground_friction = nan"),
        ({"objects": 2}, r"Scene\.objects: name 'thing' occurs 2 times"),
        ({"pos": (0.0, 0.0, float("inf"))}, r"Scene\.objects: 'thing': pos = .*three finite numbers"),
    ],
)
def test_a_scene_with_impossible_fields_is_refused(change: dict, message: str, tmp_path: Path):
    path = tmp_path / "thing.xml"
    path.write_text(f"<mujoco><worldbody>{BODY}</worldbody></mujoco>")
    item = SceneObject(name="thing", model_path=path, free=True, pos=change.get("pos", (0.0, 0.0, 1.0)))
    scene = Scene(
        robot=load_robot("cartpole"),
        objects=(item,) * change.get("objects", 1),
        ground="plane",
        ground_friction=change.get("ground_friction", 1.0),
    )
    with pytest.raises(FormatError, match=message):
        build_model(scene, 0.005)


def test_a_missing_model_is_named(tmp_path: Path):
    robot = replace(load_robot("cartpole"), model_path=tmp_path / "gone.xml")
    with pytest.raises(FormatError, match=r"gone\.xml does not exist"):
        build_model(Scene(robot=robot), 0.005)
