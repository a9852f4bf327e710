"""The few numbers of linux/input-event-codes.h that are used here; part of the kernel's promise to programs, they never change."""

from enum import IntEnum


class Kind(IntEnum):
    """Type of an event."""

    SYN = 0
    KEY = 1
    REL = 2
    ABS = 3


SYN_DROPPED = 3


class Button(IntEnum):
    """Codes of Kind.KEY."""

    LEFT_OF_PUCK = 0x100  # BTN_0
    RIGHT_OF_PUCK = 0x101  # BTN_1
    SOUTH = 0x130
    EAST = 0x131
    NORTH = 0x133
    WEST = 0x134
    LEFT_BUMPER = 0x136  # BTN_TL
    RIGHT_TRIGGER = 0x139  # BTN_TR2
    START = 0x13B


class Axis(IntEnum):
    """Codes of Kind.ABS, and up to RZ of Kind.REL."""

    X = 0
    Y = 1
    Z = 2
    RX = 3
    RY = 4
    RZ = 5
    GAS = 9
    BRAKE = 10
