"""What the operating system can do for punctuality; each is asked for, none is needed."""

import ctypes
import gc
import os

_PRIORITY = 70
_MCL_CURRENT_AND_FUTURE = 3


def ask_for_realtime() -> str:
    """Ask for SCHED_FIFO, one CPU and locked memory; returns what was granted, for people to read."""
    granted: list[str] = []
    refused: list[str] = []
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
        granted.append(f"SCHED_FIFO {_PRIORITY}")
        cpu = max(os.sched_getaffinity(0))
        os.sched_setaffinity(
            0, {cpu}
        )  # only with priority: without it a busy neighbour on that CPU would be worse than moving away
        granted.append(f"CPU {cpu}")
    except (OSError, AttributeError):
        refused.append("SCHED_FIFO")
    try:
        locked = ctypes.CDLL(None, use_errno=True).mlockall(_MCL_CURRENT_AND_FUTURE) == 0
    except (OSError, AttributeError):
        locked = False
    (granted if locked else refused).append("mlockall")
    return f"granted: {', '.join(granted) or 'none'}; refused: {', '.join(refused) or 'none'}"


def stop_garbage_collection() -> None:
    """No collection from here on: the tick makes no reference cycles, and a pause would be a late tick."""
    gc.collect()
    gc.freeze()
    gc.disable()
