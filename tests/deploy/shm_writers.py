"""Processes that write as fast as they can, for tests to kill."""

import numpy as np

from isthmus.deploy.shm import Mailbox, Ring

DTYPE = np.dtype([("count", "<i8"), ("values", "<f8", (200,))])


def record(count: int) -> np.ndarray:
    """Torn exactly where count and values differ."""
    made = np.zeros((), dtype=DTYPE)
    made["count"] = count
    made["values"] = count
    return made


def is_whole(made: np.ndarray) -> bool:
    return bool((made["values"] == made["count"]).all())


def write_for_ever(name: str) -> None:
    mailbox = Mailbox(DTYPE, name=name)
    count = 0
    while True:
        count += 1
        mailbox.write(record(count))


def push_for_ever(name: str, capacity: int) -> None:
    ring = Ring(DTYPE, capacity, name=name)
    count = 0
    while True:
        ring.push(record(count))
        count += 1
