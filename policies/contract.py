"""What a policy sees and does, as data: raw signals -> observation, network action -> joint targets.

The contract is compiled to a torch module for training (`learning/graph.py`) and exported with the network, so that the deployed
graph takes raw signals and returns joint targets in rad: there is no second implementation of it.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Literal

from isthmus.hardware.errors import IsthmusError
from isthmus.hardware.kinematics import KinematicChain
from isthmus.hardware.robot import RobotSpec, Workspace
from isthmus.hardware.signals import SIGNALS, signal_width

from .observation_terms import OBSERVATION_TERMS

SCHEMA = 2


class ContractError(IsthmusError, ValueError):
    """A contract is inconsistent, or does not fit the robot it is bound to."""


@dataclass(frozen=True, kw_only=True)
class ContractJoint:
    """What training assumed of one joint."""

    name: str
    default_pos: float  # rad
    lower: float  # rad
    upper: float  # rad
    velocity_limit: float  # rad/s
    effort_limit: float  # N m
    kp: float  # N m/rad
    kd: float  # N m s/rad


@dataclass(frozen=True, kw_only=True)
class ObservationTerm:
    """One block of the observation: clip(raw) * scale, with `history` samples, oldest first, filled with the first sample."""

    name: str  # key of OBSERVATION_TERMS
    scale: float
    clip: float | None = None  # in the raw unit
    history: int = 1


@dataclass(frozen=True, kw_only=True)
class JointIncrement:
    """Action space: target = previous executed target + scale * clip(action, -1, 1), kept within `max_lead` of the measured angle."""

    joints: tuple[str, ...]  # the policy drives these; every other joint keeps its executed target
    scale: float  # rad per tick
    max_lead: float  # rad
    kind: Literal["joint-increment"] = "joint-increment"

    @property
    def target(self) -> str:
        """The signal that the action becomes."""
        return "joint_target"


@dataclass(frozen=True, kw_only=True)
class JointPosition:
    """Action space: target = default_pos + scale * clip(action, -clip, clip), within the joint limits."""

    joints: tuple[str, ...]
    scale: float  # rad per unit of action
    clip: float  # of the action
    kind: Literal["joint-position"] = "joint-position"

    @property
    def target(self) -> str:
        """The signal that the action becomes."""
        return "joint_target"


@dataclass(frozen=True, kw_only=True)
class JointEffort:
    """Action space: effort = scale * clip(action, -1, 1)."""

    joints: tuple[str, ...]
    scale: float  # N m or N per unit of action
    kind: Literal["joint-effort"] = "joint-effort"

    @property
    def target(self) -> str:
        """The signal that the action becomes."""
        return "joint_effort_target"


@dataclass(frozen=True, kw_only=True)
class RotorSpeed:
    """Action space: speed = hover + scale * clip(action, -1, 1), within 0 .. max_speed."""

    rotors: tuple[str, ...]
    hover: float  # rad/s
    scale: float  # rad/s per unit of action
    max_speed: float  # rad/s
    kind: Literal["rotor-speed"] = "rotor-speed"

    @property
    def joints(self) -> tuple[str, ...]:
        """What is driven: the rotors."""
        return self.rotors

    @property
    def target(self) -> str:
        """The signal that the action becomes."""
        return "rotor_speed_target"


Action = JointIncrement | JointPosition | JointEffort | RotorSpeed


@dataclass(frozen=True, kw_only=True)
class CommandSpec:
    """A command that somebody gives the policy, with the range it was trained for."""

    signal: str
    workspace: Workspace | None  # m and rad, base frame; of commands that are points for the tip
    low: tuple[float, ...] = ()  # in the signal's unit, one per value; of all other commands
    high: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Contract:
    """Everything between signals and joint targets. Joint order is that of `joints`; robots are bound by name only."""

    schema: int
    task: str
    robot: str
    joints: tuple[ContractJoint, ...]
    period_ns: int
    observation: tuple[ObservationTerm, ...]
    action: Action
    command: CommandSpec
    chain: KinematicChain | None  # to the tip, of robots that reach
    latency_s: tuple[float, float]  # command delay seen in training

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Joints in the order of the graph's tensors."""
        return tuple(joint.name for joint in self.joints)

    @property
    def signals(self) -> tuple[str, ...]:
        """The raw signals that the graph takes, in the registry's order."""
        needed = {self.action.target, self.command.signal}
        needed |= {"joint_pos", "joint_vel"} if self.joints else set()
        needed |= {name for term in self.observation for name in OBSERVATION_TERMS[term.name].signals}
        return tuple(spec.name for spec in SIGNALS if spec.name in needed)

    def reach_chain(self) -> KinematicChain:
        """The chain to the tip; raises ContractError for a policy that does not reach."""
        if self.chain is None:
            raise ContractError(
                f"the contract for {self.task!r} has no chain to a tip: the policy does not reach for points"
            )
        return self.chain

    def signal_width(self, name: str) -> int:
        """Number of values of one of the signals."""
        rotors = len(self.action.rotors) if isinstance(self.action, RotorSpeed) else 0
        return signal_width(name, len(self.joints), rotors)


