"""What stands between a command and the torque at a joint, as data: motor, friction, gear play, or a learned network."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from .structure import FormatError

# One number per joint in robot order, or a single number for all of them. SI units; for a slide read N for N m, m for rad.
Numbers = tuple[float, ...]

Law = Literal["pd", "dc_motor", "net"]


@dataclass(frozen=True, kw_only=True)
class MotorSpec:
    """Torque-speed line of a DC motor at the joint, gears included."""

    stall_effort: Numbers  # N m at full voltage and zero speed
    no_load_speed: Numbers  # rad/s at full voltage and zero torque


@dataclass(frozen=True, kw_only=True)
class FrictionSpec:
    """Friction that the model.xml does not have: there, frictionloss and damping of these joints are then to be zero.

    Level M1 of the BAM friction models has the first two terms, M2 the Stribeck pair as well, M3 `load`, M4 all. Zero is a term left out.
    """

    coulomb: Numbers  # N m
    viscous: Numbers  # N m s/rad
    inertia: (
        Numbers  # kg m^2 that friction has to stop; the reflected rotor inertia, or more if the joint surely has more
    )
    stribeck: Numbers = (0.0,)  # N m on top of coulomb at rest
    stribeck_speed: Numbers = (1.0,)  # rad/s over which that fades
    stribeck_exponent: Numbers = (1.0,)
    load: Numbers = (0.0,)  # per N m of torque through the gears
    load_stribeck: Numbers = (0.0,)  # the same, on top at rest


@dataclass(frozen=True, kw_only=True)
class PlaySpec:
    """Gear play."""

    width: Numbers  # rad from one flank to the other, at the joint
    crossing_speed: Numbers  # rad/s of the motor against the joint in the gap when it pushes with all its torque


@dataclass(frozen=True, kw_only=True)
class NetSpec:
    """A network from the history of position error and velocity to torque; the same for all joints."""

    file: str  # ONNX, beside robot.toml
    interval: float  # s between the samples of its history


@dataclass(frozen=True, kw_only=True)
class ActuatorSpec:
    """The actuators of a robot; kp, kd and effort_limit are the joints' own."""

    law: Law = "pd"
    motor: MotorSpec | None = None  # with law "dc_motor"
    net: NetSpec | None = None  # with law "net"
    friction: FrictionSpec | None = None
    play: PlaySpec | None = None


_POSITIVE = ("stall_effort", "no_load_speed", "inertia", "stribeck_speed", "stribeck_exponent", "crossing_speed")


def per_joint(values: Numbers, num_joints: int) -> Numbers:
    """A number for each of the joints."""
    return values * num_joints if len(values) == 1 else values


def check_actuator(spec: ActuatorSpec, num_joints: int, where: str) -> None:
    """Refuse actuators that cannot be.

    Args:
        spec: what a file says.
        num_joints: joints of the robot.
        where: file and table, for the error text.

    Raises:
        FormatError: names table, key, value and what is expected.
    """
    for law, table in (("dc_motor", "motor"), ("net", "net")):
        if (spec.law == law) != (getattr(spec, table) is not None):
            raise FormatError(f'{where}: law = "{spec.law}"; law "{law}" and a table [actuator.{table}] go together')
    for table in ("motor", "friction", "play"):
        part = getattr(spec, table)
        for key, values in {} if part is None else vars(part).items():
            _check_numbers(values, num_joints, f"{where}: {table}.{key}", positive=key in _POSITIVE)
    if spec.net is not None and not (math.isfinite(spec.net.interval) and spec.net.interval > 0):
        raise FormatError(f"{where}: net.interval = {spec.net.interval}; expected a positive number of seconds")


def resolve_actuator(spec: ActuatorSpec, num_joints: int, path: Path) -> ActuatorSpec:
    """The checked [actuator] table of a robot.toml, with the network's file as a path that can be opened.

    Args:
        spec: the table.
        num_joints: joints of the robot.
        path: the robot.toml.

    Raises:
        FormatError: as check_actuator, or the network's file is not there.
    """
    check_actuator(spec, num_joints, f"{path}: [actuator]")
    if spec.net is None:
        return spec
    file = path.parent / spec.net.file
    if not file.is_file():
        raise FormatError(f"{path}: [actuator] net.file = {spec.net.file!r}; {file} does not exist")
    return replace(spec, net=replace(spec.net, file=str(file)))


def _check_numbers(values: Numbers, num_joints: int, where: str, *, positive: bool) -> None:
    if len(values) not in (1, num_joints):
        raise FormatError(f"{where} has {len(values)} numbers; expected one, or one for each of {num_joints} joints")
    for value in values:
        if not math.isfinite(value) or value < 0 or (positive and value == 0):
            kind = "positive" if positive else "non-negative"
            raise FormatError(f"{where} = {list(values)}; expected {kind} numbers")
