"""The MuJoCo engine against the Engine contract and against plain mj_step."""

# mujoco builds its classes at run time and ships no type stubs for them.
# pyright: reportAttributeAccessIssue=false

import mujoco
import numpy as np
import pytest
import torch
from engine_contract import CONTRACT

from isthmus.hardware.robot import load_robot
from isthmus.sim.mujoco_engine import MujocoEngine

ROBOT = load_robot("so101")


@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
def test_keeps_the_engine_contract(check):
    check(lambda num_envs: MujocoEngine(ROBOT, num_envs))


def test_equals_mj_step_on_the_shipped_model():
    engine = MujocoEngine(ROBOT, 2)
    model = mujoco.MjModel.from_xml_path(str(ROBOT.model_path))
    model.opt.timestep = engine.dt
    data = mujoco.MjData(model)
    rng = np.random.default_rng(0)
    for _ in range(100):
        effort = rng.normal(0, 0.5, 6).astype(np.float32)
        data.ctrl[:] = effort
        mujoco.mj_step(model, data)
        engine.step(torch.from_numpy(effort).repeat(2, 1))
    np.testing.assert_allclose(engine.joint_pos()[1].numpy(), data.qpos, atol=1e-5)


def test_same_bits_at_any_thread_count():
    poses = []
    for threads in (1, 2):
        engine = MujocoEngine(ROBOT, 16, threads=threads)
        for step in range(50):
            engine.step(torch.sin(torch.arange(96.0).reshape(16, 6) + step))
        poses.append(engine.joint_pos())
    assert torch.equal(poses[0], poses[1])


def test_a_payload_weighs_what_it_says():
    """Torque that holds a pose grows by J_tip^T m g, with the Jacobian from MuJoCo itself."""
    engine = MujocoEngine(ROBOT, 2)
    engine.set_parameter("payload_kg", torch.tensor([0.15]), torch.tensor([1]))
    biases, data = [], mujoco.MjData(engine.model)
    for env in range(2):
        data.qpos[:] = [0.3, 0.4, -0.4, 0.6, 0.2, 0.1]
        mujoco.mj_forward(engine.batch.get_model(env), data)
        biases.append(data.qfrc_bias.copy())
    model = engine.model
    jacobian = np.zeros((3, 6))
    mujoco.mj_jacSite(model, data, jacobian, None, model.site("tip").id)
    np.testing.assert_allclose(biases[1] - biases[0], jacobian.T @ [0, 0, 0.15 * 9.81], atol=1e-6)
