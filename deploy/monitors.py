"""When driving must end: what is read and how the joints follow, watched tick by tick."""

import math
from dataclasses import dataclass

import numpy as np

from isthmus.hardware.interface import JointState
from isthmus.hardware.robot import RobotSpec

from .safety import Limits

_SLOW_S = 0.02  # what changes slowly is looked at this often
_FOLLOWING_SHARE = 0.95  # of the largest distance to the target that limits allow


@dataclass(frozen=True, kw_only=True)
class MonitorLimits:
    """When driving must end."""

    max_age_s: float = 0.1  # of a reading
    max_temperature: float = 70.0  # deg C
    max_bus_errors: float = 10.0  # repaired errors in about a second
    max_tilt: float | None = (
        None  # rad between the base's z axis and the vertical, of a robot that senses gravity; None: any
    )
    following_timeout_s: float = 1.0  # s that a joint may stay as far from its target as limits allow


class Following:
    """For how long each joint has stayed as far from its target as limits allow: it is blocked, or its servo lost its torque."""

    def __init__(self, spec: RobotSpec, limits: Limits, ticks: int) -> None:
        """Joints are late after so many ticks."""
        self._names, self._lead, self._ticks = spec.joint_names, _FOLLOWING_SHARE * limits.lead, ticks
        self._behind = np.zeros(len(spec.joints), dtype=np.int64)

    def late(self, target: np.ndarray, joint_pos: np.ndarray) -> list[str]:
        """Look at executed targets and measured angles, shape (n,), rad, of a tick; the joints that are late, then counts anew."""
        self._behind = np.where(np.abs(target - joint_pos) >= self._lead, self._behind + 1, 0)
        if self._behind.max() < self._ticks:
            return []
        late = [name for name, ticks in zip(self._names, self._behind, strict=True) if ticks >= self._ticks]
        self._behind.fill(0)
        return late


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


class Monitors:
    """Looks at every reading; what it finds is a text with cause and remedy, "" where nothing is wrong."""

    def __init__(self, spec: RobotSpec, limits: Limits, config: MonitorLimits, period_s: float) -> None:
        """Watch a robot that is driven with these limits at this period."""
        self._config, self._period_s = config, period_s
        self._every = max(1, round(_SLOW_S / period_s))
        self._following = Following(spec, limits, max(1, round(config.following_timeout_s / period_s / self._every)))
        self._ticks = 0
        self._level = 0.0
        self.errors = 0
        self.max_temperature = math.nan

    def unreadable(self, state: JointState) -> str:
        """Why the reading means nothing."""
        if math.isfinite(state.joint_pos.dot(state.joint_pos) + state.joint_vel.dot(state.joint_vel)):
            return ""
        return f"the robot reports joints {state.joint_pos.tolist()}, not all finite; check its driver"

    def complaint(self, state: JointState, age_s: float) -> str:
        """Why nobody should drive now."""
        self._ticks += 1
        if self._ticks % self._every == 0:
            new, self.errors = state.errors - self.errors, state.errors
            self._level = leak(self._level, new, self._every * self._period_s)
            self.max_temperature = float(state.temperature.max())
        return complaint(
            age_s=age_s, temperature=self.max_temperature, bus_errors=self._level, limits=self._config
        ) or self._tilted(state)

    def _tilted(self, state: JointState) -> str:
        most = self._config.max_tilt
        if most is None or -state.signals["gravity"][2] >= math.cos(most):
            return ""
        return f"the base leans more than {most:.2f} rad: it falls, or its IMU is mounted otherwise than its description says"

    def late(self, target: np.ndarray, joint_pos: np.ndarray) -> str:
        """Which joints do not follow the executed targets, both (n,) rad; call it once a tick of driving, after `complaint`."""
        late = self._following.late(target, joint_pos) if self._ticks % self._every == 0 else []
        if not late:
            return ""
        return (
            f"{', '.join(late)} did not follow the target for {self._config.following_timeout_s} s: blocked, or without torque; "
            "clear its way, check its power and that nobody else writes to the bus"
        )
