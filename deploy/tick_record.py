"""One preallocated tick record, filled in one go for its single numbers and by views for its vectors."""

import struct

import numpy as np

from isthmus.hardware.interface import JointState
from isthmus.policies.episode import TICK_FIELDS, Further, tick_dtype

from .bound_policy import BoundPolicy

INTEGERS = tuple(name for name, kind, size in TICK_FIELDS if kind == "<i8")
NUMBERS = tuple(name for name, kind, size in TICK_FIELDS if kind == "<f8" and size == 1)


class TickRecord:
    """A record of `tick_dtype`, shape (), and views of its vectors by name."""

    def __init__(self, num_joints: int, num_actions: int, further: Further = ()) -> None:
        """Allocate it."""
        rows = np.zeros((1,), dtype=tick_dtype(num_joints, num_actions, further))
        self.record = rows[0:1].reshape(())
        self._bytes = rows.view(np.uint8).data
        self._scalars = struct.Struct(f"<{len(INTEGERS)}q{len(NUMBERS)}d")
        self._further = tuple(name for name, _ in further)
        self._told = True  # something of a policy stands here
        self._parts = tuple(name for name, _ in further if name.startswith("part."))
        self.vectors = {name: self.record[name] for name in rows.dtype.names or () if self.record[name].shape}

    def set_scalars(self, *values: float) -> None:
        """All single numbers, in the order of INTEGERS and then NUMBERS."""
        self._scalars.pack_into(self._bytes, 0, *values)

    def set_state(self, state: JointState | None) -> None:
        """What was read beside the angles; NaN for all of it where the robot did not answer."""
        if state is None:
            for name in ("joint_pos", "joint_vel", *self._further):
                self.vectors[name].fill(np.nan)
            return
        self.vectors["joint_vel"][:] = state.joint_vel
        for name, values in state.signals.items():
            self.vectors[name][:] = values

    def set_policy(self, policy: BoundPolicy | None) -> None:
        """What the policy told of its parts, beside what it has written here itself; NaN for all of it where none ran."""
        vectors = self.vectors
        if policy is None:
            if self._told:
                for name in ("base_action", "residual_action", "policy_target", *self._parts):
                    vectors[name].fill(np.nan)
            self._told = False
            return
        self._told = True
        for name in self._parts:
            values = policy.parts.get(name)
            vectors[name].fill(np.nan)
            if values is not None:
                vectors[name][: len(values)] = values
