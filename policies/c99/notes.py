"""What a bundle's manifest says, as comments and definitions of the header."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from isthmus.hardware.signals import SIGNALS

from ..bundle import Bundle, target_output
from ..contract import Contract, ContractJoint
from .names import bare_number, string

PART_NOTES = {
    "base_action": "the network's action, before the contract's action rule",
    "residual_action": "what the residual adds where the gate is open, action units",
    "gate_prob": "probability that the residual is needed",
    "gate": "1 where the residual is used",
    "observation": "what the network sees",
}


@dataclass(frozen=True, kw_only=True)
class Notes:
    """Texts around a program."""

    title: tuple[str, ...] = ()  # lines of the comment at the top
    defines: tuple[tuple[str, str], ...] = ()  # end of the name, and what it stands for, as C
    members: dict[str, str] = field(default_factory=dict)  # comments of the graph's tensors


def bundle_notes(bundle: Bundle, extra: Iterable[str] = ()) -> Notes:
    """Robot, joints, gains, limits, units and provenance of a bundle."""
    manifest, contract = bundle.manifest, bundle.manifest.contract
    title = (
        f"Policy {manifest.name} for robot {contract.robot}, {1e9 / contract.period_ns:g} Hz.",
        f"Compiled by isthmus from the bundle with sha256 {bundle.sha256}.",
        f"Trained by {manifest.provenance.trainer}, exported {manifest.provenance.created}.",
        *extra,
    )
    return Notes(title=title, defines=_defines(bundle), members=_members(contract))


def _defines(bundle: Bundle) -> tuple[tuple[str, str], ...]:
    contract = bundle.manifest.contract
    joints, driven = contract.joints, contract.action.joints
    numbers = {
        "DEFAULT_POS": "default_pos",
        "LOWER": "lower",
        "UPPER": "upper",
        "VELOCITY_LIMIT": "velocity_limit",
        "EFFORT_LIMIT": "effort_limit",
        "KP": "kp",
        "KD": "kd",
    }
    of_joints = [(name, _numbers(joints, attribute)) for name, attribute in numbers.items()] if joints else []
    names = [("JOINT_NAMES", _strings(contract.joint_names))] if joints else []
    return (
        ("NAME", string(bundle.manifest.name)),
        ("ROBOT", string(contract.robot)),
        ("SHA256", string(bundle.sha256)),
        ("PERIOD_NS", f"{contract.period_ns}LL"),
        ("JOINTS", str(len(joints))),
        ("ACTIONS", str(len(driven))),
        ("ACTION_NAMES", _strings(driven)),
        *names,
        *of_joints,
    )


def _numbers(joints: tuple[ContractJoint, ...], attribute: str) -> str:
    return "{" + ", ".join(bare_number(getattr(joint, attribute)) for joint in joints) + "}"


def _strings(texts: Iterable[str]) -> str:
    return "{" + ", ".join(string(text) for text in texts) + "}"


def _members(contract: Contract) -> dict[str, str]:
    registry = {spec.name: spec for spec in SIGNALS}
    order = f"in the order {', '.join(contract.joint_names)}"
    notes = dict(PART_NOTES)
    for name in contract.signals:
        spec = registry.get(name)
        if spec is not None:
            joints = f"; {order}" if spec.width == "joints" else ""
            notes[name] = f"{spec.description}, {spec.unit}, frame: {spec.frame}{joints}"
    for own in contract.own_signals:
        notes[own.name] = f"{own.description}, {own.unit}"
    executed = registry.get(contract.action.target)
    unit = "" if executed is None else f", {executed.unit}"
    targets = contract.joint_names if executed is not None and executed.width == "joints" else contract.action.joints
    notes[target_output(contract)] = f"what is to be executed now{unit}; in the order {', '.join(targets)}"
    return notes
