"""Whether a log is of this robot and can be compared, and what of it can not."""

from dataclasses import replace

import numpy as np

from isthmus.hardware.robot import RobotSpec
from isthmus.policies.bundle import Bundle

from .findings import Finding, fault, note
from .signal_log import COMMAND, SignalLog
from .view import OF_JOINTS

_LARGEST = 1e9  # no signal of a robot is so large, in any unit


def shape(bundle: Bundle, robot: RobotSpec, log: SignalLog) -> list[Finding]:
    """Faults of a log that is not of this robot, or holds what none has; nothing else is looked at then."""
    names = log.metadata.joint_names
    if log.metadata.robot != robot.name:
        return [
            fault(
                "stream", "robot", f"the log is of robot {log.metadata.robot!r}, this one is {robot.name!r}",
                "give a log of this robot", weight=46.0,
            )
        ]  # fmt: skip
    if sorted(names) != sorted(robot.joint_names):
        return [
            fault(
                "stream", "joint names", f"the log has joints {list(names)}, the robot {list(robot.joint_names)}",
                "name joints as robot.toml does", weight=45.0,
            )
        ]  # fmt: skip
    return _widths(bundle, log) or _sizes(log)


def _widths(bundle: Bundle, log: SignalLog) -> list[Finding]:
    for name in OF_JOINTS:
        values = log.signals.get(name)
        if values is not None and values.shape[1] != len(log.metadata.joint_names):
            return [
                fault(
                    "stream", name,
                    f"{name} has {values.shape[1]} values for {len(log.metadata.joint_names)} joints: a joint is missing or doubled",
                    "log every joint once", weight=45.0,
                )
            ]  # fmt: skip
    contract = bundle.manifest.contract
    width = contract.signal_width(contract.action.target)
    for name, values in (("executed", log.executed), ("proposed", log.proposed)):
        if values is not None and values.shape[1] != width and log.metadata.target == contract.action.target:
            return [
                fault(
                    "stream", f"{name} target",
                    f"the {name} target has {values.shape[1]} values, {contract.action.target} has {width}",
                    "log the whole target", weight=45.0,
                )
            ]  # fmt: skip
    return []


def _sizes(log: SignalLog) -> list[Finding]:
    of_targets = {"executed target": log.executed, "proposed target": log.proposed, "action": log.action}
    found: list[Finding] = []
    for name, values in {**log.signals, **of_targets, "observation": log.observation}.items():
        largest = 0.0 if values is None else float(np.max(np.abs(values), initial=0.0, where=np.isfinite(values)))
        if largest > _LARGEST:
            found.append(
                fault(
                    "stream", name, f"{name} is as large as {largest:.3g}: no signal of a robot is (a counter, raw bytes, bit errors?)",
                    "log what was read, in its unit", weight=45.0,
                )
            )  # fmt: skip
    return found


def comparable(bundle: Bundle, log: SignalLog) -> tuple[SignalLog, list[Finding]]:
    """The log without what cannot be compared, and notes of what that is."""
    found: list[Finding] = []
    log = _with_command(bundle, log)
    if log.broken:
        words = f"the file {log.broken}: its first {len(log)} ticks were read, what came after is lost"
        found.append(note("stream", "log", words, "copy it again, or record it again, where that matters"))
    wanted = bundle.manifest.contract.action.target
    if log.metadata.target != wanted:
        words = f"the log's targets are {log.metadata.target}, the policy's {wanted}: targets were not compared"
        found.append(note("stream", "targets", words, "record under this policy"))
        log = replace(log, executed=None, proposed=None)
    elif log.executed is None or not np.isfinite(log.executed).all(axis=-1).any():
        words = "the log does not say what was written to the drives: laws about targets were not checked"
        found.append(note("stream", "targets", words, "record the executed target"))
        log = replace(log, executed=None)
    return log, found


def _with_command(bundle: Bundle, log: SignalLog) -> SignalLog:
    """The command of a log of `isthmus run` by the name and width that the policy knows."""
    if COMMAND not in log.signals:
        return log
    contract, signals = bundle.manifest.contract, dict(log.signals)
    values = signals.pop(COMMAND)
    if contract.command is not None:
        signals[contract.command.signal] = values[:, : contract.signal_width(contract.command.signal)]
    return replace(log, signals=signals)
