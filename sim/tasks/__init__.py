"""The registry of tasks: those that isthmus brings, and those of installed packages (entry point group `isthmus.tasks`)."""

from collections.abc import Callable

from isthmus.hardware.plugins import plugins
from isthmus.hardware.structure import FormatError

from ..task import Task
from ..task_checks import check_task
from .cartpole_balance import cartpole_balance
from .go2_rough import go2_rough
from .go2_velocity import go2_velocity
from .hand_rotate import hand_rotate
from .quadrotor_hover import quadrotor_hover
from .so101_insert import so101_insert
from .so101_reach import so101_reach

OWN: dict[str, Callable[[], Task]] = {
    "cartpole-balance": cartpole_balance,
    "so101-reach": so101_reach,
    "so101-insert": so101_insert,
    "go2-velocity": go2_velocity,
    "go2-velocity-rough": go2_rough,
    "quadrotor-hover": quadrotor_hover,
    "hand-rotate": hand_rotate,
}


def task_names() -> tuple[str, ...]:
    """Names of every task, isthmus's own first."""
    return tuple(plugins("isthmus.tasks", Task, OWN))


def tasks() -> dict[str, Task]:
    """Every task that isthmus brings, by name."""
    return {name: make() for name, make in OWN.items()}


def get_task(name: str) -> Task:
    """One task by name; raises FormatError naming the known ones, TaskError for what is wrong with it."""
    known = plugins("isthmus.tasks", Task, OWN)
    if name not in known:
        raise FormatError(f"unknown task {name!r}; known: {', '.join(known)}")
    task = known[name]()
    if task.name != name:
        raise FormatError(f"task {task.name!r} is registered as {name!r}; use one name")
    check_task(task)
    return task
