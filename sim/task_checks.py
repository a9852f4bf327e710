"""What a task must satisfy before it can run: times that fit together, names that differ, numbers that can be."""

import math
import numbers
from collections.abc import Iterable

import torch

from isthmus.hardware.errors import IsthmusError

from .engine import EngineState
from .task import MetricTerm, RewardTerm, Success, Task, TerminationTerm, hold_ticks

ESTIMATES = ("base_pos", "base_quat", "base_lin_vel")  # signals that a state estimator may give
_WHOLE = 1e-6  # of a step; quotients of times miss whole numbers by less


class TaskError(IsthmusError, ValueError):
    """A task that cannot be run as it is."""


def check_task(task: Task) -> None:
    """Refuse a task that cannot be run; raises TaskError saying which value and what is expected."""
    where = f"task {task.name!r}"
    _check_times(task, where)
    _check_terms(task.rewards, RewardTerm, f"{where}: rewards")
    _check_terms((*task.terminations, *task.truncations), TerminationTerm, f"{where}: terminations and truncations")
    _check_terms(task.metrics, MetricTerm, f"{where}: metrics")
    if not task.rewards:
        raise TaskError(f"{where}: rewards are empty; nothing could be learnt, give one term at least")
    for term in task.rewards:
        if not _is_number(term.weight):
            raise TaskError(f"{where}: weight of reward {term.name!r} must be finite, got {term.weight}")
    for index, function in enumerate(task.privileged):
        if not callable(function):
            raise TaskError(f"{where}: privileged function {index} is {function!r}; expected a function of the truth")
    unknown = sorted(set(task.estimates) - set(ESTIMATES))
    if unknown:
        raise TaskError(f"{where}: estimates {unknown} are unknown; known: {', '.join(ESTIMATES)}")
    _check_success(task, where)


def check_start(
    start: EngineState, task: Task, *, count: int, num_joints: int, free: tuple[str, ...], fixed: tuple[str, ...]
) -> EngineState:
    """The start of `count` environments as it is; raises TaskError for one of other shapes than the scene's.

    Args:
        start: what the task's `start` gave.
        task: whose start it is.
        count: k, environments that begin.
        num_joints: n, of the robot.
        free: names of the scene's free bodies.
        fixed: names of its fixed objects.
    """
    where = f"start of task {task.name!r}"
    if not isinstance(start, EngineState):
        raise TaskError(f"{where} gave a {type(start).__name__}; expected an EngineState")
    _check_names(f"{where}: free", start.free, free, whole=True)
    _check_names(f"{where}: fixed_pos", start.fixed_pos, fixed, whole=False)
    shapes = [("joint_pos", start.joint_pos, num_joints), ("joint_vel", start.joint_vel, num_joints)]
    shapes += [(f"fixed_pos[{name!r}]", pos, 3) for name, pos in start.fixed_pos.items()]
    for name, body in start.free.items():
        widths = {"pos": 3, "quat": 4, "lin_vel": 3, "ang_vel": 3}
        shapes += [(f"free[{name!r}].{key}", getattr(body, key), width) for key, width in widths.items()]
    for what, value, width in shapes:
        if not isinstance(value, torch.Tensor) or value.shape != (count, width):
            got = tuple(value.shape) if isinstance(value, torch.Tensor) else f"a {type(value).__name__}"
            raise TaskError(f"{where}: {what} is {got}; expected a row per environment, shape {(count, width)}")
    return start


def _check_times(task: Task, where: str) -> None:
    for name in ("period", "physics_dt", "episode_length"):
        seconds = getattr(task, name)
        if not _is_number(seconds) or seconds <= 0:
            raise TaskError(f"{where}: {name} must be a positive number of seconds, got {seconds}")
    steps = task.period / task.physics_dt
    if task.substeps < 1 or abs(steps - task.substeps) > _WHOLE * steps:
        raise TaskError(
            f"{where}: period {task.period} s is {steps:.6g} physics steps of {task.physics_dt} s; expected a whole number"
        )
    if task.ticks < 1:
        raise TaskError(
            f"{where}: episode_length {task.episode_length} s is shorter than a control tick, {task.period} s"
        )


def _check_terms(terms: object, kind: type, where: str) -> None:
    """That all are of a kind, with functions and with names of their own."""
    if not isinstance(terms, tuple):
        raise TaskError(f"{where} are {terms!r}; expected a tuple of {kind.__name__}")
    names: set[str] = set()
    for term in terms:
        if not isinstance(term, kind):
            raise TaskError(f"{where} hold {term!r}; expected a {kind.__name__}")
        if not callable(term.function):
            raise TaskError(
                f"{where}: function of {term.name!r} is {term.function!r}; expected a function of the truth"
            )
        if term.name in names:
            raise TaskError(f"{where}: {term.name!r} is there twice; give each a name of its own")
        names.add(term.name)


def _check_success(task: Task, where: str) -> None:
    success = task.success
    if success is None:
        return
    if not isinstance(success, Success) or not callable(success.function):
        raise TaskError(f"{where}: success is {success!r}; expected a Success with a function of the truth, or None")
    if not _is_number(success.hold) or success.hold <= 0:
        raise TaskError(f"{where}: success.hold must be a positive number of seconds, got {success.hold}")
    if hold_ticks(success, task.period) > task.ticks:
        raise TaskError(
            f"{where}: success.hold {success.hold} s is longer than the episode, {task.episode_length} s: none could succeed"
        )


def _check_names(where: str, got: Iterable[str], expected: tuple[str, ...], *, whole: bool) -> None:
    names = set(got)
    if names - set(expected) or (whole and set(expected) - names):
        raise TaskError(f"{where} holds {sorted(names)}; expected {'' if whole else 'some of '}{sorted(expected)}")


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
