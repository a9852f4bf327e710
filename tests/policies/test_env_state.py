"""An environment that is left and taken up elsewhere goes on with the same bits; every task, every stateful part."""

import pytest
import torch

from isthmus.hardware.actuator_spec import ActuatorSpec, FrictionSpec, PlaySpec
from isthmus.policies.contracts import get_contract
from isthmus.policies.learning.checkpoint import Resumable, read_state, write_state
from isthmus.policies.learning.env import ContractEnv
from isthmus.sim.curricula import RangesBySteps, RangesBySuccess
from isthmus.sim.curriculum import AutomaticConfig, Schedule
from isthmus.sim.mujoco_engine import MujocoEngine
from isthmus.sim.randomization import RandomTerm, Uniform, override
from isthmus.sim.state import StateError
from isthmus.sim.tasks import get_task, tasks
from isthmus.sim.world import World

N, TICKS = 6, 12
EVERY = pytest.mark.parametrize("name", tasks())

# Parameters of parts with a memory that no task's own randomisation wakes.
UNRELIABLE = (
    RandomTerm(parameter="latency_jitter_s", distribution=Uniform(low=0.0, high=0.02)),
    RandomTerm(parameter="packet_loss_probability", distribution=Uniform(low=0.0, high=0.3)),
    RandomTerm(parameter="observation_delay_s", distribution=Uniform(low=0.0, high=0.03)),
)
NOISY = (
    RandomTerm(parameter="encoder_noise_counts", distribution=Uniform(low=0.0, high=0.5)),
)  # of robots with joints
LOOSE = (
    RandomTerm(parameter="backlash_rad", distribution=Uniform(low=0.0, high=0.05)),
    RandomTerm(parameter="motor_strength_scale", distribution=Uniform(low=0.8, high=1.2)),
)


def make(name, *, seed=3, more=(), num_envs=N, **kwargs):
    task = get_task(name)
    engine = MujocoEngine(task.scene(), num_envs, dt=task.physics_dt, threads=1)
    world = World(task, engine, seed=seed, randomization=override(task.randomization, more), **kwargs)
    return ContractEnv(world, get_contract(name))


def drive(env, actions, *, push=None):
    """Observations and rewards of some ticks, one flat row per tick."""
    rows = []
    for action in actions:
        if push is not None:
            env.world.apply_force(push)
        observations, reward, done, extras = env.step(action)
        seen = [observations["actor"].flatten(), observations["critic"].flatten(), reward]
        rows.append(torch.cat([*seen, done.float(), extras["time_outs"].float()]))
    return torch.stack(rows)


def random_actions(env, seed=0):
    return torch.randn(2 * TICKS, N, env.num_actions, generator=torch.Generator().manual_seed(seed))


def goes_on_alike(tmp_path, first, second, push=None):
    actions = random_actions(first)
    first.episode_length_buf[:] = (
        torch.arange(N) * 2 + first.max_episode_length - 2 * TICKS
    )  # episodes end on either side
    drive(first, actions[:TICKS], push=push)
    write_state(tmp_path / "state.pt", first.state_dict())
    drive(second, random_actions(second, seed=9)[:3])  # what it did before does not matter
    second.load_state_dict(read_state(tmp_path / "state.pt"))
    assert torch.equal(first.get_observations()["critic"], second.get_observations()["critic"])
    expected, got = (drive(env, actions[TICKS:]) for env in (first, second))
    assert torch.equal(expected, got)
    left, right = first.state_dict(), second.state_dict()
    assert [name for name in left if not torch.equal(left[name], right[name])] == []


@EVERY
def test_a_task_resumes_with_the_same_bits_in_a_new_environment(tmp_path, name):
    goes_on_alike(tmp_path, make(name), make(name))


@pytest.mark.parametrize("name", ["so101-reach", "go2-velocity", "quadrotor-hover", "cartpole-balance"])
def test_unreliable_lines_resume_with_the_same_bits(tmp_path, name):
    more = UNRELIABLE + (NOISY if get_task(name).scene().robot.joints else ())
    goes_on_alike(tmp_path, make(name, more=more), make(name, more=more))


