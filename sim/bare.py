"""An engine stepped alone, from the states and with the controls that an environment just went through."""

# mujoco builds its classes at run time and ships no type stubs for them.
# pyright: reportAttributeAccessIssue=false

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import torch
from mujoco.batch import MODEL_FIELDS

from .drive import Drive
from .engine import Engine
from .mujoco_engine import MujocoEngine
from .world import World


class Bare(Protocol):
    """Records control ticks of a world, then steps only the engine through them."""

    substeps: int  # physics steps of a control tick

    def record(self, run: Callable[[], object], ticks: int) -> None:
        """Keep the engine's state before, and its controls after, each of the next `ticks` ticks, which `run` makes pass."""
        ...

    def replay(self) -> contextlib.AbstractContextManager[Iterator[Callable[[], None]]]:
        """For each recorded tick what puts the engine there; the world is as before afterwards."""
        ...

    def step(self) -> None:
        """One control tick of the engine alone, its controls held."""
        ...


def make_bare(world: World) -> Bare:
    """For the world's engine."""
    return BareMujoco(world, world.engine) if isinstance(world.engine, MujocoEngine) else BareEngine(world)


class BareMujoco:
    """`Batch.step(nstep=...)`, with the models, servo gains and limits that the world's batch has."""

    def __init__(self, world: World, engine: MujocoEngine) -> None:
        self._world, self._batch = world, engine.batch
        self.substeps = round(world.task.period / engine.dt)
        self._inputs = [
            self._batch.bind("ctrl"),
            *([self._batch.bind("xfrc_applied")] if engine.scene.free_bodies else []),
        ]
        self._ticks: list[tuple[np.ndarray, list[np.ndarray]]] = []

    def record(self, run: Callable[[], object], ticks: int) -> None:
        """See Bare."""
        self._ticks = []

        def before() -> np.ndarray:
            return np.array(self._batch.state)

        def after(state: np.ndarray) -> None:
            self._ticks.append((state, [np.array(part) for part in self._inputs]))

        with _watched(self._world, before, after):
            run()
        assert len(self._ticks) == ticks

    @contextlib.contextmanager
    def replay(self) -> Iterator[Iterator[Callable[[], None]]]:
        """See Bare."""
        state, warning = np.array(self._batch.state), np.array(self._batch.warning)
        try:
            yield (lambda tick=tick: self._prepare(*tick) for tick in self._ticks)
        finally:
            self._batch.state[:], self._batch.warning[:] = state, warning

    def step(self) -> None:
        """See Bare."""
        self._batch.step(nstep=self.substeps)

    def _prepare(self, state: np.ndarray, inputs: list[np.ndarray]) -> None:
        self._batch.state[:] = state
        for part, value in zip(self._inputs, inputs, strict=True):
            part[:] = value


class BareEngine:
    """`Engine.step`, for every engine: the joint efforts of each tick's end, held."""

    def __init__(self, world: World) -> None:
        self._world, self._engine = world, world.engine
        self.substeps = round(world.task.period / self._engine.dt)
        self._effort = world.effort()
        self._ticks: list[tuple[dict[str, torch.Tensor], torch.Tensor]] = []

    def record(self, run: Callable[[], object], ticks: int) -> None:
        """See Bare."""
        self._ticks = []

        def after(state: dict[str, torch.Tensor]) -> None:
            self._ticks.append((state, self._world.effort().clone()))

        with _watched(self._world, self._engine.save, after):
            run()
        assert len(self._ticks) == ticks

    @contextlib.contextmanager
    def replay(self) -> Iterator[Iterator[Callable[[], None]]]:
        """See Bare."""
        now = self._engine.save()
        try:
            yield (lambda tick=tick: self._prepare(*tick) for tick in self._ticks)
        finally:
            self._engine.restore(now)

    def step(self) -> None:
        """See Bare."""
        for _ in range(self.substeps):
            self._engine.step(self._effort)

    def _prepare(self, state: dict[str, torch.Tensor], effort: torch.Tensor) -> None:
        self._engine.restore(state)
        self._effort = effort


class _WatchedDrive:
    """A drive that says when it steps."""

    def __init__(self, drive: Drive, before: Callable[[], Any], after: Callable[[Any], None]) -> None:
        self._drive, self._before, self._after = drive, before, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._drive, name)

    def step(self, targets: torch.Tensor) -> torch.Tensor:
        """See Drive."""
        kept = self._before()
        positions = self._drive.step(targets)
        self._after(kept)
        return positions


@contextlib.contextmanager
def _watched(world: World, before: Callable[[], Any], after: Callable[[Any], None]) -> Iterator[None]:
    drive: Any = world.drive
    watched: Any = _WatchedDrive(drive, before, after)
    world.drive = watched
    try:
        yield
    finally:
        world.drive = drive


def engine_bytes(world: World) -> tuple[float | None, float | None]:
    """The engine's state, and the model values that environments do not share, per environment; None where it does not tell."""
    engine: Engine = world.engine
    if not isinstance(engine, MujocoEngine):
        return None, None
    batch, count = engine.batch, engine.num_envs
    own = [batch.expanded(name) for name in MODEL_FIELDS]
    return batch.state.nbytes / count, sum(field.nbytes for field in own if field is not None) / count
