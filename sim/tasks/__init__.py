"""The registry of tasks."""

from isthmus.hardware.structure import FormatError

from ..task import Task
from .cartpole_balance import cartpole_balance
from .go2_velocity import go2_velocity
from .hand_rotate import hand_rotate
from .quadrotor_hover import quadrotor_hover
from .so101_insert import so101_insert
from .so101_reach import so101_reach


def tasks() -> dict[str, Task]:
    """Every task by name."""
    every = (cartpole_balance(), so101_reach(), so101_insert(), go2_velocity(), quadrotor_hover(), hand_rotate())
    return {task.name: task for task in every}


def get_task(name: str) -> Task:
    """One task by name; raises FormatError naming the known ones."""
    known = tasks()
    if name not in known:
        raise FormatError(f"unknown task {name!r}; known: {', '.join(known)}")
    return known[name]