@pytest.mark.parametrize("name", ["so101-reach", "go2-velocity", "hand-rotate"])
def test_gear_play_and_motor_strength_resume_with_the_same_bits(tmp_path, name):
    goes_on_alike(tmp_path, make(name, more=LOOSE), make(name, more=LOOSE))


def test_actuators_with_friction_and_a_memory_resume_with_the_same_bits(tmp_path, monkeypatch):
    from dataclasses import replace

    friction = FrictionSpec(coulomb=(0.05,), viscous=(0.02,), inertia=(0.01,), load=(0.1,))
    spec = ActuatorSpec(friction=friction, play=PlaySpec(width=(0.02,), crossing_speed=(5.0,)))
    robot = replace(get_task("so101-reach").scene().robot, actuator=spec)
    scene = replace(get_task("so101-reach").scene(), robot=robot)

    def build():
        task = get_task("so101-reach")
        return ContractEnv(
            World(task, MujocoEngine(scene, N, dt=task.physics_dt, threads=1), seed=3), get_contract(task.name)
        )

    goes_on_alike(tmp_path, build(), build())


@pytest.mark.parametrize("name", ["quadrotor-hover", "go2-velocity"])
def test_a_force_that_acts_resumes_too(tmp_path, name):
    goes_on_alike(tmp_path, make(name), make(name), push=torch.full((N, 3), 0.05))


@pytest.mark.parametrize(
    "ranges",
    [
        RangesBySuccess(
            automatic=AutomaticConfig(buffer=2, step=0.2, boundary_share=1.0, widen_from=0.1, narrow_below=0.0)
        ),
        RangesBySteps(schedule=Schedule(start=0.1, end=1.0, begin_steps=0, end_steps=30 * N)),
    ],
)
def test_growing_ranges_resume_with_the_same_bits(tmp_path, ranges):
    first, second = (make("cartpole-balance", ranges=ranges) for _ in range(2))
    goes_on_alike(tmp_path, first, second)
    assert first.world.randomizer.terms == second.world.randomizer.terms


def test_an_environment_is_what_a_trainer_can_resume():
    assert isinstance(make("cartpole-balance"), Resumable)


def test_a_saved_state_is_a_snapshot_of_its_own():
    env = make("go2-velocity")
    saved = env.state_dict()
    copies = {name: value.clone() for name, value in saved.items()}
    drive(env, random_actions(env)[:3])
    assert all(torch.equal(copies[name], saved[name]) for name in saved)
    assert all("." not in name or name.split(".")[0] in ("world", "state", "statistics") for name in saved)


def test_states_of_other_environments_are_refused():
    env = make("cartpole-balance")
    for other, words in (
        (make("cartpole-balance", num_envs=N + 1), r"state of another ContractEnv: expected \S+ of shape \(6.*got \(7"),
        (make("cartpole-balance", seed=4), "of seed 4, got one of seed 3: build it with the saved seed"),
        (make("so101-reach"), "state of another ContractEnv: it lacks"),
        (make("cartpole-balance", more=UNRELIABLE), "state of another ContractEnv: it has, beyond its own, .*jitter"),
    ):
        with pytest.raises(StateError, match=words):
            env.load_state_dict(other.state_dict())


def test_first_episodes_that_begin_late_are_not_counted_as_lasting():
    task, env = get_task("go2-velocity"), make("go2-velocity", num_envs=3)
    env.episode_length_buf = torch.tensor([task.ticks - 1, 0, 0])
    _, _, done, extras = env.step(torch.zeros(3, env.num_actions))
    assert done.tolist() == [True, False, False] and "/episode/success" not in extras["log"]
    env.episode_length_buf[:] = 0
    env.statistics.ticks[1] = task.ticks - 1  # as after a whole episode
    env.episode_length_buf[1] = task.ticks - 1
    _, _, done, extras = env.step(torch.zeros(3, env.num_actions))
    assert done.tolist() == [False, True, False] and float(extras["log"]["/episode/success"]) == 1.0
