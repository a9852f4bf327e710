"""The MuJoCo engine against the Engine contract and against plain mj_step."""

# mujoco builds its classes at run time and ships no type stubs for them.
# pyright: reportAttributeAccessIssue=false

import mujoco
import numpy as np
import pytest
import torch
from engine_contract import CONTRACT, SCENES, arm_scene, begun, efforts, flat, legs_scene, start

from isthmus.hardware.robot import load_robot
from isthmus.sim.mujoco_engine import MujocoEngine
from isthmus.sim.on_host import OnHost

ROBOT = load_robot("so101")


@pytest.mark.parametrize("scene", SCENES.values(), ids=list(SCENES))
@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
def test_keeps_the_engine_contract(check, scene):
    check(MujocoEngine, scene())


@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
def test_an_engine_seen_from_the_host_keeps_the_contract(check):
    check(lambda scene, num_envs: OnHost(MujocoEngine(scene, num_envs)), arm_scene())


def test_equals_mj_step_on_the_shipped_model():
    engine = MujocoEngine(arm_scene(), 2)
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


@pytest.mark.parametrize("scene", SCENES.values(), ids=list(SCENES))
def test_same_bits_at_any_thread_count(scene):
    states = []
    for threads in (1, 2):
        engine = MujocoEngine(scene(), 16, threads=threads)
        engine.reset(torch.arange(16), start(engine, 16))
        push = efforts(engine)
        for _ in range(50):
            engine.step(push() * torch.linspace(0.5, 1.5, 16)[:, None])
        states.append(flat(engine.state()))
    assert torch.equal(states[0], states[1])


def test_restoring_is_exact_to_the_bit():
    engine = begun(MujocoEngine, legs_scene(), 3)
    push = efforts(engine)
    for _ in range(30):
        engine.step(push())
    saved = engine.save()
    futures = []
    for _ in range(2):
        push = efforts(engine, seed=9)
        for _ in range(20):
            engine.step(push())
        futures.append(flat(engine.state()))
        engine.restore(saved)
    assert torch.equal(futures[0], futures[1])


def test_a_payload_weighs_what_it_says():
    """Torque that holds a pose grows by J_tip^T m g, with the Jacobian from MuJoCo itself."""
    engine = MujocoEngine(arm_scene(), 2)
    engine.set_parameter("payload_kg", torch.tensor([[0.15]]), torch.tensor([1]))
    engine.step(torch.zeros(2, 6))
    biases, data = [], mujoco.MjData(engine.model)
    for env in range(2):
        data.qpos[:] = [0.3, 0.4, -0.4, 0.6, 0.2, 0.1]
        mujoco.mj_forward(engine.batch.get_model(env), data)
        biases.append(data.qfrc_bias.copy())
    model = engine.model
    jacobian = np.zeros((3, 6))
    mujoco.mj_jacSite(model, data, jacobian, None, model.site("tip").id)
    np.testing.assert_allclose(biases[1] - biases[0], jacobian.T @ [0, 0, 0.15 * 9.81], atol=1e-6)


def test_a_picture_shows_the_robot():
    engine = begun(MujocoEngine, legs_scene(), 2)
    picture = engine.render(1, width=160, height=120)
    assert picture.shape == (120, 160, 3) and picture.dtype == np.uint8 and picture.std() > 10


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])  # in the second torch counts no changes
def test_servo_gains_that_change_in_one_environment_change_there_alone(mode):
    with mode():
        gains = [torch.from_numpy(ROBOT.array(name)).float().repeat(3, 1) for name in ("kp", "kd", "effort_limit")]
        targets = torch.from_numpy(ROBOT.array("default_pos")).float()[None, None].repeat(3, 4, 1) + 0.3
        changed, fresh = MujocoEngine(arm_scene(), 3), MujocoEngine(arm_scene(), 3)
        changed.step_servo(targets, *gains)
        changed.reset(torch.arange(3), start(changed, 3))
        fresh.reset(torch.arange(3), start(fresh, 3))
        before = fresh.step_servo(targets, *gains)
        fresh.reset(torch.arange(3), start(fresh, 3))
        for gain, factor in zip(gains, (2.0, 0.5, 0.7), strict=True):
            gain[1] *= factor
        after = changed.step_servo(targets, *gains)
        torch.testing.assert_close(after, fresh.step_servo(targets, *gains), rtol=0, atol=0)
        torch.testing.assert_close(after[[0, 2]], before[[0, 2]], rtol=0, atol=0)
        assert (after[1] - before[1]).abs().max() > 1e-3
