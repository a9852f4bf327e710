"""A person drives: what they give -> joint targets, and smooth changes between who gives the targets."""

from dataclasses import dataclass

import numpy as np

from isthmus.hardware.errors import IsthmusError
from isthmus.hardware.kinematics import chain_from_mjcf, tip_jacobian
from isthmus.hardware.robot import RobotSpec

from .messages import Drive, OperatorCommand


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


class DriveError(IsthmusError, ValueError):
    """What a person gives means nothing on this robot."""


class HumanDrive:
    """Turns what a person gives into joint targets; joints that they do not give keep theirs.

    Velocities start anew from what was executed, so there is nothing to catch up with at entry and nothing to undo at exit. A leader's
    pose is followed with the blend and the limiter in between: at no tick does a joint move farther than a tick allows.
    """

    def __init__(self, spec: RobotSpec, config: TakeoverConfig, period_s: float) -> None:
        """Read the chain to the robot's tip, where it has one."""
        self._chain = None if spec.tip_site is None else chain_from_mjcf(spec.model_path, spec.tip_site)
        names = () if self._chain is None else self._chain.joint_names
        self._indices = [spec.joint_names.index(name) for name in names]
        self._name, self._n = spec.name, len(spec.joints)
        self._config, self._period_s = config, period_s
        self._anchor = np.zeros(self._n)

    def begin(self, executed: np.ndarray) -> None:
        """A person takes over now, at the executed targets (n,), rad: offsets count from here."""
        self._anchor[:] = executed

    def target(self, command: OperatorCommand, executed: np.ndarray, joint_pos: np.ndarray) -> np.ndarray:
        """The person's joint target, (n,), rad.

        Args:
            command: what the person gives.
            executed: shape (n,), rad, robot order.
            joint_pos: measured, shape (n,), rad.

        Raises:
            DriveError: not what this robot can be driven by, or numbers that are missing or too many.
        """
        values = np.array(command.values)
        if command.drive == Drive.TIP_VELOCITY:
            return self._along(self._numbers(values, 3), executed, joint_pos)
        if command.drive == Drive.JOINT_VELOCITY:
            return executed + np.nan_to_num(self._numbers(values, self._n)) * self._period_s
        if command.drive in (Drive.JOINT_TARGET, Drive.JOINT_OFFSET):
            goal = self._numbers(values, self._n) + (self._anchor if command.drive == Drive.JOINT_OFFSET else 0.0)
            return np.where(np.isfinite(goal), goal, executed)
        raise DriveError(f"the person gives numbers of kind {command.drive}, which mean no joint targets")

    def _numbers(self, values: np.ndarray, count: int) -> np.ndarray:
        if len(values) != count:
            raise DriveError(f"the person gives {len(values)} numbers, {self._name!r} needs {count}")
        return values

    def _along(self, tip_velocity: np.ndarray, executed: np.ndarray, joint_pos: np.ndarray) -> np.ndarray:
        """Targets moved on for one period with the tip at this velocity, (3,) m/s, base frame."""
        if self._chain is None:
            raise DriveError(f"{self._name!r} has no tip to drive; use an operator that gives joints or a command")
        speed = float(np.linalg.norm(tip_velocity))
        target = executed.copy()
        if speed == 0.0 or not np.isfinite(speed):
            return target
        displacement = tip_velocity * (min(speed, self._config.max_tip_speed) / speed * self._period_s)
        jacobian = tip_jacobian(self._chain, joint_pos[self._indices])
        target[self._indices] += damped_step(jacobian, displacement, self._config.damping)
        return target


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
