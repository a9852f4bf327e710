"""Where a tick's targets come from: the way to the start pose, the policy, a person, the path so far, or what was executed last."""

import numpy as np

from isthmus.hardware.robot import RobotSpec
from isthmus.policies.episode import Source

from .bound_policy import BoundPolicy
from .messages import Drive, OperatorCommand
from .modes import DRIVING, Mode
from .ports import RuntimeConfig
from .rewind import Path
from .takeover import Blend, HumanDrive


class Sources:
    """Gives the targets that are wanted at a tick, smoothly from one source to the next."""

    def __init__(self, spec: RobotSpec, config: RuntimeConfig, human: np.ndarray) -> None:
        """Read what is needed of the robot; a person's targets are left in `human`, (n,), NaN where nobody drives."""
        period_s = config.period_ns * 1e-9
        self._drive = HumanDrive(spec, config.takeover, period_s)
        self._blend = Blend(config.takeover.ramp_s)
        self._path = Path(
            len(spec.joints),
            max(2, round(config.rewind_most_s / period_s)),
            speed=config.rewind_speed,
            least=round(config.rewind_least_s / period_s),
        )
        self._start_pose = spec.array("default_pos") if config.start_pose is None else np.array(config.start_pose)
        self._ready_step = config.ready_speed * period_s
        self._human = human
        self._of_person = False  # the blend goes to or from a person
        self.source = Source.NONE
        self.arrived = False  # READY has reached the start pose
        self.rewound = False  # going back has come to its end

    @property
    def intervention(self) -> bool:
        """Whether a person's targets still play a part."""
        return self._blend.active and self._of_person

    def begin(self) -> None:
        """An attempt begins."""
        self._path.clear()

    def change_policy(self, now_ns: int, increment: np.ndarray) -> None:
        """Another policy goes on, without a step in the targets; `increment` is the last executed step, (n,), rad."""
        self._blend.start(now_ns, increment)
        self._of_person = False

    def change_mode(
        self, old: Mode, new: Mode, *, now_ns: int, executed: np.ndarray, increment: np.ndarray, smooth: bool
    ) -> None:
        """The mode changes; `smooth` allows a blend. `executed` and `increment` are the last targets and their last step, (n,), rad."""
        self.arrived = False
        self._blend.stop()
        starts = new is Mode.POLICY and old in (Mode.READY, Mode.HOLD)
        if smooth and old in DRIVING and new in DRIVING and not starts:
            self._blend.start(now_ns, increment)
            self._of_person = Mode.TELEOP in (old, new)
        if new is Mode.TELEOP:
            self._drive.begin(executed)
        if new is Mode.REWIND:
            self.rewound = False
            self._path.begin()
        if old is Mode.REWIND:
            self._path.cut()

    def wanted(
        self,
        mode: Mode,
        *,
        operator: OperatorCommand,
        policy: BoundPolicy | None,
        executed: np.ndarray,
        joint_pos: np.ndarray,
        now_ns: int,
    ) -> np.ndarray:
        """Targets (n,), rad, before any limit; `source` says whose they are.

        Raises:
            DriveError: what the person gives means nothing on this robot.
        """
        targets = self._of_mode(mode, operator, policy, executed, joint_pos)
        if self._blend.active:
            targets = self._blend.apply(targets, executed, now_ns)
            self.source = Source.BLEND if self._blend.active else self.source
        return targets

    def remember(self, mode: Mode, executed: np.ndarray, *, good: bool) -> None:
        """Targets (n,), rad, were executed; they are a place to come back to where `good`."""
        if mode in (Mode.POLICY, Mode.TELEOP):
            self._path.add(executed, good=good and mode is Mode.POLICY)

    def _of_mode(
        self,
        mode: Mode,
        operator: OperatorCommand,
        policy: BoundPolicy | None,
        executed: np.ndarray,
        joint_pos: np.ndarray,
    ) -> np.ndarray:
        self.source = Source.HOLD
        if mode is Mode.READY:
            gap = self._start_pose - executed
            self.arrived = bool(np.abs(gap).max() < 1e-6)
            return executed + np.clip(gap, -self._ready_step, self._ready_step)
        if mode is Mode.TELEOP and operator.drive != Drive.COMMAND:
            self._human[:] = self._drive.target(operator, executed, joint_pos)
            self.source = Source.HUMAN
            return self._human
        if mode is Mode.REWIND:
            back = self._path.back()
            self.rewound = back is None
            self.source = Source.HOLD if back is None else Source.REWIND
            return executed if back is None else back
        if mode in (Mode.POLICY, Mode.TELEOP) and policy is not None and policy.proposed:
            self.source = Source.POLICY
            return policy.joint_target
        return executed
