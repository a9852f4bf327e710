"""A simulated world and a contract make the vectorised environment that rsl-rl trains in."""

import torch
from rsl_rl.env import VecEnv
from tensordict import TensorDict

from isthmus.sim.task import TaskState
from isthmus.sim.world import World, success_ticks

from ..contract import Contract, ContractError
from .graph import ContractGraph


class ContractEnv(VecEnv):
    """rsl-rl VecEnv: group `actor` is the contract's observation, `critic` adds what only a simulator knows.

    Episodes end by time only; environments whose physics fails are reset and counted in `world.failures`.
    """

    def __init__(self, world: World, contract: Contract) -> None:
        if contract.robot != world.engine.robot.name or contract.period_ns != round(world.task.period * 1e9):
            raise ContractError(
                f"contract for {contract.robot!r} at {contract.period_ns} ns does not fit task {world.task.name!r} "
                f"({world.engine.robot.name!r} at {world.task.period} s)"
            )
        self.world, self.contract = world, contract
        self.graph = ContractGraph(contract)
        self.num_envs, self.num_actions = world.num_envs, len(contract.action.joints)
        self.device, self.cfg = "cpu", {}
        self.max_episode_length = round(world.task.episode_length / world.task.period)
        self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.long)
        self.state = {name: torch.zeros(self.num_envs, width) for name, width in self.graph.state_widths.items()}
        self._last_action = torch.zeros(self.num_envs, self.num_actions)
        self._within = torch.zeros(self.num_envs, dtype=torch.long)  # consecutive ticks on target
        self._succeeded = torch.zeros(self.num_envs, dtype=torch.bool)
        self._needed = success_ticks(world.task)
        self._observe()

    def get_observations(self) -> TensorDict:
        """The current observations."""
        return TensorDict({"actor": self._actor, "critic": self._critic}, batch_size=[self.num_envs])

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict]:
        """One control tick; see rsl_rl.env.VecEnv."""
        self.world.write(self.graph.act(actions, self.world.read()))
        self.world.step()
        self.episode_length_buf += 1
        reward, state, log = self._reward(actions)
        failed = self.world.reset_failed()
        reward = torch.where(failed, torch.zeros_like(reward), reward)
        self._count_success(state)
        time_outs = self.episode_length_buf >= self.max_episode_length
        done = time_outs | failed
        ids = done.nonzero().flatten()
        if ids.numel():
            log["/episode/success"] = self._succeeded[ids].float().mean()
            log["/episode/final_distance"] = state.distance[ids].mean()
        self._last_action = actions.clone()
        self._restart(ids, time_outs & ~failed)
        self._observe()
        return self.get_observations(), reward, done, {"time_outs": time_outs & ~failed, "log": log}

    def _reward(self, actions: torch.Tensor) -> tuple[torch.Tensor, TaskState, dict[str, torch.Tensor]]:
        world, period = self.world, self.world.task.period
        state = TaskState(
            tip_pos=world.tip_pos(),
            target=world.target.clone(),
            joint_pos=world.engine.joint_pos(),
            joint_vel=world.engine.joint_vel(),
            action=actions,
            last_action=self._last_action,
        )
        total, log = torch.zeros(self.num_envs), {}
        for term in world.task.rewards:
            value = term.weight * period * term.function(state)
            total, log[f"/reward/{term.name}"] = total + value, value.mean()
        return total, state, log

    def _count_success(self, state: TaskState) -> None:
        near = state.distance < self.world.task.success_distance
        self._within = torch.where(near, self._within + 1, torch.zeros_like(self._within))
        self._succeeded |= self._within >= self._needed

    def _restart(self, ids: torch.Tensor, timed_out: torch.Tensor) -> None:
        self.world.reset(timed_out.nonzero().flatten())
        self.episode_length_buf[ids] = 0
        self._last_action[ids] = 0.0
        self._within[ids] = 0
        self._succeeded[ids] = False
        for tensor in self.state.values():
            tensor[ids] = 0.0

    def _observe(self) -> None:
        self._actor, self.state = self.graph.observe(self.world.read(), self.state)
        world = self.world
        hidden = [world.parameters[name] / _spread(world, name) for name in world.parameters]
        truth = [10.0 * (world.target - world.tip_pos()), 0.3 * world.engine.joint_vel(), world.engine.joint_pos()]
        self._critic = torch.cat([self._actor, *truth, *hidden], dim=-1)


def _spread(world: World, parameter: str) -> float:
    low, high = next(t.distribution.support for t in world.randomization if t.parameter == parameter)
    return max(abs(low), abs(high), 1e-9)
