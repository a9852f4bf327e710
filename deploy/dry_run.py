"""A run in which nothing is written to the robot: how the runtime is told, and what would have been commanded."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from isthmus.hardware.interface import Robot
from isthmus.hardware.robot import RobotSpec

from .log import Log
from .modes import Mode
from .ports import RuntimeConfig
from .safety import Flag

_NEVER_S = 1e7


def measured_pose(make_robot: Callable[[], Robot]) -> np.ndarray:
    """Where a robot's joints are, shape (n,), rad: connects it, reads it once and closes it; raises HardwareError."""
    robot = make_robot()
    try:
        robot.connect()
        return robot.read().joint_pos.copy()
    finally:
        robot.close()


def dry_config(config: RuntimeConfig, spec: RobotSpec, joint_pos: np.ndarray) -> RuntimeConfig:
    """The same runtime for a robot that will not move: it starts where the robot is, and nobody minds that it does not follow.

    Args:
        config: of a run that moves.
        spec: the robot.
        joint_pos: measured, shape (n,), rad.
    """
    start = np.clip(joint_pos, spec.array("lower"), spec.array("upper"))
    monitor = replace(config.monitor, following_timeout_s=_NEVER_S)
    return replace(config, start_pose=tuple(start.tolist()), conflict_timeout_s=_NEVER_S, monitor=monitor)


@dataclass(frozen=True, kw_only=True)
class Largest:
    """The largest of all joints and ticks."""

    joint: str
    value: float  # rad, or rad/s


@dataclass(frozen=True, kw_only=True)
class DryRunReport:
    """What would have been commanded in the ticks in which the policy, or a person, would have driven."""

    ticks: int
    commanded: Largest  # distance of the target that would have been written from the measured angle
    proposed: Largest  # distance of the policy's proposal from the measured angle
    fastest: Largest  # change of the policy's proposal, rad/s
    saturated: tuple[tuple[str, int], ...]  # ticks in which each limit changed what was wanted

    def lines(self) -> list[str]:
        """For people."""
        if self.ticks == 0:
            return ["dry run: the policy ran in no tick, so there is nothing to say of what it would do"]
        limits = ", ".join(f"{name} in {count}" for name, count in self.saturated) or "none"
        return [
            f"dry run: {self.ticks} ticks, nothing was written to the robot; it would have been commanded",
            f"  at most {_angle(self.commanded)} from where it stood",
            f"the policy proposed at most {_angle(self.proposed)} from there, and moved its proposal by at most {_speed(self.fastest)}",
            f"limits that changed it, in ticks: {limits}",
        ]


def dry_run_report(log: Log, spec: RobotSpec, period_s: float) -> DryRunReport:
    """Look at a recording of a dry run.

    Args:
        log: the recording.
        spec: the robot.
        period_s: of the runtime, s.
    """
    ticks = log.ticks
    driven = ticks[(ticks["episode"] >= 0) & np.isin(ticks["mode"], (Mode.POLICY, Mode.TELEOP))]
    proposals = driven["policy_target"]
    same = driven["episode"][1:] == driven["episode"][:-1]
    flags = driven["flags"]
    counts = [(flag.name or "", int(((flags & flag) != 0).sum())) for flag in Flag]
    return DryRunReport(
        ticks=len(driven),
        commanded=_largest(spec, driven["executed_target"] - driven["joint_pos"]),
        proposed=_largest(spec, proposals - driven["joint_pos"]),
        fastest=_largest(spec, np.diff(proposals, axis=0)[same] / period_s),
        saturated=tuple((name.lower(), count) for name, count in counts if count),
    )


def _largest(spec: RobotSpec, values: np.ndarray) -> Largest:
    """Of values (ticks, n); NaN where there is none that is finite."""
    sizes = np.where(np.isfinite(values), np.abs(values), -1.0)
    if sizes.size == 0 or sizes.max() < 0.0:
        return Largest(joint="", value=float("nan"))
    joint = int(np.unravel_index(np.argmax(sizes), sizes.shape)[1])
    return Largest(joint=spec.joint_names[joint], value=float(sizes[:, joint].max()))


def _angle(largest: Largest) -> str:
    return f"{np.rad2deg(largest.value):.1f} deg ({largest.joint})"


def _speed(largest: Largest) -> str:
    return f"{np.rad2deg(largest.value):.0f} deg/s ({largest.joint})"
