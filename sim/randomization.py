"""Randomisation as data: which parameter, from which distribution, and when it is drawn anew."""

import math
import numbers
from dataclasses import dataclass, replace
from typing import TypeVar

from .distributions import (
    Constant,
    Distribution,
    Gaussian,
    LogUniform,
    RandomizationError,
    TruncatedMultivariateNormal,
    Uniform,
)
from .engine import ENGINE_PARAMETERS, EngineParameter
from .parameter_needs import Setting
from .scene import Scene
from .world_parameters import ANY_TIME, EACH_JOINT, WORLD_PARAMETERS, When, WorldParameter

# With 0 of these physics has no solution, or things slide for ever; the engines' own limit allows it.
ABOVE_ZERO = ("mass_scale", "inertia_scale", "object_mass_scale", "contact_friction_scale")
_SINGLE, _TOGETHER = (Constant, Uniform, LogUniform, Gaussian), (TruncatedMultivariateNormal,)

PER_JOINT = tuple(name for name, parameter in WORLD_PARAMETERS.items() if parameter.width == EACH_JOINT)


@dataclass(frozen=True, kw_only=True)
class RandomTerm:
    """One randomised parameter. Where it has several values, each is drawn on its own from the distribution."""

    parameter: str  # of ENGINE_PARAMETERS or WORLD_PARAMETERS
    distribution: Distribution
    when: When = "reset"  # drawn once, at every reset, or every interval_s of an environment's time
    interval_s: float | None = None  # s; for "interval" and only then
    component: int | None = None  # draw this one of several values alone: an axis or a joint


@dataclass(frozen=True, kw_only=True)
class CorrelatedTerm:
    """Several parameters with one value each, drawn together."""

    parameters: tuple[str, ...]  # in the order of the distribution's components
    distribution: TruncatedMultivariateNormal
    when: When = "reset"
    interval_s: float | None = None  # s; for "interval" and only then


Term = RandomTerm | CorrelatedTerm
AnyTerm = TypeVar("AnyTerm", bound=Term)


def parameters_of(term: Term) -> tuple[str, ...]:
    """Names of the parameters that a term draws."""
    return term.parameters if isinstance(term, CorrelatedTerm) else (term.parameter,)


def parameter_info(name: str) -> EngineParameter:
    """Width, unit and limits of a parameter; raises RandomizationError naming the known ones."""
    known = {**ENGINE_PARAMETERS, **WORLD_PARAMETERS}
    if name not in known:
        raise RandomizationError(f"unknown parameter {name!r}; known: {', '.join(known)}")
    return known[name]


def is_length(name: str) -> bool:
    """Whether a distribution of this parameter gives the length of a vector in a random direction."""
    info = parameter_info(name)
    return isinstance(info, WorldParameter) and info.direction


def check_randomization(terms: tuple[Term, ...]) -> None:
    """Refuse terms that cannot be applied; raises RandomizationError."""
    for term in terms:
        _check_kind(term)
        for name in parameters_of(term):
            parameter_info(name)
        _check_time(term)
        try:
            term.distribution.check()
        except RandomizationError as error:
            raise RandomizationError(f"{', '.join(parameters_of(term))}: {error}") from None
        if isinstance(term, CorrelatedTerm):
            _check_correlated(term)
        else:
            _check_component(term)
            _check_possible(term.parameter, *term.distribution.support)
    _check_once(terms)


def check_acts(terms: tuple[Term, ...], scene: Scene, estimates: tuple[str, ...]) -> None:
    """Refuse parameters that do nothing in a scene, to a task with these estimates; raises RandomizationError naming what they need."""
    for term in terms:
        joint = term.component if isinstance(term, RandomTerm) else None
        for name in parameters_of(term):
            info = parameter_info(name)
            at = Setting(scene=scene, estimates=estimates, joint=joint if info.width == EACH_JOINT else None)
            if info.needs is not None and not info.needs.met(at):
                part = "" if at.joint is None else f" (joint {scene.robot.joint_names[at.joint]!r})"
                raise RandomizationError(
                    f"{name} does nothing for robot {scene.robot.name!r}{part} in this task: it needs {info.needs.text};"
                    " leave it out"
                )


def override(terms: tuple[AnyTerm, ...], new: tuple[AnyTerm, ...]) -> tuple[AnyTerm, ...]:
    """`terms` with those of `new` put in place of terms on the same parameters, where they stand, so that critics see what they saw before.

    Raises:
        RandomizationError: some but not all parameters of a correlated term would be replaced.
    """
    replaced = {name for term in new for name in parameters_of(term)}
    for term in terms:
        names = set(parameters_of(term))
        if names & replaced and names - replaced:
            raise RandomizationError(
                f"{', '.join(sorted(names & replaced))} is drawn together with {', '.join(sorted(names - replaced))}:"
                " give new terms for all of them"
            )
    kept, left = [], list(new)
    for term in terms:
        names = set(parameters_of(term))
        here = [other for other in left if names.intersection(parameters_of(other))]
        kept += here if names & replaced else [term]
        left = [other for other in left if other not in here]
    return (*kept, *left)


def widen(terms: tuple[AnyTerm, ...], fraction: float) -> tuple[AnyTerm, ...]:
    """Every distribution shrunk towards the neutral value of its parameter: no randomisation at 0, all of it at 1."""
    return tuple(_widened(term, fraction) for term in terms)


