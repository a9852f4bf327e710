"""The only path to `Robot.write`: what may be commanded, and when driving must end. Pure functions and preallocated arrays."""

import math
from dataclasses import dataclass
from enum import IntFlag

import numpy as np

from isthmus.hardware.robot import RobotSpec


class Flag(IntFlag):
    """What the limiter found in proposed targets."""

    REJECTED = 1  # a value was not finite: nothing may be written
    POSITION = 2  # outside the joint's range
    RATE = 4  # farther from the previous target than a tick allows
    TORQUE = 8  # would ask for more torque than the joint may give
    CONFLICT = (
        16  # no target keeps all three limits: the joint was pushed away, or its encoder jumped; nothing may be written
    )


NOTHING_WRITTEN = int(Flag.REJECTED | Flag.CONFLICT)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What may be commanded of n joints."""

    lower: np.ndarray  # (n,) rad
    upper: np.ndarray  # (n,) rad
    step: np.ndarray  # (n,) rad, largest change of a target in one tick
    lead: np.ndarray  # (n,) rad, largest distance of a target from where the joint's loop gives no torque
    damping: np.ndarray  # (n,) s, kd / kp: a joint that moves at v gives no torque where target - angle = damping * v
    acceleration: np.ndarray  # (n,) rad a tick^2, largest change of a target's change; inf: not limited


def robot_limits(spec: RobotSpec, *, period_s: float, torque_factor: float) -> Limits:
    """Limits of a robot.

    Args:
        spec: the robot.
        period_s: control period, s.
        torque_factor: a PD loop asks for kp (target - angle) - kd velocity. That is kept to `torque_factor` * effort_limit: at 1 the loop
            just saturates; above 1 leaves room for the lag of a fast motion, which is no torque.
    """
    limits = [np.inf if joint.acceleration_limit is None else joint.acceleration_limit for joint in spec.joints]
    return Limits(
        lower=spec.array("lower"),
        upper=spec.array("upper"),
        step=spec.array("velocity_limit") * period_s,
        lead=torque_factor * spec.array("effort_limit") / spec.array("kp"),
        damping=spec.array("kd") / spec.array("kp"),
        acceleration=np.array(limits) * period_s**2,
    )


class Limiter:
    """Makes proposed targets safe, or says that nothing may be written.

    What it returns lies within the position range, within a tick's step of the previous target, and within what the joint may give of
    torque, all three, whatever is proposed and measured. Where that is impossible, the targets are the previous ones and must not be
    written.
    """

    def __init__(self, limits: Limits, rows: tuple[int, ...] = ()) -> None:
        """Allocate for targets of shape (*rows, n)."""
        self.limits = limits
        shape = (*rows, len(limits.lower))
        self._safe, self._centre, self._low, self._high, self._scratch = (np.zeros(shape) for _ in range(5))
        self._kept = np.zeros(shape, dtype=bool)

    def apply(
        self, proposed: np.ndarray, previous: np.ndarray, joint_pos: np.ndarray, joint_vel: np.ndarray
    ) -> tuple[np.ndarray, int | np.ndarray]:
        """Limit targets of one tick.

        Args:
            proposed: any values, shape (*rows, n), rad.
            previous: targets of the previous tick, within the position range, shape (*rows, n), rad.
            joint_pos: measured, shape (*rows, n), rad.
            joint_vel: measured, shape (*rows, n), rad/s.

        Returns:
            The targets, shape (*rows, n), finite, overwritten by the next call; and what was found as a sum of `Flag`, shape rows.
        """
        safe, low, high = self._safe, self._low, self._high
        self._windows(previous, joint_pos, joint_vel)
        np.maximum(proposed, low, out=safe)
        np.minimum(safe, high, out=safe)
        kept = np.less_equal(low, safe, out=self._kept)  # false where a window is empty, and wherever a NaN is about
        if safe.ndim == 1:  # the same again, by what takes least time on a few numbers
            finite = math.isfinite(proposed.dot(proposed))
            if finite and b"\0" not in kept.tobytes():
                return safe, 0 if safe.tobytes() == proposed.tobytes() else self._found_in_row(proposed, previous)
            np.copyto(safe, previous)
            return safe, int(self._refusal(np.array(finite), joint_pos, joint_vel))
        finite = np.isfinite(np.square(proposed).sum(axis=-1))
        good = kept.all(axis=-1) & finite
        flags = np.where(good, self._found(proposed, previous), self._refusal(finite, joint_pos, joint_vel))
        np.copyto(safe, previous, where=~good[..., None])
        return safe, flags

    def _windows(self, previous: np.ndarray, joint_pos: np.ndarray, joint_vel: np.ndarray) -> None:
        limits, low, high, scratch = self.limits, self._low, self._high, self._scratch
        centre = np.multiply(joint_vel, limits.damping, out=self._centre)
        np.add(centre, joint_pos, out=centre)
        np.subtract(centre, limits.lead, out=low)
        np.add(centre, limits.lead, out=high)
        np.maximum(low, limits.lower, out=low)
        np.minimum(high, limits.upper, out=high)
        np.maximum(low, np.subtract(previous, limits.step, out=scratch), out=low)
        np.minimum(high, np.add(previous, limits.step, out=scratch), out=high)

    def _found(self, proposed: np.ndarray, previous: np.ndarray) -> np.ndarray:
        """Which limits the proposal does not keep, shape rows."""
        limits = self.limits

        def beyond(distance: np.ndarray, most: np.ndarray | float, flag: Flag) -> np.ndarray:
            return np.where((distance > most).any(axis=-1), int(flag), 0)

        outside = np.maximum(limits.lower - proposed, proposed - limits.upper)
        return (
            beyond(outside, 0.0, Flag.POSITION)
            | beyond(np.abs(proposed - previous), limits.step, Flag.RATE)
            | beyond(np.abs(proposed - self._centre), limits.lead, Flag.TORQUE)
        )

    def _found_in_row(self, proposed: np.ndarray, previous: np.ndarray) -> int:
        """`_found` for one row."""
        limits, scratch, mask = self.limits, self._scratch, self._kept
        found = 0
        for centre, most, flag in ((previous, limits.step, Flag.RATE), (self._centre, limits.lead, Flag.TORQUE)):
            np.abs(np.subtract(proposed, centre, out=scratch), out=scratch)
            if b"\1" in np.greater(scratch, most, out=mask).tobytes():
                found += flag.value
        outside = (
            np.less(proposed, limits.lower, out=mask).tobytes() + np.greater(proposed, limits.upper, out=mask).tobytes()
        )
        return found + Flag.POSITION.value if b"\1" in outside else found

    def _refusal(self, finite: np.ndarray, joint_pos: np.ndarray, joint_vel: np.ndarray) -> np.ndarray:
        known = finite & np.isfinite(joint_pos).all(axis=-1) & np.isfinite(joint_vel).all(axis=-1)
        return np.where(known, int(Flag.CONFLICT), int(Flag.REJECTED))


class AccelerationLimit:
    """Shapes wanted targets so that their change changes slowly, and so that they can still stop before the end of their range.

    The weakest of the limits: what the `Limiter` demands afterwards comes first. A target at distance d from the end of its range that may
    slow down by a each tick can still stop there if its step s keeps s + (s - a) + (s - 2 a) + ... <= d.
    """

    def __init__(self, limits: Limits) -> None:
        """Allocate for targets of shape (n,)."""
        self._limits = limits
        self._limited = np.isfinite(limits.acceleration)
        self._most = np.where(self._limited, limits.acceleration, 1.0)

    @property
    def active(self) -> bool:
        """Whether any joint is limited."""
        return bool(self._limited.any())

    def apply(self, wanted: np.ndarray, previous: np.ndarray, step: np.ndarray) -> np.ndarray:
        """Targets on the way to `wanted`; `step` is what the previous target had changed by; all shapes (n,), rad."""
        limits, most = self._limits, self._most
        change = np.clip(wanted - previous, step - most, step + most)
        change = np.clip(change, -self._last(previous - limits.lower), self._last(limits.upper - previous))
        return np.where(self._limited, previous + change, wanted)

    def _last(self, distance: np.ndarray) -> np.ndarray:
        """Largest step that can still stop within a distance: with k further steps, (k + 1) s - a k (k + 1) / 2 = d."""
        most, distance = self._most, np.maximum(distance, 0.0)
        further = np.floor((np.sqrt(1.0 + 8.0 * distance / most) - 1.0) / 2.0)
        return distance / (further + 1.0) + most * further / 2.0


START_MARGIN = (
    0.1  # rad beyond its range that a resting joint may read: soft stops, gear play and encoder offsets add up to that
)


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
