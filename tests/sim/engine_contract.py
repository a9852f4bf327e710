"""What every Engine must do. A test module gives `make(scene, num_envs) -> Engine` and calls these, for each of SCENES."""

import numpy as np
import torch

from isthmus.hardware.robot import load_robot
from isthmus.sim.actuators import position_servo_effort
from isthmus.sim.engine import ENGINE_PARAMETERS, EngineState, FreeState
from isthmus.sim.rotations import rotate
from isthmus.sim.scene import Scene

# Values that are allowed and differ from what the model says.
OTHER = {
    "friction_scale": [1.5],
    "damping_scale": [1.5],
    "armature_scale": [1.5],
    "mass_scale": [1.3],
    "inertia_scale": [1.4],
    "contact_friction_scale": [0.5],
    "object_mass_scale": [1.5],
    "payload_kg": [0.1],
    "com_offset_m": [0.01, -0.02, 0.015],
    "gravity_m_s2": [0.5, 0.0, -8.0],
}
# What a robot that stands still cannot show in half a second of swinging its joints in the air.
UNSEEN = {
    "arm": ("inertia_scale", "contact_friction_scale", "object_mass_scale", "com_offset_m"),
    "legs": ("object_mass_scale",),
}


def arm_scene():
    return Scene(robot=load_robot("so101"))


def legs_scene():
    return Scene(robot=load_robot("go2"), ground="plane")


SCENES = {"arm": arm_scene, "legs": legs_scene}


def start(engine, num_envs, height=0.30):
    robot = engine.scene.robot
    pose = torch.from_numpy(robot.array("default_pos")).float().repeat(num_envs, 1)
    free = {}
    if robot.floating:
        zero = torch.zeros(num_envs, 3)
        up = torch.tensor([1.0, 0.0, 0.0, 0.0]).repeat(num_envs, 1)
        free["base"] = FreeState(
            pos=torch.tensor([0.0, 0.0, height]).repeat(num_envs, 1), quat=up, lin_vel=zero, ang_vel=zero
        )
    return EngineState(joint_pos=pose, joint_vel=torch.zeros_like(pose), free=free)


def begun(make, scene, num_envs, height=0.30):
    engine = make(scene, num_envs)
    engine.reset(torch.arange(num_envs), start(engine, num_envs, height))
    return engine


def efforts(engine, seed=3):
    """Gentle random torques, the same in every environment."""
    generator = torch.Generator().manual_seed(seed)
    n = len(engine.scene.robot.joints)
    return lambda: 0.3 * torch.randn(1, n, generator=generator).repeat(engine.num_envs, 1)


def flat(state):
    free = [part for name in state.free for part in vars(state.free[name]).values()]
    return torch.cat([state.joint_pos, state.joint_vel, *free], dim=-1)


def shapes_and_types(make, scene):
    engine = begun(make, scene, 3)
    n, c = len(engine.scene.robot.joints), len(engine.scene.robot.contact_bodies)
    for tensor, shape in (
        (engine.joint_pos(), (3, n)),
        (engine.joint_vel(), (3, n)),
        (engine.contact_force(), (3, c, 3)),
        (engine.contact_pos(), (3, c, 3)),
    ):
        assert tensor.shape == shape and tensor.dtype == torch.float32
    assert engine.failed().shape == (3,) and engine.failed().dtype == torch.bool
    assert set(engine.state().free) == set(engine.scene.free_bodies)


def reset_touches_only_its_environments(make, scene):
    engine = begun(make, scene, 4)
    push = efforts(engine)
    for _ in range(3):
        engine.step(push())
    before = flat(engine.state())
    wanted = start(engine, 2, height=0.5)
    wanted = EngineState(joint_pos=wanted.joint_pos + 0.1, joint_vel=wanted.joint_vel - 0.2, free=wanted.free)
    engine.reset(torch.tensor([1, 3]), wanted)
    after = flat(engine.state())
    torch.testing.assert_close(after[[0, 2]], before[[0, 2]], rtol=0, atol=1e-6)
    torch.testing.assert_close(after[[1, 3]], flat(wanted), rtol=0, atol=1e-5)