def term_width(term: ObservationTerm, contract: Contract) -> int:
    """Number of observation values that a term contributes, history included."""
    width = OBSERVATION_TERMS[term.name].width
    named = {
        "driven": len(contract.action.joints),
        "joints": len(contract.joints),
        "command": contract.signal_width(contract.command.signal),
    }
    return (named[width] if isinstance(width, str) else width) * term.history


def observation_width(contract: Contract) -> int:
    """Size of the observation."""
    return sum(term_width(term, contract) for term in contract.observation)


def contract_joints(robot: RobotSpec) -> tuple[ContractJoint, ...]:
    """The robot's joints as a contract records them."""
    return tuple(
        ContractJoint(
            name=j.name,
            default_pos=j.default_pos,
            lower=j.lower,
            upper=j.upper,
            velocity_limit=j.velocity_limit,
            effort_limit=j.effort_limit,
            kp=j.kp,
            kd=j.kd,
        )
        for j in robot.joints
    )


def check_contract(contract: Contract) -> None:
    """Refuse a contract that cannot be computed; raises ContractError saying which value and what is expected."""
    for where, number in _numbers(contract):
        if not math.isfinite(number):
            raise ContractError(f"contract: {where} = {number}; every number must be finite, make the contract again")
    if contract.schema != SCHEMA:
        raise ContractError(f"contract schema {contract.schema} is not supported; this isthmus reads schema {SCHEMA}")
    _check_positive("period_ns", contract.period_ns)
    _check_range("latency_s", *contract.latency_s)
    _check_joints(contract)
    _check_action(contract.action)
    _check_command(contract)
    _check_observation(contract)


def _check_joints(contract: Contract) -> None:
    names, driven = contract.joint_names, contract.action.joints
    for what, given in (("joints", names), ("joints or rotors of the action", driven)):
        repeated = sorted({name for name in given if given.count(name) > 1})
        if repeated:
            raise ContractError(f"contract: {what} {list(given)} hold {repeated} more than once; name each once")
    if not driven:
        raise ContractError("contract: the action drives nothing; name at least one joint or rotor")
    chain = () if contract.chain is None else contract.chain.joint_names
    needed = chain if isinstance(contract.action, RotorSpeed) else (*driven, *chain)
    missing = [name for name in needed if name not in names]
    if missing:
        raise ContractError(
            f"joints {missing} are driven or in the chain but not among the contract's joints {list(names)}"
        )
    for joint in contract.joints:
        _check_range(f"lower, upper of joint {joint.name!r}", joint.lower, joint.upper)


def _check_action(action: Action) -> None:
    _check_positive("action.scale", action.scale)
    if isinstance(action, JointIncrement):
        _check_positive("action.max_lead", action.max_lead)
    if isinstance(action, JointPosition):
        _check_positive("action.clip", action.clip)
    if isinstance(action, RotorSpeed):
        _check_positive("action.hover", action.hover)
        _check_positive("action.max_speed", action.max_speed)
        _check_range("action.hover, action.max_speed", action.hover, action.max_speed)


