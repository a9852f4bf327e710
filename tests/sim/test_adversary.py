"""The adversarial game on a point mass: bounded forces, opposite rewards, and an adversary that does harm."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isthmus.sim.adversary import AdversarialEnv, AdversaryConfig, AdversaryError, bounded_force

MASS, DT = 2.0, 0.05  # kg, s
CONFIG = AdversaryConfig(max_force_n=3.0, protagonist_iterations=2, adversary_iterations=3)


class PointMass:
    """A mass in three dimensions that its own thrust (num_envs, 3) N should hold at the origin; reward -distance, m."""

    num_actions, max_episode_length, device, cfg = 3, 40, "cpu", None

    def __init__(self, num_envs=5):
        self.num_envs = num_envs
        self.episode_length_buf = torch.zeros(num_envs, dtype=torch.long)
        self.pos, self.vel, self.force = torch.zeros(3, num_envs, 3)
        self.pos[:, 0] = 0.1 * (1 + torch.arange(num_envs))

    def apply_force(self, force):
        self.force = force

    def get_observations(self):
        return torch.cat([self.pos, self.vel], dim=-1)

    def step(self, actions):
        self.vel = self.vel + (actions + self.force) / MASS * DT
        self.pos = self.pos + self.vel * DT
        self.episode_length_buf = self.episode_length_buf + 1
        dones = self.episode_length_buf >= self.max_episode_length
        return self.get_observations(), -self.pos.norm(dim=-1), dones, {"time_outs": dones}


def spring(observations):
    """A proportional-derivative controller."""
    return -8.0 * observations[:, :3] - 6.0 * observations[:, 3:]


def outwards(observations):
    """The adversary's best answer: push away from the origin, as hard as it may."""
    return 100.0 * observations[:, :3]


def nothing(observations):
    return torch.zeros(observations.shape[0], 3)


def game(role, opponent, mass=None, config=CONFIG):
    mass = PointMass() if mass is None else mass
    return AdversarialEnv(mass, mass.apply_force, opponent, role=role, config=config)


def total(env, policy, ticks=40):
    rewards = torch.zeros(env.num_envs)
    for _ in range(ticks):
        rewards += env.step(policy(env.get_observations()))[1]
    return rewards


@settings(deadline=None)
@given(actions=st.lists(st.floats(-1e4, 1e4), min_size=3, max_size=3), most=st.floats(0.1, 100.0))
def test_forces_never_exceed_the_bound_and_keep_their_direction(actions, most):
    action = torch.tensor(actions)
    force = bounded_force(action, most)
    assert float(force.norm()) <= most * (1 + 1e-5)
    torch.testing.assert_close(force * float(action.norm()), action * float(force.norm()), rtol=1e-3, atol=1e-3)


def test_forces_by_hand():
    actions = torch.tensor([[0.5, 0.0, 0.0], [0.0, 1.0, 0.0], [3.0, 0.0, 4.0]])
    expected = torch.tensor([[1.5, 0.0, 0.0], [0.0, 3.0, 0.0], [1.8, 0.0, 2.4]])
    torch.testing.assert_close(bounded_force(actions, 3.0), expected)


def test_what_one_wins_the_other_loses():
    robot, pusher = game("protagonist", outwards), game("adversary", spring)
    for tick in range(1, 41):
        seen, reward, dones, extras = robot.step(spring(robot.get_observations()))
        other_seen, other_reward, other_dones, _ = pusher.step(outwards(pusher.get_observations()))
        torch.testing.assert_close(other_seen, seen)
        torch.testing.assert_close(other_reward, -reward)
        assert dones.tolist() == other_dones.tolist() == extras["time_outs"].tolist() == [tick == 40] * 5


