"""The robots and objects that ship: models that fit their robot.toml, masses and lengths of their sources, and physics that holds."""

# pyright: reportAttributeAccessIssue=false
# MuJoCo's compiled modules carry no type information.

import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import pytest

from isthmus.hardware.robot import RobotSpec, load_robot, robot_names

OBJECTS = sorted((Path(__file__).parents[2] / "sim" / "objects").glob("*.xml"))
PLANE = '<geom name="ground" type="plane" size="0 0 1" contype="2" conaffinity="1" friction="1"/>'
GRAVITY = 9.81  # m/s^2, as in the models


def compiled(text: str) -> tuple[mujoco.MjModel, mujoco.MjData]:
    model = mujoco.MjModel.from_xml_string(text)
    return model, mujoco.MjData(model)


def on_the_ground(spec: RobotSpec) -> tuple[mujoco.MjModel, mujoco.MjData]:
    return compiled(spec.model_path.read_text().replace("<worldbody>", "<worldbody>" + PLANE, 1))


def servo(spec: RobotSpec, model: mujoco.MjModel) -> Callable[[mujoco.MjData], np.ndarray]:
    """Torques (n,) N m that hold the default pose with the robot's own gains and limits."""
    qpos = [int(model.joint(name).qposadr[0]) for name in spec.joint_names]
    dof = [int(model.joint(name).dofadr[0]) for name in spec.joint_names]
    kp, kd, limit, target = (spec.array(field) for field in ("kp", "kd", "effort_limit", "default_pos"))
    return lambda data: np.clip(kp * (target - data.qpos[qpos]) - kd * data.qvel[dof], -limit, limit)


@pytest.fixture(scope="module", params=robot_names())
def spec(request: pytest.FixtureRequest) -> RobotSpec:
    return load_robot(request.param)


@pytest.fixture(scope="module")
def model(spec: RobotSpec) -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_path(str(spec.model_path))


# Every robot --------------------------------------------------------------------------------------------------------


def test_the_robots_that_ship() -> None:
    assert set(robot_names()) >= {"cartpole", "crazyflie", "go2", "hand", "so101", "so101_peg"}


def test_joints_are_those_of_the_model_in_its_order(spec: RobotSpec, model: mujoco.MjModel) -> None:
    kinds = {int(mujoco.mjtJoint.mjJNT_HINGE): "hinge", int(mujoco.mjtJoint.mjJNT_SLIDE): "slide"}
    joints = [
        (model.joint(i).name, kinds[int(model.jnt_type[i])]) for i in range(model.njnt) if model.jnt_type[i] in kinds
    ]
    assert [(joint.name, joint.kind) for joint in spec.joints] == joints


def test_a_floating_robot_has_one_free_joint_on_its_base_and_no_ground(spec: RobotSpec, model: mujoco.MjModel) -> None:
    free = [model.body(int(model.jnt_bodyid[i])).name for i in range(model.njnt) if model.jnt_type[i] == 0]
    assert free == ([spec.base_body] if spec.floating else [])
    if spec.floating:
        assert mujoco.mjtGeom.mjGEOM_PLANE not in model.geom_type


def test_ranges_are_those_of_the_model(spec: RobotSpec, model: mujoco.MjModel) -> None:
    ranges = np.array([model.joint(name).range for name in spec.joint_names]).reshape(-1, 2)
    np.testing.assert_allclose(spec.array("lower"), ranges[:, 0], atol=1e-9)
    np.testing.assert_allclose(spec.array("upper"), ranges[:, 1], atol=1e-9)
    assert all(model.joint(name).limited for name in spec.joint_names)


def test_each_driven_joint_has_one_plain_motor_in_robot_order(spec: RobotSpec, model: mujoco.MjModel) -> None:
    driven = [joint.name for joint in spec.joints if joint.drive != "passive"]
    assert [model.joint(int(model.actuator_trnid[i, 0])).name for i in range(model.nu)] == driven
    assert [model.actuator(i).name for i in range(model.nu)] == driven
    np.testing.assert_allclose(model.actuator_gainprm[:, 0], 1.0)
    np.testing.assert_allclose(model.actuator_gear[:, 0], 1.0)


def test_gains_and_limits_are_positive(spec: RobotSpec) -> None:
    for joint in spec.joints:
        assert (joint.kp > 0) == (joint.drive == "position")
        assert (joint.effort_limit > 0) == (joint.drive != "passive")
        assert joint.velocity_limit > 0
        assert joint.kd >= 0


def test_the_travel_fits_into_one_turn_of_the_encoder(spec: RobotSpec) -> None:
    for joint in spec.joints:
        assert joint.lower <= joint.default_pos <= joint.upper
        if joint.kind == "hinge" and joint.drive == "position":
            assert joint.upper - joint.lower < 2 * np.pi


