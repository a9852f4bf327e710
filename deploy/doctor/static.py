"""A bundle against a robot's description, and both against themselves: everything that differs, not only the first."""

from collections.abc import Iterator

import numpy as np

from isthmus.hardware.robot import RobotSpec
from isthmus.policies.actions import JointIncrement, JointPosition, RotorSpeed
from isthmus.policies.bundle import Bundle, target_output
from isthmus.policies.contract import Contract, ContractError, ContractJoint, bind

from .chain import chain_differs
from .findings import Finding, fault, note
from .hypotheses import UNITS
from .observe import compare, observations
from .rigid_body import Motion, RigidModel, inverse_dynamics
from .units import joint_unit, signal_unit

FIELDS = ("kp", "kd", "lower", "upper", "default_pos", "velocity_limit", "effort_limit")
_WORDS = {
    "kp": "stiffness kp", "kd": "damping kd", "lower": "lower limit", "upper": "upper limit", "default_pos": "default pose",
    "velocity_limit": "velocity limit", "effort_limit": "effort limit",
}  # fmt: skip
_ALIVE = ("base_lin_vel", "base_pos", "base_quat")


def static(bundle: Bundle, robot: RobotSpec, model: RigidModel | None) -> list[Finding]:
    """Findings that need no recording."""
    contract = bundle.manifest.contract
    found = [*_names(contract, robot)]
    if not found:
        found += _values(contract, robot)
        found += _bound(contract, robot, found)
    found += _gains(contract)
    found += _action(contract, robot)
    found += _printed(bundle)
    found += _signals(contract, robot)
    found += _training(bundle, robot)
    found += _graph(bundle)
    if not any(f.severity == "fault" for f in found) and model is not None:
        found += _droop(contract, robot, model)
    return found


def _names(contract: Contract, robot: RobotSpec) -> Iterator[Finding]:
    own, trained = set(robot.joint_names), set(contract.joint_names)
    if contract.robot != robot.name:
        yield fault(
            "static", "robot", f"the policy was trained for robot {contract.robot!r}, this one is {robot.name!r}",
            "use a bundle made for this robot", weight=50.0,
        )  # fmt: skip
    if own != trained:
        lost, extra = sorted(trained - own), sorted(own - trained)
        similar = [f"{a} ~ {b}" for a in lost for b in extra if _plain(a) == _plain(b)]
        what = f"; the same but for how they are written: {', '.join(similar)}" if similar else ""
        yield fault(
            "static", "joint names", f"joint names differ: the policy has {lost or 'all'}, the robot has {extra or 'no others'}{what}",
            "bind by the same names; never by place", weight=49.0,
        )  # fmt: skip


def _plain(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum()).replace("joint", "")


def _values(contract: Contract, robot: RobotSpec) -> Iterator[Finding]:
    names = contract.joint_names
    own = [robot.joints[robot.joint_names.index(name)] for name in names]
    for field in FIELDS:
        trained = np.array([getattr(joint, field) for joint in contract.joints])
        real = np.array([getattr(joint, field) for joint in own])
        room = np.array([max(1e-9, dict(joint.rounding).get(field, 0.0)) for joint in contract.joints])
        off = ~(np.abs(trained - real) <= room)
        if not off.any():
            continue
        at = int(np.argmax(np.where(off, np.abs(trained - real), -1.0)))
        which = "every joint" if off.all() else ", ".join(n for n, o in zip(names, off, strict=True) if o)
        unit = joint_unit(robot, names[at], field)
        yield fault(
            "static", _WORDS[field], f"{_WORDS[field]} of {which} differs from training: {_how(trained, real, off, unit)}",
            "retrain for this robot, or restore its robot.toml",
            numbers={f"{names[at]} in training [{unit}]": trained[at], f"{names[at]} in robot.toml [{unit}]": real[at]},
            weight=45.0 + off.mean(),
        )  # fmt: skip


def _how(trained: np.ndarray, real: np.ndarray, off: np.ndarray, unit: str) -> str:
    if off.sum() > 1 and np.allclose(np.sort(trained), np.sort(real), atol=1e-6):
        return "the same numbers in another joint order"
    if np.allclose(trained[off], -real[off], atol=1e-6):
        return "the sign is turned round"
    if (real[off] == 0).all():
        return "the robot has 0: a value is missing"
    if (trained[off] == 0).all():
        return "the policy has 0: a value is missing"
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = real[off] / trained[off]
    for factor, words, _ in UNITS:
        if np.isfinite(ratios).all() and np.allclose(ratios, factor, rtol=0.02):
            return (
                f"the robot's {words.split(',')[0]}"
                if words.startswith("is in")
                else f"the robot's is {factor:.3g} times as large"
            )
    if np.isfinite(ratios).all() and np.allclose(ratios, ratios[0], rtol=1e-3):
        return f"the robot's is {ratios[0]:.3g} times as large"
    return f"by up to {np.abs(trained - real)[off].max():.3g} {unit}"


