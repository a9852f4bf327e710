"""One attempt at a task as arrays: what the recorder writes, the dataset keeps and learning reads."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum, IntFlag

import numpy as np


class Source(IntEnum):
    """Who gave the executed joint targets at a tick."""

    NONE = 0  # nothing was driven
    POLICY = 1
    HUMAN = 2
    HOLD = 3
    BLEND = 4  # on the way from one source to another
    REWIND = 5  # the path so far, backwards


class Ran(IntFlag):
    """What the policy did at a tick."""

    ACTED = 1  # it was given the tick's signals and proposed
    RESET = 2  # it forgot everything before that


# Fields of one control tick for a robot with n joints; `vector` fields have n values. One definition for the shared-memory ring,
# the MCAP messages and the arrays of an Episode. Angles in rad, in robot order. Whole numbers first, then single numbers, then the rest:
# so a tick's numbers can be written in one go.
TICK_FIELDS: tuple[tuple[str, str, int | str], ...] = (
    ("tick", "<i8", 1),
    ("monotonic_ns", "<i8", 1),  # when the joints were read
    ("wall_ns", "<i8", 1),
    ("written_ns", "<i8", 1),  # monotonic, when the targets had been handed to the bus; 0 where nothing was written
    ("episode", "<i8", 1),  # -1 outside an episode
    ("mode", "<i8", 1),  # deploy.modes.Mode
    ("source", "<i8", 1),  # Source
    ("intervention", "<i8", 1),  # 1 while a person drives or the blend belongs to one
    ("policy_index", "<i8", 1),  # which of the policies
    ("ran", "<i8", 1),  # Ran
    ("flags", "<i8", 1),  # deploy.safety.Flag: what the limiter found in what was wanted
    ("missed", "<i8", 1),  # ticks skipped so far
    ("bus_errors", "<i8", 1),  # repaired by a retry, so far
    ("pressed_ns", "<i8", 1),  # monotonic, when a person last did something; 0: never
    ("gate_prob", "<f8", 1),
    ("gate", "<f8", 1),  # 1 while the residual is in use
    ("inference_us", "<f8", 1),
    ("lateness_us", "<f8", 1),  # wake-up after the deadline
    ("max_temperature", "<f8", 1),  # deg C
    ("joint_pos", "<f8", "vector"),
    ("joint_vel", "<f8", "vector"),
    ("joint_target", "<f8", "vector"),  # executed at the previous tick: an input of the policy
    (
        "target",
        "<f8",
        3,
    ),  # the policy's command, in its unit: of a reach policy m in the base frame; NaN beyond its width
    ("base_action", "<f8", "action"),  # network output before clipping; NaN where no policy ran
    ("residual_action", "<f8", "action"),
    ("policy_target", "<f8", "vector"),  # the policy's proposal, also while a person drives
    ("human_target", "<f8", "vector"),  # NaN where nobody drives
    ("executed_target", "<f8", "vector"),  # what was written
)

Further = tuple[tuple[str, int], ...]
"""Names and widths of what a tick holds besides: signals that the robot senses, such as "gyro", and a policy's "part.<what>"."""


def tick_dtype(num_joints: int, num_actions: int, further: Further = ()) -> np.dtype:
    """Structured dtype of one tick."""
    sizes = {"vector": num_joints, "action": num_actions}

    def shape(size: int | str) -> tuple[int, ...]:
        width = sizes[size] if isinstance(size, str) else size
        return () if size == 1 else (width,)

    own = [(name, kind, shape(size)) for name, kind, size in TICK_FIELDS]
    return np.dtype([*own, *((name, "<f8", (width,)) for name, width in further)])


def further_of(dtype: np.dtype) -> Further:
    """What a tick of this dtype holds besides the usual fields."""
    usual = {name for name, _, _ in TICK_FIELDS}
    return tuple((name, int(dtype[name].shape[0])) for name in dtype.names or () if name not in usual)


@dataclass(frozen=True, kw_only=True)
class Episode:
    """Consecutive ticks of one attempt, and how it ended."""

    ticks: np.ndarray  # structured, dtype tick_dtype(...)
    joint_names: tuple[str, ...]
    period_ns: int
    success: bool
    policy_id: str  # sha256 of the bundle
    robot: str
    operator: str  # "" where nobody corrected
    info: dict[str, float] = field(default_factory=dict)  # e.g. final_error_m


ANGLES = ("joint_pos", "joint_target", "policy_target", "human_target", "executed_target")


def recalibrated(episode: Episode, offset_rad: Mapping[str, float]) -> Episode:
    """The episode as it would read had each joint's `offset_rad` been removed already: every angle less the offset.

    What the policy proposed then was said of other readings, so its proposals are dropped (NaN): replay the base for new ones.
    """
    ticks = episode.ticks.copy()
    shift = np.array([offset_rad.get(name, 0.0) for name in episode.joint_names])
    for name in ANGLES:
        ticks[name] -= shift
    for name in ("base_action", "residual_action", "policy_target"):
        ticks[name] = np.nan
    return replace(episode, ticks=ticks)
