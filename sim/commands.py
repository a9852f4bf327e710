"""Commands: what robots are asked to do. Each is drawn by the world's generator."""

from typing import TYPE_CHECKING

import numpy as np
import torch

from isthmus.hardware.workspace import sample_reachable

from .state import TensorState

if TYPE_CHECKING:
    from .world import World

POOL_SIZE = 20_000  # reachable points that resets draw from


class ReachCommand(TensorState):
    """A reachable point for the tip, kept for the episode; also the pool of poses to start from."""

    signal = "command.target"
    _changing = ("value",)

    def __init__(self, world: "World") -> None:
        self._world = world
        chain = world.reach_chain()
        poses, points = sample_reachable(world.robot, chain, np.random.default_rng(world.seed), POOL_SIZE)
        self.poses, self.points = torch.from_numpy(poses).float(), torch.from_numpy(points).float()
        self.value = torch.zeros(world.num_envs, 3)

    def reset(self, ids: torch.Tensor) -> None:
        """See Command."""
        self.value[ids] = self.points[self._world.integers(POOL_SIZE, ids.numel())]

    def step(self) -> None:
        """See Command."""


class VelocityCommand(TensorState):
    """Forward, sideways and turning velocity, drawn anew from time to time; some robots are told to stand."""

    signal = "command.velocity"
    _changing = ("value", "_left")

    def __init__(
        self, world: "World", *, limit: tuple[float, float, float], resample_s: tuple[float, float], standing: float
    ) -> None:
        """Args: limit: m/s, m/s, rad/s, both ways. resample_s: shortest and longest time. standing: share told to stand."""
        self._world, self._limit = world, torch.tensor(limit)
        self._resample, self._standing = resample_s, standing
        self.value = torch.zeros(world.num_envs, 3)
        self._left = torch.zeros(world.num_envs)  # s until the next

    def reset(self, ids: torch.Tensor) -> None:
        """See Command."""
        count = ids.numel()
        drawn = self._limit * (2.0 * self._world.uniform(count, 3) - 1.0)
        moves = self._world.uniform(count, 1) >= self._standing
        self.value[ids] = drawn * moves
        low, high = self._resample
        self._left[ids] = low + (high - low) * self._world.uniform(count)

    def step(self) -> None:
        """See Command."""
        self._left -= self._world.task.period
        self.reset((self._left <= 0.0).nonzero().flatten())


class PointCommand(TensorState):
    """A point in a box for the base, drawn at reset and anew every `resample_s`."""

    signal = "command.position"
    _changing = ("value", "_left")

    def __init__(
        self,
        world: "World",
        *,
        low: tuple[float, float, float],
        high: tuple[float, float, float],
        resample_s: float,
    ) -> None:
        """Args: low, high: m, world. resample_s: s."""
        self._world, self._low, self._high = world, torch.tensor(low), torch.tensor(high)
        self._resample = resample_s
        self.value = torch.zeros(world.num_envs, 3)
        self._left = torch.zeros(world.num_envs)

    def reset(self, ids: torch.Tensor) -> None:
        """See Command."""
        count = ids.numel()
        self.value[ids] = self._low + (self._high - self._low) * self._world.uniform(count, 3)
        self._left[ids] = self._resample * (0.5 + self._world.uniform(count))

    def step(self) -> None:
        """See Command."""
        self._left -= self._world.task.period
        self.reset((self._left <= 0.0).nonzero().flatten())


class UniformCommand(TensorState):
    """One number, kept for the episode."""

    _changing = ("value",)

    def __init__(self, world: "World", *, signal: str, low: float, high: float) -> None:
        """Args: low, high: in the signal's unit."""
        self.signal = signal
        self._world, self._low, self._high = world, low, high
        self.value = torch.zeros(world.num_envs, 1)

    def reset(self, ids: torch.Tensor) -> None:
        """See Command."""
        self.value[ids] = self._low + (self._high - self._low) * self._world.uniform(ids.numel(), 1)

    def step(self) -> None:
        """See Command."""


class ObjectCommand(TensorState):
    """The place of a fixed object, plus an offset: the tip's goal."""

    signal = "command.target"
    _changing = ("value",)

    def __init__(self, world: "World", *, name: str, offset: tuple[float, float, float]) -> None:
        """Args: offset: m, world."""
        self._world, self._name, self._offset = world, name, torch.tensor(offset)
        self.value = torch.zeros(world.num_envs, 3)

    def reset(self, ids: torch.Tensor) -> None:
        """See Command."""
        self.value[ids] = self._world.engine.fixed_pos(self._name)[ids] + self._offset

    def step(self) -> None:
        """See Command."""
