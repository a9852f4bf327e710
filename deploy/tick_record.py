"""One preallocated tick record and the two thirds of it that come from elsewhere."""

import time

import numpy as np

from isthmus.hardware.interface import JointState
from isthmus.policies.episode import tick_dtype

from .bound_policy import BoundPolicy


class TickRecord:
    """A record of `tick_dtype`, shape (), and views of its fields by name."""

    def __init__(self, num_joints: int, num_actions: int) -> None:
        """Allocate it."""
        self.record = np.zeros((), dtype=tick_dtype(num_joints, num_actions))
        self.fields = {name: self.record[name] for name in self.record.dtype.names or ()}

    def set_measured(self, state: JointState | None, read_ns: int) -> None:
        """What was read at `read_ns`; NaN where it could not be."""
        f = self.fields
        f["monotonic_ns"][...] = read_ns
        f["wall_ns"][...] = time.time_ns()
        f["joint_pos"][...] = np.nan if state is None else state.joint_pos
        f["joint_vel"][...] = np.nan if state is None else state.joint_vel

    def set_policy(self, policy: BoundPolicy | None) -> None:
        """What the policy proposed; NaN where none ran."""
        f = self.fields
        f["base_action"][...] = np.nan if policy is None else policy.base_action
        f["residual_action"][...] = np.nan if policy is None else policy.residual_action
        f["policy_target"][...] = np.nan if policy is None else policy.joint_target
        f["gate_prob"][...] = 0.0 if policy is None else policy.gate_prob
        f["gate"][...] = 0.0 if policy is None else policy.gate
        f["inference_us"][...] = 0.0 if policy is None else policy.inference_us
