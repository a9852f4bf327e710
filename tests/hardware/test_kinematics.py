"""The chain read from the MJCF against MuJoCo itself, and torch against numpy."""

# pyright: reportAttributeAccessIssue=false
# MuJoCo's compiled modules carry no type information.

from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch

from isthmus.hardware.kinematics import (
    KinematicChain,
    chain_from_mjcf,
    joint_frames,
    tip_error,
    tip_jacobian,
    tip_point,
    tip_position,
)
from isthmus.hardware.robot import RobotSpec, load_robot, robot_names
from isthmus.hardware.structure import FormatError


@pytest.fixture(scope="module", params=[name for name in robot_names() if load_robot(name).tip_site is not None])
def spec(request: pytest.FixtureRequest) -> RobotSpec:
    return load_robot(request.param)


@pytest.fixture(scope="module")
def model(spec: RobotSpec) -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_path(str(spec.model_path))


@pytest.fixture(scope="module")
def chain(spec: RobotSpec) -> KinematicChain:
    return chain_from_mjcf(spec.model_path, spec.reach_site())


@pytest.fixture(scope="module")
def poses(spec: RobotSpec, chain: KinematicChain) -> np.ndarray:
    joints = {joint.name: joint for joint in spec.joints}
    lower, upper = np.array([(joints[name].lower, joints[name].upper) for name in chain.joint_names]).T
    return np.random.default_rng(0).uniform(lower, upper, size=(50, len(lower)))


def simulated(model: mujoco.MjModel, spec: RobotSpec, chain: KinematicChain, pose: np.ndarray) -> mujoco.MjData:
    data = mujoco.MjData(model)
    for name, q in zip(chain.joint_names, pose, strict=True):
        data.joint(name).qpos = q
    mujoco.mj_forward(model, data)
    return data


def test_the_chain_starts_at_the_base_and_follows_robot_order(spec: RobotSpec, chain: KinematicChain) -> None:
    assert chain.joint_names == tuple(name for name in spec.joint_names if name in chain.joint_names)


def test_tip_positions_are_mujocos(
    model: mujoco.MjModel, spec: RobotSpec, chain: KinematicChain, poses: np.ndarray
) -> None:
    expected = [simulated(model, spec, chain, pose).site(spec.tip_site).xpos.copy() for pose in poses]
    np.testing.assert_allclose(tip_position(chain, poses), expected, atol=1e-9)


def test_joint_frames_are_mujocos(
    model: mujoco.MjModel, spec: RobotSpec, chain: KinematicChain, poses: np.ndarray
) -> None:
    for pose in poses[:10]:
        data = simulated(model, spec, chain, pose)
        rotations, origins, _ = joint_frames(chain, pose)
        for name, rotation, origin in zip(chain.joint_names, rotations, origins, strict=True):
            body = int(model.joint(name).bodyid[0])
            np.testing.assert_allclose(rotation, data.xmat[body].reshape(3, 3), atol=1e-9)
            np.testing.assert_allclose(origin, data.joint(name).xanchor, atol=1e-9)


def test_tip_jacobians_are_mujocos(
    model: mujoco.MjModel, spec: RobotSpec, chain: KinematicChain, poses: np.ndarray
) -> None:
    columns = [int(model.joint(name).dofadr[0]) for name in chain.joint_names]
    for pose, jacobian in zip(poses, tip_jacobian(chain, poses), strict=True):
        expected = np.zeros((3, model.nv))
        mujoco.mj_jacSite(model, simulated(model, spec, chain, pose), expected, None, model.site(spec.tip_site).id)
        np.testing.assert_allclose(jacobian, expected[:, columns], atol=1e-9)


def test_tip_jacobians_are_finite_differences(chain: KinematicChain, poses: np.ndarray) -> None:
    step = 1e-6
    for i in range(poses.shape[1]):
        shift = step * np.eye(poses.shape[1])[i]
        slope = (tip_position(chain, poses + shift) - tip_position(chain, poses - shift)) / (2 * step)
        np.testing.assert_allclose(tip_jacobian(chain, poses)[..., i], slope, atol=1e-8)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
def test_torch_equals_numpy(chain: KinematicChain, poses: np.ndarray, dtype: torch.dtype, tolerance: float) -> None:
    _, _, tip = joint_frames(chain, torch.tensor(poses, dtype=dtype), torch)
    assert tip.dtype == dtype
    np.testing.assert_allclose(tip.numpy(), tip_position(chain, poses), atol=tolerance)


def test_the_tip_alone_is_that_of_the_frames(chain: KinematicChain, poses: np.ndarray) -> None:
    grid = poses[:12].reshape(3, 4, -1)
    tip = tip_point(chain, grid)
    assert tip.shape == (3, 4, 3)
    np.testing.assert_allclose(tip, joint_frames(chain, grid)[2], atol=1e-12)
    np.testing.assert_allclose(tip_point(chain, torch.tensor(grid), torch).numpy(), tip, atol=1e-12)


