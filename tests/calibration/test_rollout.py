# pyright: reportAttributeAccessIssue=false
# MuJoCo's compiled modules carry no type information.

import mujoco
import numpy as np
import torch

from isthmus.calibration.rollout import NOMINAL, ServoRollout, Targets, servo_model
from isthmus.sim.actuators import position_servo_effort
from isthmus.sim.engine import EngineState
from isthmus.sim.latency import CommandDelay
from isthmus.sim.mujoco_engine import MujocoEngine
from isthmus.sim.scene import Scene


def waves(robot, ticks=150):
    time = np.arange(ticks) * 0.02
    return time, robot.array("default_pos") + 0.2 * np.sin(4.0 * time)[:, None] * np.ones(len(robot.joints))


def test_the_mean_of_a_staircase_is_its_integral_over_each_interval():
    stairs = Targets(np.array([0.0, 0.02, 0.04]), np.array([[1.0], [2.0], [4.0]]))
    mean = stairs.mean_between(np.array([-0.01, 0.0, 0.015, 0.03, 0.05]))
    np.testing.assert_allclose(mean[:, 0], [1.0, 1.0, (0.005 * 1 + 0.01 * 2) / 0.015, (0.01 * 2 + 0.01 * 4) / 0.02])


def test_the_rollout_follows_the_simulators_own_servo_law_and_delay(robot):
    time, targets = waves(robot)
    parameters = np.array([[1.3, 0.8, 0.08, 0.0125], [0.7, 1.2, 0.0, 0.031]])
    ours = ServoRollout(robot)(parameters, Targets(time, targets), targets[0], time)
    ids = torch.arange(2)
    engine = MujocoEngine(Scene(robot=robot), 2)
    engine.set_parameter("friction_scale", torch.tensor(parameters[:, :1]).float(), ids)
    engine.set_parameter("payload_kg", torch.tensor(parameters[:, 2:3]).float(), ids)
    delay = CommandDelay(2, len(robot.joints), period=0.02, dt=0.005, max_delay=0.05)
    delay.set_delay(torch.tensor(parameters[:, 3] + 0.0025), ids)  # Identified.simulator_latency_s
    start = torch.tensor(targets[:1]).repeat(2, 1).float()
    engine.reset(ids, EngineState(joint_pos=start, joint_vel=torch.zeros_like(start)))
    delay.reset(start, ids)
    kp = torch.tensor(robot.array("kp") * parameters[:, 1:2]).float()
    kd, limit = torch.tensor(robot.array("kd")).float(), torch.tensor(robot.array("effort_limit")).float()
    theirs = []
    for target in targets:
        theirs.append(engine.joint_pos().numpy().copy())
        delay.write(torch.tensor(target).float().repeat(2, 1))
        for substep in range(4):
            pos, vel = engine.joint_pos(), engine.joint_vel()
            engine.step(position_servo_effort(delay.in_force(substep), pos, vel, kp=kp, kd=kd, effort_limit=limit))
    np.testing.assert_allclose(ours, np.stack(theirs, axis=1), atol=3e-6)


def test_a_payload_adds_its_weight_times_its_lever_to_the_droop(robot):
    time = np.arange(800) * 0.02
    pose = robot.array("default_pos")
    model = servo_model(robot, 0.005)
    data = mujoco.MjData(model)
    hold = np.tile(pose, (len(time), 1))
    rows = np.tile(NOMINAL, (2, 1))
    rows[1, 2], rows[:, 0] = 0.1, 0.05  # hardly any friction to hold the arm up
    end = ServoRollout(robot)(rows, Targets(time, hold), pose, time)[:, -1]
    for angles, mass in zip(end, (0.0, 0.1), strict=True):  # static balance with torques from mujoco's inverse dynamics
        data.qpos[:], data.qvel[:] = angles, 0.0
        model.body_mass[model.body("payload").id] = mass
        mujoco.mj_forward(model, data)
        np.testing.assert_allclose(robot.array("kp") * (pose - angles), data.qfrc_bias, atol=4e-3)


def test_scaling_every_torque_and_mass_leaves_the_motion_unchanged_but_known_masses_show_the_scale(robot):
    """Joint logs alone cannot tell the scale of torques; the link masses, which the model knows, anchor it."""
    _, targets = waves(robot)

    def run(scale: float, mass_scale: float) -> np.ndarray:
        model = servo_model(robot, 0.005)
        fields = (model.actuator_gainprm, model.actuator_biasprm, model.actuator_forcerange)
        for array in (*fields, model.dof_frictionloss, model.dof_damping, model.dof_armature):
            array *= scale
        model.body_mass *= mass_scale
        model.body_inertia *= mass_scale
        data = mujoco.MjData(model)
        mujoco.mj_setConst(model, data)
        data.qpos[:] = targets[0]
        path = []
        for target in targets:
            data.ctrl[:] = target
            mujoco.mj_step(model, data, 4)
            path.append(data.qpos.copy())
        return np.array(path)

    nominal = run(1.0, 1.0)
    np.testing.assert_allclose(run(1.1, 1.1), nominal, atol=1e-9)
    assert np.abs(run(1.1, 1.0) - nominal).max() > 2 * np.pi / 4096  # more than one count of the encoder


def test_encoder_offsets_cancel_where_there_is_no_gravity_to_feel_them(robot):
    time, targets = waves(robot)
    rollout = ServoRollout(robot)
    none, shift = np.zeros((1, 6)), np.array([[0.05, 0.0, 0.0, 0.0, 0.0, 0.0]])  # the pan axis is vertical
    args = NOMINAL[None], Targets(time, targets)
    plain = rollout.shifted(*args, none, targets[0], time)
    np.testing.assert_allclose(rollout.shifted(*args, shift, targets[0], time), plain, atol=1e-6)
    lift = rollout.shifted(*args, np.roll(shift, 1), targets[0], time)
    assert np.abs(lift - plain).max() > 5e-4