def neutral_of(term: RandomTerm) -> float:
    """The value that means "as the model says" for what a term draws; 0 for a length."""
    info = parameter_info(term.parameter)
    return info.neutral[(term.component or 0) if info.width > 1 else 0]


def _widened(term: AnyTerm, fraction: float) -> AnyTerm:
    if isinstance(term, CorrelatedTerm):
        neutral = tuple(parameter_info(name).neutral[0] for name in term.parameters)
        return replace(term, distribution=term.distribution.widened(neutral, fraction))
    return replace(term, distribution=term.distribution.widened(neutral_of(term), fraction))


def _check_kind(term: Term) -> None:
    """That a term and its distribution are what their fields say; annotations alone hold nobody back."""
    if not isinstance(term, RandomTerm | CorrelatedTerm):
        raise RandomizationError(f"randomization holds {term!r}; expected a RandomTerm or a CorrelatedTerm")
    together = isinstance(term, CorrelatedTerm)
    if together and not isinstance(term.parameters, tuple):
        raise RandomizationError(f"CorrelatedTerm.parameters is {term.parameters!r}; expected a tuple of names")
    expected = _TOGETHER if together else _SINGLE
    if not isinstance(term.distribution, expected):
        names = ", ".join(kind.__name__ for kind in expected)
        raise RandomizationError(
            f"{', '.join(map(str, parameters_of(term)))}: distribution is {term.distribution!r}; a {type(term).__name__}"
            f" expects one of {names}"
        )


def _check_time(term: Term) -> None:
    names = ", ".join(parameters_of(term))
    if term.when == "interval":
        seconds = term.interval_s
        if not isinstance(seconds, numbers.Real) or not (math.isfinite(seconds) and seconds > 0):
            raise RandomizationError(f"{names}: interval_s must be a positive number of seconds, got {term.interval_s}")
    elif term.interval_s is not None:
        raise RandomizationError(
            f'{names}: interval_s {term.interval_s} is for when = "interval", but when is {term.when!r}'
        )
    for name in parameters_of(term):
        info = parameter_info(name)
        allowed = info.when if isinstance(info, WorldParameter) else ANY_TIME
        if term.when not in allowed:
            raise RandomizationError(f"{name}: when must be {' or '.join(map(repr, allowed))}, got {term.when!r}")


def _check_component(term: RandomTerm) -> None:
    name, info, index = term.parameter, parameter_info(term.parameter), term.component
    if index is None:
        if len(set(info.neutral)) > 1:
            raise RandomizationError(
                f"{name}: its values differ ({info.neutral} {info.unit}), so one distribution cannot serve them all;"
                " give each its own term with component = 0, 1, ..."
            )
        return
    if is_length(name) or info.width == 1:
        raise RandomizationError(f"{name}: is drawn as a whole, component must be left out, got {index}")
    if isinstance(index, bool) or not isinstance(index, int):
        raise RandomizationError(f"{name}: component must be a whole number, got {index!r}")
    if index < 0 or (info.width != EACH_JOINT and index >= info.width):
        largest = "the number of joints - 1" if info.width == EACH_JOINT else info.width - 1
        raise RandomizationError(f"{name}: component must lie in 0 .. {largest}, got {index}")


def _check_possible(name: str, low: float, high: float) -> None:
    info = parameter_info(name)
    highest = info.high if isinstance(info, WorldParameter) else math.inf
    if name in ABOVE_ZERO and low == 0.0:
        raise RandomizationError(f"{name}: {low} .. {high} {info.unit} holds 0; expected more than 0, such as 0.01")
    if low < info.low or high > highest:
        raise RandomizationError(
            f"{name}: {low} .. {high} {info.unit} goes beyond what is possible, {info.low} .. {highest} {info.unit}"
        )


def _check_correlated(term: CorrelatedTerm) -> None:
    names, (low, high) = term.parameters, term.distribution.support
    if len(names) != len(low):
        raise RandomizationError(
            f"{', '.join(names)}: {len(names)} parameters for a distribution of {len(low)} components"
        )
    for index, name in enumerate(names):
        if parameter_info(name).width != 1:
            raise RandomizationError(f"{name}: has several values; only parameters with one can be drawn together")
        _check_possible(name, low[index], high[index])


def _check_once(terms: tuple[Term, ...]) -> None:
    seen: set[tuple[str, int | None]] = set()
    for term in terms:
        index = term.component if isinstance(term, RandomTerm) else None
        for name in parameters_of(term):
            taken = {component for other, component in seen if other == name}
            if index in taken or (taken and None in (index, *taken)):
                raise RandomizationError(f"{name} is randomised twice; give it one term, or one per component")
            seen.add((name, index))


__all__ = [
    "EACH_JOINT",
    "PER_JOINT",
    "WORLD_PARAMETERS",
    "Constant",
    "CorrelatedTerm",
    "Distribution",
    "Gaussian",
    "LogUniform",
    "RandomTerm",
    "RandomizationError",
    "Term",
    "TruncatedMultivariateNormal",
    "Uniform",
    "When",
    "WorldParameter",
    "check_acts",
    "check_randomization",
    "is_length",
    "neutral_of",
    "override",
    "parameter_info",
    "parameters_of",
    "widen",
]
