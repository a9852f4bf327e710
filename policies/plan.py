"""A contract as plain numbers: which values to pick, what to subtract, clip and multiply, which samples of the past to show.

Whoever computes a contract follows this plan: torch in training, the ONNX graph on the robot. What a term means is decided here once.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from .contract import (
    Contract,
    ContractJoint,
    JointEffort,
    JointIntegral,
    JointPosition,
    JointVelocity,
    ObservationTerm,
    PerJoint,
    RotorSpeed,
    sample_width,
)
from .contract_checks import check_contract

# States that a contract's graph keeps beside the network's own; all are zero at reset.
STARTED, HISTORY, TICKS = "started", "history", "ticks"
CLOCK, STANDING, RESTARTED = "clock", "standing", "restarted"
LAST_ACTION, LAST_ACTION_RAW = "last_action", "last_action_raw"
SMOOTHED, INTEGRAL, CHUNK, CHUNK_LEFT = "smoothed", "integral", "chunk", "chunk_left"

LONGEST_CYCLE = 100_000  # ticks of a clock that are counted
EXACT = 2**24  # whole numbers below it are float32 as they are


@dataclass(frozen=True, kw_only=True, eq=False)
class Block:
    """Where a term's sample comes from: columns of a signal, of a state, or of something computed from them."""

    source: str  # a signal, "state.<name>", or the name of a term that is computed
    columns: tuple[int, ...]  # of it, in order
    constant: tuple[float, ...] = ()  # instead of a source


@dataclass(frozen=True, kw_only=True, eq=False)
class ObservationPlan:
    """sample = clip(raw - offset, lower, upper) * scale; observation = [history, sample] picked by `pick`.

    A sample has S values, one for each value of each term now; of K of them earlier samples are kept, F - 1 each, oldest first.
    """

    blocks: tuple[Block, ...]
    offset: np.ndarray  # (S,)
    lower: np.ndarray  # (S,), -inf where nothing is clipped
    upper: np.ndarray  # (S,)
    scale: np.ndarray  # (S,)
    frames: int  # F; 1 without any past
    kept: np.ndarray  # (K,) int64, places in the sample
    zero_filled: np.ndarray  # (K,) bool, which are 0 before an episode; the others are as its first sample
    pick: np.ndarray  # (d,) int64, places in [history ((F - 1) K), sample (S)]

    @property
    def history_width(self) -> int:
        """Size of the state "history"."""
        return (self.frames - 1) * len(self.kept)

    @property
    def pick_all(self) -> np.ndarray:
        """`pick`, and after it the places of the next history, (d + (F - 1) K,)."""
        before, now = np.arange(len(self.kept), self.history_width), self.history_width + self.kept
        return np.concatenate([self.pick, before, now])

    @property
    def in_order(self) -> bool:
        """Whether the observation is the sample as it is."""
        return len(self.pick) == len(self.scale) and bool((self.pick == np.arange(len(self.pick))).all())


@dataclass(frozen=True, kw_only=True, eq=False)
class ActionPlan:
    """u = scale * smooth(clip(action)), of the A driven joints or rotors; see actions.py for what u becomes."""

    clip_low: np.ndarray  # (A,), -inf where nothing is clipped
    clip_high: np.ndarray  # (A,)
    scale: np.ndarray  # (A,)
    offset: np.ndarray  # (A,) of positions rad, of rotors rad/s, else 0
    lower: np.ndarray  # (A,) of the target, -inf where it is not limited
    upper: np.ndarray  # (A,)
    driven: tuple[int, ...]  # places of the driven joints among the contract's
    scatter: (
        np.ndarray
    )  # (n,) int64, places in [targets of the driven (A,), what all would have if none were driven (n,)]
    others: np.ndarray | None  # (n,) what those that are not driven get; None: their executed target

    @property
    def drives_all(self) -> bool:
        """Whether every joint is driven, in order."""
        return self.driven == tuple(range(len(self.scatter)))


