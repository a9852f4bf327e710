"""The log's own clock against the contract's period, and signals that do not come anew at every tick."""

import numpy as np

from isthmus.hardware.robot import RobotSpec

from .findings import Finding, fault
from .signal_log import SignalLog
from .trained import Trained
from .units import joint_unit

_FACTORS = (
    (2.0, "half"),
    (0.5, "twice"),
    (4.0, "a quarter of"),
    (0.25, "four times"),
    (10.0, "a tenth of"),
    (0.1, "ten times"),
)


def timing(log: SignalLog, period_ns: int) -> list[Finding]:
    """Rate, regularity and order of the stamps."""
    steps = np.diff(log.stamps)[~log.begin[1:]].astype(np.float64) * 1e-9
    period = period_ns * 1e-9
    if len(steps) < 5:
        return [
            fault(
                "timing",
                "log",
                "the log is too short to say anything: no episode in it has more than a few ticks",
                "record some seconds without a break",
                numbers={"ticks [1]": len(log), "episodes [1]": float(log.begin.sum())},
            )
        ]
    if (steps < 0).any() or (steps == 0).mean() > 0.02:
        return [
            fault(
                "timing",
                "stamps",
                "stamps stand still or go backwards: two clocks are mixed, or ticks are out of order",
                "stamp every reading by one monotonic clock",
                numbers={"share of ticks [1]": float((steps <= 0).mean())},
                weight=30.0,
            )
        ]
    found = _pace(steps, period)
    if log.metadata.period_ns != period_ns and not found:
        found.append(
            fault(
                "timing",
                "control rate",
                "the loop was asked for another period than the policy was trained with",
                "run it at the contract's period",
                numbers={"asked period [s]": log.metadata.period_ns * 1e-9, "trained period [s]": period},
                weight=20.0,
            )
        )
    return found


def _pace(steps: np.ndarray, period: float) -> list[Finding]:
    """How long ticks take, s."""
    typical = float(np.median(steps))
    if not 0.9 <= typical / period <= 1.1:
        return [_rate(typical, period)]
    if not 0.9 <= float(np.mean(steps)) / period <= 1.15:
        cause, remedy, numbers = (
            "ticks are missed: the loop keeps its period only now and then",
            "free the loop of what blocks it (bus, logging, other threads)",
            {"mean period [s]": float(np.mean(steps)), "trained period [s]": period},
        )
    elif float(np.mean(np.abs(steps - typical) > 0.2 * period)) > 0.3:
        cause, remedy, numbers = (
            "ticks come irregularly: jitter of more than a fifth of the period",
            "wait for absolute deadlines, and keep other threads out of the loop's process",
            {"jitter [s]": float(np.std(steps)), "trained period [s]": period},
        )
    else:
        return []
    return [fault("timing", "control rate", cause, remedy, numbers=numbers, weight=20.0)]


def _rate(typical: float, period: float) -> Finding:
    ratio = typical / period
    words = f"{1.0 / ratio:.2f} times"
    for factor, said in _FACTORS:
        if abs(np.log(ratio / factor)) < 0.12:
            words = said
    unit = " (stamps that are not in ns?)" if not 0.02 < ratio < 50 else ""
    return fault(
        "timing",
        "control rate",
        f"the control rate is {words} the one of training{unit}: a tick takes {typical * 1e3:.3g} ms, trained with {period * 1e3:.3g} ms",
        "run the loop at the contract's period",
        numbers={"period [s]": typical, "trained period [s]": period},
        weight=40.0,
    )


def repeats(log: SignalLog, trained: Trained, robot: RobotSpec) -> list[Finding]:
    """Signals that are frozen, stale at many ticks, not finite, or that jump by whole turns."""
    found = []
    names = [name for name in log.signals if not name.startswith("command.")]
    lively = [name for name in names if name in trained.ranges and (trained.ranges[name].spread > 1e-4).any()]
    for name in log.signals:
        values = log.signals[name]
        lost = ~np.isfinite(values).all(axis=-1)
        if lost.any():
            found.append(
                fault(
                    "stream",
                    name,
                    f"{name} is not finite in {lost.mean():.1%} of the ticks: readings are lost or divided by zero",
                    "repair the reading; a policy must never see it",
                    numbers={"first such tick [1]": float(np.argmax(lost))},
                    weight=35.0,
                )
            )
    for name in lively:
        found += _still(log, trained, name, robot)
    found += _turns(log)
    return found


