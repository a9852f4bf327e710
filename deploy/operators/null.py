"""Nobody: never takes over."""

from ..messages import OperatorCommand
from .operator import ViewSource


class NullOperator:
    """Watches and does nothing."""

    def __init__(self, view: ViewSource) -> None:
        """The view is not looked at."""
        self._sequence = 0

    def poll(self, now_ns: int) -> OperatorCommand:
        """A sign of life."""
        self._sequence += 1
        return OperatorCommand(sequence=self._sequence, heartbeat_ns=now_ns)

    def filenos(self) -> tuple[int, ...]:
        """None: nobody does anything."""
        return ()

    def close(self) -> None:
        """Nothing to give back."""
