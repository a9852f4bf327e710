"""Orders of joints that whole robots get wrong."""

from itertools import permutations

import numpy as np


def structured_orders(names: tuple[str, ...]) -> list[tuple[np.ndarray, str]]:
    """Orders that whole robots get wrong: sides swapped, limbs in another order, by kind instead of by limb, sorted, reversed."""
    count = len(names)
    found: dict[tuple[int, ...], str] = {}

    def add(order: list[int], what: str) -> None:
        if sorted(order) == list(range(count)) and order != list(range(count)):
            found.setdefault(tuple(order), what)

    for first, second, what in (
        ("L", "R", "left and right are swapped"),
        ("left", "right", "left and right are swapped"),
        ("F", "R", "front and rear are swapped"),
        ("front", "rear", "front and rear are swapped"),
        ("F", "H", "front and hind are swapped"),
    ):
        for place in (0, 1):
            exchanged = [_exchange(name, first, second, place) for name in names]
            if all(name in names for name in exchanged):
                add([names.index(name) for name in exchanged], what)
    alphabetical = sorted(range(count), key=lambda k: names[k])
    for order, what in (
        (alphabetical, "joints are in alphabetical order"),
        (list(range(count))[::-1], "joints are in reverse order"),
    ):
        add([order.index(k) for k in range(count)], what)
        add(order, what)
    for limbs in (d for d in range(2, count) if count % d == 0):
        size = count // limbs
        by_kind = [limb * size + kind for kind in range(size) for limb in range(limbs)]
        add(
            [by_kind.index(k) for k in range(count)], "joints go by kind instead of by limb (another simulator's order)"
        )
        add(by_kind, "joints go by limb instead of by kind (another simulator's order)")
        if limbs <= 4:
            for turn in permutations(range(limbs)):
                add([limb * size + k for limb in turn for k in range(size)], "limbs are in another order")
        add([limb * size + size - 1 - k for limb in range(limbs) for k in range(size)], "joints go from tip to base")
    for shift in (1, -1):
        add([(k + shift) % count for k in range(count)], "joints are shifted by one place")
    return [(np.array(order), what) for order, what in found.items()]


def _exchange(name: str, first: str, second: str, place: int) -> str:
    """The name with one word for the other: whole words, or the letter at a place of a leading tag such as FL."""
    if len(first) > 1:
        return name.replace(first, "\0").replace(second, first).replace("\0", second)
    head, mark, tail = name.partition("_")
    if len(head) <= place or not head.isupper():
        return ""
    letters = list(head)
    letters[place] = {first: second, second: first}.get(letters[place], letters[place])
    return "".join(letters) + mark + tail
