"""The policies of a runtime: which of them is at it, when its next proposal is due, and whether it asks for help."""

from collections.abc import Sequence

import numpy as np

from isthmus.hardware.interface import JointState
from isthmus.policies.episode import Ran

from .bound_policy import BoundPolicy, PolicyFault
from .ports import RuntimeConfig

_ACTED, _ACTED_FROM_REST = int(Ran.ACTED), int(Ran.ACTED | Ran.RESET)


class Proposer:
    """Asks one of the policies at its own rate; between its ticks its last proposal stays."""

    def __init__(self, policies: Sequence[BoundPolicy], config: RuntimeConfig) -> None:
        """None of them is at it yet."""
        self.policies, self._config = policies, config
        self.index = 0
        self.ran = 0  # what the policy did at this tick, a sum of Ran
        self.shadow_fault = False  # it failed while a person drove, and that has been said
        self._tick = 0  # of the runtime's since the policy was reset
        self._asking = 0  # ticks in a row in which its gate was open

    @property
    def asking(self) -> bool:
        """Whether its gate is open."""
        return self._asking > 0

    def select(self, index: int) -> None:
        """Let this policy begin, from rest."""
        self.index = index
        self.policies[index].reset()
        self._tick, self.shadow_fault = 0, False
        self.forget_asking()

    def forget_asking(self) -> None:
        """Somebody else is at it now."""
        self._asking = 0

    def act(self, state: JointState, executed: np.ndarray, command: np.ndarray) -> BoundPolicy:
        """Ask for a proposal where one is due; see `BoundPolicy.act`.

        Raises:
            PolicyFault: the policy failed, or took too long.
        """
        policy = self.policies[self.index]
        tick, self._tick = self._tick, self._tick + 1
        if tick % policy.every:
            return policy
        self.ran = _ACTED if tick else _ACTED_FROM_REST
        policy.act(state, executed, command)
        self._asking = self._asking + policy.every if policy.gate > 0.5 else 0
        if policy.inference_us > self._config.slow_policy_s * 1e6:
            raise PolicyFault(f"the policy took {policy.inference_us * 1e-6:.2f} s for one proposal")
        return policy

    @property
    def wants_help(self) -> bool:
        """Whether its gate has been open for so long that a person should come."""
        after_s = self._config.help_after_s
        return after_s is not None and self._asking * self._config.period_ns > after_s * 1e9
