"""Where a contract's observation lies in another tool's: terms by name, each with a history that is oldest first."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..contract import Contract, JointPosition, ObservationTerm, sample_width
from ..plan import observation_plan
from .network import ExportFailed, Wiring


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Values of one of the contract's terms that another tool knows as a term of its own."""

    name: str  # theirs
    term: int  # place among the contract's terms
    values: tuple[int, ...]  # of a sample of the term
    history: int  # samples that the tool keeps of it
    scaled: bool  # whether the tool scales and clips them itself, as the contract says


def wiring(contract: Contract, pieces: Sequence[Piece]) -> Wiring:
    """The wiring for the tool's terms in their order; what a tool does not scale and clip, the wiring does."""
    start, place = 0, dict[tuple[int, int, int], int]()
    for piece in pieces:
        for lag in range(piece.history - 1, -1, -1):
            for value in piece.values:
                place[piece.term, lag, value] = start
                start += 1
    seen, scaled = observation_plan(contract), {(p.term, value) for p in pieces if p.scaled for value in p.values}
    starts = np.cumsum([0, *(sample_width(term, contract) for term in contract.observation)])
    order = _order(contract)
    inside = np.array([starts[term] + value for term, _, value in order])
    own = np.array([(term, value) not in scaled for term, _, value in order])
    return Wiring(
        width=start,
        places=np.array([place[key] for key in order]),
        lower=np.where(own, seen.lower[inside], -np.inf),
        upper=np.where(own, seen.upper[inside], np.inf),
        scale=np.where(own, seen.scale[inside], 1.0),
    )


def _order(contract: Contract) -> list[tuple[int, int, int]]:
    """Term, lag and value of each place of the contract's observation."""
    terms = contract.observation
    if contract.layout == "time":
        blocks = [(index, lag) for lag in terms[0].lags for index in range(len(terms))]
    else:
        blocks = [(index, lag) for index, term in enumerate(terms) for lag in term.lags]
    return [(index, lag, value) for index, lag in blocks for value in range(sample_width(terms[index], contract))]


def check_filling(contract: Contract, fill: str) -> None:
    """Refuse histories that begin otherwise than the tool's."""
    other = sorted({term.name for term in contract.observation if max(term.lags) > 0 and term.fill != fill})
    if other:
        begins = {"first": "their first sample", "zero": "zeros"}[fill]
        raise ExportFailed(f"histories of this format begin with {begins}, but those of {other} do not")


def check_joints(term: ObservationTerm, contract: Contract) -> None:
    """Refuse a term of some joints alone, or relative to something else than the default pose."""
    joints = contract.action.joints if term.joints is None else term.joints
    if joints != contract.joint_names or term.offset != 0.0:
        raise ExportFailed(
            f"term {term.name!r} is of joints {list(joints)} with offset {term.offset}; this format knows all joints, "
            f"{list(contract.joint_names)}, without one"
        )


def position_action(contract: Contract) -> JointPosition:
    """The action, where it is offsets from the default pose of all joints; raises ExportFailed else."""
    rule = contract.action
    default = tuple(joint.default_pos for joint in contract.joints)
    if not isinstance(rule, JointPosition) or rule.joints != contract.joint_names or rule.smoothing < 1.0:
        raise ExportFailed(
            f"this format drives all joints by position, unsmoothed; the bundle acts by {rule.kind!r} on {list(rule.joints)}"
        )
    if rule.offset is not None and per_joint(rule.offset, len(default)) != default:
        raise ExportFailed(
            f"targets of this format are relative to the default pose {list(default)}, the bundle's to {rule.offset}"
        )
    raw = any(term.name == "last_action_raw" for term in contract.observation)
    if raw and rule.clip is not None:
        raise ExportFailed(
            "the policy sees its action before the clip, but this format clips none: it would see the clipped one"
        )
    return rule


def per_joint(numbers: float | tuple[float, ...], count: int) -> tuple[float, ...]:
    """One number for each joint."""
    return numbers if isinstance(numbers, tuple) else (numbers,) * count


def unlimited_note(rule: JointPosition) -> tuple[str, ...]:
    """What is said of targets that the bundle would keep within limits."""
    if not rule.limited and rule.highest is None:
        return ()
    return ("the bundle keeps targets within limits; this format cannot say so: whoever runs it has to",)
