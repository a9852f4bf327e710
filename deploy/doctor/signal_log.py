"""A recording of raw signals by name, from a robot or a simulated world; one form for every robot."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from isthmus.policies.episode import Ran, further_of

from ..log import Log, LogError

COMMAND = "command"  # in a log of `isthmus run`: the policy's own, NaN beyond its width
PARTS = ("executed", "proposed", "action", "observation")


@dataclass(frozen=True, kw_only=True)
class SignalMetadata:
    """What a signal log was recorded from."""

    robot: str
    joint_names: tuple[str, ...]  # order of every signal that is of joints
    period_ns: int  # that the loop was asked for
    target: str  # the signal that `executed` and `proposed` become, such as joint_target
    policy_id: str  # sha256 of the bundle that proposed; "" where none did
    source: str  # what recorded it


@dataclass(frozen=True, kw_only=True, eq=False)
class SignalLog:
    """T ticks; joints in the order of `metadata.joint_names`."""

    metadata: SignalMetadata
    stamps: np.ndarray  # (T,) int64 ns, when the signals were read
    begin: np.ndarray  # (T,) bool, where an episode begins: what was before is another motion
    signals: Mapping[str, np.ndarray]  # (T, width) each
    executed: np.ndarray | None = None  # (T, w) target written at the tick
    proposed: np.ndarray | None = None  # (T, w) target that the policy gave
    action: np.ndarray | None = None  # (T, a) the network's
    observation: np.ndarray | None = None  # (T, d) that the network was shown
    broken: str = ""  # what is wrong with the end of the file it was read from, such as "ends in the middle"; "" where it is whole

    def __len__(self) -> int:
        return len(self.stamps)

    def with_signals(self, **changed: np.ndarray) -> "SignalLog":
        """The same with some signals replaced; dots in names are written as two underscores."""
        named = {name.replace("__", "."): value for name, value in changed.items()}
        return replace(self, signals={**self.signals, **named})

    def part(self, ticks: slice) -> "SignalLog":
        """Some of the ticks."""
        cut = {name: None if (value := getattr(self, name)) is None else value[ticks] for name in PARTS}
        begin = self.begin[ticks].copy()
        begin[:1] = True
        signals = {name: value[ticks] for name, value in self.signals.items()}
        return replace(self, stamps=self.stamps[ticks], begin=begin, signals=signals, **cut)


def from_run(log: Log, path: Path) -> SignalLog:
    """What a log of `isthmus run` says of raw signals, of the ticks at which a policy acted.

    The policy's command is `COMMAND` there: the log does not say by which name the policy knows it.
    """
    ticks = log.ticks[(log.ticks["episode"] >= 0) & np.isfinite(log.ticks["joint_pos"]).all(axis=-1)]
    if ticks["ran"].any():  # the first logs do not say; a policy may be slower than the loop
        ticks = ticks[(ticks["ran"] & Ran.ACTED) != 0]
    if len(ticks) == 0:
        cut = "" if log.complete else " and ends in the middle"
        raise LogError(
            f"{path} holds no episode{cut}: no policy ran while it was recorded; record one with `isthmus run`"
        )
    ids = {event.text for event in log.events if event.kind == "episode_begin"}
    further = [name for name, _ in further_of(ticks.dtype)]
    apart = max(1, round(float(np.median(np.diff(ticks["tick"]))))) if len(ticks) > 1 else 1
    return SignalLog(
        metadata=SignalMetadata(
            robot=log.metadata.robot,
            joint_names=log.metadata.joint_names,
            period_ns=log.metadata.period_ns * apart,
            target="joint_target",
            policy_id=next(iter(ids)) if len(ids) == 1 else "",
            source="isthmus run",
        ),
        stamps=ticks["monotonic_ns"].astype(np.int64),
        begin=np.concatenate([[True], (np.diff(ticks["episode"]) != 0) | ((ticks["ran"][1:] & Ran.RESET) != 0)]),
        signals={
            "joint_pos": ticks["joint_pos"],
            "joint_vel": ticks["joint_vel"],
            "joint_target": ticks["joint_target"],
            COMMAND: ticks["target"],
            **{name: ticks[name] for name in further if not name.startswith("part.")},
        },
        executed=ticks["executed_target"],
        proposed=ticks["policy_target"],
        action=ticks["base_action"],
        broken="" if log.complete else "ends in the middle",
    )
