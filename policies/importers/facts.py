"""What a user says of a policy whose files do not: a TOML file, and the robot's own numbers."""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from isthmus.hardware.errors import IsthmusError
from isthmus.hardware.robot import RobotSpec, load_robot
from isthmus.hardware.structure import FormatError, leaves, structure, unstructure

from ..contract_checks import LARGEST, LONGEST_LATENCY_S

ANCHOR_FORM = (
    'one [[anchor]] for each joint, from the base on: joint = "waist_yaw_joint", axis = "x", "y" or "z", '
    "pos = [0.0, 0.0, 0.04] in m, of the joint in the frame of the body before it; anchor = [] where it is the base"
)
# All that is none of the joints', which are asked for one by one.
GIVEN = ("robot", "task", "period_s", "latency_s", "joints", "sdk_joints", "action_clip", "command", "anchor")


class ImportFailed(IsthmusError, ValueError):
    """Another tool's policy cannot become a bundle; says which file and value, and what to do."""


@dataclass(frozen=True, kw_only=True)
class JointFacts:
    """What a user or a robot.toml says of a joint; None where the format says it."""

    default_pos: float | None = None  # rad
    lower: float | None = None  # rad
    upper: float | None = None  # rad
    velocity_limit: float | None = None  # rad/s
    effort_limit: float | None = None  # N m
    kp: float | None = None  # N m/rad
    kd: float | None = None  # N m s/rad


@dataclass(frozen=True, kw_only=True)
class CommandFacts:
    """The range of the command, one number per value."""

    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class AnchorJoint:
    """One joint between the base and the body that a reference motion is anchored to."""

    joint: str
    axis: Literal["x", "y", "z"]
    pos: tuple[float, float, float] = (0.0, 0.0, 0.0)  # m, of the joint in the frame of the body before it


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What formats lack; read from a TOML file (`read_facts`)."""

    robot: str | None = None  # a robot that ships with isthmus, or any name
    task: str | None = None
    period_s: float | None = None
    latency_s: tuple[float, float] | None = None  # command delay that training saw
    joints: tuple[str, ...] | None = None  # in the network's order
    sdk_joints: tuple[str, ...] | None = None  # in the order of the robot's motors
    action_clip: float | None = None  # of the network's action, either way
    command: CommandFacts | None = None
    anchor: tuple[AnchorJoint, ...] | None = (
        None  # of reference motions: from base to anchor body; () where it is the base
    )
    defaults: JointFacts = JointFacts()  # of every joint
    joint: dict[str, JointFacts] = field(default_factory=dict[str, JointFacts])  # of single joints, by name
    known: dict[str, JointFacts] = field(
        default_factory=dict[str, JointFacts]
    )  # the robot's own numbers, see `robot_facts`
    source: str = "facts"

    def of(self, joint: str) -> JointFacts:
        """What is known of one joint."""
        own = self.joint.get(joint, JointFacts())
        return replace(self.defaults, **{key: value for key, value in vars(own).items() if value is not None})


def read_facts(path: Path) -> Facts:
    """Facts from a TOML file; raises FormatError naming what it does not know."""
    if path.exists() and not path.is_file():
        raise FormatError(
            f"{path}: {'a directory' if path.is_dir() else 'no regular file'}, expected a TOML file of facts"
        )
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8-sig"))  # some editors begin a file with a byte order mark
    except OSError as error:
        raise FormatError(f"{path}: cannot be read: {error.strerror}; expected a TOML file of facts") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise FormatError(f"{path}: cannot be read as TOML: {error}") from None
    _check_forms(data, path)
    return replace(structure(data, Facts, source=str(path)), source=path.name)


def _check_forms(data: Mapping[str, object], path: Path) -> None:
    """Refuse values of another form than they are written in, saying which that is."""
    for key, right, form in (
        ("latency_s", _is_pair, 'expected 2 numbers, the least and the most, such as "latency_s = [0.0, 0.02]"'),
        ("command", _is_range, 'expected a table "[command]" with a list low and a list high, as long as each other'),
        ("anchor", _is_anchor, f"expected {ANCHOR_FORM}"),
    ):
        if key in data and not right(data[key]):
            raise FormatError(f"{path}: {key}: {form}; got {data[key]!r}")


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2


def _is_range(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    low, high = value.get("low"), value.get("high")
    return isinstance(low, list) and isinstance(high, list) and len(low) == len(high)


def _is_anchor(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(joint, dict) and _is_anchor_joint(joint) for joint in value)


def _is_anchor_joint(joint: Mapping[str, object]) -> bool:
    pos = joint.get("pos", [0.0] * 3)
    return (
        {"joint", "axis"} <= set(joint) <= {"joint", "axis", "pos"}
        and joint["axis"] in ("x", "y", "z")
        and isinstance(pos, list)
        and len(pos) == 3
    )


def robot_facts(robot: RobotSpec | str, facts: Facts) -> Facts:
    """The facts, with a robot's own numbers known.

    Limits belong to the robot: its own stand where nobody says otherwise. Gains and default pose belong to the policy.

    Raises:
        ImportFailed: the facts name another robot.
    """
    spec = load_robot(robot) if isinstance(robot, str) else robot
    if facts.robot not in (None, spec.name):
        raise ImportFailed(f"{facts.source}: robot = {facts.robot!r}, but --robot gives {spec.name!r}; give one robot")
    keys = tuple(vars(JointFacts()))
    known = {joint.name: JointFacts(**{key: getattr(joint, key) for key in keys}) for joint in spec.joints}
    return replace(facts, robot=spec.name, known=known)


def check_joint_names(names: tuple[str, ...], facts: Facts) -> None:
    """Refuse facts of joints that the policy does not have, and a robot with other joints than the policy's."""
    strange = sorted(set(facts.joint) - set(names))
    if strange:
        keys = ", ".join(f"joint.{name}" for name in strange)
        raise ImportFailed(f"{facts.source}: {keys}: no such joint; known: {', '.join(names)}")
    if facts.known and set(facts.known) != set(names):
        policy, robot = (
            [name for name in own if name not in other] for own, other in ((names, facts.known), (facts.known, names))
        )
        raise ImportFailed(
            f"the policy's joints are not those of robot {facts.robot!r}: only the policy has {policy}, only the robot has {robot}; "
            "give the robot that it was trained for, or leave --robot out and give the limits of joints by --facts"
        )


