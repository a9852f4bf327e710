"""The protocol of everybody who can take over from a policy."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from isthmus.hardware.errors import IsthmusError

from ..messages import OperatorCommand
from ..modes import Mode


class OperatorError(IsthmusError):
    """An operator's device cannot be used, or is gone; the text says why and what to do."""


@dataclass(frozen=True, kw_only=True)
class View:
    """What an operator is told of the session; angles in rad, robot order."""

    episode: int  # -1 between attempts
    mode: Mode
    target: np.ndarray  # (3,) m, base frame
    joint_pos: np.ndarray  # (n,) measured; NaN before the first tick
    executed_target: np.ndarray  # (n,) last target that went to the robot; NaN before the first


ViewSource = Callable[[], View]


class Operator(Protocol):
    """A person, or something that stands in for one. Asked whenever a descriptor is readable, and at least 50 times a second."""

    def poll(self, now_ns: int) -> OperatorCommand:
        """What the operator wants now.

        The command carries a growing sequence and `now_ns` as heartbeat. Between attempts (`View.episode` is -1) it never drives,
        and each attempt begins without driving, also where somebody holds a switch down from before.

        Raises:
            OperatorError: the device is gone.
        """
        ...

    def filenos(self) -> tuple[int, ...]:
        """Descriptors that become readable when the person does something, and are not any more after `poll`; may be none."""
        ...

    def close(self) -> None:
        """Give the device back; may be called twice, also after it is gone."""
        ...


OperatorFactory = Callable[[ViewSource], Operator]
"""Builds an operator in the process that runs it; picklable where that is a process of its own."""
