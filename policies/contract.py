"""What a policy sees and does, as data: raw signals -> observation, network action -> targets.

The contract is compiled to one plan of numbers (`plan.py`), which torch follows in training (`learning/graph.py`) and from which the
deployed graph is made (`onnx_graph.py`): it takes raw signals and returns targets. Golden rows, made by the one, check the other.
"""

from dataclasses import dataclass
from typing import Literal

from isthmus.hardware.errors import IsthmusError
from isthmus.hardware.kinematics import KinematicChain
from isthmus.hardware.robot import RobotSpec, Workspace
from isthmus.hardware.signals import SIGNALS, signal_width

from .actions import (
    Action,
    JointEffort,
    JointIncrement,
    JointIntegral,
    JointPosition,
    JointVelocity,
    PerJoint,
    RotorSpeed,
)
from .observation_terms import OBSERVATION_TERMS

SCHEMA = 3
REFERENCE = "reference."  # begins the names of own signals that the graph computes, such as a motion to follow


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
    rounding: tuple[tuple[str, float], ...] = ()  # (field, half a unit in its last printed place), of imported numbers


@dataclass(frozen=True, kw_only=True)
class ObservationTerm:
    """One block of the observation: scale * clip(raw - offset), at each of its lags.

    A block of lags (4, 3, 2, 1, 0) is a history of five, oldest first; (0, 1, 2) one of three, newest first; (2,) is two ticks late.
    """

    name: str  # key of OBSERVATION_TERMS
    scale: float | tuple[float, ...]  # one for all, or one for each value
    offset: float | tuple[float, ...] = 0.0  # in the raw unit, likewise
    clip: float | tuple[float, float] | None = None  # in the raw unit; either way, or lowest and highest
    clip_scaled: bool = False  # clip after scaling, in the scaled unit
    lags: tuple[int, ...] = (0,)  # ticks ago, in the order in which the network sees them
    fill: Literal["first", "zero"] = "first"  # what stands for samples from before an episode: its first, or 0
    joints: tuple[str, ...] | None = None  # of terms that are of each joint; None: the driven ones
    signal: str | None = None  # of the term "signal"
    index: tuple[int, ...] | None = None  # which of its values; None: all
    values: tuple[float, ...] | None = None  # of the term "constant"


def history(samples: int) -> tuple[int, ...]:
    """Lags of a history of so many samples, oldest first."""
    return tuple(range(samples - 1, -1, -1))


@dataclass(frozen=True, kw_only=True)
class PhaseClock:
    """Phases that pass with time: start + ticks * frequency * period, modulo 1.

    While the command is small they stand at `still`, and go on from `restart` at the first tick after that.
    """

    frequency: float  # Hz
    start: tuple[float, ...]  # cycles; each phase at an episode's first tick
    still_below: float | None = None  # length below which a part of the command is small; None: it never stands
    still_parts: tuple[tuple[int, ...], ...] = ()  # values of the command that belong together; all parts must be small
    still: tuple[float, ...] = ()  # cycles, one for each phase
    restart: tuple[float, ...] = ()  # cycles, one for each phase


@dataclass(frozen=True, kw_only=True)
class CommandSpec:
    """A command that somebody gives the policy, with the range it was trained for."""

    signal: str
    workspace: Workspace | None  # m and rad, base frame; of commands that are points for the tip
    low: tuple[float, ...] = ()  # in the signal's unit, one per value; of all other commands
    high: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class OwnSignal:
    """A signal that the registry does not know: a robot or a person provides it, or the graph itself computes a "reference.<what>"."""

    name: str  # "command.<what>", "sensor.<what>" or "reference.<what>"
    width: int
    unit: str
    description: str
    needs: tuple[str, ...] = ()  # of a "reference.<what>": the registry's signals that it is computed from


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
    command: CommandSpec | None
    chain: KinematicChain | None  # to the tip, of robots that reach
    latency_s: tuple[float, float]  # command delay seen in training
    layout: Literal["term", "time"] = "term"  # all lags of a term together, or all terms of a lag
    clock: PhaseClock | None = None
    own_signals: tuple[OwnSignal, ...] = ()

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Joints in the order of the graph's tensors."""
        return tuple(joint.name for joint in self.joints)

    @property
    def signals(self) -> tuple[str, ...]:
        """The raw signals that the graph takes: the registry's in its order, then the contract's own."""
        needed = {self.action.target} | (set() if self.command is None else {self.command.signal})
        needed |= {"joint_pos", "joint_vel"} if self.joints else set()
        for term in self.observation:
            needed |= {*OBSERVATION_TERMS[term.name].signals, *(() if term.signal is None else (term.signal,))}
        needed |= {name for spec in self.own_signals for name in spec.needs}
        own = (spec.name for spec in self.own_signals if not spec.name.startswith(REFERENCE))
        return (*(spec.name for spec in SIGNALS if spec.name in needed), *own)

    def reach_chain(self) -> KinematicChain:
        """The chain to the tip; raises ContractError for a policy that does not reach."""
        if self.chain is None:
            raise ContractError(
                f"the contract for {self.task!r} has no chain to a tip: the policy does not reach for points"
            )
        return self.chain

    def need_command(self) -> CommandSpec:
        """The command; raises ContractError for a policy that takes none."""
        if self.command is None:
            raise ContractError(f"the contract for {self.task!r} has no command")
        return self.command

    def signal_width(self, name: str) -> int:
        """Number of values of one of the signals."""
        for own in self.own_signals:
            if own.name == name:
                return own.width
        rotors = len(self.action.rotors) if isinstance(self.action, RotorSpeed) else 0
        return signal_width(name, len(self.joints), rotors)


def sample_width(term: ObservationTerm, contract: Contract) -> int:
    """Number of values of one sample of a term."""
    width = OBSERVATION_TERMS[term.name].width
    if width == "each":
        return len(contract.action.joints if term.joints is None else term.joints)
    if width == "joints":
        return len(contract.joints)
    if width == "command":
        return contract.signal_width(contract.need_command().signal)
    if width == "clock":
        return 0 if contract.clock is None else len(contract.clock.start)
    if width == "own" and term.name == "constant":
        return len(term.values or ())
    if width == "own":
        return contract.signal_width(term.signal or "") if term.index is None else len(term.index)
    return int(width)


def term_width(term: ObservationTerm, contract: Contract) -> int:
    """Number of observation values that a term contributes, all lags included."""
    return sample_width(term, contract) * len(term.lags)


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
            if not abs(trained - real) <= max(
                1e-9, dict(joint.rounding).get(field, 0.0)
            ):  # so that NaN differs from everything
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


__all__ = [
    "SCHEMA", "Action", "CommandSpec", "Contract", "ContractError", "ContractJoint", "JointEffort", "JointIncrement", "JointIntegral",
    "JointPosition", "JointVelocity", "ObservationTerm", "OwnSignal", "PerJoint", "PhaseClock", "RotorSpeed", "bind",
    "contract_joints", "history", "observation_width", "sample_width", "term_width",
]  # fmt: skip
