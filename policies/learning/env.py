"""A simulated world and a contract make the vectorised environment that rsl-rl trains in."""

import math
from collections.abc import Mapping

import torch
from rsl_rl.env import VecEnv
from tensordict import TensorDict

from isthmus.sim.randomization import Term, parameters_of
from isthmus.sim.state import TensorState
from isthmus.sim.truth import Truth
from isthmus.sim.world import World

from ..contract import Contract
from ..fit import fit_in_order
from .episodes import EpisodeStatistics
from .graph import ContractGraph
from .terms import any_of, check_blocks_finite, checked_blocks, reward_weights, weighted_rewards


class ContractEnv(TensorState, VecEnv):
    """rsl-rl VecEnv: group `actor` is the contract's observation, `critic` adds what only a simulator knows.

    Episodes end by time, by the task's terminations, or where physics fails; the last are counted in `world.failures`.
    A task's truncations count as ends of time: `extras["time_outs"]` says where the value of what would have followed is to be added.
    """

    _changing = ("world", "episode_length_buf", "state", "_last_action", "statistics", "_actor", "_critic")

    def __init__(self, world: World, contract: Contract) -> None:
        task = world.task
        fit_in_order(contract, world.robot, task=task.name, period=task.period, signals=world.read())
        self.world, self.contract = world, contract
        self.graph = ContractGraph(contract)
        self.num_envs, self.num_actions = world.num_envs, self.graph.num_actions
        self.device, self.cfg = "cpu", {}
        self.max_episode_length = world.task.ticks
        self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.long)
        self.state = {name: torch.zeros(self.num_envs, width) for name, width in self.graph.state_widths.items()}
        self._last_action = torch.zeros(self.num_envs, self.num_actions)
        self._hidden_scale, self._hidden = hidden_scale(world), torch.zeros(0)
        self._told = -1  # changes of the world's parameters that critics are told of
        self._weights = reward_weights(world.task)
        self.statistics = EpisodeStatistics(world.task, self.num_envs)
        self._signals = world.read()
        self._truth = Truth(world, action=self._last_action, last_action=self._last_action)
        self._observe()

    def get_observations(self) -> TensorDict:
        """The current observations."""
        return TensorDict({"actor": self._actor, "critic": self._critic}, batch_size=[self.num_envs])

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict]:
        """One control tick; see rsl_rl.env.VecEnv."""
        actions = actions.clone()  # the caller's own stay as they are
        target, self.state = self.graph.act(actions, self._signals, self.state)
        self.world.write(target)
        self.world.step()
        self.episode_length_buf += 1
        self._truth = Truth(self.world, action=actions, last_action=self._last_action)
        failed = self.world.engine.failed()
        reward, log = self._reward(failed)
        self.statistics.update(self._truth)
        ended = any_of(self.world.task.terminations, self._truth)
        over = self.episode_length_buf >= self.max_episode_length
        over |= any_of(self.world.task.truncations, self._truth)
        time_outs = over & ~ended & ~failed
        done = time_outs | failed | ended
        ids = done.nonzero().flatten()
        if ids.numel():
            in_time = self.episode_length_buf[ids] < self.max_episode_length
            log |= self.statistics.report(ids, time_outs, in_time)
            self.world.failures += int(failed.sum())
            self.world.ended(ids, self.statistics.success(ids, time_outs))
            log |= {f"/curriculum/{name}": torch.tensor(value) for name, value in self.world.curriculum_log().items()}
        self._last_action, before = actions, self._last_action
        self._restart(ids, before)
        self._observe()
        return self.get_observations(), reward, done, {"time_outs": time_outs, "log": log}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Go on exactly where the state of an environment of the same world and contract was taken; raises ValueError for another's."""
        super().load_state_dict(state)
        self._told = -1
        self._signals = self.world.read()
        self._truth = Truth(self.world, action=self._last_action, last_action=self._last_action)

    def _reward(self, failed: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        values = weighted_rewards(self._truth, failed, self._weights)
        means, terms = values.mean(dim=1).unbind(), self.world.task.rewards
        return values.sum(0), {f"/reward/{term.name}": mean for term, mean in zip(terms, means, strict=True)}

    def _restart(self, ids: torch.Tensor, before: torch.Tensor) -> None:
        """Environments `ids` (k,) start anew; `before` (N, a) holds the actions of the tick before this one."""
        if ids.numel() == 0:
            return
        self.world.reset(ids)
        self.episode_length_buf[ids] = 0
        for actions in (self._last_action, before):  # there were none, in the others nothing has changed
            actions[ids] = 0.0
        self.statistics.reset(ids)
        for tensor in self.state.values():
            tensor[ids] = 0.0
        self._truth = Truth(self.world, action=self._last_action, last_action=before)

    def _observe(self) -> None:
        self._signals = self.world.read()
        self._actor, self.state = self.graph.observe(self._signals, self.state)
        if self._told != self.world.parameter_changes:
            self._told, self._hidden = self.world.parameter_changes, hidden_values(self.world, self._hidden_scale)
        self._critic = critic_observation(self._actor, self._truth, self._hidden)


def critic_observation(actor: torch.Tensor, truth: Truth, hidden: torch.Tensor) -> torch.Tensor:
    """What the policy sees (N, d), what the task's privileged functions say, and the world's scaled parameters, (N, c).

    Args:
        actor: the policy's observation.
        truth: of now.
        hidden: as `hidden_values` gives it.
    """
    task = truth.world.task
    told = checked_blocks(task, truth)
    seen = torch.cat([actor, *told, hidden], dim=-1)
    if not math.isfinite(seen.sum().item()):  # all at once, as nearly always
        check_blocks_finite(task, told, truth)
    return seen


def hidden_values(world: World, scale: torch.Tensor) -> torch.Tensor:
    """The world's randomised parameters times `scale`, as `hidden_scale` gives it, (N, h)."""
    parameters = list(world.parameters.values())
    return torch.cat(parameters, dim=-1) * scale if parameters else torch.zeros(world.num_envs, 0)


def hidden_scale(world: World) -> torch.Tensor:
    """One over the largest size of every randomised value, in the order of `world.parameters`.

    As the task itself has it, so that a critic can go on where ranges are others.
    """
    sizes = _sizes(world.randomization) | _sizes(world.task.randomization)
    widths = [(sizes[name], value.shape[1]) for name, value in world.parameters.items()]
    return torch.tensor([1.0 / size for size, width in widths for _ in range(width)])


def _sizes(terms: tuple[Term, ...]) -> dict[str, float]:
    """Largest size of every randomised parameter."""
    sizes: dict[str, float] = {}
    for term in terms:
        low, high = (torch.tensor(bound).reshape(-1).tolist() for bound in term.distribution.support)
        for name, least, most in zip(parameters_of(term), low, high, strict=True):
            sizes[name] = max(abs(least), abs(most), sizes.get(name, 1e-9))
    return sizes
