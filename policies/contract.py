"""What a policy sees and does, as data: raw signals -> observation, network action -> joint targets.

The contract is compiled to a torch module for training (`learning/graph.py`) and exported with the network, so that the deployed
graph takes raw signals and returns joint targets in rad: there is no second implementation of it.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass

from isthmus.hardware.errors import IsthmusError
from isthmus.hardware.kinematics import KinematicChain
from isthmus.hardware.robot import RobotSpec, Workspace

SCHEMA = 1


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


@dataclass(frozen=True, kw_only=True)
class CommandSpec:
    """A command that somebody gives the policy, with the range it was trained for."""

    signal: str
    workspace: Workspace  # m and rad, base frame


@dataclass(frozen=True, kw_only=True)
class Contract:
    """Everything between signals and joint targets. Joint order is that of `joints`; robots are bound by name only."""

    schema: int
    task: str
    robot: str
    joints: tuple[ContractJoint, ...]
    period_ns: int
    observation: tuple[ObservationTerm, ...]
    action: JointIncrement
    command: CommandSpec
    chain: KinematicChain
    latency_s: tuple[float, float]  # command delay seen in training

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Joints in the order of the graph's tensors."""
        return tuple(joint.name for joint in self.joints)


# The raw terms and their width as a function of (all joints, driven joints); learning/graph.py computes each in torch.
OBSERVATION_TERMS: dict[str, str] = {
    "joint_pos": "driven",  # joint_pos - default_pos, rad
    "joint_vel": "driven",  # rad/s
    "joint_lead": "driven",  # joint_target - joint_pos, rad
    "tip_error": "3",  # command.target - tip(joint_pos), in the frame of the first joint's link, m
    "target": "3",  # command.target in the base frame, m
}


def term_width(term: ObservationTerm, contract: Contract) -> int:
    """Number of observation values that a term contributes, history included."""
    width = OBSERVATION_TERMS[term.name]
    return (len(contract.action.joints) if width == "driven" else int(width)) * term.history


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
    missing = [name for name in (*contract.action.joints, *contract.chain.joint_names) if name not in names]
    if missing:
        raise ContractError(
            f"joints {missing} are driven or in the chain but not among the contract's joints {list(names)}"
        )
    if contract.period_ns <= 0 or contract.action.scale <= 0 or contract.action.max_lead <= 0:
        raise ContractError("period_ns, action.scale and action.max_lead must be positive")


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
