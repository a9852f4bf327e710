"""What critics see of actions, and which contracts environments take."""

from dataclasses import replace

import pytest
import torch

from isthmus.policies.contract import ContractError
from isthmus.policies.contracts import get_contract
from isthmus.policies.learning.env import ContractEnv
from isthmus.policies.learning.episodes import EpisodeStatistics
from isthmus.sim.mujoco_engine import MujocoEngine
from isthmus.sim.task import Success
from isthmus.sim.tasks import get_task
from isthmus.sim.world import World

CONTRACT = get_contract("cartpole-balance")
TASK = replace(
    get_task("cartpole-balance"),
    randomization=(),
    privileged=(lambda truth: truth.action, lambda truth: truth.last_action),
)


def make(contract=CONTRACT, num_envs=3):
    engine = MujocoEngine(TASK.scene(), num_envs, dt=TASK.physics_dt, threads=1)
    return ContractEnv(World(TASK, engine, seed=0), contract)


def told(observations):
    """What the critic sees of this action and of the one before."""
    return observations["critic"][:, -2:].tolist()


def test_what_a_critic_sees_of_actions_does_not_depend_on_resets_of_others():
    first, second = torch.tensor([[0.1], [0.2], [0.3]]), torch.tensor([[-0.1], [-0.2], [-0.3]])
    env = make()
    env.step(first)
    env.episode_length_buf[2] = env.max_episode_length
    observations, _, done, _ = env.step(second)
    assert done.tolist() == [False, False, True]
    assert told(observations) == [pytest.approx([-0.1, 0.1]), pytest.approx([-0.2, 0.2]), [0.0, 0.0]]
    assert told(env.step(first)[0]) == [
        pytest.approx([0.1, -0.1]),
        pytest.approx([0.2, -0.2]),
        pytest.approx([0.3, 0.0]),
    ]


def test_an_action_that_was_given_stays_as_it_is():
    env, given = make(), torch.full((3, 1), 0.5)
    env.episode_length_buf[:] = env.max_episode_length
    assert bool(env.step(given)[2].all()) and given.tolist() == [[0.5]] * 3


@pytest.mark.parametrize(
    ("contract", "words"),
    [
        (replace(CONTRACT, joints=CONTRACT.joints[::-1]), "expected the robot's order"),
        (replace(CONTRACT, joints=(CONTRACT.joints[0],) * 2), "more than once"),
        (
            replace(CONTRACT, joints=(replace(CONTRACT.joints[0], default_pos=0.5), CONTRACT.joints[1])),
            "default_pos = 0.5",
        ),
        (replace(CONTRACT, action=replace(CONTRACT.action, joints=("pole",))), "passive"),
    ],
)
def test_an_environment_refuses_the_contract_of_another_robot(contract, words):
    with pytest.raises(ContractError, match=words):
        make(contract)


@pytest.mark.parametrize(("hold", "ticks"), [(0.02, 1), (0.14, 7), (0.21, 11), (0.28, 14), (0.58, 29), (1.0, 50)])
def test_success_holds_for_as_many_ticks_as_its_time_has(hold, ticks):
    task = replace(TASK, success=Success(function=lambda truth: torch.ones(3, dtype=torch.bool), hold=hold))
    env = make()
    statistics, truth = EpisodeStatistics(task, 3), env._truth
    for tick in range(1, ticks + 1):
        assert not statistics.succeeded.any(), tick
        statistics.update(truth)
    assert statistics.succeeded.all()