def check_facts(facts: Facts) -> None:
    """Refuse numbers that are none, and values that nobody can have meant."""
    for where, value in leaves(unstructure(facts)):
        if not isinstance(value, float) or where.startswith("known."):
            continue
        endless = where == "action_clip" and value == math.inf
        if not abs(value) <= LARGEST and not endless:
            also = ", or inf where nothing is clipped" if where == "action_clip" else ""
            raise ImportFailed(f"{facts.source}: {where} = {value}; expected a number within +-{LARGEST:g}{also}")
    if facts.action_clip is not None and not facts.action_clip > 0:
        raise ImportFailed(f"{facts.source}: action_clip = {facts.action_clip}; expected a positive number, or inf")
    low, high = (0.0, 0.0) if facts.latency_s is None else facts.latency_s
    if not 0.0 <= low <= high <= LONGEST_LATENCY_S:
        raise ImportFailed(
            f"{facts.source}: latency_s = [{low}, {high}]; expected the least and the most, s, within 0 .. {LONGEST_LATENCY_S:g}"
        )
    for key in ("robot", "task"):
        name = getattr(facts, key)
        if name is not None:
            check_name(f"{facts.source}: {key}", name)


def check_name(where: str, name: str) -> None:
    """Refuse what cannot be a file's name and stand in one line."""
    if not name.strip(" .") or not name.isprintable() or name != name.strip() or set(name) & set('/\\:*?"<>|'):
        raise ImportFailed(f"{where} = {name!r}; expected a name in one line, without path characters")


class WatchedFacts(Facts):
    """Facts that know which of them somebody asked for."""

    def __getattribute__(self, name: str) -> object:
        """The value, noted as asked for."""
        found = object.__getattribute__(self, name)
        if name in GIVEN:
            object.__getattribute__(self, "asked").add(name)
        return found


def watched(facts: Facts) -> WatchedFacts:
    """The facts, with nothing asked for as yet."""
    seen = object.__new__(WatchedFacts)
    for name, value in (*vars(facts).items(), ("asked", set[str]())):
        object.__setattr__(seen, name, value)
    return seen


def unasked(facts: WatchedFacts) -> list[str]:
    """Keys that were given and that nobody asked for."""
    asked: set[str] = vars(facts)["asked"]
    return [key for key in GIVEN if vars(facts)[key] is not None and key not in asked]
