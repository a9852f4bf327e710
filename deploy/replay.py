"""What a policy said on the robot, said again: a log's signals through the same bundle, to the last bit."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isthmus.hardware.errors import IsthmusError
from isthmus.hardware.interface import JointState
from isthmus.policies.episode import Ran
from isthmus.policies.policy import Policy

from .bound_policy import Body, BoundPolicy, PolicyFault
from .log import Log

SAID = ("base_action", "residual_action", "policy_target", "gate_prob", "gate")


class ReplayError(IsthmusError, ValueError):
    """A log and a bundle that do not belong together, or a log that does not say enough."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The first tick at which the policy said something else."""

    tick: int
    field: str
    index: int  # of the value in the field
    recorded: float
    replayed: float


@dataclass(frozen=True, kw_only=True)
class Replay:
    """How a replay went."""

    compared: int  # ticks
    skipped: int  # ticks of which the policy's memory is not known, because records before them are missing
    first: Difference | None  # None: every bit is the same


def replay(log: Log, policies: Sequence[Policy]) -> Replay:
    """Give the recorded signals to the policies that ran, and compare what they say with what was recorded.

    Args:
        log: a recording.
        policies: in any order; found by their id.

    Raises:
        ReplayError: none of the policies ran in this log, one that did is missing, or the log does not say what ran.
    """
    bound = _bind(log, policies)
    ticks = log.ticks[(log.ticks["ran"] & Ran.ACTED) != 0]
    if len(ticks) == 0:
        raise ReplayError(
            "the log holds no tick in which a policy ran, or is older than logs that say so; record it again"
        )
    known: dict[int, int] = {}  # policy -> the tick at which its memory was last known
    compared = skipped = 0
    for tick in ticks:
        index, number = int(tick["policy_index"]), int(tick["tick"])
        policy = bound.get(index)
        if policy is None:
            continue
        if tick["ran"] & Ran.RESET:
            policy.reset()
        elif known.get(index) != number - policy.every:
            skipped += 1
            continue
        known[index] = number
        compared += 1
        if first := _differs(policy, tick):
            return Replay(compared=compared, skipped=skipped, first=first)
    if not compared:
        raise ReplayError("no tick can be compared: the log does not hold the beginning of any attempt")
    return Replay(compared=compared, skipped=skipped, first=None)


def _bind(log: Log, policies: Sequence[Policy]) -> dict[int, BoundPolicy]:
    """The policies by their index in the log."""
    meta = log.metadata
    given = {policy.policy_id: policy for policy in policies}
    strangers = [name[:12] for name in given if name not in meta.policy_ids]
    if strangers:
        raise ReplayError(
            f"policies {strangers} did not run in this log, which is of {[name[:12] for name in meta.policy_ids]}; give those bundles"
        )
    ran = sorted(
        {int(index) for index in log.ticks["policy_index"][log.ticks["ran"] != 0] if index < len(meta.policy_ids)}
    )
    missing = [meta.policy_ids[index][:12] for index in ran if meta.policy_ids[index] not in given]
    if missing:
        raise ReplayError(f"policies {missing} ran in this log and are not given; give their bundles too")
    senses = {name: width for name, width in meta.further if not name.startswith("part.")}
    body = Body(name=meta.robot, joint_names=meta.joint_names, senses=senses)
    return {index: BoundPolicy(given[meta.policy_ids[index]], body, meta.period_ns, meta.num_actions) for index in ran}


def _differs(policy: BoundPolicy, tick: np.ndarray) -> Difference | None:
    signals = {name: tick[name] for name in tick.dtype.names or () if name not in _OWN}
    state = JointState(
        joint_pos=tick["joint_pos"],
        joint_vel=tick["joint_vel"],
        temperature=np.zeros(0),
        stamp_ns=int(tick["monotonic_ns"]),
        errors=0,
        signals=signals,
    )
    with contextlib.suppress(PolicyFault):  # it may have failed then, too: its proposal is NaN both times
        policy.act(state, tick["joint_target"], tick["target"])
    said = {
        "base_action": policy.base_action,
        "residual_action": policy.residual_action,
        "policy_target": policy.joint_target,
        "gate_prob": np.array([policy.gate_prob]),
        "gate": np.array([policy.gate]),
        **policy.parts,
    }
    for name, values in said.items():
        recorded = np.atleast_1d(tick[name])[: len(values)]
        other = ~((recorded == values) | (np.isnan(recorded) & np.isnan(values)))
        if other.any():
            index = int(np.argmax(other))
            return Difference(
                tick=int(tick["tick"]),
                field=name,
                index=index,
                recorded=float(recorded[index]),
                replayed=float(values[index]),
            )
    return None


_OWN = frozenset(("joint_pos", "joint_vel", "joint_target", "target", *SAID))
