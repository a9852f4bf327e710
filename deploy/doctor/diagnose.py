"""Everything the doctor can say of a bundle, a robot and a recording."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from isthmus.hardware.errors import IsthmusError
from isthmus.hardware.robot import RobotSpec
from isthmus.policies.bundle import Bundle, load_bundle, target_output

from .findings import Diagnosis, Finding, fault, note
from .log_form import comparable, shape
from .physics import make_test, physics
from .replay import replay
from .rigid_body import ModelUnread, RigidModel, read_model
from .signal_log import SignalLog
from .start import start
from .static import static
from .timing import repeats, timing
from .trained import Trained, trained
from .view import EXECUTED, OF_JOINTS, View, make_view

_LEAST = 20  # ticks that laws need
_LOUD = 20.0  # weight from which on a finding about the log's form makes its physics meaningless


def diagnose(bundle_path: Path, robot: RobotSpec, log: SignalLog | None = None) -> Diagnosis:
    """Load a bundle, and hold it, the robot and a log against each other.

    Args:
        bundle_path: a bundle; one that does not load is a finding.
        robot: the robot's description.
        log: of this robot, best under this policy or another that moves it; None: only what needs none.
    """
    bundle = opened(bundle_path)
    return bundle if isinstance(bundle, Diagnosis) else examine(bundle, robot, log)


def opened(path: Path) -> Bundle | Diagnosis:
    """The bundle; or what keeps it from being loaded."""
    try:
        return load_bundle(path)
    except IsthmusError as error:
        words = str(error)
    except Exception as error:  # onnxruntime raises its own classes, one per way in which a graph cannot be run
        words = f"{path}: the graph cannot be run on its own golden rows: {type(error).__name__}: {error}"
    found = fault("load", "bundle", " ".join(words.split()), "nothing else was checked", weight=100.0)
    return Diagnosis(findings=(found,), checked=("load",))


def examine(bundle: Bundle, robot: RobotSpec, log: SignalLog | None = None) -> Diagnosis:
    """As `diagnose`, of a bundle that is loaded."""
    model, unread = _model(robot)
    findings = [*unread, *static(bundle, robot, model)]
    checked = ["load", "static"]
    bound = not any(f.severity == "fault" and f.link in ("robot", "joint names") for f in findings)
    if log is not None and bound:
        more, laws = _log(bundle, robot, model, log)
        findings += more
        checked += laws
    order = sorted(findings, key=lambda f: (f.severity != "fault", -f.weight))
    return Diagnosis(findings=tuple(order), checked=tuple(checked))


def _model(robot: RobotSpec) -> tuple[RigidModel | None, list[Finding]]:
    try:
        return read_model(robot.model_path, robot.joint_names, robot.base_body), []
    except (ModelUnread, OSError, ValueError) as error:
        return None, [
            note(
                "physics", "model.xml", f"laws that need the model were not checked: {error}", "give bodies <inertial>"
            )
        ]


def _log(bundle: Bundle, robot: RobotSpec, model: RigidModel | None, log: SignalLog) -> tuple[list[Finding], list[str]]:
    contract, known = bundle.manifest.contract, trained(bundle, robot)
    odd = shape(bundle, robot, log)
    if odd:
        return odd, ["log"]
    log, findings = comparable(bundle, log)
    findings += [*timing(log, contract.period_ns), *repeats(log, known, robot)]
    more, _ = replay(bundle, log, robot)
    findings += more + start(bundle, robot, log)
    names = ["timing", "dry run", "replay", "start"]
    loud = [f for f in findings if f.severity == "fault" and f.weight >= _LOUD and f.link not in ("control rate",)]
    if not loud:
        view = make_view(log, robot, contract, model, known)
        if len(view) < _LEAST:
            few = f"only {len(view)} ticks hold every signal: the log was held against no law"
            findings.append(note("physics", "log", few, "record some seconds in which every signal is read"))
        else:
            test = make_test(view, golden_view(view, bundle, known))
            findings += physics(view, test)
            names += [law.name for law in test.laws]
    return findings, names


def golden_view(view: View, bundle: Bundle, known: Trained) -> View:
    """The trainer's own rows as a log, in the robot's joint order."""
    contract, golden = bundle.manifest.contract, bundle.golden
    order = [contract.joint_names.index(name) for name in view.robot.joint_names]
    data = {}
    for name, rows in ((n, golden[n]) for n in contract.signals):
        data[name] = (rows[:, order] if name in OF_JOINTS and len(order) else rows).astype(np.float64)
    target = golden[target_output(contract)].astype(np.float64)
    data[EXECUTED] = target[:, order] if contract.action.target in OF_JOINTS and len(order) else target
    begin = np.zeros(len(target), dtype=bool)
    begin[0] = True
    return replace(view, dt=contract.period_ns * 1e-9, begin=begin, data=data, trained=known)
