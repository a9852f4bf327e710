# pyright: reportAttributeAccessIssue=false
"""Rigid bodies in numpy against MuJoCo's own."""

from pathlib import Path

import mujoco
import numpy as np
import pytest

from isthmus.deploy.doctor.rigid_body import ModelUnread, Motion, inverse_dynamics, jacobian, poses, read_model
from isthmus.hardware.robot import RobotSpec, load_robot, robot_names


@pytest.fixture(params=robot_names())
def robot(request: pytest.FixtureRequest) -> RobotSpec:
    return load_robot(request.param)


def _place(robot: RobotSpec, model: mujoco.MjModel, data: mujoco.MjData, **rows: np.ndarray) -> list[int]:
    """Put joints where they should be, the base as the file has it; the joints' places in qvel."""
    places = []
    for k, name in enumerate(robot.joint_names):
        joint = model.joint(name)
        places.append(int(joint.dofadr[0]))
        data.qpos[joint.qposadr[0]] = rows["pos"][k]
        data.qvel[joint.dofadr[0]] = rows["vel"][k]
        data.qacc[joint.dofadr[0]] = rows["acc"][k]
    return places


def test_efforts_of_a_motion_are_those_of_mujoco(robot: RobotSpec) -> None:
    if not robot.joints:
        pytest.skip("has no joints")
    own, model = read_model(robot.model_path, robot.joint_names, robot.base_body), None
    model = mujoco.MjModel.from_xml_path(str(robot.model_path))
    data = mujoco.MjData(model)
    draw = np.random.default_rng(1)
    pos, vel, acc = (draw.uniform(-1.0, 1.0, (3, len(robot.joints))) for _ in range(3))
    efforts, _ = inverse_dynamics(own, Motion(pos=pos, vel=vel, acc=acc))
    for tick in range(3):
        mujoco.mj_resetData(model, data)
        places = _place(robot, model, data, pos=pos[tick], vel=vel[tick], acc=acc[tick])
        wanted = data.qacc.copy()
        mujoco.mj_fwdPosition(model, data)
        mujoco.mj_fwdVelocity(model, data)
        data.qacc[:] = wanted
        found = np.zeros(model.nv)
        mujoco.mj_rne(model, data, 1, found)
        expected = found[places] + model.dof_armature[places] * wanted[places]
        np.testing.assert_allclose(efforts[tick], expected, atol=1e-9)


def test_the_mass_is_that_of_the_model(robot: RobotSpec) -> None:
    own = read_model(robot.model_path, robot.joint_names, robot.base_body)
    model = mujoco.MjModel.from_xml_path(str(robot.model_path))
    base = model.body(robot.base_body).id
    assert own.mass == pytest.approx(float(model.body_subtreemass[base]), rel=1e-9)


def test_a_foot_moves_as_its_jacobian_says() -> None:
    robot = load_robot("go2")
    model = read_model(robot.model_path, robot.joint_names, robot.base_body)
    foot, pos, step = model.index("FL_foot"), robot.array("default_pos")[None], 1e-6
    joints, columns = jacobian(model, poses(model, pos), foot)
    assert [robot.joint_names[k] for k in joints] == ["FL_hip_joint", "FL_thigh_joint", "FL_calf_joint"]
    for column, joint in enumerate(joints):
        ahead, behind = pos.copy(), pos.copy()
        ahead[0, joint] += step
        behind[0, joint] -= step
        change = (poses(model, ahead).pos[foot] - poses(model, behind).pos[foot])[0] / (2 * step)
        np.testing.assert_allclose(columns[0, :, column], change, atol=1e-8)


def test_a_body_without_inertia_is_named(tmp_path: Path) -> None:
    path = tmp_path / "model.xml"
    path.write_text(
        "<mujoco><worldbody><body name='base'><inertial pos='0 0 0' mass='1' diaginertia='1 1 1'/><body name='link'>"
        "<joint name='a'/><geom size='0.1'/></body></body></worldbody></mujoco>"
    )
    with pytest.raises(ModelUnread, match=r"'link' has geoms and no <inertial>"):
        read_model(path, ("a",), "base")
