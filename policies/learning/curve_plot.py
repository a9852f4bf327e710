"""The learning curve of a run as a picture: reward, success and the task's metrics over environment steps and over time."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from isthmus.hardware.files import replacing
from isthmus.sim.task import Task

from ..curve import Curve

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")  # Okabe and Ito's; more runs than these are not drawn
MARKED = 30  # points from which a line says more than dots


def plot_curve(curve: Curve, task: Task, path: Path) -> None:
    """Write the picture, whole or not at all."""
    plot_curves({"": curve}, task, path)


def plot_curves(curves: Mapping[str, Curve], task: Task, path: Path) -> None:
    """Write a picture of several runs of a task, each by its label; whole or not at all."""
    all_rows = [curve_rows(curve, task) for curve in curves.values()]
    figure = Figure(figsize=(9.0, 1.9 * len(all_rows[0]) + 0.9), layout="constrained")
    axes = figure.subplots(len(all_rows[0]), 2, sharex="col", sharey="row", squeeze=False)
    for (label, curve), rows, color in zip(curves.items(), all_rows, COLORS, strict=False):
        steps = np.array([point.steps for point in curve.points]) / 1e6
        seconds = np.array([point.seconds for point in curve.points])
        for (quantity, values), (left, right) in zip(rows, axes, strict=True):
            for axis, x in ((left, steps), (right, seconds)):
                _draw(axis, x, values, color, label)
            left.set_ylabel(quantity)
    for axis in axes.flat:
        axis.grid(color="0.9")
        axis.set_xlim(left=0)  # last: it ends autoscaling
    for axis, text in zip(axes[-1], ("environment steps, millions", "time in training, s"), strict=True):
        axis.set_xlabel(text)
    if len(curves) > 1:
        axes[0, 0].legend()
    figure.suptitle(f"{task.name}, while exploring")
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=100)


def curve_rows(curve: Curve, task: Task) -> list[tuple[str, np.ndarray]]:
    """Label and values of each row of the picture, NaN where no episode ended in an iteration."""
    points = curve.points
    rows = [("reward per tick", [point.reward for point in points])]
    rows.append(("success, %", [np.nan if point.success is None else 100 * point.success for point in points]))
    for metric in task.metrics:
        unit = "" if metric.unit == "1" else f", {metric.unit}"
        rows.append((f"{metric.name}{unit}", [point.metrics.get(metric.name, np.nan) for point in points]))
    return [(label, np.array(values, dtype=float)) for label, values in rows]


def _draw(axis: Any, x: np.ndarray, values: np.ndarray, color: str, label: str) -> None:
    known = np.isfinite(values)
    marker = "." if known.sum() < MARKED else ""
    axis.plot(x[known], values[known], color=color, linewidth=1.4, marker=marker, label=label)
