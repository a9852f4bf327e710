"""Pictures of a calibration: measured against simulated motion, and the errors that are left. PNG bytes."""

import io
from typing import Any

import numpy as np

from isthmus.hardware.robot import RobotSpec

from .excitation import HELD_OUT
from .identified import Identified
from .log import JointLog
from .rollout import NOMINAL, ServoRollout, Targets


def replay(log: JointLog, robot: RobotSpec, identified: Identified) -> tuple[np.ndarray, np.ndarray]:
    """The log's targets on the model as written and on the identified one; two arrays (T, n) rad."""
    rollout = ServoRollout(robot, physics_dt_s=identified.physics_dt_s)
    found = [
        estimate.value
        for estimate in (
            identified.friction_scale,
            identified.gain_scale,
            identified.payload_kg,
            identified.latency_s,
        )
    ]
    targets = Targets(log.written_s, log.joint_target)
    before, after = rollout(np.array([NOMINAL, found]), targets, log.joint_pos[0], log.time_s)
    return before, after


def calibration_png(log: JointLog, robot: RobotSpec, identified: Identified) -> bytes:
    """Per joint the measured and the simulated angles, and the error before and after; below them a table."""
    from matplotlib.figure import Figure  # heavy: only where a picture is drawn

    before, after = replay(log, robot, identified)
    joints = len(log.joint_names)
    figure = Figure(figsize=(12, 1.7 * joints + 2.2), layout="constrained")
    axes = figure.subplots(joints + 1, 2, width_ratios=[2, 1], squeeze=False)
    split = log.time_s[0] + (1.0 - HELD_OUT) * log.duration_s
    for axis in axes[joints - 1]:
        axis.set_xlabel("time, s")
    for index, name in enumerate(log.joint_names):
        _draw_joint(axes[index], log.time_s, log.joint_pos[:, index], before[:, index], after[:, index], name)
        for axis in axes[index]:
            axis.axvspan(split, log.time_s[-1], color="0.92", zorder=0)
    axes[0, 0].legend(loc="upper right", ncols=3, fontsize="small")
    axes[0, 0].set_title("angle, deg (grey: not fitted)", fontsize="medium")
    axes[0, 1].set_title("simulated - measured, deg", fontsize="medium")
    _draw_table(axes[joints], identified)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=90)
    return buffer.getvalue()


def _draw_joint(
    axes: Any, time: np.ndarray, measured: np.ndarray, before: np.ndarray, after: np.ndarray, name: str
) -> None:
    angle, error = axes
    angle.plot(time, np.rad2deg(measured), color="black", linewidth=1.2, label="measured")
    angle.plot(time, np.rad2deg(before), color="tab:red", linewidth=0.8, label="model as written")
    angle.plot(time, np.rad2deg(after), color="tab:blue", linewidth=0.8, label="identified")
    angle.set_ylabel(name, fontsize="small")
    error.plot(time, np.rad2deg(before - measured), color="tab:red", linewidth=0.8)
    error.plot(time, np.rad2deg(after - measured), color="tab:blue", linewidth=0.8)


def _draw_table(axes: Any, identified: Identified) -> None:
    for axis in axes:
        axis.axis("off")
    rows = [
        [
            name,
            f"{estimate.value:.4g}",
            f"{estimate.lower:.4g} .. {estimate.upper:.4g}" if estimate.identifiable else "?",
        ]
        for name, estimate in (
            ("friction scale", identified.friction_scale),
            ("gain scale", identified.gain_scale),
            ("payload, kg", identified.payload_kg),
            ("latency, s", identified.latency_s),
        )
    ]
    axes[0].table(rows, colLabels=["parameter", "value", "95 % interval"], loc="center")
    errors = [
        [error.joint, f"{np.rad2deg(error.before_rad):.3f}", f"{np.rad2deg(error.after_rad):.3f}"]
        for error in identified.heldout
    ]
    axes[1].table(errors, colLabels=["held-out RMSE, deg", "before", "after"], loc="center")