@pytest.mark.parametrize(
    "path", [*(load_robot(n).model_path for n in robot_names()), *OBJECTS], ids=lambda p: p.parts[-2:]
)
def test_a_model_needs_no_mesh_and_states_every_inertia(path: Path) -> None:
    root = ET.parse(path).getroot()
    model = mujoco.MjModel.from_xml_path(str(path))
    assert model.nmesh == model.neq == model.ntendon == model.nhfield == 0
    for body in root.iter("body"):
        assert body.find("inertial") is not None, body.get("name")
        assert not {"euler", "axisangle", "xyaxes", "zaxis"} & set(body.attrib)
    assert (model.body_mass[1:] > 0).all()
    assert (model.body_inertia[1:] > 0).all()
    heavy, light = np.max(model.body_inertia[1:], axis=1), np.sort(model.body_inertia[1:], axis=1)[:, :2].sum(axis=1)
    assert (heavy <= light * (1 + 1e-3)).all(), "no body has such principal moments"


def test_a_robot_collides_with_ground_and_objects_but_not_with_itself(spec: RobotSpec, model: mujoco.MjModel) -> None:
    robot = [
        i for i in range(model.ngeom) if model.geom_type[i] != mujoco.mjtGeom.mjGEOM_PLANE and model.geom_contype[i]
    ]
    assert not (model.geom_contype[robot] & model.geom_conaffinity[robot]).any()
    if robot and spec.name != "so101":  # whose own table is the only other geom it meets
        assert set(model.geom_contype[robot]) == {1}
        assert set(model.geom_conaffinity[robot]) == {2}


# Sources ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "mass"),
    [
        ("go2", 6.921 + 4 * (0.678 + 1.152 + 0.154 + 0.04)),
        ("crazyflie", 0.027),
        ("hand", 0.4154 + 3 * (0.0119 + 0.065 + 0.0355 + 0.0096 + 0.0168) + 0.0176 + 0.0119 + 0.038 + 0.0388 + 0.0168),
        ("so101_peg", 0.147 + 0.100006 + 0.103 + 0.104 + 0.079 + 0.087 + 0.012 + 1000 * 0.012 * 0.012 * 0.06),
    ],
)
def test_the_mass_is_that_of_the_source(name: str, mass: float) -> None:
    model = mujoco.MjModel.from_xml_path(str(load_robot(name).model_path))
    assert model.body_mass.sum() == pytest.approx(mass, rel=1e-9)


@pytest.mark.parametrize(
    ("body", "moments"),  # principal moments that MuJoCo Menagerie's unitree_go2/go2.xml has, kg m^2
    [
        ("base", (0.107027, 0.0980771, 0.0244531)),
        ("FL_hip", (0.00088403, 0.000596003, 0.000479967)),
        ("RR_hip", (0.00088403, 0.000596003, 0.000479967)),
        ("FR_thigh", (0.00594973, 0.00584149, 0.000878787)),
        ("RL_thigh", (0.00594973, 0.00584149, 0.000878787)),
    ],
)
def test_the_go2_has_menageries_principal_moments(body: str, moments: tuple[float, ...]) -> None:
    model = mujoco.MjModel.from_xml_path(str(load_robot("go2").model_path))
    np.testing.assert_allclose(np.sort(model.body(body).inertia)[::-1], moments, rtol=1e-3)


def test_the_go2s_feet_are_where_two_links_of_213_mm_put_them() -> None:
    spec = load_robot("go2")
    model = mujoco.MjModel.from_xml_path(str(spec.model_path))
    data = mujoco.MjData(model)
    data.qpos[7:] = spec.array("default_pos")
    mujoco.mj_forward(model, data)
    for i, leg in enumerate(("FL", "FR", "RL", "RR")):
        _, thigh, calf = spec.array("default_pos")[3 * i : 3 * i + 3]
        front, left = (1 if leg[0] == "F" else -1), (1 if leg[1] == "L" else -1)
        down = 0.213 * np.array([np.sin(thigh) + np.sin(thigh + calf), 0.0, np.cos(thigh) + np.cos(thigh + calf)])
        expected = np.array([front * 0.1934, left * (0.0465 + 0.0955), 0.0]) - down
        np.testing.assert_allclose(data.body(f"{leg}_foot").xpos - data.body("base").xpos, expected, atol=1e-9)


