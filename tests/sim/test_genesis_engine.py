"""Genesis against the engine contract and against MuJoCo. Needs the extra `genesis`; the first run on a machine compiles for minutes."""

import importlib.util
import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import engine_contract
import numpy as np
import pytest
import torch
from engine_contract import SCENES, arm_scene, legs_scene, start

from isthmus.hardware.errors import IsthmusError
from isthmus.sim.actuators import position_servo_effort
from isthmus.sim.engine import ENGINE_PARAMETERS, EngineState, FreeState
from isthmus.sim.genesis_engine import GenesisEngine
from isthmus.sim.mujoco_engine import MujocoEngine
from isthmus.sim.scene import Scene, SceneObject
from isthmus.sim.terrain import HeightField

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not importlib.util.find_spec("genesis"), reason="genesis is not installed; say: make genesis"),
]
BALL = '<mujoco><worldbody><body name="ball"><geom type="sphere" size="0.03" mass="0.2"/></body></worldbody></mujoco>'
BOX = (
    '<mujoco><worldbody><body name="box" pos="0 0 0.01"><inertial pos="0.01 0 0" mass="1" diaginertia="1e-3 1e-3 1e-3"/>'
    '<geom type="box" size="0.1 0.1 0.05"/></body></worldbody></mujoco>'
)


@cache
def built(kind: str, num_envs: int) -> GenesisEngine:
    return GenesisEngine(SCENES[kind](), num_envs)


def neutral(engine):
    every = torch.arange(engine.num_envs)
    for name, item in ENGINE_PARAMETERS.items():
        engine.set_parameter(name, torch.tensor([item.neutral]).repeat(engine.num_envs, 1), every)
    engine.reset(every, start(engine, engine.num_envs))
    return engine


@pytest.mark.parametrize("kind", SCENES)
@pytest.mark.parametrize("check", engine_contract.CONTRACT, ids=lambda check: check.__name__)
def test_contract(check, kind) -> None:
    check(lambda scene, num_envs: neutral(built(kind, num_envs)), SCENES[kind]())


def gains(engine: GenesisEngine | MujocoEngine) -> list[torch.Tensor]:
    return [torch.from_numpy(engine.scene.robot.array(name)).float() for name in ("kp", "kd", "effort_limit")]


def both(kind: str, num_envs: int) -> tuple[GenesisEngine, MujocoEngine]:
    return neutral(built(kind, num_envs)), MujocoEngine(SCENES[kind](), num_envs)


def test_an_arm_without_contact_moves_as_in_mujoco_to_1e_5_rad() -> None:
    """Under no torque it sinks for a second; under the servo law it goes to a target, saturating at first."""
    pair = both("arm", 2)
    up = torch.tensor([[0.2, -0.3, 0.3, 0.2, 0.1, 0.5], [0.0, -0.5, 0.2, 0.0, -0.4, 0.9]])
    still = EngineState(joint_pos=up, joint_vel=torch.zeros(2, 6))
    target = up + torch.tensor([[0.4, -0.3, -0.4, 0.5, -0.6, 0.3], [1.2, -0.1, -0.5, -0.6, 0.3, -0.3]])
    ends = []
    for engine in pair:
        engine.reset(torch.arange(2), still)
        for _ in range(60):  # later the arm reaches the table
            engine.step(torch.zeros(2, 6))
        sunk = engine.joint_pos().clone()
        assert (sunk - up).abs().max() > 0.1
        engine.reset(torch.arange(2), still)
        ends.append(
            torch.cat([sunk, engine.step_servo(target[:, None].repeat(1, 200, 1), *gains(engine)).flatten(1)], 1)
        )
    torch.testing.assert_close(ends[0], ends[1], rtol=0, atol=1e-5)


def test_a_quadruped_dropped_on_its_feet_stands_as_in_mujoco() -> None:
    pair = both("legs", 2)
    for engine in pair:
        engine.reset(torch.arange(2), start(engine, 2, height=0.35))
        hold = start(engine, 2).joint_pos[:, None].repeat(1, 400, 1)
        engine.step_servo(hold, *gains(engine))
    genesis, mujoco = pair
    torch.testing.assert_close(genesis.joint_pos(), mujoco.joint_pos(), rtol=0, atol=5e-2)
    torch.testing.assert_close(genesis.free_state("base").pos, mujoco.free_state("base").pos, rtol=0, atol=2e-2)
    torch.testing.assert_close(genesis.contact_force(), mujoco.contact_force(), rtol=0, atol=1.0)
    torch.testing.assert_close(genesis.contact_pos(), mujoco.contact_pos(), rtol=0, atol=2e-2)
    torch.testing.assert_close(genesis.specific_force(), mujoco.specific_force(), rtol=0, atol=0.1)


