"""What importers share: numbers with their source, the list of what is missing, and the result.

An importer turns one tool's files into a `Contract` and a network, so that the merged graph takes raw signals and returns what
that tool's own deployment code computes. Nothing is guessed: what neither the files nor the user's `Facts` say is listed and refused.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import onnx

from ..contract import CommandSpec, Contract, ContractJoint
from ..manifest import ValueSource
from .facts import (
    ANCHOR_FORM,
    AnchorJoint,
    CommandFacts,
    Facts,
    ImportFailed,
    JointFacts,
    check_joint_names,
    read_facts,
    robot_facts,
)

T = TypeVar("T")
FLOAT32 = 2.0**-23  # relative step of numbers that tools keep as float32
UNNAMED = "<name>"  # stands for each joint while nobody has named them
VELOCITIES = ("m/s forwards", "m/s to the left", "rad/s to the left")  # of command.velocity
PERIODS_S = (1e-6, 10.0)  # s, shortest and longest control period
FARTHEST = 100.0  # rad or m, of a joint


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """Numbers that were read from one place, and how finely they are printed there."""

    values: tuple[float, ...]
    source: str  # file and key
    resolution: tuple[float, ...] | None = None  # half a unit of the last printed place each; None: full precision

    def step(self, index: int) -> float:
        """How far the number meant may be from the number read."""
        printed = 0.0 if self.resolution is None else self.resolution[index]
        return printed + FLOAT32 * abs(self.values[index])


@dataclass(frozen=True, kw_only=True)
class Imported:
    """A policy of another tool, ready to be merged into a bundle graph by `onnx_graph`."""

    contract: Contract
    network: onnx.ModelProto  # observation -> action, then what it remembers; see `onnx_graph.policy_model`
    sources: tuple[ValueSource, ...]
    memory: dict[str, int] = field(default_factory=dict[str, int])  # width of each state that the network keeps
    reference: onnx.ModelProto | None = None  # computes the contract's "reference.<what>" signals
    notes: tuple[str, ...] = ()  # what the tool does that a user should know of


class Missing:
    """Collects what nobody says, so that one error names all of it."""

    def __init__(self, path: Path, facts: Facts) -> None:
        self._path, self._facts, self._lines = path, facts, dict[str, str]()

    def ask(self, value: T | None, key: str, what: str, stand_in: T) -> T:
        """The value; where there is none, `key` is missing and the stand-in goes on until `check`."""
        if value is None:
            self._lines.setdefault(key, what)
        return stand_in if value is None else value

    def check(self) -> None:
        """Raise ImportFailed naming everything that is missing."""
        if self._lines:
            lines = "".join(f"\n  - {key}: {what}" for key, what in _by_field(self._lines).items())
            raise ImportFailed(
                f"{self._path}: what neither the format nor {self._facts.source} says, to be written into a TOML file for --facts:{lines}"
            )


def _by_field(lines: Mapping[str, str]) -> dict[str, str]:
    """What is missing of several joints in one line, "joint.<name>.kp"."""
    found, joints = dict[str, str](), dict[str, list[str]]()
    for key, what in lines.items():
        parts = key.split(".")
        if parts[0] == "joint" and len(parts) >= 3:
            joints.setdefault(f"{parts[-1]}\0{what}", []).append(".".join(parts[1:-1]))
        else:
            found[key] = what
    for both, names in joints.items():
        key, what = both.split("\0")
        whose = "" if names == [UNNAMED] else f"; of {', '.join(names)}"
        found[f"joint.<name>.{key}"] = f"{what}{whose} (or `defaults.{key}`, of every joint)"
    return found


def need_names(
    names: tuple[str, ...] | None, given: Collection[str], facts: Facts, missing: Missing
) -> tuple[str, ...]:
    """The joints' names; where there are none, what is missing of each joint is asked of all, and nothing goes on.

    Args:
        names: of the joints, or None, which `missing` was asked for.
        given: fields of ContractJoint that the format says.
        facts: what the user or the robot says.
        missing: raises what is missing.
    """
    if names is not None:
        return names
    for key in [key for key in _FIELDS if key not in given]:
        if getattr(facts.defaults, key) is None and not (facts.known and key in _LIMITS):
            missing.ask(None, f"joint.{UNNAMED}.{key}", _FIELDS[key], None)
    missing.check()
    raise ImportFailed("joints without names")


def printed_step(text: str) -> float:
    """Half a unit of the last place of a printed number: 0.0005 of "0.250"."""
    mantissa, _, exponent = text.strip().lower().partition("e")
    _, _, decimals = mantissa.partition(".")
    return 0.5 * 10.0 ** (int(exponent or 0) - len(decimals))


def parse_number(text: str, source: str) -> float:
    """A finite number; raises ImportFailed naming the source."""
    try:
        number = float(text)
    except ValueError:
        raise ImportFailed(f"{source}: expected a number, got {text!r}") from None
    if not math.isfinite(number):
        raise ImportFailed(f"{source}: {text!r} is not finite")
    return number


def parse_csv(text: str, source: str) -> Numbers:
    """Comma-separated numbers, each with the resolution of its print."""
    words = text.split(",") if text.strip() else []
    return Numbers(
        values=tuple(parse_number(word, source) for word in words),
        source=source,
        resolution=tuple(printed_step(word) for word in words),
    )


def agree(what: str, *given: Numbers | None) -> Numbers | None:
    """The most finely printed of several sources of the same numbers; None where there is none.

    Raises:
        ImportFailed: two of them differ by more than their prints allow.
    """
    sources = [numbers for numbers in given if numbers is not None]
    for index, first in enumerate(sources):
        for second in sources[index + 1 :]:
            _check_agreement(what, first, second)
    return min(sources, key=lambda numbers: max(numbers.resolution or (0.0,), default=0.0), default=None)


def _check_agreement(what: str, first: Numbers, second: Numbers) -> None:
    if len(first.values) != len(second.values):
        raise ImportFailed(
            f"{what}: {first.source} has {len(first.values)} values, {second.source} has {len(second.values)}"
        )
    for index, (a, b) in enumerate(zip(first.values, second.values, strict=True)):
        if not abs(a - b) <= first.step(index) + second.step(index):
            raise ImportFailed(f"{what}[{index}]: {first.source} says {a}, {second.source} says {b}; make them agree")


def build_joints(
    names: Iterable[str], given: Mapping[str, Numbers], facts: Facts, missing: Missing
) -> tuple[tuple[ContractJoint, ...], tuple[ValueSource, ...]]:
    """The contract's joints from a format's numbers and the user's facts, which must agree; of both, the finer one is kept.

    Args:
        names: joints in the order of the numbers.
        given: by field of ContractJoint (`kp`, `kd`, `default_pos`, ...), what the format says; one number per joint.
        facts: what the user or the robot says.
        missing: where fields that nobody says are noted.

    Raises:
        ImportFailed: a joint named twice, numbers that disagree, kp <= 0 or kd < 0.
    """
    order, joints, sources = tuple(names), list[ContractJoint](), list[ValueSource]()
    check_names("joints", order)
    check_joint_names(order, facts)
    for field_name, numbers in given.items():
        if len(numbers.values) != len(order):
            raise ImportFailed(
                f"{numbers.source}: {len(numbers.values)} values of {field_name} for {len(order)} joints"
            )
    for index, name in enumerate(order):
        chosen = {key: _choose(key, name, given, index, facts) for key in _FIELDS}
        numbers = {
            key: missing.ask(best and best.values[0], f"joint.{name}.{key}", _FIELDS[key], 1.0)
            for key, best in chosen.items()
        }
        sources += [_source(f"joints[{index}].{key}", best) for key, best in chosen.items() if best is not None]
        _check_gains(name, numbers, given)
        _check_angles(name, chosen)
        rounding = tuple((key, best.step(0)) for key, best in chosen.items() if best is not None and best.resolution)
        joints.append(ContractJoint(name=name, **numbers, rounding=rounding))
    return tuple(joints), tuple(sources)


def _choose(key: str, name: str, given: Mapping[str, Numbers], index: int, facts: Facts) -> Numbers | None:
    """The best source of one number of one joint."""
    fact, known = getattr(facts.of(name), key), getattr(facts.known.get(name, JointFacts()), key)
    said = None if fact is None else Numbers(values=(fact,), source=facts.source)
    best = agree(f"{key} of {name}", _one(given[key], index) if key in given else None, said)
    if best is None and known is not None and key in _LIMITS:
        return Numbers(values=(known,), source=f"robot {facts.robot!r}")
    return best


def _source(path: str, numbers: Numbers) -> ValueSource:
    return ValueSource(path=path, source=numbers.source, resolution=(numbers.resolution or (0.0,))[0])


_LIMITS = ("lower", "upper", "velocity_limit", "effort_limit")
_FIELDS = {
    "default_pos": "rad, the pose that positions are relative to",
    "lower": "rad, limit of the joint",
    "upper": "rad, limit of the joint",
    "velocity_limit": "rad/s, limit of the joint",
    "effort_limit": "N m, limit of the joint",
    "kp": "N m/rad, gain that training assumed",
    "kd": "N m s/rad, gain that training assumed",
}


def _one(numbers: Numbers, index: int) -> Numbers:
    step = None if numbers.resolution is None else (numbers.resolution[index],)
    return Numbers(values=(numbers.values[index],), source=numbers.source, resolution=step)


def _check_gains(name: str, numbers: Mapping[str, float], given: Mapping[str, Numbers]) -> None:
    where = given["kp"].source if "kp" in given else "facts"
    if not numbers["kp"] > 0 or not numbers["kd"] >= 0:
        raise ImportFailed(
            f"{where}: joint {name!r} has kp {numbers['kp']}, kd {numbers['kd']}; expected kp > 0 and kd >= 0. "
            "The exporter wrote the gains of another kind of actuator; give those of training"
        )


def _check_angles(name: str, chosen: Mapping[str, Numbers | None]) -> None:
    for key in ("default_pos", "lower", "upper"):
        best = chosen[key]
        if best is not None and abs(best.values[0]) > FARTHEST:
            raise ImportFailed(
                f"{best.source}: {key} of joint {name!r} is {best.values[0]:g}; expected rad within +-{FARTHEST:g}: looks like degrees"
            )


def check_names(what: str, names: tuple[str, ...]) -> None:
    """Refuse names that are empty or occur twice."""
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated or not names or not all(names):
        raise ImportFailed(f"{what}: {list(names)}; expected different names, each once (repeated: {repeated})")


def check_scale(scale: Numbers) -> None:
    """Refuse an action scale of 0: a joint that the policy cannot move, or a scale that was rounded away."""
    dead = [index for index, value in enumerate(scale.values) if value == 0.0]
    if dead:
        raise ImportFailed(
            f"{scale.source}: scale 0 at {dead}: printed too coarsely or never meant; give the scale of training"
        )


def period_ns(seconds: float, source: str) -> int:
    """A control period in whole ns; raises ImportFailed where it is too short or too long for one."""
    if not PERIODS_S[0] <= seconds <= PERIODS_S[1]:
        low, high = PERIODS_S
        raise ImportFailed(
            f"{source}: control period {seconds} s; expected a positive number of seconds, {low:g} .. {high:g}"
        )
    return round(seconds * 1e9)


def agreed_period(said: Numbers | None, facts: Facts, missing: Missing) -> int:
    """The control period, ns, of a format and of the user's facts, which must agree."""
    own = None if facts.period_s is None else Numbers(values=(facts.period_s,), source=facts.source)
    best = agree("period_s", said, own)
    if best is None:
        return period_ns(missing.ask(None, "period_s", "s, control period", 0.02), facts.source)
    return period_ns(best.values[0], best.source)