def _check_observation(contract: Contract) -> None:
    if not contract.observation:
        raise ContractError("contract: observation is empty; give the policy at least one term")
    for term in contract.observation:
        spec = OBSERVATION_TERMS.get(term.name)
        if spec is None:
            raise ContractError(f"unknown observation term {term.name!r}; known: {', '.join(OBSERVATION_TERMS)}")
        where = f"observation term {term.name!r}"
        if term.scale == 0:
            raise ContractError(f"{where}: scale {term.scale} must not be 0")
        if not isinstance(term.history, int) or term.history < 1:
            raise ContractError(f"{where}: history {term.history} must be a whole number of samples, 1 at least")
        if term.clip is not None:
            _check_positive(f"{where}: clip", term.clip)
        if spec.command not in (None, contract.command.signal):
            raise ContractError(f"{where} needs {spec.command}, but the command is {contract.command.signal!r}")
        rotors = isinstance(contract.action, RotorSpeed) and spec.width == "driven"
        if spec.of_joints and (rotors or not contract.joints):
            raise ContractError(f"{where} is of joints, but the action drives rotors or the contract has no joints")
        if term.name in ("tip_error", "tip_rotation") and contract.chain is None:
            raise ContractError(f"{where} needs a chain to the tip; the robot has no tip_site")


def _check_command(contract: Contract) -> None:
    command, known = contract.command, [spec.name for spec in SIGNALS if spec.name.startswith("command.")]
    if command.signal not in known:
        raise ContractError(f"unknown command {command.signal!r}; known: {', '.join(known)}")
    if command.workspace is not None:
        if command.signal != "command.target":
            raise ContractError(
                f"command {command.signal!r} has a workspace, which is for command.target; give low, high"
            )
        for name in ("azimuth", "radius", "height"):
            _check_range(f"command.workspace.{name}", *getattr(command.workspace, name))
        return
    width = contract.signal_width(command.signal)
    if not len(command.low) == len(command.high) == width or any(
        low > high for low, high in zip(command.low, command.high, strict=True)
    ):
        raise ContractError(
            f"command {command.signal!r}: range {command.low} .. {command.high}; expected {width} values each, low <= high"
        )


def _check_positive(where: str, number: float) -> None:
    if number <= 0:
        raise ContractError(f"contract: {where} must be positive, got {number}")


def _check_range(where: str, low: float, high: float) -> None:
    if low > high:
        raise ContractError(f"contract: {where} = {low}, {high}; the first must not be above the second")


def bind(contract: Contract, robot: RobotSpec) -> list[int]:
    """Match the contract's joints to a robot's by name.

    Returns:
        For each joint of the contract its index in the robot's order.

    Raises:
        ContractError: another robot, other joints or rotors, or gains and limits that differ from those of training.
    """
    if contract.robot != robot.name or sorted(contract.joint_names) != sorted(robot.joint_names):
        raise ContractError(
            f"the policy was trained for robot {contract.robot!r} with joints {list(contract.joint_names)}, "
            f"this robot is {robot.name!r} with joints {list(robot.joint_names)}; use a bundle made for it"
        )
    for joint in contract.joints:
        own = robot.joints[robot.joint_names.index(joint.name)]
        for field in ("kp", "kd", "lower", "upper", "default_pos", "velocity_limit", "effort_limit"):
            trained, real = getattr(joint, field), getattr(own, field)
            if not abs(trained - real) <= 1e-9:  # so that NaN differs from everything
                raise ContractError(
                    f"joint {joint.name!r}: the policy was trained with {field} = {trained}, the robot has {real}; "
                    "retrain for this robot or restore its robot.toml"
                )
    _bind_action(contract.action, robot)
    return [robot.joint_names.index(name) for name in contract.joint_names]


def _bind_action(action: Action, robot: RobotSpec) -> None:
    rotors = tuple(rotor.name for rotor in robot.rotors)
    if isinstance(action, RotorSpeed):
        if action.rotors != rotors:
            raise ContractError(
                f"action.rotors: got {list(action.rotors)}, expected those of robot {robot.name!r}, {list(rotors)}, in this order"
            )
        return
    passive = [joint.name for joint in robot.joints if joint.drive == "passive" and joint.name in action.joints]
    if passive:
        moved = [joint.name for joint in robot.joints if joint.drive != "passive"]
        raise ContractError(f"action.joints: got {passive}, which are passive; expected some of {moved}")


def _numbers(value: object, where: str = "") -> Iterator[tuple[str, float]]:
    """Every number below a value with its place, e.g. `joints[2].kp`."""
    if is_dataclass(value):
        for field in fields(value):
            yield from _numbers(getattr(value, field.name), f"{where}.{field.name}".lstrip("."))
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _numbers(item, f"{where}[{index}]")
    elif isinstance(value, (int, float)):
        yield where, value
