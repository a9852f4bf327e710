"""The protocol of everything that proposes joint targets from raw signals."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np


@dataclass(kw_only=True)
class PolicyOutput:
    """One proposal, in the policy's joint order. Parts that a policy does not have are NaN (actions) or 0 (gate)."""

    joint_target: np.ndarray  # (n,) rad
    base_action: np.ndarray  # (a,)
    residual_action: np.ndarray  # (a,)
    gate_prob: float
    gate: float


class Policy(Protocol):
    """Proposes joint targets; keeps its recurrent state between `reset` calls. Never touches hardware."""

    policy_id: str  # sha256 of the bundle, or a name for policies without one
    joint_names: tuple[str, ...]
    num_actions: int
    period_ns: int

    def reset(self) -> None:
        """Forget history; the next `act` is the first of an episode."""
        ...

    def act(self, signals: Mapping[str, np.ndarray]) -> PolicyOutput:
        """Propose targets.

        Args:
            signals: by name (`hardware/signals.py`), float64, shape (width,), joints in the order of `joint_names`.

        Raises:
            KeyError: a signal that the policy needs is missing.
        """
        ...


@runtime_checkable
class InPlacePolicy(Protocol):
    """A policy whose inputs and outputs stay where they are in memory, so that a tick copies and allocates nothing."""

    inputs: Mapping[str, np.ndarray]  # every signal it needs, (width,) each, to be written before `step`
    outputs: Mapping[
        str, np.ndarray
    ]  # its target, base_action, residual_action, gate_prob, gate and "part.<what>", (width,) each

    def step(self, signals: Mapping[str, np.ndarray]) -> np.ndarray:
        """Propose: the targets (n,), which the next call overwrites. Give it `inputs` and nothing is copied."""
        ...