def test_the_tips_error_is_seen_from_mujocos_first_link(
    model: mujoco.MjModel, spec: RobotSpec, chain: KinematicChain, poses: np.ndarray
) -> None:
    points = np.random.default_rng(1).normal(size=(len(poses), 3))
    body = int(model.joint(chain.joint_names[0]).bodyid[0])
    for pose, point, error in zip(poses, points, tip_error(chain, poses, points), strict=True):
        data = simulated(model, spec, chain, pose)
        expected = data.xmat[body].reshape(3, 3).T @ (point - data.site(spec.tip_site).xpos)
        np.testing.assert_allclose(error, expected, atol=1e-9)


def test_torch_gradients_are_the_jacobian(chain: KinematicChain, poses: np.ndarray) -> None:
    pose = torch.tensor(poses[0])
    jacobian = torch.autograd.functional.jacobian(lambda q: joint_frames(chain, q, torch)[2], pose)
    assert isinstance(jacobian, torch.Tensor)
    np.testing.assert_allclose(jacobian.numpy(), tip_jacobian(chain, poses[0]), atol=1e-10)


def test_an_unknown_site_is_named(spec: RobotSpec) -> None:
    with pytest.raises(FormatError, match="no site 'elbow_tip'"):
        chain_from_mjcf(spec.model_path, "elbow_tip")


@pytest.mark.parametrize("body", ['<body name="link" euler="1 0 0"><joint name="j"/>', '<body name="link">'])
def test_a_body_that_the_chain_cannot_hold_is_named(tmp_path: Path, body: str) -> None:
    path = tmp_path / "model.xml"
    path.write_text(
        f'<mujoco><worldbody>{body}<body name="end"><joint name="k"/><site name="tip"/></body></body>'
        "</worldbody></mujoco>"
    )
    if "euler" in body:
        with pytest.raises(FormatError, match="'link' needs exactly one hinge and a quat orientation"):
            chain_from_mjcf(path, "tip")
    else:
        assert chain_from_mjcf(path, "tip").joint_names == ("k",)  # a body without a joint in front is the fixed base


def chain_of(folder: Path, joint: str, body: str = "", site: str = "", beside: str = "") -> KinematicChain:
    """The chain of a model with one joint, all of whose parts can be given."""
    path = folder / "model.xml"
    path.write_text(
        f'<mujoco>{beside}<worldbody><body name="link" {body}>{joint}<geom size="0.1"/>'
        f'<site name="tip" pos="1 0 0" {site}/></body></worldbody></mujoco>'
    )
    return chain_from_mjcf(path, "tip")


@pytest.mark.parametrize(
    ("joint", "more", "message"),
    [
        ('<joint name="j" type="slide"/>', {}, "'link': joint 'j' is a slide; expected a hinge"),
        ('<joint name="j" type="ball"/>', {}, "joint 'j' is a ball"),
        ('<joint name="j" pos="0.1 0 0"/>', {}, "joint 'j': pos = '0.1 0 0'"),
        ('<joint name="j" ref="0.1"/>', {}, "joint 'j': .*ref = '0.1'"),
        ('<joint name="j" axis="0 0 0"/>', {}, r"joint 'j': axis = \(0\.0, 0\.0, 0\.0\); expected a vector"),
        ('<joint name="j" axis="0 1"/>', {}, "joint 'j': axis = '0 1'; expected 3 finite numbers"),
        ('<joint name="j" axis="0 nan 1"/>', {}, "axis = '0 nan 1'"),
        ("<joint/>", {}, "body 'link': its joint has no name"),
        ('<joint name="j"/><frame><joint name="k"/></frame>', {}, "'link' needs exactly one hinge"),
        ("", {"body": 'euler="0 0 90"'}, "'link' needs exactly one hinge and a quat orientation"),
        ("", {}, "no hinge between the world and site 'tip'"),
        ('<joint name="j"/>', {"body": 'quat="0 0 0 0"'}, "quat of its body"),
        ('<joint name="j"/>', {"body": 'pos="a b c"'}, "body 'link': pos = 'a b c'"),
        ('<joint name="j"/>', {"site": 'fromto="0 0 0 1 1 1"'}, "site 'tip' has fromto"),
        (
            '<joint name="j"/>',
            {"beside": '<default><joint axis="0 1 0"/></default>'},
            "joint 'j': axis comes from a <default>",
        ),
    ],
)
def test_what_the_chain_would_read_otherwise_than_mujoco_is_refused(
    tmp_path: Path, joint: str, more: dict[str, str], message: str
) -> None:
    with pytest.raises(FormatError, match=message):
        chain_of(tmp_path, joint, **more)


def test_an_axis_of_any_length_is_a_direction_as_in_mujoco(tmp_path: Path) -> None:
    chain = chain_of(tmp_path, '<joint name="j" axis="0 0 5"/>')
    np.testing.assert_allclose(tip_position(chain, np.array([np.pi / 2])), [0.0, 1.0, 0.0], atol=1e-12)
