"""The learning curve of a run as a picture: reward, success and the task's metrics over environment steps and over time."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from isthmus.sim.task import Task

from ..curve import Curve

MARKED = 30  # points from which a line says more than dots


def plot_curve(curve: Curve, task: Task, path: Path) -> None:
    """Write the picture, whole or not at all."""
    rows = curve_rows(curve, task)
    steps = np.array([point.steps for point in curve.points]) / 1e6
    seconds = np.array([point.seconds for point in curve.points])
    figure = Figure(figsize=(9.0, 1.9 * len(rows) + 0.9), layout="constrained")
    axes = figure.subplots(len(rows), 2, sharex="col", sharey="row", squeeze=False)
    for (label, values), (left, right) in zip(rows, axes, strict=True):
        for axis, x in ((left, steps), (right, seconds)):
            _draw(axis, x, values)
        left.set_ylabel(label)
    for axis, label in zip(axes[-1], ("environment steps, millions", "time in training, s"), strict=True):
        axis.set_xlabel(label)
    figure.suptitle(f"{task.name}, while exploring")
    temporary = path.with_suffix(".tmp")
    figure.savefig(temporary, format="png", dpi=100)
    temporary.replace(path)


def curve_rows(curve: Curve, task: Task) -> list[tuple[str, np.ndarray]]:
    """Label and values of each row of the picture, NaN where no episode ended in an iteration."""
    points = curve.points
    rows = [("reward per tick", [point.reward for point in points])]
    rows.append(("success, %", [np.nan if point.success is None else 100 * point.success for point in points]))
    for metric in task.metrics:
        unit = "" if metric.unit == "1" else f", {metric.unit}"
        rows.append((f"{metric.name}{unit}", [point.metrics.get(metric.name, np.nan) for point in points]))
    return [(label, np.array(values, dtype=float)) for label, values in rows]


def _draw(axis: Any, x: np.ndarray, values: np.ndarray) -> None:
    known = np.isfinite(values)
    axis.plot(x[known], values[known], color="#0072b2", linewidth=1.4, marker="." if known.sum() < MARKED else "")
    axis.grid(color="0.9")
    axis.set_xlim(left=0)
