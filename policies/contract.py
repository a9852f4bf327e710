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


@dataclass(frozen=True, kw_only=True)
class TermSpec:
    """An observation term before history, scale and clip; `learning/graph.py` computes each in torch."""

    width: int | Literal["driven", "joints", "command"]  # number of values; driven: one for each driven joint or rotor
    unit: str
    signals: tuple[str, ...]  # beside the command
    description: str


OBSERVATION_TERMS: dict[str, TermSpec] = {
    "joint_pos": TermSpec(
        width="driven", unit="rad", signals=("joint_pos",), description="joint_pos - default_pos of the driven joints"
    ),
    "joint_vel": TermSpec(
        width="driven", unit="rad/s", signals=("joint_vel",), description="joint_vel of the driven joints"
    ),
    "all_joint_pos": TermSpec(
        width="joints", unit="rad or m", signals=("joint_pos",), description="joint_pos - default_pos of every joint"
    ),
    "all_joint_vel": TermSpec(
        width="joints", unit="rad/s or m/s", signals=("joint_vel",), description="joint_vel of every joint"
    ),
    "joint_lead": TermSpec(
        width="driven", unit="rad", signals=("joint_pos", "joint_target"), description="joint_target - joint_pos"
    ),
    "last_action": TermSpec(width="driven", unit="1", signals=(), description="the network's previous action, clipped"),
    "gyro": TermSpec(width=3, unit="rad/s", signals=("gyro",), description="angular velocity, body frame"),
    "gravity": TermSpec(width=3, unit="1", signals=("gravity",), description="direction of gravity, body frame"),
    "base_lin_vel": TermSpec(
        width=3, unit="m/s", signals=("base_lin_vel",), description="linear velocity of the base, body frame"
    ),
    "base_rotation": TermSpec(
        width=9, unit="1", signals=("base_quat",), description="rotation matrix body -> world, row by row"
    ),
    "base_pos_error": TermSpec(
        width=3, unit="m", signals=("base_pos",), description="command.position - base_pos, world frame"
    ),
    "command": TermSpec(width="command", unit="of the command", signals=(), description="the command itself"),
    "tip_error": TermSpec(
        width=3,
        unit="m",
        signals=("joint_pos",),
        description="command.target - tip(joint_pos), in the frame of the first joint's link",
    ),
    "tip_rotation": TermSpec(
        width=9,
        unit="1",
        signals=("joint_pos",),
        description="rotation matrix of the chain's last link -> base frame, row by row",
    ),
    "target": TermSpec(width=3, unit="m", signals=(), description="command.target in the base frame"),
}


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
    names = contract.joint_names
    if contract.schema != SCHEMA:
        raise ContractError(f"contract schema {contract.schema} is not supported; this isthmus reads schema {SCHEMA}")
    for term in contract.observation:
        if term.name not in OBSERVATION_TERMS:
            raise ContractError(f"unknown observation term {term.name!r}; known: {', '.join(OBSERVATION_TERMS)}")
        if term.scale == 0 or term.history < 1:
            raise ContractError(
                f"observation term {term.name!r}: scale {term.scale} and history {term.history} must not be 0"
            )
    driven = () if isinstance(contract.action, RotorSpeed) else contract.action.joints
    chain = () if contract.chain is None else contract.chain.joint_names
    missing = [name for name in (*driven, *chain) if name not in names]
    if missing:
        raise ContractError(
            f"joints {missing} are driven or in the chain but not among the contract's joints {list(names)}"
        )
    if contract.period_ns <= 0 or contract.action.scale <= 0:
        raise ContractError("period_ns and action.scale must be positive")
    if isinstance(contract.action, JointIncrement) and contract.action.max_lead <= 0:
        raise ContractError("action.max_lead must be positive")
    _check_command(contract)


def _check_command(contract: Contract) -> None:
    command = contract.command
    if command.workspace is None:
        width = contract.signal_width(command.signal)
        if not len(command.low) == len(command.high) == width or any(
            low > high for low, high in zip(command.low, command.high, strict=True)
        ):
            raise ContractError(
                f"command {command.signal!r}: range {command.low} .. {command.high}; expected {width} values each, low <= high"
            )
    if contract.chain is None and any(term.name in ("tip_error", "tip_rotation") for term in contract.observation):
        raise ContractError("observation terms of the tip need a chain to the tip; the robot has no tip_site")


def bind(contract: Contract, robot: RobotSpec) -> list[int]:
    """Match the contract's joints to a robot's by name.

    Returns:
        For each joint of the contract its index in the robot's order.

    Raises:
        ContractError: another robot, other joints, or gains and limits that differ from those of training.
    """
    if contract.robot != robot.name or set(contract.joint_names) != set(robot.joint_names):
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
    return [robot.joint_names.index(name) for name in contract.joint_names]


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
