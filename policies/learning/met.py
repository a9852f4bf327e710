"""What a policy meets in the randomised simulator: kept in its bundle, so that a robot can be compared with it."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from isthmus.sim.truth import Truth
from isthmus.sim.world import World

from ..bundle import target_output
from ..contract import Contract
from ..manifest import Distribution, SignalQuantiles, StartEnvelope
from .graph import PolicyGraph
from .terms import any_of

PROBABILITIES = (0.0, 0.001, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999, 1.0)
LONGEST = 500  # ticks that are looked at


@dataclass(frozen=True, kw_only=True)
class Met:
    """Signals and observations, (ticks, num_envs, width) by name."""

    signals: Mapping[str, np.ndarray]
    observation: np.ndarray

    def distribution(self) -> Distribution:
        """Quantiles of every value over all ticks of all environments."""
        ticks = self.observation.shape[0] * self.observation.shape[1]
        signals = tuple(SignalQuantiles(name=n, quantiles=_quantiles(values)) for n, values in self.signals.items())
        return Distribution(
            probabilities=PROBABILITIES, signals=signals, observation=_quantiles(self.observation), ticks=ticks
        )

    def envelope(self, contract: Contract) -> StartEnvelope:
        """The widest of what the first tick showed."""
        first = {name: values[0] for name, values in self.signals.items()}
        joint_pos = first.get("joint_pos", np.zeros((1, 0)))
        speed = np.abs(first.get("joint_vel", np.zeros((1, 1)))).max(initial=0.0)
        tilt = np.arccos(np.clip(-first["gravity"][:, 2], -1.0, 1.0)).max() if "gravity" in first else None
        turning = np.linalg.norm(first["gyro"], axis=-1).max() if "gyro" in first else None
        return StartEnvelope(
            joint_pos_low=tuple(joint_pos.min(0).tolist()),
            joint_pos_high=tuple(joint_pos.max(0).tolist()),
            joint_speed=float(speed),
            tilt=None if tilt is None else float(tilt),
            turn_rate=None if turning is None else float(turning),
        )


@torch.no_grad()
def observe_training(graph: PolicyGraph, world: World) -> Met:
    """One episode of each environment under this policy; environments whose physics or task end it start anew."""
    world.reset(torch.arange(world.num_envs))
    state = {name: torch.zeros(world.num_envs, width) for name, width in graph.state_widths.items()}
    target, names = target_output(graph.contract_graph.contract), graph.output_names
    signals: dict[str, list[np.ndarray]] = {name: [] for name in graph.signal_names}
    seen: list[np.ndarray] = []
    action = torch.zeros(world.num_envs, graph.contract_graph.num_actions)
    for _ in range(min(world.task.ticks, LONGEST)):
        now = world.read()
        named = dict(zip(names, graph(*(now[name] for name in graph.signal_names), *state.values()), strict=True))
        for name, rows in signals.items():
            rows.append(now[name].numpy().copy())
        seen.append(named["observation"].numpy().copy())
        state = {name: named[f"next.{name}"].clone() for name in state}
        world.write(named[target])
        world.step()
        action, last = named["base_action"], action
        _restart_ended(world, Truth(world, action=action, last_action=last), state)
    return Met(signals={name: np.stack(rows) for name, rows in signals.items()}, observation=np.stack(seen))


def _restart_ended(world: World, truth: Truth, state: Mapping[str, torch.Tensor]) -> None:
    task = world.task
    ended = any_of((*task.terminations, *task.truncations), truth) | world.engine.failed()
    ids = ended.nonzero().flatten()
    world.reset(ids)
    for values in state.values():
        values[ids] = 0.0


def _quantiles(values: np.ndarray) -> tuple[tuple[float, ...], ...]:
    """(ticks, num_envs, w) -> for each of the w values its quantiles."""
    flat = values.reshape(-1, values.shape[-1]).astype(np.float64)
    return tuple(tuple(float(f"{q:.6g}") for q in column) for column in np.quantile(flat, PROBABILITIES, axis=0).T)