def _bound(contract: Contract, robot: RobotSpec, found: list[Finding]) -> Iterator[Finding]:
    """What binding itself refuses, such as rotors in another order; and a chain that is not the model's."""
    if not found:
        try:
            bind(contract, robot)
        except ContractError as error:
            yield fault("static", "binding", str(error), "use a bundle made for this robot", weight=45.0)
    if contract.chain is not None:
        yield from chain_differs(contract.chain, contract, robot)


def _gains(contract: Contract) -> Iterator[Finding]:
    """Gains that no position drive can have."""
    if contract.action.target != "joint_target" or not contract.joints:
        return
    driven = [joint for joint in contract.joints if joint.name in contract.action.joints]
    soft = [joint.name for joint in driven if not joint.kp > 0]
    if soft:
        yield fault(
            "static", "stiffness kp", f"kp of {', '.join(soft)} is 0: no position drive would move it (numbers of torque motors?)",
            "take the gains that training used", weight=43.0,
        )  # fmt: skip
    if len(driven) > 1 and all(joint.kp == 1.0 and abs(joint.kd) == 0.0 for joint in driven):
        yield fault(
            "static", "stiffness kp", "kp is 1 and kd 0 for every joint: numbers of a simulator's torque motors, not of position drives",
            "take the gains that training used", weight=48.0,
        )  # fmt: skip
    wild = [
        j.name for j in driven if j.effort_limit > 0 and j.kp * max(j.upper - j.lower, 1e-6) < 0.05 * j.effort_limit
    ]
    if wild:
        yield fault(
            "static", "stiffness kp", f"kp of {', '.join(wild)} gives less than a twentieth of the effort limit over its range",
            "look whether gains are in N m/rad", weight=42.0,
        )  # fmt: skip
    hard = [j.name for j in driven if j.effort_limit > 0 and j.kp > 0 and j.effort_limit / j.kp < np.radians(0.3)]
    if hard:
        yield fault(
            "static", "stiffness kp", f"kp of {', '.join(hard)} reaches the effort limit at less than 0.3 degrees",
            "look whether gains are in N m/rad and limits in N m", weight=42.0,
        )  # fmt: skip


def _action(contract: Contract, robot: RobotSpec) -> Iterator[Finding]:
    rule = contract.action
    if isinstance(rule, RotorSpeed):
        return
    joints = {joint.name: joint for joint in contract.joints}
    scale = np.broadcast_to(np.asarray(rule.scale, dtype=float), len(rule.joints))
    for name, size in zip(rule.joints, np.abs(scale), strict=True):
        joint: ContractJoint = joints[name]
        if isinstance(rule, JointPosition | JointIncrement) and size > 1.5 * (joint.upper - joint.lower):
            unit = signal_unit(contract, robot, "joint_pos", contract.joint_names.index(name))
            yield fault(
                "static", "action scale", f"one unit of action moves {name} by {size:.3g} {unit}, more than its range: degrees, not rad?",
                "look at action.scale", numbers={f"range [{unit}]": joint.upper - joint.lower}, weight=41.0,
            )  # fmt: skip
            return
    for place, joint in enumerate(contract.joints):
        if not joint.lower <= joint.default_pos <= joint.upper:
            unit = signal_unit(contract, robot, "joint_pos", place)
            yield fault(
                "static", "default pose", f"the default pose of {joint.name} lies outside its own limits",
                "look at units and joint order of the default pose",
                numbers={f"{name} [{unit}]": getattr(joint, name) for name in ("default_pos", "lower", "upper")}, weight=41.0,
            )  # fmt: skip


def _printed(bundle: Bundle) -> Iterator[Finding]:
    """Imported numbers that were printed too coarsely to be used."""
    for source in bundle.manifest.sources:
        value = _value_at(bundle.manifest.contract, source.path)
        if value is None or source.resolution <= 0:
            continue
        if abs(value) < 20.0 * source.resolution and any(key in source.path for key in ("scale", "kp", "kd")):
            yield fault(
                "static", source.path,
                f"{source.path} = {value:g} was printed to {2 * source.resolution:g} in {source.source}: "
                f"up to {source.resolution / max(abs(value), 1e-12):.0%} of it is lost",
                "take the number at full precision from the training configuration", weight=30.0,
            )  # fmt: skip


def _value_at(contract: Contract, path: str) -> float | None:
    """The number at a path such as joints[3].kp; None where there is none."""
    value: object = contract
    for part in path.replace("[", ".[").split("."):
        try:
            value = value[int(part[1:-1])] if part.startswith("[") else getattr(value, part)  # pyright: ignore[reportIndexIssue]
        except (AttributeError, IndexError, TypeError, ValueError):
            return None
    return float(value) if isinstance(value, (int, float)) else None


def _signals(contract: Contract, robot: RobotSpec) -> Iterator[Finding]:
    estimated = [name for name in contract.signals if name in _ALIVE]
    if estimated:
        yield note(
            "static",
            "signals",
            f"the policy needs {', '.join(estimated)}, which a state estimator must give",
            "provide one",
        )
    inertial = [name for name in contract.signals if name in ("gyro", "gravity", "accelerometer", *_ALIVE)]
    if inertial and not robot.floating:
        yield fault(
            "static", "signals", f"the policy needs {', '.join(inertial)}, but robot {robot.name!r} is fixed to the world and has no IMU",
            "use a policy that sees what this robot measures", weight=44.0,
        )  # fmt: skip