def test_a_turning_and_flying_base_has_the_velocities_of_mujoco() -> None:
    """Frames: a push and a twist on a tilted base, whose velocities are in world and body coordinates."""
    pair, every = both("legs", 2), torch.arange(2)
    tilted = start(pair[0], 2, height=3.0)
    quat = torch.nn.functional.normalize(torch.tensor([[0.8, 0.1, -0.5, 0.3], [0.2, 0.7, 0.3, -0.6]]), dim=-1)
    base = FreeState(
        pos=tilted.free["base"].pos,
        quat=quat,
        lin_vel=torch.tensor([[1.0, -2.0, 3.0], [0.0, 0.5, 0.0]]),
        ang_vel=torch.tensor([[0.5, -1.0, 2.0], [-2.0, 0.3, 0.4]]),
    )
    for engine in pair:
        engine.reset(every, EngineState(joint_pos=tilted.joint_pos, joint_vel=tilted.joint_vel, free={"base": base}))
        engine.set_wrench(
            "base", torch.tensor([[20.0, 5.0, -8.0]]).repeat(2, 1), torch.tensor([[1.0, 2.0, -3.0]]).repeat(2, 1)
        )
        for _ in range(40):
            engine.step(torch.zeros(2, 12))
        engine.add_velocity("base", torch.tensor([[0.5, -0.3, 0.2]]), torch.tensor([1]))
        for _ in range(10):
            engine.step(torch.zeros(2, 12))
    for name in ("pos", "quat", "lin_vel", "ang_vel"):
        expected, got = (getattr(engine.free_state("base"), name) for engine in pair[::-1])
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4, msg=lambda m: f"{name}: {m}")  # noqa: B023
    torch.testing.assert_close(pair[0].specific_force(), pair[1].specific_force(), rtol=0, atol=0.05)


@pytest.fixture(scope="module")
def converged(tmp_path_factory: pytest.TempPathFactory) -> MujocoEngine:
    """The legs in MuJoCo with as many solver iterations as it takes; the shipped model stops after five."""
    scene = legs_scene()
    text = scene.robot.model_path.read_text()
    path = tmp_path_factory.mktemp("model") / "model.xml"
    path.write_text(re.sub(r' (ls_)?iterations="\d+"', "", text))
    assert path.read_text() != text
    return MujocoEngine(replace(scene, robot=replace(scene.robot, model_path=path)), 2)


@pytest.mark.parametrize("name", [name for name in ENGINE_PARAMETERS if name != "object_mass_scale"])
def test_a_parameter_does_what_it_does_in_mujoco(name: str, converged: MujocoEngine) -> None:
    """Changed in the first environment, neutral in the second; in the air, but for the friction of contacts."""
    every, others = torch.arange(2), {"payload_kg": [3.0], "com_offset_m": [0.05, -0.05, 0.05]}
    values = torch.tensor([others.get(name, engine_contract.OTHER[name]), ENGINE_PARAMETERS[name].neutral])
    on_ground = name == "contact_friction_scale"
    moved = []
    for engine in (neutral(built("legs", 2)), neutral(converged)):
        engine.set_parameter(name, values, every)
        engine.reset(every, start(engine, 2, height=0.3 if on_ground else 2.0))
        push = engine_contract.efforts(engine)
        for _ in range(30):
            engine.step(10.0 * push())
        base = engine.free_state("base")
        moved.append(torch.cat([engine.joint_pos(), base.quat, base.pos], dim=-1))
    assert (moved[1][0] - moved[1][1]).abs().max() > 3e-4  # the parameter shows
    torch.testing.assert_close(moved[0], moved[1], rtol=0, atol=5e-3 if on_ground else 1e-5)


@pytest.fixture(scope="module")
def cluttered(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    folder = tmp_path_factory.mktemp("objects")
    files = {}
    for name, text in (("ball", BALL), ("box", BOX)):
        files[name] = folder / f"{name}.xml"
        files[name].write_text(text)
    return scene_with(files)


def scene_with(files: dict[str, Path]) -> Scene:
    heights = np.tile(0.05 * np.arange(-10, 11, dtype=np.float32)[:, None], (1, 31))  # rises along x by 1:4
    objects = (
        SceneObject(name="ball", model_path=files["ball"], free=True, pos=(0.0, 1.0, 0.6)),
        SceneObject(name="box", model_path=files["box"], free=False, pos=(0.0, -1.0, 0.3)),
    )
    return Scene(robot=legs_scene().robot, ground=HeightField(heights=heights, spacing=0.2), objects=objects)


def test_objects_and_height_fields_are_where_mujoco_has_them(cluttered: Scene) -> None:
    """A box moved in one environment, a ball dropped on it there and on the slope in the other; a heavier ball falls alike."""
    every = torch.arange(2)
    pair = (GenesisEngine(cluttered, 2), MujocoEngine(cluttered, 2))
    for engine in pair:
        torch.testing.assert_close(engine.fixed_pos("box"), torch.tensor([[0.0, -1.0, 0.31]]).repeat(2, 1))
        state = start(engine, 2, height=5.0)
        ball = FreeState(
            pos=torch.tensor([[0.5, 1.0, 0.3], [0.3, 1.5, 0.9]]),
            quat=torch.tensor([[1.0, 0.0, 0.0, 0.0]]).repeat(2, 1),
            lin_vel=torch.zeros(2, 3),
            ang_vel=torch.zeros(2, 3),
        )
        state = EngineState(
            joint_pos=state.joint_pos,
            joint_vel=state.joint_vel,
            free=state.free | {"ball": ball},
            fixed_pos={"box": torch.tensor([[0.0, -1.0, 0.31], [0.3, 1.5, 0.5]])},
        )
        engine.set_parameter("object_mass_scale", torch.tensor([[1.0], [3.0]]), every)
        torch.testing.assert_close(engine.parameter("object_mass_scale"), torch.tensor([[1.0], [3.0]]))
        engine.reset(every, state)
        for _ in range(80):
            engine.step(torch.zeros(2, 12))
        assert engine.failed().tolist() == [False, False]
    got, expected = (engine.free_state("ball").pos for engine in pair)
    assert expected[1, 2] == pytest.approx(0.5 + 0.05 + 0.03, abs=5e-3)  # on the box
    assert expected[0, 0] < 0.49  # down the slope
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-2)
    torch.testing.assert_close(pair[0].fixed_pos("box")[1], torch.tensor([0.3, 1.5, 0.5]))
    saved, future = pair[0].save(), []
    for _ in range(2):
        for _ in range(10):
            pair[0].step(torch.zeros(2, 12))
        future.append(torch.cat([pair[0].free_state("ball").pos, pair[0].fixed_pos("box")], dim=-1))
        pair[0].restore(saved)
    torch.testing.assert_close(future[0], future[1], rtol=0, atol=1e-6)