def test_the_crazyflies_rotors_have_the_coefficients_per_rpm_of_the_source() -> None:
    rpm = 2 * np.pi / 60
    for rotor in load_robot("crazyflie").rotors:
        assert rotor.thrust_coefficient * rpm**2 == pytest.approx(3.16e-10, rel=1e-3)
        assert rotor.drag_coefficient * rpm**2 == pytest.approx(7.94e-12, rel=1e-3)
        assert 4 * rotor.thrust_coefficient * rotor.max_speed**2 == pytest.approx(2.25 * 0.027 * 9.8, rel=1e-3)


# Physics ------------------------------------------------------------------------------------------------------------


def test_the_go2_stands() -> None:
    spec = load_robot("go2")
    model, data = on_the_ground(spec)
    torque = servo(spec, model)
    data.qpos[7:] = spec.array("default_pos")
    start = data.qpos[2]
    heights = []
    for _ in range(400):
        data.ctrl = torque(data)
        mujoco.mj_step(model, data)
        heights.append(data.qpos[2])
    feet = {f"{leg}_foot" for leg in ("FL", "FR", "RL", "RR")}
    touching = {model.body(int(model.geom_bodyid[g])).name for c in data.contact for g in c.geom} - {"world"}
    assert touching == feet
    assert np.abs(np.array(heights) - start).max() < 0.025  # the legs give by 2 cm under 15 kg
    assert np.ptp(heights[200:]) < 0.005
    assert data.body("base").xmat[8] > np.cos(np.deg2rad(3))
    force = sum((contact_force(model, data, i)[0] for i in range(data.ncon)), 0.0)
    assert force == pytest.approx(model.body_mass.sum() * GRAVITY, rel=0.03)


def contact_force(model: mujoco.MjModel, data: mujoco.MjData, index: int) -> np.ndarray:
    """Force and torque (6,) of one contact in its own frame, the normal first."""
    force = np.zeros(6)
    mujoco.mj_contactForce(model, data, index, force)
    return force


def rotor_wrench(spec: RobotSpec, model: mujoco.MjModel, speeds: np.ndarray) -> np.ndarray:
    """Force N and torque N m (6,) of the rotors about the base, body frame, at `speeds` (n,) rad/s."""
    wrench = np.zeros(6)
    for rotor, speed in zip(spec.rotors, speeds, strict=True):
        force = np.array([0.0, 0.0, rotor.thrust_coefficient * speed**2])
        drag = np.array([0.0, 0.0, -rotor.spin * rotor.drag_coefficient * speed**2])
        wrench += np.concatenate([force, np.cross(model.site(rotor.site).pos, force) + drag])
    return wrench


def test_the_crazyflie_hovers_when_each_rotor_carries_a_quarter_of_its_weight() -> None:
    spec = load_robot("crazyflie")
    model, data = on_the_ground(spec)
    hover = np.array([np.sqrt(0.027 * GRAVITY / 4 / rotor.thrust_coefficient) for rotor in spec.rotors])
    np.testing.assert_allclose(hover / [rotor.max_speed for rotor in spec.rotors], 0.667, atol=1e-3)
    data.qpos[2] = 1.0
    data.body("base").xfrc_applied = rotor_wrench(spec, model, hover)
    for _ in range(400):
        mujoco.mj_step(model, data)
    np.testing.assert_allclose(data.qpos, [0, 0, 1, 1, 0, 0, 0], atol=1e-9)


@pytest.mark.parametrize(
    ("faster", "axis", "sign"),
    [
        (("m1", "m2"), 0, -1),  # the right ones: the right side rises, a roll to the left
        (("m2", "m3"), 1, 1),  # the rear ones: nose down
        (("m1", "m3"), 2, -1),  # those that turn counter-clockwise: the body turns clockwise
    ],
)
def test_faster_rotors_turn_the_crazyflie_about_one_axis(faster: tuple[str, ...], axis: int, sign: int) -> None:
    spec = load_robot("crazyflie")
    model = mujoco.MjModel.from_xml_path(str(spec.model_path))
    speeds = np.array([1600.0 if rotor.name in faster else 1500.0 for rotor in spec.rotors])
    torque = rotor_wrench(spec, model, speeds)[3:]
    assert sign * torque[axis] > 0
    np.testing.assert_allclose(np.delete(torque, axis), 0.0, atol=1e-12)


def test_the_pole_swings_with_the_period_of_a_physical_pendulum() -> None:
    model = mujoco.MjModel.from_xml_path(str(load_robot("cartpole").model_path))
    data = mujoco.MjData(model)
    model.body_mass[model.body("cart").id] = 1e5  # a cart that does not give way
    mass, length, inertia = 0.1, 0.5, 0.0083333
    period = 2 * np.pi * np.sqrt((inertia + mass * length**2) / (mass * GRAVITY * length))
    data.joint("pole").qpos = np.pi - 0.02
    angles = []
    for _ in range(2000):
        mujoco.mj_step(model, data)
        angles.append(float(data.joint("pole").qpos[0]) - np.pi)
    signs = np.array(angles) > 0
    crossings = np.flatnonzero(signs[1:] & ~signs[:-1])
    measured = np.diff(crossings).mean() * model.opt.timestep
    assert measured == pytest.approx(period, rel=2e-3)


