"""How often a policy succeeds in simulation, with an interval."""

from dataclasses import dataclass

import torch

from isthmus.sim.world import World, success_ticks

from .graph import ContractGraph


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Results over independent episodes."""

    success: torch.Tensor  # (N,) bool
    final_distance: torch.Tensor  # (N,) m
    seconds: torch.Tensor  # (N,) s until success; episode length where there was none

    @property
    def rate(self) -> float:
        """Share of successes."""
        return float(self.success.float().mean())


@torch.no_grad()
def evaluate(world: World, graph: ContractGraph, actor: torch.nn.Module) -> Evaluation:
    """One episode in each environment of `world`, all started anew."""
    world.reset(torch.arange(world.num_envs))
    state = {name: torch.zeros(world.num_envs, width) for name, width in graph.state_widths.items()}
    needed, limit = success_ticks(world.task), round(world.task.episode_length / world.task.period)
    within = torch.zeros(world.num_envs, dtype=torch.long)
    when = torch.full((world.num_envs,), limit)
    distance = torch.zeros(world.num_envs)
    for tick in range(limit):
        observation, state = graph.observe(world.read(), state)
        world.write(graph.act(actor(observation), world.read()))
        world.step()
        now = torch.linalg.vector_norm(world.tip_pos() - world.target, dim=-1)
        distance = torch.where(when == limit, now, distance)  # an episode ends with its success
        within = torch.where(now < world.task.success_distance, within + 1, torch.zeros_like(within))
        when = torch.where((within >= needed) & (when == limit), torch.full_like(when, tick + 1), when)
    return Evaluation(
        success=(within >= needed) | (when < limit), final_distance=distance, seconds=when * world.task.period
    )
