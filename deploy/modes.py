"""What the runtime is doing, and what may change it: the whole mode machine as one table."""

from enum import IntEnum, auto


class Mode(IntEnum):
    """State of the runtime. IDLE, DAMP and ESTOP drive nothing; the others write a target every tick."""

    IDLE = 0  # as started: nothing was ever commanded
    DAMP = 1  # torque off; the first step of arming
    READY = 2  # on the way to the start pose, then holding it; the second step
    POLICY = 3
    TELEOP = 4  # a person drives, the policy runs in its shadow
    HOLD = 5  # keeps the last executed target
    ESTOP = 6  # torque off, until a person asks for IDLE
    REWIND = 7  # back along the path so far, at a person's wish
    HELP = 8  # keeps the last executed target until a person takes over, or lets the policy go on


class Event(IntEnum):
    """What can happen. ASK_* come from the supervisor, OPERATOR_* from the person, the others from the runtime itself."""

    ASK_IDLE = 0
    ASK_DAMP = auto()
    ASK_READY = auto()
    ASK_POLICY = auto()
    ASK_HOLD = auto()
    ASK_ESTOP = auto()
    OPERATOR_ENGAGED = auto()
    OPERATOR_RELEASED = auto()
    OPERATOR_REWIND = auto()  # back, please
    REWOUND = auto()  # far enough back, or the person let go
    OPERATOR_RESUME = auto()  # the policy may go on by itself
    OPERATOR_STOP = auto()
    OPERATOR_LOST = auto()
    HELP_WANTED = auto()  # the policy does not know what to do
    POLICY_FAULT = auto()  # the policy failed or proposed values that are not finite
    HARDWARE_FAULT = auto()  # the bus failed, but a hold command still went through; or a monitor asks for it
    HARDWARE_LOST = auto()  # not even that
    SUPERVISOR_LOST = auto()
    FAULT_EXPIRED = auto()  # nobody reacted to a fault in time


_I, _D, _R, _P, _T, _H, _E, _W, _Q = Mode

# Columns: IDLE DAMP READY POLICY TELEOP HOLD ESTOP REWIND HELP. A mode that maps to itself refuses or does not care.
TRANSITIONS: dict[Event, tuple[Mode, ...]] = {
    Event.ASK_IDLE: (_I, _I, _R, _P, _T, _H, _I, _W, _Q),
    Event.ASK_DAMP: (_D, _D, _D, _D, _D, _D, _E, _D, _D),
    Event.ASK_READY: (_I, _R, _R, _P, _T, _H, _E, _W, _Q),
    Event.ASK_POLICY: (_I, _D, _P, _P, _P, _P, _E, _P, _P),
    Event.ASK_HOLD: (_I, _D, _H, _H, _H, _H, _E, _H, _H),
    Event.ASK_ESTOP: (_E, _E, _E, _E, _E, _E, _E, _E, _E),
    Event.OPERATOR_ENGAGED: (_I, _D, _R, _T, _T, _H, _E, _T, _T),
    Event.OPERATOR_RELEASED: (_I, _D, _R, _P, _P, _H, _E, _W, _Q),
    Event.OPERATOR_REWIND: (_I, _D, _R, _W, _W, _H, _E, _W, _W),
    Event.REWOUND: (_I, _D, _R, _P, _T, _H, _E, _Q, _Q),
    Event.OPERATOR_RESUME: (_I, _D, _R, _P, _T, _H, _E, _P, _P),
    Event.OPERATOR_STOP: (_I, _D, _H, _H, _H, _H, _E, _H, _H),
    Event.OPERATOR_LOST: (_I, _D, _R, _P, _H, _H, _E, _H, _Q),
    Event.HELP_WANTED: (_I, _D, _R, _Q, _T, _H, _E, _W, _Q),
    Event.POLICY_FAULT: (_I, _D, _R, _H, _T, _H, _E, _W, _Q),
    Event.HARDWARE_FAULT: (_I, _D, _H, _H, _H, _H, _E, _H, _H),
    Event.HARDWARE_LOST: (_I, _D, _D, _D, _D, _D, _E, _D, _D),
    Event.SUPERVISOR_LOST: (_I, _D, _H, _H, _H, _H, _E, _H, _H),
    Event.FAULT_EXPIRED: (_I, _D, _D, _D, _D, _D, _E, _D, _D),
}

DRIVING = (Mode.READY, Mode.POLICY, Mode.TELEOP, Mode.HOLD, Mode.REWIND, Mode.HELP)
ATTEMPTING = (Mode.POLICY, Mode.TELEOP, Mode.REWIND, Mode.HELP)
"""Modes in which an attempt goes on."""

REQUESTS: dict[Mode, Event] = {
    Mode.IDLE: Event.ASK_IDLE,
    Mode.DAMP: Event.ASK_DAMP,
    Mode.READY: Event.ASK_READY,
    Mode.POLICY: Event.ASK_POLICY,
    Mode.HOLD: Event.ASK_HOLD,
    Mode.ESTOP: Event.ASK_ESTOP,
}
"""Event of a supervisor's request for a mode. TELEOP cannot be asked for: a person takes over."""


def next_mode(mode: Mode, event: Event) -> Mode:
    """The mode after an event; the same mode where the event is refused."""
    return TRANSITIONS[event][mode]
