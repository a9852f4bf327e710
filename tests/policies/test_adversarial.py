"""Two policies that learn against each other in one environment: turns, bounds, continuation, refusals."""

import os
import signal
from dataclasses import replace

import pytest
import torch

from isthmus.policies.contracts import get_contract
from isthmus.policies.learning.adversarial import AdversarialTraining, Game
from isthmus.policies.learning.env import ContractEnv
from isthmus.policies.learning.ppo_config import PPOConfig
from isthmus.sim.adversary import AdversaryConfig, AdversaryError
from isthmus.sim.mujoco_engine import MujocoEngine
from isthmus.sim.tasks import get_task
from isthmus.sim.world import World

N = 32
PPO = PPOConfig(hidden_dims=(16,), normalise=True, steps_per_iteration=8, epochs=2, mini_batches=2)
TURNS = AdversaryConfig(max_force_n=0.02, protagonist_iterations=2, adversary_iterations=1)
GAME = Game(adversary=TURNS, protagonist_ppo=PPO, adversary_ppo=PPO)


def make(name="quadrotor-hover", num_envs=N):
    task = get_task(name)
    world = World(task, MujocoEngine(task.scene(), num_envs, dt=task.physics_dt, threads=1), seed=2)
    return ContractEnv(world, get_contract(name))


def weights(trainer):
    return torch.cat([value.detach().flatten() for value in trainer.policy.parameters()]).clone()


def test_both_policies_learn_in_turns_and_no_force_exceeds_the_bound(tmp_path):
    env, forces, order = make(), [], []
    apply = env.world.apply_force
    env.world.apply_force = lambda force: (forces.append(force.clone()), apply(force))[1]
    training = AdversarialTraining(env, GAME, tmp_path, seed=0)
    players = {"p": training.protagonist, "a": training.adversary}
    before = {name: weights(player) for name, player in players.items()}

    def follow(_):
        changed = [name for name, player in players.items() if not torch.equal(weights(player), before[name])]
        order.extend(changed)
        before.update({name: weights(player) for name, player in players.items()})

    training.train(5, on_progress=follow)
    assert "".join(order) == "ppapp" and training.iteration == 5
    assert (training.protagonist.iteration, training.adversary.iteration) == (4, 1)
    length = torch.stack(forces).norm(dim=-1)
    assert len(forces) == 5 * PPO.steps_per_iteration
    assert float(length.max()) <= 0.02 * (1 + 1e-5) and float(length.max()) > 0.005
    assert training.adversary.policy.output_std.shape[-1] == 3


def test_the_adversary_wins_what_the_robot_loses(tmp_path):
    env, paid, seen = make(), [], []
    step = env.step
    env.step = lambda actions: (result := step(actions), paid.append(float(result[1].mean())))[0]
    training = AdversarialTraining(env, GAME, tmp_path, seed=0)
    training.train(3, on_progress=lambda progress: seen.append(progress.metrics["reward/total"]))
    robot = torch.tensor(paid).view(3, PPO.steps_per_iteration).mean(-1)
    torch.testing.assert_close(torch.tensor(seen), robot * torch.tensor([1.0, 1.0, -1.0]))


def test_a_game_goes_on_to_the_bit(tmp_path):
    whole = AdversarialTraining(make(), GAME, tmp_path / "whole", seed=0)
    whole.train(6)
    for part in (2, 3):  # after a turn of either
        first = AdversarialTraining(make(), GAME, tmp_path / str(part), seed=0)
        first.train(part)
        second = AdversarialTraining(make(), GAME, tmp_path / str(part), seed=0)
        second.resume()
        assert second.iteration == part
        second.train(6)
        assert torch.equal(weights(second.protagonist), weights(whole.protagonist))
        assert torch.equal(weights(second.adversary), weights(whole.adversary))


@pytest.mark.parametrize("left_at", [1, 4])  # in the first turn, of which no turn has ended, and in the adversary's
def test_a_game_that_was_left_within_a_turn_goes_on_to_the_bit(left_at, tmp_path):
    turns = AdversaryConfig(max_force_n=0.02, protagonist_iterations=3, adversary_iterations=2)
    game = Game(adversary=turns, protagonist_ppo=PPO, adversary_ppo=PPO)
    whole = AdversarialTraining(make(num_envs=8), game, tmp_path / "whole", seed=0)
    whole.train(6)
    first = AdversarialTraining(make(num_envs=8), game, tmp_path / "left", seed=0)

    def leave(_):
        if first.iteration == left_at:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        first.train(6, on_progress=leave)
    second = AdversarialTraining(make(num_envs=8), game, tmp_path / "left", seed=0)
    second.resume()
    assert second.iteration == left_at
    second.train(6)
    assert torch.equal(weights(second.protagonist), weights(whole.protagonist))
    assert torch.equal(weights(second.adversary), weights(whole.adversary))


def test_a_game_goes_on_by_its_own_rules_and_from_checkpoints_of_one_moment_only(tmp_path):
    first = AdversarialTraining(make(num_envs=4), GAME, tmp_path, seed=0)
    first.train(3)
    other = Game(adversary=replace(TURNS, adversary_iterations=2), protagonist_ppo=PPO, adversary_ppo=PPO)
    with pytest.raises(AdversaryError, match=r"has the rules .*adversary_iterations=1.*got .*adversary_iterations=2"):
        AdversarialTraining(make(num_envs=4), other, tmp_path, seed=0).resume()
    (tmp_path / "adversary" / "checkpoint.pt").unlink()
    first.train(4)  # the protagonist's third iteration
    with pytest.raises(AdversaryError, match=r"protagonist.checkpoint.pt is of iteration 3; .* should be of 2"):
        AdversarialTraining(make(num_envs=4), GAME, tmp_path, seed=0).resume()


def test_what_cannot_be_played_is_refused(tmp_path):
    with pytest.raises(AdversaryError, match="robot 'so101' is fixed to the world"):
        AdversarialTraining(make("so101-reach", 4), GAME, tmp_path, seed=0)
    recurrent = Game(adversary=TURNS, protagonist_ppo=PPO, adversary_ppo=PPOConfig(network="gru"))
    with pytest.raises(
        AdversaryError, match="adversary_ppo: the players have no memory, expected network 'mlp', got 'gru'"
    ):
        AdversarialTraining(make(num_envs=4), recurrent, tmp_path, seed=0)
