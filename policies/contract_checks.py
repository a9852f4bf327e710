"""What a contract must satisfy, so that it can be computed."""

import math
from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from isthmus.hardware.signals import SIGNALS

from .contract import (
    REFERENCE,
    SCHEMA,
    Action,
    Contract,
    ContractError,
    ContractJoint,
    JointIncrement,
    JointIntegral,
    JointPosition,
    ObservationTerm,
    OwnSignal,
    PerJoint,
    RotorSpeed,
    sample_width,
)
from .observation_terms import OBSERVATION_TERMS, TermSpec

LONGEST_LAG = 1000  # ticks; a graph keeps every sample from then to now
WIDEST_SIGNAL = 10_000  # values of an own signal
LONGEST_CHUNK = 1000  # actions
LARGEST = 3.4e38  # about the largest float32, in which all of it is computed
SAME_RAD = 1e-6  # rad or m, what float32 leaves of numbers that are the same
SHORTEST_PERIOD_NS = 1000
LONGEST_LATENCY_S = 1.0


def check_contract(contract: Contract) -> None:
    """Refuse a contract that cannot be computed; raises ContractError saying which value and what is expected."""
    for where, number in _numbers(contract):
        if not math.isfinite(number):
            raise ContractError(f"contract: {where} = {number}; every number must be finite, make the contract again")
        if abs(number) > LARGEST:
            raise ContractError(
                f"contract: {where} = {number}; expected a number that float32 holds, within +-{LARGEST:g}"
            )
    if contract.schema != SCHEMA:
        raise ContractError(f"contract schema {contract.schema} is not supported; this isthmus reads schema {SCHEMA}")
    _check_times(contract)
    for what, name in (
        ("task", contract.task),
        ("robot", contract.robot),
        *(("joint", n) for n in contract.joint_names),
    ):
        if not name.isprintable():
            raise ContractError(
                f"contract: {what} {name!r} has characters that cannot be printed; expected one line of text"
            )
    _check_own_signals(contract.own_signals)
    _check_joints(contract)
    _check_action(contract.action)
    _check_command(contract)
    _check_clock(contract)
    _check_observation(contract)


def _check_times(contract: Contract) -> None:
    period, (least, most) = contract.period_ns, contract.latency_s
    _check_positive("period_ns", period)
    if not isinstance(period, int) or period < SHORTEST_PERIOD_NS:
        raise ContractError(
            f"contract: period_ns = {period}; expected a whole number of ns, {SHORTEST_PERIOD_NS} at least"
        )
    _check_range("latency_s", least, most)
    if not 0.0 <= least <= most <= LONGEST_LATENCY_S:
        raise ContractError(f"contract: latency_s = {least}, {most}; expected s within 0 .. {LONGEST_LATENCY_S:g}")


def _check_joints(contract: Contract) -> None:
    names, driven = contract.joint_names, contract.action.joints
    _check_once("joints", names)
    _check_once("joints or rotors of the action", driven)
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
        _check_pose(joint)
        for field in ("kp", "kd", "velocity_limit", "effort_limit"):
            if getattr(joint, field) < 0:
                raise ContractError(
                    f"contract: {field} of joint {joint.name!r} must not be negative, got {getattr(joint, field)}"
                )


def _check_pose(joint: ContractJoint) -> None:
    """Refuse a default pose outside the limits, by more than the numbers were rounded when they were printed."""
    rounded = dict(joint.rounding)
    lower, upper = (rounded.get(end, 0.0) + rounded.get("default_pos", 0.0) + SAME_RAD for end in ("lower", "upper"))
    if not joint.lower - lower <= joint.default_pos <= joint.upper + upper:
        raise ContractError(
            f"contract: default_pos of joint {joint.name!r} is {joint.default_pos}; expected it within its limits, "
            f"{joint.lower} .. {joint.upper}"
        )


