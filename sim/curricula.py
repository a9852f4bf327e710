"""Curricula at work in a world: terrain by how far robots walk, randomised ranges by success or by steps."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeGuard

import torch

from .curriculum import (
    AutomaticConfig,
    AutomaticRandomization,
    CurriculumError,
    Schedule,
    TerrainCurriculum,
    TerrainCurriculumConfig,
)
from .distributions import LogUniform, Uniform
from .randomization import CorrelatedTerm, RandomTerm, Term, neutral_of, parameter_info, parameters_of
from .rotations import heading
from .state import State, TensorState, part_of, prefixed
from .task import Curriculum
from .terrain import TerrainSpec, make_terrain

if TYPE_CHECKING:
    from .world import World

_GRAIN = 0.01  # share of the whole range that scheduled ranges move at once


@dataclass(frozen=True, kw_only=True)
class RangesBySuccess:
    """Ranges that grow while episodes at their ends succeed, and shrink where those fail."""

    automatic: AutomaticConfig
    parameters: tuple[str, ...] = ()  # that grow; (): every one that can


@dataclass(frozen=True, kw_only=True)
class RangesBySteps:
    """Ranges that grow as training goes on."""

    schedule: Schedule  # share of the whole range, 0 .. 1
    parameters: tuple[str, ...] = ()  # that grow; (): all


RandomizationCurriculum = RangesBySuccess | RangesBySteps


def make_ranges(world: "World", config: RandomizationCurriculum) -> Curriculum:
    """The curriculum of a world's randomisation; raises CurriculumError for parameters that cannot grow so."""
    names = [name for term in world.randomization for name in parameters_of(term)]
    unknown = [name for name in config.parameters if name not in names]
    if unknown:
        raise CurriculumError(f"ranges of {unknown} cannot grow: randomised here are {', '.join(names) or 'none'}")
    return AutomaticRanges(world, config) if isinstance(config, RangesBySuccess) else ScheduledRanges(world, config)


class AutomaticRanges:
    """Automatic domain randomisation on a world's randomizer."""

    def __init__(self, world: "World", config: RangesBySuccess) -> None:
        self._world = world
        growing = _growing(world.randomization, config.parameters)
        self.automatic = AutomaticRandomization(growing, world.num_envs, world.generator, config.automatic)
        self._ranges: tuple[RandomTerm, ...] = ()
        self._use()

    def begin(self, ids: torch.Tensor) -> tuple[str, ...]:
        """See Curriculum."""
        drawn = self.automatic.sample(ids)
        for name, values in drawn.items():
            self._world.randomizer.put(name, ids, values)
        return tuple(drawn)

    def step(self) -> None:
        """See Curriculum."""

    def ended(self, ids: torch.Tensor, success: torch.Tensor) -> None:
        """See Curriculum."""
        self.automatic.record(ids, success.float())
        self._use()

    def log(self) -> dict[str, float]:
        """See Curriculum: entropy, and the ends of every range."""
        return {f"ranges/{name}": value for name, value in self.automatic.log().items()}

    def state_dict(self) -> State:
        """See Stateful."""
        return self.automatic.state_dict()

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """See Stateful."""
        self.automatic.load_state_dict(dict(state))
        self._use()

    def _use(self) -> None:
        """Let the randomizer draw from the ranges of now."""
        ranges = self.automatic.terms()
        if ranges != self._ranges:
            self._ranges, by_name = ranges, {term.parameter: term for term in ranges}
            own = (by_name.get(parameters_of(term)[0], term) for term in self._world.randomization)
            self._world.randomizer.use(tuple(own))


class ScheduledRanges(TensorState):
    """Ranges that widen with the number of environment steps, from the value of their range that is nearest to neutral."""

    _changing = ("_steps", "_share")

    def __init__(self, world: "World", config: RangesBySteps) -> None:
        config.schedule.check()
        for end in (config.schedule.start, config.schedule.end):
            if not 0 <= end <= 1:
                raise CurriculumError(f"schedule of ranges: start and end must lie in 0 .. 1, got {end}")
        self._world, self._config = world, config
        self._steps = 0  # of all environments
        self._share = config.schedule.start  # of the whole ranges, in force
        self._use()

    def begin(self, ids: torch.Tensor) -> tuple[str, ...]:
        """See Curriculum."""
        return ()

    def step(self) -> None:
        """See Curriculum."""
        self._steps += self._world.num_envs
        share, end = self._config.schedule.value(self._steps), self._config.schedule.end
        if abs(share - self._share) >= _GRAIN or share == end != self._share:
            self._share = share
            self._use()

    def ended(self, ids: torch.Tensor, success: torch.Tensor) -> None:
        """See Curriculum."""

    def log(self) -> dict[str, float]:
        """See Curriculum."""
        return {"ranges/share": self._share}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """See Stateful."""
        super().load_state_dict(state)
        self._use()

    def _use(self) -> None:
        names = self._config.parameters
        self._world.randomizer.use(
            tuple(_shrunk(term, self._share) if _wanted(term, names) else term for term in self._world.randomization)
        )


