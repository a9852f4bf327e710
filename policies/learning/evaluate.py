"""How well a policy does in simulation: success with an interval, metrics, return."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from isthmus.sim.truth import Truth
from isthmus.sim.world import World

from ..interval import wilson_interval
from .episodes import EpisodeStatistics
from .players import Player
from .terms import any_of, reward_weights, weighted_rewards

OnTick = Callable[[int], bool]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Results over independent episodes, one per environment."""

    success: torch.Tensor  # (N,) bool
    seconds: torch.Tensor  # (N,) s until success, failure or truncation; episode length where there was none
    returns: torch.Tensor  # (N,) sum of rewards until the episode ended
    metrics: dict[str, torch.Tensor] = field(default_factory=dict)  # (N,) each, in the task's units
    parameters: dict[str, torch.Tensor] = field(
        default_factory=dict
    )  # (N, width) each: what was randomised, as episodes began

    @property
    def rate(self) -> float:
        """Share of successes."""
        return float(self.success.float().mean())

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the rate (Wilson)."""
        return wilson_interval(int(self.success.sum()), self.success.numel())


def episode_table(evaluation: Evaluation) -> tuple[list[str], torch.Tensor]:
    """Names of columns, and a row for each episode: how it ended, its metrics, what was randomised in it."""
    columns = {"success": evaluation.success, "seconds": evaluation.seconds, "return": evaluation.returns}
    columns |= evaluation.metrics
    for name, values in evaluation.parameters.items():
        wide = values.shape[1] > 1
        columns |= {f"{name}.{i}" if wide else name: column for i, column in enumerate(values.T)}
    return list(columns), torch.stack([column.float() for column in columns.values()], dim=1)


@torch.no_grad()
def evaluate(world: World, player: Player, on_tick: OnTick | None = None) -> Evaluation:
    """One episode in each environment of `world`, all started anew. An episode ends with success, failure, truncation or time.

    One that is truncated has lasted, as in training.

    Args:
        world: where; physics goes on in environments whose episode has ended until all have.
        player: who acts.
        on_tick: called with the number of ticks that have passed, first with 0; asks by True to go on after the last episode's end.
    """
    world.reset(torch.arange(world.num_envs))
    player.reset(world)
    drawn = {name: values.clone() for name, values in world.parameters.items()}
    task, count = world.task, world.num_envs
    statistics = EpisodeStatistics(task, count)
    running = torch.ones(count, dtype=torch.bool)
    ended_well = torch.zeros(count, dtype=torch.bool)
    seconds, returns = torch.zeros(count), torch.zeros(count)
    metrics = {metric.name: torch.zeros(count) for metric in task.metrics}
    last, weights = torch.zeros(count, player.num_actions), reward_weights(task)
    truth = Truth(world, action=last, last_action=last)
    watched = on_tick is not None and on_tick(0)
    for tick in range(task.ticks):
        action, target = player.act(world.read(), truth)
        world.write(target)
        world.step()
        truth = Truth(world, action=action, last_action=last)
        last = action
        failed = world.engine.failed()
        returns += running * weighted_rewards(truth, failed, weights).sum(0)
        statistics.update(truth)
        failed = failed | any_of(task.terminations, truth)
        over = any_of(task.truncations, truth) | (tick == task.ticks - 1)
        won = statistics.succeeded if task.success is not None else over & ~failed
        ends = running & (failed | won | over)
        ended_well |= running & won
        seconds = torch.where(ends, torch.full_like(seconds, (tick + 1) * task.period), seconds)
        metrics = {name: torch.where(ends, statistics.metrics[name], value) for name, value in metrics.items()}
        running = running & ~ends
        watched = on_tick is not None and on_tick(tick + 1)
        if not watched and not bool(running.any()):
            break
    return Evaluation(success=ended_well, seconds=seconds, returns=returns, metrics=metrics, parameters=drawn)