def test_the_force_moves_the_mass_as_newton_says():
    mass = PointMass()
    env, start = game("adversary", nothing, mass), mass.pos.clone()
    for _ in range(10):
        env.step(torch.tensor([[0.0, 0.0, 1.0]]).repeat(5, 1))
    moved = torch.zeros(5, 3)
    moved[:, 2] = 3.0 / MASS * DT**2 * 10 * 11 / 2  # semi-implicit Euler: a dt^2 (1 + 2 + ... + 10)
    torch.testing.assert_close(mass.pos - start, moved)


def test_an_adversary_makes_it_harder_and_the_spring_still_holds():
    """Held by k = 8 N/m against 3 N the mass rests 3/8 m off."""
    alone, pushed = total(game("protagonist", nothing), spring), total(game("protagonist", outwards), spring)
    assert (pushed < alone - 0.5).all()
    mass = PointMass()
    total(game("protagonist", outwards, mass), spring, ticks=400)
    torch.testing.assert_close(mass.pos.norm(dim=-1), torch.full((5,), 3 / 8), atol=1e-2, rtol=0)


def test_taking_turns_to_improve_ends_with_a_stiff_robot_and_a_full_push():
    """Gains and pushes by search, in the turns that the configuration gives: both end at the best of their range."""
    stiffness, push = 1.0, 0.0
    for iteration in range(10):
        role = CONFIG.role_at(iteration)
        candidates = (1.0, 4.0, 16.0) if role == "protagonist" else (-1.0, 0.0, 0.5, 1.0)
        scores = []
        for value in candidates:
            k, p = (value, push) if role == "protagonist" else (stiffness, value)

            def robot(seen, k=k):
                return -k * seen[:, :3] - 2 * math.sqrt(k * MASS) * seen[:, 3:]

            def pusher(seen, p=p):
                return p * seen[:, :3] / seen[:, :3].norm(dim=-1, keepdim=True).clamp(min=1e-6)

            mine, other = (robot, pusher) if role == "protagonist" else (pusher, robot)
            scores.append(float(total(game(role, other), mine).mean()))
        best = candidates[scores.index(max(scores))]
        stiffness, push = (best, push) if role == "protagonist" else (stiffness, best)
    assert (stiffness, push) == (16.0, 1.0)


def test_turns_by_hand():
    roles = [CONFIG.role_at(iteration)[0] for iteration in range(11)]
    assert "".join(roles) == "ppaaappaaap"


def test_each_player_has_its_own_number_of_actions_and_the_environment_of_both():
    mass = PointMass()
    mass.num_actions = 7
    robot, pusher = game("protagonist", nothing, mass), game("adversary", nothing, mass)
    assert (robot.num_actions, pusher.num_actions) == (7, 3)
    pusher.episode_length_buf = torch.full((5,), 11)
    assert mass.episode_length_buf.tolist() == [11] * 5 == robot.episode_length_buf.tolist()
    assert (robot.num_envs, robot.max_episode_length, robot.device, robot.cfg) == (5, 40, "cpu", None)
    with pytest.raises(AdversaryError, match=r"opponent's actions must have shape \(5, 7\), got \(5, 3\)"):
        pusher.step(torch.zeros(5, 3))


def test_no_gradient_flows_into_the_opponent():
    weight = torch.ones(3, requires_grad=True)
    env = game("protagonist", lambda seen: seen[:, :3] * weight)
    assert not env.step(torch.zeros(5, 3))[1].requires_grad


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (AdversaryConfig(max_force_n=0.0), r"max_force_n must be positive and finite, got 0\.0"),
        (AdversaryConfig(max_force_n=math.nan), "max_force_n"),
        (AdversaryConfig(max_force_n=1.0, adversary_iterations=0), "adversary_iterations must be at least 1, got 0"),
        (AdversaryConfig(max_force_n=1.0, protagonist_iterations=0), "protagonist_iterations must be at least 1"),
    ],
)
def test_impossible_adversaries_are_refused(config, words):
    with pytest.raises(AdversaryError, match=words):
        game("adversary", spring, config=config)