class TerrainLevels:
    """Each robot on a tile of a terrain as hard as what it managed so far."""

    def __init__(self, world: "World", terrain: TerrainSpec, *, start_levels: int) -> None:
        """Args: start_levels: robots begin on levels 0 .. start_levels - 1."""
        self._world, self._tiles = world, torch.from_numpy(make_terrain(terrain).origins)
        config = TerrainCurriculumConfig(
            levels=terrain.levels,
            columns=len(terrain.kinds),
            tile_size_m=terrain.tile_size_m,
            start_levels=start_levels,
        )
        self.places = TerrainCurriculum(config, world.num_envs, world.generator)
        self._asked = torch.zeros(world.num_envs, 2)  # m, world: where commands would have led since the start

    @property
    def origins(self) -> torch.Tensor:
        """Middle of each environment's tile on its ground, (num_envs, 3) m, world."""
        return self.places.origins(self._tiles)

    def begin(self, ids: torch.Tensor) -> tuple[str, ...]:
        """See Curriculum."""
        self._asked[ids] = 0.0
        return ()

    def step(self) -> None:
        """See Curriculum."""
        velocity, ahead = self._world.command.value, heading(self._world.engine.free_state("base").quat)
        left = torch.stack([-ahead[:, 1], ahead[:, 0]], dim=-1)
        self._asked += self._world.task.period * (velocity[:, :1] * ahead + velocity[:, 1:2] * left)

    def ended(self, ids: torch.Tensor, success: torch.Tensor) -> None:
        """See Curriculum. Who fell has not managed the tile, however far it was to go."""
        base = self._world.engine.free_state("base").pos
        walked = torch.linalg.vector_norm((base - self.origins)[ids, :2], dim=-1)
        asked = torch.linalg.vector_norm(self._asked[ids], dim=-1)
        self.places.update(ids, walked, torch.where(success, asked, torch.full_like(asked, torch.inf)))

    def log(self) -> dict[str, float]:
        """See Curriculum: mean, smallest and largest level."""
        return {f"terrain/{name}": value for name, value in self.places.log().items()}

    def state_dict(self) -> State:
        """See Stateful."""
        return prefixed("places", self.places.state_dict()) | {"asked": self._asked.clone()}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """See Stateful."""
        self.places.load_state_dict(part_of("places", state))
        self._asked = state["asked"].clone()


def _wanted(term: Term, names: tuple[str, ...]) -> bool:
    return not names or bool(set(parameters_of(term)) & set(names))


def _growing(terms: tuple[Term, ...], names: tuple[str, ...]) -> tuple[RandomTerm, ...]:
    """Terms whose ranges grow by success: the named ones, which must be able to, or all that are."""
    if not names:
        return tuple(term for term in terms if _can_grow(term))
    found: list[RandomTerm] = []
    for term in terms:
        if not _wanted(term, names):
            continue
        if isinstance(term, CorrelatedTerm):
            raise CurriculumError(f"{', '.join(term.parameters)}: are drawn together, so neither can grow by success")
        if term.when != "reset":
            raise CurriculumError(
                f"{term.parameter}: is drawn at {term.when}, but only what is drawn at reset grows by success"
            )
        found.append(term)
    return tuple(found)


def _can_grow(term: Term) -> TypeGuard[RandomTerm]:
    """Whether success at the ends of its range can say anything, and there is a range."""
    if isinstance(term, CorrelatedTerm):
        return False
    low, high = term.distribution.support
    one = isinstance(term.distribution, Uniform | LogUniform) and parameter_info(term.parameter).width == 1
    return one and low < high and term.when == "reset"


def _shrunk(term: Term, share: float) -> Term:
    if isinstance(term, CorrelatedTerm):
        low, high = term.distribution.support
        neutral = tuple(
            min(max(parameter_info(name).neutral[0], least), most)
            for name, least, most in zip(term.parameters, low, high, strict=True)
        )
        return replace(term, distribution=term.distribution.widened(neutral, share))
    low, high = term.distribution.support
    return replace(term, distribution=term.distribution.widened(min(max(neutral_of(term), low), high), share))
