"""The protocol of everybody who can take over from a policy."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from isthmus.hardware.errors import IsthmusError

from ..messages import OperatorCommand


class OperatorError(IsthmusError):
    """An operator's device cannot be used; the text says why and what to do."""


@dataclass(frozen=True, kw_only=True)
class View:
    """What an operator is told of the session."""

    episode: int  # -1 between attempts
    target: np.ndarray  # (3,) m, base frame


ViewSource = Callable[[], View]


class Operator(Protocol):
    """A person, or something that stands in for one. Asked about 50 times a second."""

    def poll(self, now_ns: int) -> OperatorCommand:
        """What the operator wants now.

        The command carries a growing sequence and `now_ns` as heartbeat. Between attempts (`View.episode` is -1) it never drives,
        and each attempt begins without driving.
        """
        ...

    def close(self) -> None:
        """Give the device back; may be called twice."""
        ...


OperatorFactory = Callable[[ViewSource], Operator]
"""Builds an operator in the process that runs it; picklable where that is a process of its own."""
