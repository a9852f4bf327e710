"""Bundles as mjlab writes policies, for runtimes that read its files: ONNX properties of comma-separated lists, at full precision.

mjlab itself prints three decimals, which stops joints with small scales; whoever reads with float() reads these as well.
"""

import math
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper

from ..contract import Contract, ObservationTerm, sample_width
from ..manifest import Manifest
from ..plan import observation_plan
from .layout import Piece, check_filling, check_joints, per_joint, position_action, unlimited_note, wiring
from .network import Exported, ExportFailed, network_of, wired

_NAMES = {
    "base_lin_vel": "base_lin_vel",
    "gyro": "base_ang_vel",
    "gravity": "projected_gravity",
    "joint_pos": "joint_pos",
    "joint_vel": "joint_vel",
    "last_action": "actions",
    "last_action_raw": "actions",
    "command": "command",
}
_COMMANDS = {"command.velocity": "twist"}


def export_mjlab(model: onnx.ModelProto, manifest: Manifest) -> Exported:
    """A bundle's network with mjlab's properties: obs (1, d) -> actions (1, n).

    Raises:
        ExportFailed: says which part of the contract such a file cannot say.
    """
    contract, network = manifest.contract, network_of(model, manifest)
    rule = position_action(contract)
    check_filling(contract, "first")
    pieces = [_piece(index, term, contract) for index, term in enumerate(contract.observation)]
    whole = np.ones(len(contract.joints))
    made = wired(network, contract, wiring(contract, pieces), ("obs", "actions"), whole)
    helper.set_model_props(made, _properties(contract, pieces, manifest.name))
    return Exported(model=made, files={}, notes=unlimited_note(rule))


def _piece(index: int, term: ObservationTerm, contract: Contract) -> Piece:
    if term.name not in _NAMES:
        raise ExportFailed(f"mjlab has no term {term.name!r}; known: {', '.join(_NAMES)}")
    if term.name.startswith("joint_"):
        check_joints(term, contract)
    elif term.offset != 0.0:
        raise ExportFailed(f"term {term.name!r} has an offset {term.offset}, which mjlab cannot say")
    if term.name == "command" and contract.need_command().signal not in _COMMANDS:
        raise ExportFailed(f"mjlab has no command {contract.need_command().signal!r}; known: {', '.join(_COMMANDS)}")
    values = tuple(range(sample_width(term, contract)))
    scaled = all(len(set(ends)) == 1 for ends in _ends(index, contract))  # mjlab clips all values of a term alike
    return Piece(name=_NAMES[term.name], term=index, values=values, history=max(term.lags) + 1, scaled=scaled)


def _ends(index: int, contract: Contract) -> tuple[list[float], list[float]]:
    """Lowest and highest raw values of a term, before it is scaled."""
    seen, terms = observation_plan(contract), contract.observation
    start = sum(sample_width(term, contract) for term in terms[:index])
    own = slice(start, start + sample_width(terms[index], contract))
    return seen.lower[own].tolist(), seen.upper[own].tolist()


def _properties(contract: Contract, pieces: Sequence[Piece], run: str) -> dict[str, str]:
    joints, rule = contract.joints, position_action(contract)
    open_ends = (-math.inf, math.inf)
    clips = [tuple(ends[0] for ends in _ends(p.term, contract)) if p.scaled else open_ends for p in pieces]
    commands = [] if contract.command is None else [_COMMANDS[contract.command.signal]]
    lists: dict[str, Sequence[str | float | Sequence[float]]] = {
        "joint_names": contract.joint_names,
        "joint_stiffness": [joint.kp for joint in joints],
        "joint_damping": [joint.kd for joint in joints],
        "default_joint_pos": [joint.default_pos for joint in joints],
        "command_names": commands,
        "observation_names": [piece.name for piece in pieces],
        "observation_terms_scale": [
            contract.observation[piece.term].scale if piece.scaled else 1.0 for piece in pieces
        ],
        "observation_terms_flatten_history_dim": ["True" for _ in pieces],
        "observation_terms_history_length": [str(piece.history if piece.history > 1 else 0) for piece in pieces],
        "observation_terms_clip": clips,
        "action_scale": per_joint(rule.scale, len(joints)),
    }
    return {"run_path": run, **{key: ",".join(_entry(item) for item in items) for key, items in lists.items()}}


def _entry(item: str | float | Sequence[float]) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, (int, float)):
        return _number(item)
    return ";".join(_number(number) for number in item)


def _number(number: float) -> str:
    """Nine digits at least, for readers that take a number to be as coarse as it is printed; more where it needs them."""
    if math.isinf(number):
        return str(number)
    short = f"{number:#.9g}"
    return short if float(short) == number else repr(float(number))
