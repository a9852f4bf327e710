"""What a person's newest command means for the mode."""

from .messages import OperatorCommand
from .modes import Event, Mode


def operator_event(
    command: OperatorCommand, mode: Mode, *, fresh: bool, may_engage: bool, may_rewind: bool
) -> Event | None:
    """The event that a person's command is; None where it is none.

    Args:
        command: the newest there is.
        mode: of the runtime.
        fresh: whether the operator has given a sign of life in time.
        may_engage: whether the person has let go since the attempt began: who still drives from an earlier one has to do that first.
        may_rewind: whether they have let go of rewind since it came to its end.
    """
    if not fresh:
        return Event.OPERATOR_LOST if mode in (Mode.TELEOP, Mode.REWIND) else None
    if command.stop:
        return Event.OPERATOR_STOP
    if command.rewind:
        return Event.OPERATOR_REWIND if may_engage and may_rewind else None
    if mode is Mode.REWIND and not command.engaged:
        return Event.REWOUND
    if not command.engaged:
        return Event.OPERATOR_RESUME if command.resume else Event.OPERATOR_RELEASED
    return Event.OPERATOR_ENGAGED if may_engage else None
