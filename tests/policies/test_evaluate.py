"""How episodes end in evaluation: as they do in training."""

from dataclasses import replace

import pytest
import torch

from isthmus.policies.contracts import get_contract
from isthmus.policies.learning.env import ContractEnv
from isthmus.policies.learning.evaluate import evaluate
from isthmus.policies.learning.graph import ContractGraph
from isthmus.policies.learning.players import UntrainedPlayer
from isthmus.sim.engines import make_engine
from isthmus.sim.task import Success, TerminationTerm
from isthmus.sim.tasks import get_task
from isthmus.sim.world import World

N = 3


def flags(*values):
    return lambda truth: torch.tensor(values)


def world(**changes):
    task = replace(get_task("cartpole-balance"), **changes)
    engine = make_engine("mujoco", task.scene(), N, dt=task.physics_dt, threads=1)
    return World(task, engine, seed=0, randomization=())


@pytest.mark.parametrize(
    ("success", "expected"),
    [(None, [True, False, True]), (Success(function=flags(True, False, False), hold=0.02), None)],
)
def test_a_truncated_episode_ends_in_evaluation_with_the_success_that_training_gives_it(success, expected):
    changes = {
        "success": success,
        "truncations": (TerminationTerm(name="edge", function=flags(True, True, False)),),
        "terminations": (TerminationTerm(name="fallen", function=flags(False, True, False)),),
        "episode_length": 0.1,
    }
    contract = get_contract("cartpole-balance")
    result = evaluate(world(**changes), UntrainedPlayer(ContractGraph(contract), "zero", 0))
    assert result.seconds.tolist() == pytest.approx([0.02, 0.02, 0.1])
    assert result.success.tolist() == (expected or [True, False, False])
    _, _, done, extras = ContractEnv(world(**changes), contract).step(torch.zeros(N, 1))
    assert done.tolist() == [True, True, False] and extras["time_outs"].tolist() == [True, False, False]
    assert float(extras["log"]["/episode/success"]) == result.success[:2].float().mean()