def _still(log: SignalLog, trained: Trained, name: str, robot: RobotSpec) -> list[Finding]:
    values, spread = log.signals[name], trained.ranges[name].spread
    if values.shape[1] != len(spread) or len(values) < 20:
        return []
    same = np.diff(values, axis=0) == 0
    others = [o for o in log.signals if o != name and not o.startswith("command.")]
    alive = any((np.diff(log.signals[o], axis=0) != 0).any(axis=-1).mean() > 0.3 for o in others)
    whole = same.all(axis=-1)
    if not alive:
        return []
    if whole.mean() > 0.98:
        return [
            fault(
                "stream",
                name,
                f"{name} is frozen: it keeps its first value while other signals move (dead sensor or topic)",
                "look for the sensor's error, its cable, its subscription",
                numbers={"share of ticks without news [1]": float(whole.mean())},
                weight=35.0,
            )
        ]
    if "target" in name or name == "joint_pos":
        dead = _dead_joints(log, name, robot)
        return [] if dead is None else [dead]
    if 0.35 < whole.mean() < 0.98 and (spread > 1e-3).all():
        return [
            fault(
                "stream",
                name,
                f"{name} comes anew only every {1.0 / max(1e-3, 1.0 - whole.mean()):.1f} ticks: its source is slow or stale",
                "raise the rate of its source, or train with this age",
                numbers={"share of ticks without news [1]": float(whole.mean())},
                weight=25.0,
            )
        ]
    stuck = (same.mean(0) > 0.98) & (spread > 1e-3)
    if stuck.any() and not stuck.all() and name != "joint_vel":
        return [
            fault(
                "stream",
                name,
                f"value {int(np.argmax(stuck)) + 1} of {name} is frozen while the others move",
                "look for the sensor's error",
                weight=30.0,
            )
        ]
    return []


def _dead_joints(log: SignalLog, name: str, robot: RobotSpec) -> Finding | None:
    """A joint whose reading stands to the last digit while its target moves."""
    if name != "joint_pos" or log.executed is None or log.executed.shape != log.signals[name].shape:
        return None
    if log.metadata.target != "joint_target":
        return None
    still = (np.diff(log.signals[name], axis=0) == 0).mean(0) > 0.98
    asked = np.ptp(log.executed, axis=0) > 0.08
    if not (still & asked).any():
        return None
    joint = int(np.argmax(still & asked))
    label = log.metadata.joint_names[joint]
    unit = joint_unit(robot, label, "default_pos")
    return fault(
        "stream",
        "joint_pos",
        f"joint {joint + 1} ({label}) is frozen: its reading stands still while its target moves (dead encoder, or a motor without torque)",
        "look for the servo's error, its cable and its torque",
        numbers={f"range of the target [{unit}]": float(np.ptp(log.executed[:, joint]))},
        weight=35.0,
    )


def _turns(log: SignalLog) -> list[Finding]:
    """Angles that jump by a turn, values that stand out of all others."""
    found = []
    pos = log.signals.get("joint_pos")
    if pos is not None and len(pos) > 3:
        jump = np.abs(np.abs(np.diff(pos, axis=0)) - 2.0 * np.pi) < 0.3
        jump &= ~log.begin[1:, None] & (np.median(np.abs(np.diff(pos, axis=0)), axis=0) < 0.2)
        if jump.any():
            joint = int(np.argmax(jump.any(0)))
            found.append(
                fault(
                    "stream",
                    "joint_pos",
                    f"joint {joint + 1} ({log.metadata.joint_names[joint]}) jumps by a turn: its encoder wraps round inside the range",
                    "move the encoder's zero so that it wraps outside the joint's range, or count turns",
                    numbers={"jumps [1]": float(jump.sum())},
                    weight=35.0,
                )
            )
    for name, values in log.signals.items():
        if name.startswith("command.") or len(values) < 20 or "target" in name:
            continue
        step = np.abs(np.diff(values, axis=0))
        usual = np.quantile(step, 0.9, axis=0) + 1e-3
        single = np.minimum(step[1:], step[:-1]) > 12.0 * usual
        single &= ~(log.begin[2:] | log.begin[1:-1])[:, None]
        if 0.002 < single.any(axis=-1).mean() < 0.2 and single.any(axis=-1).sum() >= 3 and name != "joint_vel":
            found.append(
                fault(
                    "stream",
                    name,
                    f"{name} has spikes: single readings far from those before and after (broken packets, bit errors)",
                    "check checksums and cables; drop readings that fail",
                    numbers={"share of ticks [1]": float(single.any(axis=-1).mean())},
                    weight=15.0,
                )
            )
    return found