def _training(bundle: Bundle, robot: RobotSpec) -> Iterator[Finding]:
    """What the bundle says of training against its own golden rows and contract."""
    manifest, golden = bundle.manifest, bundle.golden
    contract, known = manifest.contract, manifest.distribution
    if known is None:
        yield note(
            "static",
            "distribution",
            "the bundle does not hold what training met: streams are compared with golden rows only",
        )
    else:
        for signal in known.signals:
            table, rows = np.array(signal.quantiles), golden.get(signal.name)
            if rows is None or rows.shape[1] != len(table):
                continue
            width = table[:, -1] - table[:, 0]
            room = 0.5 * width + 0.05 * np.abs(table).max(1) + 0.02
            outside = (rows < table[:, 0] - room) | (rows > table[:, -1] + room)
            if outside.mean(0).max() > 0.2:
                at = int(np.argmax(outside.mean(0)))
                unit = signal_unit(contract, robot, signal.name, at)
                yield fault(
                    "static", f"distribution of {signal.name}",
                    f"golden rows and what training met do not belong together, worst in value {at + 1}",
                    "export the policy again", weight=35.0,
                    numbers={
                        f"middle of the golden rows [{unit}]": float(np.median(rows[:, at])),
                        f"lowest in training [{unit}]": table[at, 0], f"highest in training [{unit}]": table[at, -1],
                    },
                )  # fmt: skip
        yield from _limits(contract, {s.name: np.array(s.quantiles) for s in known.signals})
    envelope = manifest.envelope
    if envelope is not None and contract.joints:
        low, high = np.array(envelope.joint_pos_low), np.array(envelope.joint_pos_high)
        if len(low) != len(contract.joints) or (low > high).any():
            yield fault(
                "static",
                "start envelope",
                "the start envelope is empty or of other joints",
                "export again",
                weight=30.0,
            )


def _limits(contract: Contract, tables: dict[str, np.ndarray]) -> Iterator[Finding]:
    table = tables.get("joint_pos")
    if table is None or len(table) != len(contract.joints):
        return
    middle = table[:, table.shape[1] // 2]
    lower, upper = (np.array([getattr(j, k) for j in contract.joints]) for k in ("lower", "upper"))
    outside = (middle < lower - 0.2) | (middle > upper + 0.2)
    if outside.any():
        names = [j.name for j, o in zip(contract.joints, outside, strict=True) if o]
        yield fault(
            "static", "distribution of joint_pos", f"training met {', '.join(names)} outside its limits: other units or joint order",
            "export again from the environment that was trained in", weight=38.0,
        )  # fmt: skip


def _graph(bundle: Bundle) -> Iterator[Finding]:
    """Golden rows through the graph against what the contract says that the network sees."""
    contract, golden = bundle.manifest.contract, bundle.golden
    policy = bundle.policy()
    signals = {name: golden[name].astype(np.float64) for name in contract.signals}
    shown_rows, action_rows = [], []
    for tick in range(len(golden[target_output(contract)])):
        out = policy.run({name: rows[tick] for name, rows in signals.items()})
        shown_rows.append(out["observation"].astype(np.float64))
        action_rows.append(out["base_action"].astype(np.float64))
    shown, actions = np.stack(shown_rows), np.stack(action_rows)
    expected = observations(contract, signals, actions)
    words = "" if expected is None else compare(contract, expected, shown)
    if words:
        yield fault(
            "static", "graph", f"the graph does not make the observation that its contract says: {words}",
            "export again; contract and graph must come from one source", weight=42.0,
        )  # fmt: skip


def _droop(contract: Contract, robot: RobotSpec, model: RigidModel) -> Iterator[Finding]:
    """Whether a fixed robot's drives can hold it in the default pose."""
    if robot.floating or contract.action.target != "joint_target":
        return
    pose = robot.array("default_pos")[None]
    rest = np.zeros_like(pose)
    load = np.abs(inverse_dynamics(model, Motion(pos=pose, vel=rest, acc=rest))[0][0])
    kp, limit = robot.array("kp"), robot.array("effort_limit")
    weak = [k for k in range(len(load)) if kp[k] > 0 and load[k] > min(0.9 * limit[k], 0.35 * kp[k])]
    if weak:
        names = [robot.joint_names[k] for k in weak]
        units = [joint_unit(robot, name, "effort_limit") for name in names]
        yield fault(
            "static", "gains", f"{', '.join(names)} cannot hold the default pose: its weight takes more than kp or the effort limit give",
            "look at gains, limits and masses", weight=30.0,
            numbers={f"load of {name} [{unit}]": float(load[k]) for k, name, unit in zip(weak, names, units, strict=True)},
        )  # fmt: skip
