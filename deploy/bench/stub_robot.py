"""A robot of twelve joints that costs next to nothing, so that what is measured is the loop."""

import time
from collections.abc import Mapping

import numpy as np

from isthmus.hardware.interface import JointState, Silence
from isthmus.hardware.robot import RobotSpec

from .stamps import Stamps

_TIME_CONSTANT_S = 0.05


class StubRobot:
    """Joints of first order, dq/dt = (target - q) / 50 ms, on a trunk that stands still.

    What the runtime calls of a Robot, and no more: it checks nothing that it is given.
    """

    senses: Mapping[str, int] = {"gyro": 3, "gravity": 3}
    silence = Silence(after_s=_TIME_CONSTANT_S, then="hold")  # it stops at its last target

    def __init__(self, spec: RobotSpec, period_s: float, stamps: Stamps) -> None:
        """At the default pose; one `write` lets one period pass, and each `read` is stamped."""
        n = len(spec.joints)
        self.spec = spec
        self._stamps = stamps
        self._share = 1.0 - np.exp(-period_s / _TIME_CONSTANT_S)
        self._period_s = period_s
        self._step = np.zeros(n)
        self._state = JointState(
            joint_pos=spec.array("default_pos"),
            joint_vel=np.zeros(n),
            temperature=np.full(n, 30.0),
            stamp_ns=0,
            errors=0,
            signals={"gyro": np.zeros(3), "gravity": np.array([0.0, 0.0, -1.0])},
        )

    def connect(self) -> None:
        """See Robot."""

    def read(self) -> JointState:
        """See Robot."""
        self._state.stamp_ns = time.monotonic_ns()
        self._stamps.read(self._state.stamp_ns)
        return self._state

    def write(self, joint_target: np.ndarray) -> None:
        """See Robot."""
        state, step = self._state, self._step
        np.subtract(joint_target, state.joint_pos, out=step)
        np.multiply(step, self._share, out=step)
        np.add(state.joint_pos, step, out=state.joint_pos)
        np.divide(step, self._period_s, out=state.joint_vel)

    def hold(self) -> None:
        """See Robot."""

    def damp(self) -> None:
        """See Robot."""

    def close(self) -> None:
        """See Robot."""