@lru_cache(maxsize=64)
def observation_plan(contract: Contract) -> ObservationPlan:
    """The plan of a contract's observation; raises ContractError for one that cannot be computed."""
    check_contract(contract)
    terms = contract.observation
    widths = [sample_width(term, contract) for term in terms]
    starts = np.cumsum([0, *widths])[:-1]
    frames = 1 + max(max(term.lags) for term in terms)
    past = [max(term.lags) > 0 for term in terms]
    kept = _joined([np.arange(s, s + w) for s, w, p in zip(starts, widths, past, strict=True) if p], np.int64)
    zero = _joined([np.full(w, t.fill == "zero") for t, w, p in zip(terms, widths, past, strict=True) if p], bool)
    lower, upper = zip(*(_bounds(term, width) for term, width in zip(terms, widths, strict=True)), strict=True)
    return ObservationPlan(
        blocks=tuple(_block(term, contract) for term in terms),
        offset=np.concatenate([_offset(term, width, contract) for term, width in zip(terms, widths, strict=True)]),
        lower=np.concatenate(lower),
        upper=np.concatenate(upper),
        scale=np.concatenate([_each(term.scale, width) for term, width in zip(terms, widths, strict=True)]),
        frames=frames,
        kept=kept,
        zero_filled=zero,
        pick=_pick(contract, widths, kept, frames),
    )


def _pick(contract: Contract, widths: list[int], kept: np.ndarray, frames: int) -> np.ndarray:
    """Places of the observation's values in [history, sample], by term or by time."""
    place = {int(value): index for index, value in enumerate(kept)}
    starts = np.cumsum([0, *widths])[:-1]

    def at(index: int, lag: int) -> list[int]:
        own = range(starts[index], starts[index] + widths[index])
        if lag == 0:
            return [(frames - 1) * len(kept) + value for value in own]
        return [(frames - 1 - lag) * len(kept) + place[value] for value in own]

    terms = contract.observation
    if contract.layout == "time":
        order = [(index, lag) for lag in terms[0].lags for index in range(len(terms))]
    else:
        order = [(index, lag) for index, term in enumerate(terms) for lag in term.lags]
    return np.array([value for index, lag in order for value in at(index, lag)], dtype=np.int64)


def _block(term: ObservationTerm, contract: Contract) -> Block:
    names, driven = contract.joint_names, contract.action.joints
    of_joints = driven if term.joints is None else term.joints
    width = sample_width(term, contract)
    whole = tuple(range(width))
    if term.name == "constant":
        return Block(source="", columns=(), constant=term.values or ())
    if term.name in (LAST_ACTION, LAST_ACTION_RAW):
        return Block(source=f"state.{term.name}", columns=tuple(driven.index(name) for name in of_joints))
    if term.name in ("joint_pos", "joint_pos_abs", "joint_vel", "joint_target", "joint_target_offset", "joint_lead"):
        source = {"joint_pos_abs": "joint_pos", "joint_target_offset": "joint_target"}.get(term.name, term.name)
        return Block(source=source, columns=tuple(names.index(name) for name in of_joints))
    if term.name in ("command", "target"):
        return Block(source=contract.need_command().signal, columns=whole)
    if term.name == "signal":
        return Block(source=term.signal or "", columns=whole if term.index is None else term.index)
    direct = {"all_joint_pos": "joint_pos", "all_joint_vel": "joint_vel"}
    return Block(source=direct.get(term.name, term.name), columns=whole)


def _offset(term: ObservationTerm, width: int, contract: Contract) -> np.ndarray:
    given = _each(term.offset, width)
    if term.name not in ("joint_pos", "joint_target_offset", "all_joint_pos"):
        return given
    default = {joint.name: joint.default_pos for joint in contract.joints}
    of_joints = contract.action.joints if term.joints is None else term.joints
    names = contract.joint_names if term.name == "all_joint_pos" else of_joints
    return given + np.array([default[name] for name in names])


