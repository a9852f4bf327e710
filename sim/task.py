"""What a task is: scene, start, command, rewards, terminations and randomisation, as data and plain functions."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch

from .engine import EngineState
from .randomization import RandomTerm
from .scene import Scene
from .state import Stateful
from .truth import Truth

if TYPE_CHECKING:
    from .world import World

Function = Callable[[Truth], torch.Tensor]


class Command(Stateful, Protocol):
    """What the robot is asked to do, one row per environment."""

    signal: str  # of hardware/signals.py
    value: torch.Tensor  # (num_envs, width)

    def reset(self, ids: torch.Tensor) -> None:
        """New commands for environments that start anew, after the engine has their start."""
        ...

    def step(self) -> None:
        """One control tick has passed."""
        ...


class Curriculum(Stateful, Protocol):
    """What changes a world while training goes on. A world owns it and keeps its state; environments tell it how episodes end."""

    def begin(self, ids: torch.Tensor) -> tuple[str, ...]:
        """New episodes in environments `ids` (k,): their parameters are drawn, the start is not. Returns parameters that it set."""
        ...

    def step(self) -> None:
        """One control tick has passed; the command is still the one of that tick."""
        ...

    def ended(self, ids: torch.Tensor, success: torch.Tensor) -> None:
        """Episodes in environments `ids` (k,) have ended, success (k,) bool; the world still is as they left it."""
        ...

    def log(self) -> dict[str, float]:
        """Where it stands, for people."""
        ...


@dataclass(frozen=True, kw_only=True)
class RewardTerm:
    """A weighted reward; `weight` per second of simulated time."""

    name: str
    function: Function  # -> (N,)
    weight: float


@dataclass(frozen=True, kw_only=True)
class TerminationTerm:
    """Ends an episode early: as a failure, or, among a task's truncations, without any blame."""

    name: str
    function: Function  # -> (N,) bool


@dataclass(frozen=True, kw_only=True)
class MetricTerm:
    """Something that people look at, not the optimiser."""

    name: str
    unit: str
    function: Function  # -> (N,)
    last: bool = False  # the value at the end of the episode; else the mean over it


@dataclass(frozen=True, kw_only=True)
class Success:
    """An episode succeeds when `function` holds without a break for `hold` s; and also ends then, if `ends`."""

    function: Function  # -> (N,) bool
    hold: float  # s; more than 0, at most the episode


def hold_ticks(success: Success, period: float) -> int:
    """Control ticks of `period` s for which a success must hold."""
    return math.ceil(success.hold / period - 1e-6)  # 0.14 s of 20 ms are seven, whatever the quotient's last bits say


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task for one robot."""

    name: str
    description: str
    scene: Callable[[], Scene]
    period: float  # s, control tick
    physics_dt: float  # s
    episode_length: float  # s
    start: "Callable[[World, torch.Tensor], EngineState]"  # state in which environments (k,) begin
    command: "Callable[[World], Command]"
    rewards: tuple[RewardTerm, ...]
    randomization: tuple[RandomTerm, ...]
    success: Success | None  # None: an episode succeeds by lasting to its end
    terminations: tuple[TerminationTerm, ...] = ()
    truncations: tuple[
        TerminationTerm, ...
    ] = ()  # cut an episode short as its time limit does: what follows is unknown, not bad
    curriculum: "Callable[[World], Curriculum] | None" = None
    metrics: tuple[MetricTerm, ...] = ()
    privileged: tuple[
        Function, ...
    ] = ()  # -> (N, k) each, of the order of 1: what a critic sees beside the observation
    estimates: tuple[
        str, ...
    ] = ()  # signals of a state estimator that the robot has: base_pos, base_quat, base_lin_vel

    @property
    def verdict(self) -> str:
        """What good episodes do, as a verb. Lasting says nothing of how well a command is followed; metrics do."""
        return "last to the end" if self.success is None else "succeed"

    @property
    def substeps(self) -> int:
        """Physics steps per control tick."""
        return round(self.period / self.physics_dt)

    @property
    def ticks(self) -> int:
        """Control ticks per episode."""
        return round(self.episode_length / self.period)
