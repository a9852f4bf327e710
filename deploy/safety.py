"""The only path to `Robot.write`: what may be commanded, and when driving must end. Pure functions."""

from dataclasses import dataclass
from enum import IntFlag

import numpy as np

from isthmus.hardware.robot import RobotSpec


class Flag(IntFlag):
    """What `limit_targets` changed."""

    REJECTED = 1  # a value was not finite: the previous target stays
    POSITION = 2
    RATE = 4
    TORQUE = 8


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What may be commanded of n joints."""

    lower: np.ndarray  # (n,) rad
    upper: np.ndarray  # (n,) rad
    step: np.ndarray  # (n,) rad, largest change of a target in one tick
    lead: np.ndarray  # (n,) rad, largest distance between target and measured angle


def robot_limits(spec: RobotSpec, *, period_s: float, torque_factor: float) -> Limits:
    """Limits of a robot.

    Args:
        spec: the robot.
        period_s: control period, s.
        torque_factor: a position loop asks for kp * lead. `lead` is kept to `torque_factor` * effort_limit / kp: at 1 the loop just
            saturates; above 1 leaves room for the lag of a fast motion, which is no torque.
    """
    return Limits(
        lower=spec.array("lower"),
        upper=spec.array("upper"),
        step=spec.array("velocity_limit") * period_s,
        lead=torque_factor * spec.array("effort_limit") / spec.array("kp"),
    )


def limit_targets(
    proposed: np.ndarray, previous: np.ndarray, joint_pos: np.ndarray, limits: Limits
) -> tuple[np.ndarray, np.ndarray]:
    """Make proposed targets safe.

    The order gives the weaker limit first: torque-implied, position, rate. The result always keeps the rate limit; it lies within the
    position limits whenever `previous` does, and otherwise no farther outside than `previous`.

    Args:
        proposed: targets, any values, shape (..., n), rad.
        previous: targets of the previous tick, finite, shape (..., n), rad.
        joint_pos: measured angles, shape (..., n), rad.
        limits: what is allowed.

    Returns:
        The targets, shape (..., n), finite; and what was changed as a sum of `Flag`, shape (...).
    """
    accepted = np.asarray((np.isfinite(proposed) & np.isfinite(joint_pos)).all(axis=-1))
    finite = accepted[..., None]
    wanted = np.where(finite, proposed, previous)
    centre = np.where(finite, joint_pos, previous)
    led = np.minimum(np.maximum(wanted, centre - limits.lead), centre + limits.lead)
    inside = np.minimum(np.maximum(led, limits.lower), limits.upper)
    safe = np.minimum(np.maximum(inside, previous - limits.step), previous + limits.step)
    safe = np.where(finite, safe, previous)
    flags = np.where(accepted, 0, int(Flag.REJECTED))
    for flag, before, after in ((Flag.TORQUE, wanted, led), (Flag.POSITION, led, inside), (Flag.RATE, inside, safe)):
        flags = flags | np.where(accepted & (before != after).any(axis=-1), int(flag), 0)
    return safe, flags


START_MARGIN = (
    0.1  # rad beyond its range that a resting joint may read: soft stops, gear play and encoder offsets add up to that
)
FOLLOWING_SHARE = 0.95  # of the largest distance to the target that limits allow


def out_of_range(spec: RobotSpec, joint_pos: np.ndarray) -> str:
    """Which measured joints, shape (n,), rad, lie too far outside their range to start from, with the remedy; "" for none."""
    far = [
        f"{joint.name} at {angle:.2f} rad (range {joint.lower:.2f} .. {joint.upper:.2f})"
        for joint, angle in zip(spec.joints, joint_pos.tolist(), strict=True)
        if not joint.lower - START_MARGIN <= angle <= joint.upper + START_MARGIN
    ]
    if not far:
        return ""
    return f"{', '.join(far)} lies outside its range; move it inside by hand, or check its calibration, then ask again"


class Following:
    """For how long each joint has stayed as far from its target as limits allow: it is blocked, or its servo lost its torque."""

    def __init__(self, spec: RobotSpec, limits: Limits, ticks: int) -> None:
        """Joints are late after so many ticks."""
        self._names, self._lead, self._ticks = spec.joint_names, FOLLOWING_SHARE * limits.lead, ticks
        self._behind = np.zeros(len(spec.joints), dtype=np.int64)

    def late(self, target: np.ndarray, joint_pos: np.ndarray) -> list[str]:
        """Look at executed targets and measured angles, shape (n,), rad, of a tick; the joints that are late, then counts anew."""
        self._behind = np.where(np.abs(target - joint_pos) >= self._lead, self._behind + 1, 0)
        if self._behind.max() < self._ticks:
            return []
        late = [name for name, ticks in zip(self._names, self._behind, strict=True) if ticks >= self._ticks]
        self._behind.fill(0)
        return late


@dataclass(frozen=True, kw_only=True)
class MonitorLimits:
    """When driving must end."""

    max_age_s: float = 0.1  # of a reading
    max_temperature: float = 70.0  # deg C
    max_bus_errors: float = 10.0  # repaired errors in about a second


def leak(level: float, new_errors: int, period_s: float) -> float:
    """Bus errors of about the last second: the level decays with a time constant of 1 s and grows by each error."""
    return level * max(0.0, 1.0 - period_s) + new_errors


def complaint(*, age_s: float, temperature: float, bus_errors: float, limits: MonitorLimits) -> str:
    """Why driving must end, with the remedy; "" where nothing is wrong. A temperature that is NaN is unknown, not hot."""
    if not age_s <= limits.max_age_s:
        return f"joint state is {age_s:.3f} s old, at most {limits.max_age_s} s allowed; check the bus and its driver"
    if temperature > limits.max_temperature:
        return f"a servo is at {temperature:.0f} deg C, at most {limits.max_temperature:.0f} allowed; let it cool and lighten the load"
    if bus_errors > limits.max_bus_errors:
        return f"{bus_errors:.0f} bus errors in a second, at most {limits.max_bus_errors:.0f} allowed; check cable and power"
    return ""
