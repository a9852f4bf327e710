"""Positions of a stick or a puck -> how far it is moved."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class AxisRange:
    """Of an absolute axis."""

    low: int
    high: int
    flat: int  # positions this near to the middle mean nothing


def deflection(value: int, axis: AxisRange, dead: float) -> float:
    """Position of a stick -> -1 .. 1, with nothing within `dead` of the middle and no jump at its edge.

    Args:
        value: position.
        axis: of the stick; where its own flat part is larger than `dead`, that counts.
        dead: share of the way from the middle to an end, less than 1.
    """
    middle, half = (axis.low + axis.high) / 2.0, (axis.high - axis.low) / 2.0
    dead = max(dead, axis.flat / half)
    away = min(1.0, abs(value - middle) / half)
    return 0.0 if away <= dead else (away - dead) / (1.0 - dead) * (1.0 if value > middle else -1.0)