def test_a_failed_environment_stops_nobody() -> None:
    """Genesis itself raises for all environments when one fails; here the others go on."""
    engine = neutral(built("arm", 2))
    bad = start(engine, 1)
    engine.reset(torch.tensor([0]), EngineState(joint_pos=bad.joint_pos * torch.nan, joint_vel=bad.joint_vel))
    for _ in range(25):
        engine.step(torch.zeros(2, 6))
    assert engine.failed().tolist() == [True, False]
    assert bool(torch.isfinite(engine.joint_pos()[1]).all())
    neutral(engine)
    assert not engine.failed().any()


def test_a_second_backend_in_the_process_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    built("arm", 2)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(IsthmusError, match="one device per process"):
        GenesisEngine(arm_scene(), 1, device="cuda")


def test_an_unknown_device_or_a_gpu_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(IsthmusError, match=r'"cpu" or "cuda"'):
        GenesisEngine(arm_scene(), 1, device="tpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(IsthmusError, match="no GPU"):
        GenesisEngine(arm_scene(), 1, device="cuda")


@pytest.mark.parametrize("kind", SCENES)
def test_restoring_is_exact_to_the_bit(kind: str) -> None:
    """Also after parameters were changed and in the middle of contacts."""
    engine, futures = neutral(built(kind, 3)), []
    engine.set_parameter("mass_scale", torch.tensor([[1.2]]), torch.tensor([1]))
    push = engine_contract.efforts(engine)
    for _ in range(60):
        engine.step(5.0 * push())
    saved = engine.save()
    for _ in range(2):
        push = engine_contract.efforts(engine, seed=9)
        for _ in range(30):
            engine.step(5.0 * push())
        futures.append(engine_contract.flat(engine.state()))
        engine.set_parameter("mass_scale", torch.tensor([[0.8]]), torch.tensor([1]))
        engine.restore(saved)
    assert torch.equal(*futures)


def test_starting_genesis_leaves_the_random_numbers_of_others_alone() -> None:
    code = (
        "import torch, numpy as np; torch.manual_seed(5); np.random.seed(5); before = torch.get_rng_state(), np.random.get_state()[1]\n"
        "from isthmus.sim.genesis_scene import start; start('cpu')\n"
        "assert torch.equal(before[0], torch.get_rng_state()) and (before[1] == np.random.get_state()[1]).all()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_pictures_show_the_state_of_the_asked_environment() -> None:
    engine = neutral(built("arm", 2))
    moved = start(engine, 1)
    engine.reset(torch.tensor([1]), EngineState(joint_pos=moved.joint_pos + 0.5, joint_vel=moved.joint_vel))
    first, second = (engine.render(env, width=64, height=48, camera="overview") for env in (0, 1))
    assert first.shape == (48, 64, 3) and first.dtype == np.uint8 and first.std() > 5
    assert (first != second).mean() > 0.005


def test_one_step_servo_is_the_shared_law() -> None:
    engine = neutral(built("arm", 2))
    kp, kd, limit = gains(engine)
    target = engine.joint_pos() + torch.tensor([0.02, -0.5, 0.4, 0.3, -0.2, 0.1])
    inside = engine.step_servo(target[:, None], kp, kd, limit)[:, 0]
    neutral(engine)
    law = position_servo_effort(target, engine.joint_pos(), engine.joint_vel(), kp=kp, kd=kd, effort_limit=limit)
    engine.step(law)
    torch.testing.assert_close(inside, engine.joint_pos(), rtol=0, atol=0)
