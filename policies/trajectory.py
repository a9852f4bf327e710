"""A policy that plays given joint targets: excitation for calibration through the same runtime, limits and recording as any other."""

from collections.abc import Mapping

import numpy as np

from .policy import PolicyOutput


class TrajectoryPolicy:
    """Plays joint targets tick by tick, after a slow approach from wherever the arm is; then keeps the last one."""

    num_actions = 0

    def __init__(
        self,
        *,
        joint_names: tuple[str, ...],
        period_ns: int,
        approach_speed: float = 0.5,
        policy_id: str = "trajectory",
    ) -> None:
        """Create a policy that holds still until `load` gives it targets.

        Args:
            joint_names: order of the targets' columns.
            period_ns: control period, ns.
            approach_speed: rad/s of the fastest joint on the way to the first target.
            policy_id: name for the records.
        """
        self.joint_names = joint_names
        self.period_ns = period_ns
        self.policy_id = policy_id
        self._step = approach_speed * period_ns * 1e-9
        self._targets = np.zeros((0, len(joint_names)))
        self._path = self._targets
        self._tick = 0
        self._started = False

    def load(self, targets: np.ndarray) -> None:
        """Set what to play, shape (T, n), rad.

        Raises:
            ValueError: another number of joints, or values that are not finite.
        """
        targets = np.array(targets, dtype=np.float64)
        if targets.ndim != 2 or targets.shape[1] != len(self.joint_names) or len(targets) == 0:
            raise ValueError(
                f"a trajectory has shape {targets.shape}, expected (T, {len(self.joint_names)}) with T > 0"
            )
        if not np.isfinite(targets).all():
            raise ValueError("a trajectory must be finite; check what made it")
        self._targets = targets
        self.reset()

    def reset(self) -> None:
        """Start over: the next `act` begins the approach."""
        self._tick, self._started = 0, False

    @property
    def done(self) -> bool:
        """Whether every target has been proposed."""
        return self._started and self._tick >= len(self._path)

    def duration_ticks(self, executed: np.ndarray) -> int:
        """Ticks from `executed`, shape (n,), rad, through the approach to the last target."""
        return len(approach(executed, self._targets[0], self._step)) + len(self._targets)

    def act(self, signals: Mapping[str, np.ndarray]) -> PolicyOutput:
        """The next target; the signal used is `joint_target`, at the first call only."""
        if not self._started:
            executed = signals["joint_target"]
            targets = self._targets if len(self._targets) else executed[None].copy()
            self._path = np.concatenate([approach(executed, targets[0], self._step), targets])
            self._started = True
        target = self._path[min(self._tick, len(self._path) - 1)]
        self._tick += 1
        empty = np.zeros(0)
        return PolicyOutput(joint_target=target, base_action=empty, residual_action=empty, gate_prob=0.0, gate=0.0)


def approach(start: np.ndarray, goal: np.ndarray, step: float) -> np.ndarray:
    """The points between `start` and `goal`, shape (n,), on a straight joint path whose fastest joint moves `step` rad a tick.

    Shape (K, n), rad, without start and goal.
    """
    ticks = max(1, int(np.ceil(np.abs(goal - start).max() / step - 1e-9)))
    return start + (goal - start) * (np.arange(1, ticks) / ticks)[:, None]