def ask_robot(facts: Facts, missing: Missing) -> str:
    """Name of the robot."""
    return missing.ask(facts.robot, "robot", "name of the robot", "?")


def ask_latency(facts: Facts, missing: Missing) -> tuple[float, float]:
    """Command delay that training saw, s."""
    return missing.ask(
        facts.latency_s,
        "latency_s",
        "s, least and most command delay that training saw, such as [0.0, 0.02]",
        (0.0, 0.0),
    )


def ask_anchor(whose: str, joint_names: tuple[str, ...], facts: Facts, missing: Missing) -> tuple[AnchorJoint, ...]:
    """Joints from the base to a body of reference motions."""
    joints = missing.ask(facts.anchor, "anchor", f"joints from the base to {whose}; {ANCHOR_FORM}", ())
    unknown = [joint.joint for joint in joints if joint.joint not in joint_names]
    if unknown:
        raise ImportFailed(
            f"{facts.source}: anchor: {unknown} are none of the joints {list(joint_names)}; {ANCHOR_FORM}"
        )
    return joints


def ask_command(signal: str, values: str | tuple[str, ...], facts: Facts, missing: Missing) -> CommandSpec:
    """A command of a signal.

    Args:
        signal: its name.
        values: names of its values, or what they are where their number is not known.
        facts: with its range.
        missing: where the range is asked for.
    """
    count = 0 if isinstance(values, str) else len(values)
    each = values if isinstance(values, str) else f"each a list of {count}: {', '.join(values)}"
    known = missing.ask(
        facts.command,
        "command.low, command.high",
        f"range of {signal}, {each}",
        CommandFacts(low=(0.0,) * count, high=(0.0,) * count),
    )
    return CommandSpec(signal=signal, workspace=None, low=known.low, high=known.high)


@dataclass(frozen=True, kw_only=True)
class Importer:
    """One tool's format."""

    name: str
    description: str
    recognises: Callable[[Path], bool]  # by the file or directory's content, reading as little as needed
    load: Callable[[Path, Facts], Imported]


__all__ = [
    "ANCHOR_FORM", "VELOCITIES", "AnchorJoint", "CommandFacts", "Facts", "ImportFailed", "Imported", "Importer", "JointFacts", "Missing",
    "Numbers", "agree", "agreed_period", "ask_anchor", "ask_command", "ask_latency", "ask_robot", "build_joints", "check_names",
    "check_scale", "need_names", "parse_csv", "parse_number", "period_ns", "printed_step", "read_facts", "robot_facts",
]  # fmt: skip