def parameters_are_read_back(make, scene):
    engine = begun(make, scene, 3)
    for name, item in ENGINE_PARAMETERS.items():
        assert torch.allclose(engine.parameter(name), torch.tensor(item.neutral), atol=1e-5), name
    for name, value in OTHER.items():
        if name == "object_mass_scale" and not engine.scene.objects:
            continue
        engine.set_parameter(name, torch.tensor([value]), torch.tensor([1]))
    for name, value in OTHER.items():
        if name == "object_mass_scale" and not engine.scene.objects:
            continue
        read, neutral = engine.parameter(name), torch.tensor(ENGINE_PARAMETERS[name].neutral)
        torch.testing.assert_close(read[1], torch.tensor(value), rtol=2e-4, atol=2e-5, msg=lambda m: f"{name}: {m}")  # noqa: B023
        torch.testing.assert_close(read[[0, 2]], neutral.repeat(2, 1), rtol=2e-4, atol=2e-5)


def parameters_act_in_their_environment_only(make, scene):
    engine = make(scene, 2)
    kind = "legs" if engine.scene.robot.floating else "arm"
    for name, value in OTHER.items():
        if name in UNSEEN[kind]:
            continue
        neutral = torch.tensor([ENGINE_PARAMETERS[name].neutral])
        engine.set_parameter(name, torch.tensor([value]), torch.tensor([1]))
        engine.reset(torch.arange(2), start(engine, 2))
        push = efforts(engine)
        for _ in range(40):
            engine.step(push())
        engine.set_parameter(name, neutral, torch.tensor([1]))
        changed = flat(engine.state())
        engine.reset(torch.arange(2), start(engine, 2))
        push = efforts(engine)
        for _ in range(40):
            engine.step(push())
        plain = flat(engine.state())
        torch.testing.assert_close(changed[0], plain[0], rtol=0, atol=2e-4, msg=lambda m: f"{name}: {m}")  # noqa: B023
        assert (changed[1] - plain[0]).abs().max() > 1e-3, name


def unknown_names_and_impossible_values_are_refused(make, scene):
    engine = begun(make, scene, 1)
    zero = torch.zeros(1, 3)
    for call, words in (
        (lambda: engine.set_parameter("colour", torch.ones(1, 1), torch.arange(1)), ("colour", "payload_kg")),
        (lambda: engine.parameter("colour"), ("colour", "payload_kg")),
        (lambda: engine.set_parameter("mass_scale", torch.tensor([[-1.0]]), torch.arange(1)), ("mass_scale", "-1")),
        (lambda: engine.set_parameter("mass_scale", torch.tensor([[torch.nan]]), torch.arange(1)), ("mass_scale",)),
        (lambda: engine.set_parameter("mass_scale", torch.ones(3), torch.arange(1)), ("mass_scale", "shape")),
        (lambda: engine.free_state("ghost"), ("ghost",)),
        (lambda: engine.set_wrench("ghost", zero, zero), ("ghost",)),
    ):
        try:
            call()
        except (KeyError, ValueError) as error:
            assert all(word in str(error) for word in words), error
        else:
            raise AssertionError(f"accepted: {words}")


def a_failed_environment_is_reported_and_comes_back(make, scene):
    engine = begun(make, scene, 3)
    n = len(engine.scene.robot.joints)
    bad = start(engine, 1)
    engine.reset(
        torch.tensor([1]), EngineState(joint_pos=bad.joint_pos * torch.nan, joint_vel=bad.joint_vel, free=bad.free)
    )
    engine.step(torch.zeros(3, n))
    assert engine.failed().tolist() == [False, True, False]
    engine.reset(torch.tensor([1]), start(engine, 1))
    engine.step(torch.zeros(3, n))
    assert not engine.failed().any() and bool(torch.isfinite(engine.joint_pos()).all())


def the_servo_inside_equals_the_law_outside(make, scene):
    """Saturated and not: the same law evaluated by shared code and sent as torque."""
    engine = begun(make, scene, 2)
    robot = engine.scene.robot
    n = len(robot.joints)
    kp, kd, limit = (torch.from_numpy(robot.array(k)).float() for k in ("kp", "kd", "effort_limit"))
    kp = kp.repeat(2, 1) * torch.tensor([[1.0], [0.8]])
    generator = torch.Generator().manual_seed(1)
    default = torch.from_numpy(robot.array("default_pos")).float()
    targets = default + torch.rand(2, 20, n, generator=generator) - 0.5
    inside = engine.step_servo(targets, kp, kd, limit)
    engine.reset(torch.arange(2), start(engine, 2))
    outside = []
    for index in range(20):
        effort = position_servo_effort(
            targets[:, index], engine.joint_pos(), engine.joint_vel(), kp=kp, kd=kd, effort_limit=limit
        )
        engine.step(effort)
        outside.append(engine.joint_pos())
    torch.testing.assert_close(inside, torch.stack(outside, dim=1), rtol=0, atol=1e-4)


