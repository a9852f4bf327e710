"""One takeover, looked at closely: which one, who wanted what, how far the tip was, how large the steps were."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from isthmus.hardware.kinematics import chain_from_mjcf, tip_position
from isthmus.hardware.robot import RobotSpec, load_robot
from isthmus.policies.episode import Episode

from .log import Log

JOINTS_SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class CommandStep:
    """The change of one joint's target in one tick that comes nearest to its limit."""

    joint: str
    step_rad: float
    limit_rad: float  # velocity_limit of the joint times the control period

    @property
    def share(self) -> float:
        """Step over limit."""
        return self.step_rad / self.limit_rad


@dataclass(frozen=True, kw_only=True)
class Takeover:
    """An attempt in which somebody took over. T ticks, n joints in robot order."""

    log: str
    episode: Episode
    time_s: np.ndarray  # (T,) from the beginning of the attempt
    tip_error_m: np.ndarray  # (T,) measured tip to target, by the model's kinematics
    spans_s: tuple[tuple[float, float], ...]  # when a person drove
    joints: tuple[int, ...]  # that moved most while a person drove
    largest: CommandStep  # of the whole attempt
    entry: CommandStep  # at the first tick of a person
    exit: (
        CommandStep | None
    )  # at the first tick after, be it the policy's or a hold; None where the recording ends before
    gave_back: bool  # False where the attempt ended in the person's hands

    @property
    def target(self) -> np.ndarray:
        """Where the tip should be, shape (3,), m, base frame."""
        return self.episode.ticks["target"][-1]

    @property
    def end_pose(self) -> np.ndarray:
        """Measured angles at the end of the attempt, shape (n,), rad."""
        return self.episode.ticks["joint_pos"][-1]


def find_takeover(logs: Mapping[str, Log]) -> Takeover | None:
    """The first attempt with a person's help, one that ended on its target before one that did not; None where there is none."""
    found = [
        (name, episode)
        for name, log in logs.items()
        for episode in log.episodes()
        if episode.ticks["intervention"].any()
    ]
    if not found:
        return None
    name, episode = min(found, key=lambda pair: not pair[1].success)
    ticks = logs[name].ticks
    next_tick = ticks[ticks["tick"] > episode.ticks["tick"][-1]][:1]
    return examine(name, episode, next_tick, load_robot(episode.robot))


def examine(log: str, episode: Episode, next_tick: np.ndarray, robot: RobotSpec) -> Takeover:
    """Look at one attempt with an intervention; `next_tick`, shape (1,) or (0,), is what was recorded right after it."""
    ticks = episode.ticks
    time_s = (ticks["monotonic_ns"] - ticks["monotonic_ns"][0]) * 1e-9
    person = ticks["intervention"] == 1
    starts, ends = _edges(person)
    driven = ticks["executed_target"][person]
    moved = np.ptp(driven[np.isfinite(driven).all(axis=1)], axis=0)
    limit = robot.array("velocity_limit") * episode.period_ns * 1e-9
    step = np.abs(np.concatenate([part["executed_target"] - part["joint_target"] for part in (ticks, next_tick)]))
    exits = ends[ends < len(step)]
    return Takeover(
        log=log,
        episode=episode,
        time_s=time_s,
        tip_error_m=_tip_error(ticks, robot),
        spans_s=tuple(
            (float(time_s[a]), float(time_s[min(b, len(ticks) - 1)])) for a, b in zip(starts, ends, strict=True)
        ),
        joints=tuple(sorted(np.argsort(-moved)[:JOINTS_SHOWN].tolist())),
        largest=_largest(step, limit, episode.joint_names),
        entry=_largest(step[starts], limit, episode.joint_names),
        exit=_largest(step[exits], limit, episode.joint_names) if len(exits) else None,
        gave_back=not person[-1],
    )


def _edges(flag: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First index of every run of True, and the index after it. flag: (T,)."""
    change = np.diff(np.concatenate([[False], flag, [False]]).astype(int))
    return np.flatnonzero(change == 1), np.flatnonzero(change == -1)


def _largest(step: np.ndarray, limit: np.ndarray, names: tuple[str, ...]) -> CommandStep:
    share = np.where(np.isfinite(step), step, 0.0) / limit
    row, joint = np.unravel_index(np.argmax(share), share.shape)
    return CommandStep(
        joint=names[joint], step_rad=float(share[row, joint] * limit[joint]), limit_rad=float(limit[joint])
    )


def _tip_error(ticks: np.ndarray, robot: RobotSpec) -> np.ndarray:
    chain = chain_from_mjcf(robot.model_path, robot.reach_site())
    index = [robot.joint_names.index(name) for name in chain.joint_names]
    return np.linalg.norm(tip_position(chain, ticks["joint_pos"][:, index]) - ticks["target"], axis=-1)
