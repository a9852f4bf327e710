"""A policy bound to a robot by joint names: robot order in, robot order out, failures as one error."""

import time

import numpy as np

from isthmus.hardware.errors import IsthmusError
from isthmus.hardware.robot import RobotSpec
from isthmus.policies.policy import Policy


class BindingError(IsthmusError, ValueError):
    """A policy does not fit the robot or the runtime."""


class PolicyFault(Exception):
    """A policy failed, or proposed values that are not finite."""


class BoundPolicy:
    """Calls a policy with signals in its own joint order and keeps its last proposal in robot order, in preallocated arrays."""

    def __init__(self, policy: Policy, spec: RobotSpec, period_ns: int, num_actions: int) -> None:
        """Bind by name.

        Raises:
            BindingError: joints that the robot does not have, or another control period.
        """
        missing = [name for name in policy.joint_names if name not in spec.joint_names]
        if missing:
            raise BindingError(
                f"policy {policy.policy_id[:12]} has joints {missing} that robot {spec.name!r} lacks (it has {list(spec.joint_names)})"
            )
        if policy.period_ns != period_ns:
            raise BindingError(
                f"policy {policy.policy_id[:12]} wants a period of {policy.period_ns} ns, the runtime has {period_ns} ns; use one period"
            )
        self.policy = policy
        self._indices = np.array([spec.joint_names.index(name) for name in policy.joint_names])
        n = len(spec.joints)
        self.joint_target = np.full(n, np.nan)
        self.base_action = np.full(num_actions, np.nan)
        self.residual_action = np.full(num_actions, np.nan)
        self.gate_prob = 0.0
        self.gate = 0.0
        self.inference_us = 0.0
        own = {name: np.zeros(len(self._indices)) for name in ("joint_pos", "joint_vel", "joint_target")}
        # A bundle's own arrays where it has them, so that nothing is copied twice.
        self._signals = getattr(policy, "inputs", own | {"command.target": np.zeros(3)})

    def reset(self) -> None:
        """Forget history."""
        self.clear()
        self.policy.reset()

    def clear(self) -> None:
        """Forget the last proposal."""
        for array in (self.joint_target, self.base_action, self.residual_action):
            array.fill(np.nan)
        self.gate_prob = self.gate = self.inference_us = 0.0

    def act(self, joint_pos: np.ndarray, joint_vel: np.ndarray, executed: np.ndarray, target: np.ndarray) -> None:
        """Propose; joint arrays (n,) in robot order, rad and rad/s, `target` (3,) m.

        Raises:
            PolicyFault: says what the policy did. The last proposal is NaN then.
        """
        signals = self._signals
        signals["joint_pos"][:] = joint_pos[self._indices]
        signals["joint_vel"][:] = joint_vel[self._indices]
        signals["joint_target"][:] = executed[self._indices]
        signals["command.target"][:] = target
        started = time.perf_counter_ns()
        try:
            output = self.policy.act(signals)
        except Exception as error:  # whatever a policy raises, the arm must hold and the cause be reported
            self.clear()
            raise PolicyFault(f"policy {self.policy.policy_id[:12]} failed: {type(error).__name__}: {error}") from error
        self.inference_us = (time.perf_counter_ns() - started) * 1e-3
        proposal = np.asarray(output.joint_target, dtype=np.float64)
        if proposal.shape != self._indices.shape or not np.isfinite(proposal).all():
            self.clear()
            raise PolicyFault(
                f"policy {self.policy.policy_id[:12]} proposed {proposal.tolist()}, expected {len(self._indices)} finite joint targets; "
                "run another policy, or retrain this one where it is asked to work"
            )
        self.joint_target[:] = executed
        self.joint_target[self._indices] = proposal
        self.base_action[: len(output.base_action)] = output.base_action
        self.residual_action[: len(output.residual_action)] = output.residual_action
        self.gate_prob, self.gate = float(output.gate_prob), float(output.gate)