def with_object(spec: RobotSpec, name: str) -> tuple[mujoco.MjModel, mujoco.MjData]:
    scene = mujoco.MjSpec.from_file(str(spec.model_path))
    thing = mujoco.MjSpec.from_file(str(next(path for path in OBJECTS if path.stem == name)))
    scene.worldbody.add_frame().attach_body(thing.body(name), "object_", "").add_freejoint()
    model = scene.compile()
    return model, mujoco.MjData(model)


def test_the_cube_rests_in_the_hand() -> None:
    spec = load_robot("hand")
    model, data = with_object(spec, "cube")
    torque = servo(spec, model)
    data.qpos[:16] = spec.array("default_pos")
    mujoco.mj_forward(model, data)
    data.qpos[16:19] = data.site("held").xpos
    start = data.qpos[16:23].copy()
    for _ in range(200):
        data.ctrl = torque(data)
        mujoco.mj_step(model, data)
    np.testing.assert_allclose(data.qpos[16:19], start[:3], atol=5e-4)
    np.testing.assert_allclose(data.qpos[19:23], start[3:], atol=5e-3)
    np.testing.assert_allclose(data.qpos[:16], spec.array("default_pos"), atol=0.03)  # the links' own weight
    lifted = sum(contact_force(model, data, i)[0] for i in range(data.ncon))
    assert lifted == pytest.approx(0.08 * GRAVITY, rel=0.02)


def test_every_fingertip_reaches_the_cube() -> None:
    spec = load_robot("hand")
    for finger in ("index", "middle", "ring", "thumb"):
        model, data = with_object(spec, "cube")
        torque = servo(spec, model)
        data.qpos[:16] = spec.array("default_pos")
        mujoco.mj_forward(model, data)
        data.qpos[16:19] = data.site("held").xpos
        touched: set[str] = set()
        for _ in range(200):
            data.ctrl = torque(data)
            for i, name in enumerate(spec.joint_names):
                if name.startswith(finger) and not name.endswith("spread"):
                    data.ctrl[i] = 0.3
            mujoco.mj_step(model, data)
            touched |= {model.body(int(model.geom_bodyid[g])).name for c in data.contact for g in c.geom}
        assert f"{finger}_tip" in touched or f"{finger}_distal" in touched, finger


def dropped_peg(offset: float) -> float:
    """Height m of the end of a peg that falls along a plumb guide onto the hole, after 1 s; `offset` m off its middle."""
    path = next(path for path in OBJECTS if path.stem == "hole")
    peg = (
        f'<body pos="{offset} 0 0.073"><joint type="slide" axis="0 0 1"/><geom type="box" size="0.006 0.006 0.03" '
        'mass="0.00864" contype="1" conaffinity="2"/><site name="end" pos="0 0 -0.03"/></body>'
    )
    model, data = compiled(path.read_text().replace("</worldbody>", peg + "</worldbody>"))
    for _ in range(500):
        mujoco.mj_step(model, data)
    return float(data.site("end").xpos[2])


@pytest.mark.parametrize(("offset", "height"), [(0.0, 0.010), (0.0004, 0.010), (-0.0004, 0.010), (0.002, 0.0395)])
def test_the_peg_slides_into_the_hole_only_where_it_fits(offset: float, height: float) -> None:
    assert dropped_peg(offset) == pytest.approx(height, abs=5e-4)


def test_the_peg_hangs_plumb_in_the_default_pose_with_its_sides_along_the_arm() -> None:
    spec = load_robot("so101_peg")
    model = mujoco.MjModel.from_xml_path(str(spec.model_path))
    data = mujoco.MjData(model)
    data.qpos[:] = spec.array("default_pos")
    mujoco.mj_forward(model, data)
    np.testing.assert_allclose(data.geom("peg").xmat.reshape(3, 3), np.eye(3), atol=1e-4)
    np.testing.assert_allclose(data.geom("peg").xpos - data.site("tip").xpos, [0, 0, 0.03], atol=1e-5)
    assert data.ncon == 0


@pytest.mark.parametrize("path", OBJECTS, ids=lambda path: path.stem)
def test_an_object_is_one_body_without_joints(path: Path) -> None:
    model = mujoco.MjModel.from_xml_path(str(path))
    assert model.nbody == 2
    assert model.njnt == model.nu == 0
    assert model.body(1).name == path.stem