def _check_action(action: Action) -> None:
    driven = len(action.joints)
    _check_each("action.scale", action.scale, driven)
    if 0.0 in _values(action.scale):
        raise ContractError(f"contract: action.scale {action.scale} must not be 0: a joint would never move")
    if action.clip is not None and action.clip_low is None:
        for bound in _values(action.clip):
            _check_positive("action.clip", bound)
    _check_ends("action.clip_low, action.clip", action.clip_low, action.clip, driven)
    if not 0.0 < action.smoothing <= 1.0:
        raise ContractError(f"contract: action.smoothing must be above 0 and at most 1, got {action.smoothing}")
    if not isinstance(action.chunk, int) or not 1 <= action.chunk <= LONGEST_CHUNK:
        raise ContractError(
            f"contract: action.chunk must be a whole number of actions, 1 .. {LONGEST_CHUNK}, got {action.chunk}"
        )
    if isinstance(action, (JointPosition, JointIntegral)) and action.offset is not None:
        _check_each("action.offset", action.offset, driven)
    if isinstance(action, JointPosition):
        _check_ends("action.lowest, action.highest", action.lowest, action.highest, driven)
    if isinstance(action, JointIncrement):
        _check_positive("action.max_lead", action.max_lead)
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
        _check_term(term, spec, contract)
    lags = {term.lags for term in contract.observation}
    if contract.layout == "time" and len(lags) > 1:
        raise ContractError(f'contract: with layout "time" every term needs the same lags, got {sorted(lags)}')


def _check_term(term: ObservationTerm, spec: TermSpec, contract: Contract) -> None:
    where = f"observation term {term.name!r}"
    _check_source(where, term, spec, contract)
    width = sample_width(term, contract)
    if width == 0:
        raise ContractError(f"{where} has no values; leave it out, or give what it is of")
    _check_each(f"{where}: scale", term.scale, width)
    _check_not_zero(f"{where}: scale", term.scale)
    _check_each(f"{where}: offset", term.offset, width)
    lags = term.lags
    if not lags or not all(isinstance(lag, int) and 0 <= lag <= LONGEST_LAG for lag in lags):
        raise ContractError(f"{where}: lags {lags} must be whole numbers of ticks, 0 .. {LONGEST_LAG}, one at least")
    if isinstance(term.clip, tuple):
        low, high = term.clip
        if not low < high:
            raise ContractError(f"contract: {where}: clip = {low}, {high}; the first must be below the second")
    elif term.clip is not None:
        _check_positive(f"{where}: clip", term.clip)


def _check_source(where: str, term: ObservationTerm, spec: TermSpec, contract: Contract) -> None:
    """What a term is of: present, and given where it is needed and only there."""
    command = None if contract.command is None else contract.command.signal
    if spec.command not in (None, command):
        raise ContractError(f"{where} needs {spec.command}, but the command is {command!r}")
    if spec.width == "command" and command is None:
        raise ContractError(f"{where} needs a command; the contract has none")
    rotors = isinstance(contract.action, RotorSpeed) and spec.width == "each"
    if spec.of_joints and ((rotors and term.joints is None) or not contract.joints):
        raise ContractError(f"{where} is of joints, but the action drives rotors or the contract has no joints")
    if term.name in ("tip_error", "tip_rotation") and contract.chain is None:
        raise ContractError(f"{where} needs a chain to the tip; the robot has no tip_site")
    if spec.width == "clock" and contract.clock is None:
        raise ContractError(f"{where} needs contract.clock; give its frequency and where each phase starts")
    for field, wanted in (
        ("joints", spec.width == "each"),
        ("signal", term.name == "signal"),
        ("index", term.name == "signal"),
        ("values", term.name == "constant"),
    ):
        if getattr(term, field) is not None and not wanted:
            raise ContractError(f"{where}: {field} is not for this term; leave it out")
    if term.joints is not None:
        _check_once(f"{where}: joints", term.joints)
        known = contract.action.joints if term.name.startswith("last_action") else contract.joint_names
        if missing := [name for name in term.joints if name not in known]:
            raise ContractError(f"{where}: joints {missing} are not among {list(known)}")
    if term.name == "signal":
        _check_signal(where, term, contract)


def _check_signal(where: str, term: ObservationTerm, contract: Contract) -> None:
    known = [spec.name for spec in (*SIGNALS, *contract.own_signals)]
    if term.signal not in known:
        raise ContractError(f"{where}: signal is {term.signal!r}, expected one of {', '.join(known)}")
    width = contract.signal_width(term.signal)
    if term.index is not None and not all(0 <= i < width for i in term.index):
        raise ContractError(f"{where}: index {term.index} must lie in 0 .. {width - 1}, the values of {term.signal!r}")