def saving_and_restoring_repeats_the_future(make, scene):
    engine = begun(make, scene, 3)
    engine.set_parameter("mass_scale", torch.tensor([[1.2]]), torch.tensor([2]))
    push = efforts(engine)
    for _ in range(10):
        engine.step(push())
    saved = engine.save()
    futures = []
    for _ in range(2):
        push = efforts(engine, seed=7)
        for _ in range(10):
            engine.step(push())
        futures.append(flat(engine.state()))
        engine.set_parameter("mass_scale", torch.tensor([[0.9]]), torch.tensor([2]))
        engine.restore(saved)
    torch.testing.assert_close(futures[0], futures[1], rtol=0, atol=5e-5)
    torch.testing.assert_close(engine.parameter("mass_scale")[:, 0], torch.tensor([1.0, 1.0, 1.2]), rtol=0, atol=1e-5)


def same_inputs_give_the_same_bits(make, scene):
    runs = []
    for _ in range(2):
        engine = begun(make, scene, 3)
        push = efforts(engine)
        for _ in range(20):
            engine.step(push())
        runs.append(flat(engine.state()).numpy().copy())
    assert np.array_equal(runs[0], runs[1])


def a_wrench_accelerates_a_floating_base_by_force_over_mass(make, scene):
    """Momentum after t seconds under a steady force is F t, whatever the joints do; gravity off."""
    engine = begun(make, scene, 2, height=2.0)
    if not engine.scene.robot.floating:
        return
    every, n = torch.arange(2), len(engine.scene.robot.joints)
    engine.set_parameter("gravity_m_s2", torch.zeros(2, 3), every)
    force = torch.tensor([[0.0, 0.0, 0.0], [6.0, -3.0, 9.0]])
    engine.set_wrench("base", force, torch.zeros(2, 3))
    kp, kd, limit = (torch.from_numpy(engine.scene.robot.array(k)).float() for k in ("kp", "kd", "effort_limit"))
    hold = start(engine, 2).joint_pos[:, None].repeat(1, 40, 1)
    engine.step_servo(hold, 4 * kp.repeat(2, 1), 4 * kd, limit)
    velocity = engine.free_state("base").lin_vel
    assert velocity[0].abs().max() < 1e-3
    expected = force[1] * 40 * engine.dt / engine.robot_mass()
    torch.testing.assert_close(velocity[1], expected, rtol=0.15, atol=5e-3)  # the legs lag a little
    engine.reset(every, start(engine, 2, height=2.0))
    engine.step(torch.zeros(2, n))
    assert engine.free_state("base").lin_vel.abs().max() < 1e-3  # a reset ends wrenches
    engine.set_parameter("gravity_m_s2", torch.tensor([[0.0, 0.0, -9.81]]).repeat(2, 1), every)


def feet_carry_the_weight_and_an_accelerometer_feels_g(make, scene):
    engine = begun(make, scene, 2, height=0.30)
    robot = engine.scene.robot
    if not robot.floating:
        return
    kp, kd, limit = (torch.from_numpy(robot.array(k)).float() for k in ("kp", "kd", "effort_limit"))
    hold = start(engine, 2).joint_pos[:, None].repeat(1, 200, 1)
    engine.step_servo(hold, kp.repeat(2, 1), kd, limit)
    weight = engine.robot_mass() * 9.81
    assert abs(float(engine.contact_force()[0].sum(0)[2]) - weight) < 0.03 * weight
    felt = rotate(engine.free_state("base").quat, engine.specific_force())
    torch.testing.assert_close(felt[0], torch.tensor([0.0, 0.0, 9.81]), rtol=0, atol=0.3)
    assert engine.contact_pos()[0, :4, 2].max() < 0.05  # feet on the ground
    engine.reset(torch.arange(2), start(engine, 2, height=2.0))
    assert engine.contact_force().abs().max() == 0.0  # nothing left over from before


CONTRACT = (
    shapes_and_types,
    reset_touches_only_its_environments,
    parameters_are_read_back,
    parameters_act_in_their_environment_only,
    unknown_names_and_impossible_values_are_refused,
    a_failed_environment_is_reported_and_comes_back,
    the_servo_inside_equals_the_law_outside,
    saving_and_restoring_repeats_the_future,
    same_inputs_give_the_same_bits,
    a_wrench_accelerates_a_floating_base_by_force_over_mass,
    feet_carry_the_weight_and_an_accelerometer_feels_g,
)
