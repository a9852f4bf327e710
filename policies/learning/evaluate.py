"""How well a policy does in simulation: success with an interval, metrics, return."""

from dataclasses import dataclass, field

import torch

from isthmus.sim.truth import Truth
from isthmus.sim.world import World

from ..interval import wilson_interval
from .episodes import EpisodeStatistics
from .graph import ContractGraph, network_state_widths, run_network


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Results over independent episodes, one per environment."""

    success: torch.Tensor  # (N,) bool
    seconds: torch.Tensor  # (N,) s until success or failure; episode length where there was neither
    returns: torch.Tensor  # (N,) sum of rewards until the episode ended
    metrics: dict[str, torch.Tensor] = field(default_factory=dict)  # (N,) each, in the task's units

    @property
    def rate(self) -> float:
        """Share of successes."""
        return float(self.success.float().mean())

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the rate (Wilson)."""
        return wilson_interval(int(self.success.sum()), self.success.numel())


@torch.no_grad()
def evaluate(world: World, graph: ContractGraph, actor: torch.nn.Module) -> Evaluation:
    """One episode in each environment of `world`, all started anew. An episode ends with success, failure or time."""
    world.reset(torch.arange(world.num_envs))
    task, count = world.task, world.num_envs
    widths = {**graph.state_widths, **network_state_widths(actor)}
    state = {name: torch.zeros(count, width) for name, width in widths.items()}
    statistics = EpisodeStatistics(task, count)
    running = torch.ones(count, dtype=torch.bool)
    ended_well = torch.zeros(count, dtype=torch.bool)
    seconds, returns = torch.zeros(count), torch.zeros(count)
    metrics = {metric.name: torch.zeros(count) for metric in task.metrics}
    last = torch.zeros(count, graph.num_actions)
    for tick in range(task.ticks):
        signals = world.read()
        observation, following = graph.observe(signals, state)
        action, memory = run_network(actor, observation, state)
        state = {**graph.remember(following, action), **memory}
        world.write(graph.act(action, signals))
        world.step()
        truth = Truth(world, action=action, last_action=last)
        last = action
        statistics.update(truth)
        returns += running * sum(term.function(truth) * (term.weight * task.period) for term in task.rewards)
        failed = world.engine.failed()
        for term in task.terminations:
            failed = failed | term.function(truth)
        won = statistics.succeeded if task.success is not None else torch.tensor(tick == task.ticks - 1) & ~failed
        ends = running & (failed | won | (tick == task.ticks - 1))
        ended_well |= running & won
        seconds = torch.where(ends, torch.full_like(seconds, (tick + 1) * task.period), seconds)
        metrics = {name: torch.where(ends, statistics.metrics[name], value) for name, value in metrics.items()}
        running = running & ~ends
    return Evaluation(success=ended_well, seconds=seconds, returns=returns, metrics=metrics)