def _bounds(term: ObservationTerm, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Clip bounds before scaling, whichever comes first."""
    if term.clip is None:
        return np.full(width, -math.inf), np.full(width, math.inf)
    low, high = term.clip if isinstance(term.clip, tuple) else (-term.clip, term.clip)
    if not term.clip_scaled:
        return np.full(width, low), np.full(width, high)
    ends = np.stack([low / _each(term.scale, width), high / _each(term.scale, width)])
    return ends.min(0), ends.max(0)


@lru_cache(maxsize=64)
def action_plan(contract: Contract) -> ActionPlan:
    """The plan of a contract's action; raises ContractError for one that cannot be computed."""
    check_contract(contract)
    rule, names = contract.action, contract.joint_names
    count = len(rule.joints)
    rotors = isinstance(rule, RotorSpeed)
    driven = tuple(range(count)) if rotors else tuple(names.index(name) for name in rule.joints)
    joints = [] if rotors else [contract.joints[place] for place in driven]
    offset, (lower, upper) = np.zeros(count), _target_bounds(contract, joints)
    if isinstance(rule, RotorSpeed):
        offset = np.full(count, rule.hover)
    if isinstance(rule, (JointPosition, JointIntegral)):
        default = np.array([joint.default_pos for joint in joints])
        offset = default if rule.offset is None else _each(rule.offset, count)
    total = count if rotors else len(names)
    scatter = np.arange(total) + count
    scatter[list(driven)] = np.arange(count)
    clip = np.full(count, math.inf) if rule.clip is None else _each(rule.clip, count)
    return ActionPlan(
        clip_low=-clip if rule.clip_low is None else _each(rule.clip_low, count),
        clip_high=clip,
        scale=_each(rule.scale, count),
        offset=offset,
        lower=lower,
        upper=upper,
        driven=driven,
        scatter=scatter,
        others=_others(contract),
    )


def _target_bounds(contract: Contract, joints: list[ContractJoint]) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest target of each driven joint or rotor."""
    rule, count = contract.action, len(contract.action.joints)
    if isinstance(rule, RotorSpeed):
        return np.zeros(count), np.full(count, rule.max_speed)
    if isinstance(rule, JointVelocity):
        limit = np.array([joint.velocity_limit for joint in joints])
        return -limit, limit
    if isinstance(rule, JointPosition) and rule.highest is not None:
        return _each(-math.inf if rule.lowest is None else rule.lowest, count), _each(rule.highest, count)
    if isinstance(rule, JointEffort) or (isinstance(rule, JointPosition) and not rule.limited):
        return np.full(count, -math.inf), np.full(count, math.inf)
    return np.array([joint.lower for joint in joints]), np.array([joint.upper for joint in joints])


def _others(contract: Contract) -> np.ndarray | None:
    """What joints that are not driven get, (n,); None: the target that was executed."""
    rule = contract.action
    if isinstance(rule, JointPosition) and rule.others == "default":
        return np.array([joint.default_pos for joint in contract.joints])
    return None if rule.target == "joint_target" else np.zeros(len(contract.joints))


def clock_cycle(contract: Contract) -> tuple[int, int] | None:
    """Ticks after which the contract's clock has turned a whole number of times, and how many; see `turns_in_ticks`."""
    assert contract.clock is not None
    return turns_in_ticks(contract.clock.frequency * contract.period_ns * 1e-9)


def turns_in_ticks(per_tick: float) -> tuple[int, int] | None:
    """Ticks after which what turns so much in each of them has turned a whole number of times, and how many times.

    Then ticks are counted, without rounding: after `count` of them the phase is (count * turns modulo ticks) / ticks. None where the two
    are too large for that.
    """
    turns, ticks = Fraction(per_tick).limit_denominator(LONGEST_CYCLE).as_integer_ratio()
    exact = turns > 0 and abs(turns / ticks - per_tick) < 1e-9 * per_tick and turns * ticks < EXACT
    return (ticks, turns) if exact else None


def state_widths(contract: Contract) -> dict[str, int]:
    """Width of each state tensor that the contract keeps; all are zero at reset."""
    plan, rule, count = observation_plan(contract), contract.action, len(contract.action.joints)
    used = {block.source for block in plan.blocks}
    runs = contract.clock is not None and bool({"phase", "phase_sin", "phase_cos"} & used)
    stands = runs and contract.clock is not None and contract.clock.still_below is not None
    widths = {
        STARTED: int(plan.history_width > 0 and not plan.zero_filled.all()),
        HISTORY: plan.history_width,
        TICKS: int("time" in used),
        CLOCK: int(runs),
        STANDING: int(stands),
        RESTARTED: int(stands),
        LAST_ACTION: count * (f"state.{LAST_ACTION}" in used),
        LAST_ACTION_RAW: count * (f"state.{LAST_ACTION_RAW}" in used),
        SMOOTHED: count * (rule.smoothing < 1.0),
        INTEGRAL: count * isinstance(rule, JointIntegral),
        CHUNK: count * (rule.chunk - 1),
        CHUNK_LEFT: int(rule.chunk > 1),
    }
    return {name: width for name, width in widths.items() if width}


def _each(numbers: PerJoint, count: int) -> np.ndarray:
    return np.broadcast_to(np.asarray(numbers, dtype=np.float64), count).copy()


def _joined(parts: list[np.ndarray], kind: type) -> np.ndarray:
    return np.concatenate(parts).astype(kind) if parts else np.zeros(0, dtype=kind)