def _check_own_signals(own: tuple[OwnSignal, ...]) -> None:
    known = [spec.name for spec in SIGNALS]
    _check_once("own_signals", tuple(spec.name for spec in own))
    for spec in own:
        if (
            spec.name in known
            or not spec.name.startswith(("command.", "sensor.", REFERENCE))
            or not spec.name.split(".", 1)[1]
        ):
            raise ContractError(
                f"contract: own signal {spec.name!r} must be named command.<what>, sensor.<what> or reference.<what>, and unlike those"
                f" known: {', '.join(known)}"
            )
        if unknown := [name for name in spec.needs if name not in known]:
            raise ContractError(f"contract: own signal {spec.name!r} needs {unknown}; known: {', '.join(known)}")
        if not isinstance(spec.width, int) or not 1 <= spec.width <= WIDEST_SIGNAL:
            raise ContractError(
                f"contract: own signal {spec.name!r}: width must be 1 .. {WIDEST_SIGNAL}, got {spec.width}"
            )


def _check_command(contract: Contract) -> None:
    command = contract.command
    if command is None:
        return
    known = [spec.name for spec in (*SIGNALS, *contract.own_signals) if spec.name.startswith("command.")]
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


def _check_clock(contract: Contract) -> None:
    clock = contract.clock
    if clock is None:
        return
    _check_positive("clock.frequency", clock.frequency)
    if not clock.start:
        raise ContractError("contract: clock.start is empty; give each phase at an episode's first tick, in cycles")
    if not all(0.0 <= start <= 1.0 for start in clock.start):
        raise ContractError(f"contract: clock.start = {list(clock.start)}; expected cycles within 0 .. 1")
    if clock.still_below is None:
        return
    if contract.command is None:
        raise ContractError("contract: clock.still_below needs a command; the contract has none")
    width = contract.signal_width(contract.command.signal)
    if not clock.still_parts or not all(0 <= i < width for part in clock.still_parts for i in part):
        raise ContractError(
            f"contract: clock.still_parts {clock.still_parts} must name values 0 .. {width - 1} of the command"
        )
    for name in ("still", "restart"):
        if len(getattr(clock, name)) != len(clock.start):
            raise ContractError(f"contract: clock.{name} needs one number for each phase, {len(clock.start)}")


def _check_each(where: str, numbers: float | tuple[float, ...], count: int) -> None:
    if isinstance(numbers, tuple) and len(numbers) != count:
        raise ContractError(
            f"contract: {where} has {len(numbers)} numbers; expected one for all, or one for each, {count}"
        )


def _check_ends(where: str, low: PerJoint | None, high: PerJoint | None, count: int) -> None:
    """Lowest and highest: only together, one below the other; the highest may be alone."""
    if high is None and low is not None:
        raise ContractError(f"contract: {where}: the first is given, the second is missing; give both or none")
    for name, given in zip(where.split(", "), (low, high), strict=True):
        if given is not None:
            _check_each(name, given, count)
    if low is not None and high is not None:
        for index in range(count):
            pair = [ends[index % len(ends)] for ends in (_values(low), _values(high))]
            _check_range(where, *pair)


def _check_not_zero(where: str, numbers: float | tuple[float, ...]) -> None:
    if not any(_values(numbers)):
        raise ContractError(f"contract: {where} {numbers} must not be 0")


def _check_once(what: str, given: tuple[str, ...]) -> None:
    repeated = sorted({name for name in given if given.count(name) > 1})
    if repeated:
        raise ContractError(f"contract: {what} {list(given)} hold {repeated} more than once; name each once")


def _check_positive(where: str, number: float) -> None:
    if number <= 0:
        raise ContractError(f"contract: {where} must be positive, got {number}")


def _check_range(where: str, low: float, high: float) -> None:
    if low > high:
        raise ContractError(f"contract: {where} = {low}, {high}; the first must not be above the second")


def _values(numbers: float | tuple[float, ...]) -> tuple[float, ...]:
    return numbers if isinstance(numbers, tuple) else (numbers,)


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
