"""A person drives the tip: tip velocity -> joint targets, and smooth changes between who gives the targets."""

from dataclasses import dataclass

import numpy as np

from isthmus.hardware.kinematics import chain_from_mjcf, tip_jacobian, tip_position
from isthmus.hardware.robot import RobotSpec


@dataclass(frozen=True, kw_only=True)
class TakeoverConfig:
    """How a person drives."""

    damping: float = 0.03  # m/rad; where the arm can move the tip only this little, joints are kept from racing
    max_tip_speed: float = 0.25  # m/s
    ramp_s: float = 0.3  # s, from one source of targets to another


def damped_step(jacobian: np.ndarray, displacement: np.ndarray, damping: float) -> np.ndarray:
    """Joint step for a small tip displacement by damped least squares: dq = J^T (J J^T + damping^2 I)^-1 dx.

    Args:
        jacobian: shape (3, m), m/rad.
        displacement: shape (3,), m, base frame.
        damping: m/rad.

    Returns:
        Shape (m,), rad. Source: Wampler 1986, "Manipulator inverse kinematic solutions based on ... damped least-squares methods".
    """
    return jacobian.T @ np.linalg.solve(jacobian @ jacobian.T + damping**2 * np.eye(3), displacement)


class TipDrive:
    """Turns a person's tip velocity into joint targets; joints outside the chain keep theirs."""

    def __init__(self, spec: RobotSpec, config: TakeoverConfig, period_s: float) -> None:
        """Read the chain to the robot's tip."""
        self._chain = chain_from_mjcf(spec.model_path, spec.reach_site())
        self._indices = [spec.joint_names.index(name) for name in self._chain.joint_names]
        self._config = config
        self._period_s = period_s

    def target(self, executed: np.ndarray, joint_pos: np.ndarray, tip_velocity: np.ndarray) -> np.ndarray:
        """The person's joint target: the executed one, moved on for one period.

        Because it starts anew from what was executed, there is nothing to catch up with at entry and nothing to undo at exit.

        Args:
            executed: shape (n,), rad, robot order.
            joint_pos: measured, shape (n,), rad.
            tip_velocity: shape (3,), m/s, base frame.
        """
        speed = float(np.linalg.norm(tip_velocity))
        target = executed.copy()
        if speed == 0.0 or not np.isfinite(speed):
            return target
        displacement = tip_velocity * (min(speed, self._config.max_tip_speed) / speed * self._period_s)
        jacobian = tip_jacobian(self._chain, joint_pos[self._indices])
        target[self._indices] += damped_step(jacobian, displacement, self._config.damping)
        return target

    def tip(self, joint_pos: np.ndarray) -> np.ndarray:
        """Tip position by the model, shape (3,), m, base frame. joint_pos (n,) rad."""
        return tip_position(self._chain, joint_pos[self._indices])


class Blend:
    """A smooth change of source. It starts with the very increment that was executed last and ends with the new source's own."""

    def __init__(self, ramp_s: float) -> None:
        """`ramp_s` is the duration of a change, s."""
        self._ramp_ns = max(1, round(ramp_s * 1e9))
        self._start_ns: int | None = None
        self._increment = np.zeros(0)

    @property
    def active(self) -> bool:
        """Whether a change is under way."""
        return self._start_ns is not None

    def start(self, now_ns: int, increment: np.ndarray) -> None:
        """Begin a change; `increment` is the last executed step of the targets, shape (n,), rad."""
        self._start_ns = now_ns
        self._increment = increment.copy()

    def stop(self) -> None:
        """Give the new source everything at once."""
        self._start_ns = None

    def apply(self, wanted: np.ndarray, executed: np.ndarray, now_ns: int) -> np.ndarray:
        """Targets on the way to `wanted`; all shapes (n,), rad."""
        if self._start_ns is None:
            return wanted
        x = (now_ns - self._start_ns) / self._ramp_ns
        if x >= 1.0:
            self._start_ns = None
            return wanted
        weight = x * x * (3.0 - 2.0 * x)
        return executed + (1.0 - weight) * self._increment + weight * (wanted - executed)
