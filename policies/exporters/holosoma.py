"""Bundles as holosoma writes policies, for holosoma-inference: ONNX properties in JSON, actor_obs (1, d) -> action (1, n).

Such a file does not say what its observation is made of: holosoma-inference has that in its configuration. A TOML beside it, of the same
name, says what has to stand there, by the names of that configuration.
"""

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx
from onnx import helper

from ..contract import Contract, ObservationTerm, PhaseClock, sample_width
from ..importers.holosoma import ACTION_CLIP, STILL
from ..importers.holosoma_config import HolosomaConfig
from ..manifest import Manifest
from .layout import Piece, check_filling, check_joints, per_joint, position_action, unlimited_note, wiring
from .network import Exported, ExportFailed, network_of, wired

_COMMAND = "command.velocity"
_NAMES = {
    "gyro": "base_ang_vel",
    "gravity": "projected_gravity",
    "joint_pos": "dof_pos",
    "joint_vel": "dof_vel",
    "last_action": "actions",
    "last_action_raw": "actions",
    "phase_cos": "cos_phase",
    "phase_sin": "sin_phase",
}
_COMMAND_PARTS = {(0, 1): "command_lin_vel", (2,): "command_ang_vel"}


def export_holosoma(model: onnx.ModelProto, manifest: Manifest) -> Exported:
    """A bundle's network with holosoma's properties, and the configuration that it has to be run with.

    The tool has one action scale for all joints: where the bundle's differ, each action is given, and seen, as its share of the largest.

    Raises:
        ExportFailed: says which part of the contract holosoma-inference cannot do.
    """
    contract, network = manifest.contract, network_of(model, manifest)
    rule = position_action(contract)
    check_filling(contract, "zero")
    samples = max(max(term.lags) for term in contract.observation) + 1
    pieces = [
        piece for index, term in enumerate(contract.observation) for piece in _pieces(index, term, contract, samples)
    ]
    pieces.sort(key=lambda piece: piece.name)
    names = [piece.name for piece in pieces]
    if len(set(names)) != len(names):
        raise ExportFailed(f"holosoma has each term once; the bundle's are {names}")
    each = np.array(per_joint(rule.scale, len(contract.joints)))
    scale = float(each[np.argmax(np.abs(each))])
    seen = wiring(contract, pieces)
    seen = replace(seen, scale=seen.scale / _shares(contract, each / scale))
    made = wired(network, contract, seen, ("actor_obs", "action"), each / scale)
    properties = {"action_scale": scale, **_properties(contract, manifest.name)}
    helper.set_model_props(made, {key: json.dumps(value) for key, value in properties.items()})
    config = HolosomaConfig(
        terms=tuple(names),
        obs_scales={piece.name: _declared(piece, contract) for piece in pieces},
        policy_action_scale=scale,
        rl_rate=_plain_inverse(contract.period_ns * 1e-9),
        history_length=samples,
        gait_period=_gait_period(contract, names),
        default_dof_angles=tuple(joint.default_pos for joint in contract.joints),
    )
    notes = (*unlimited_note(rule), *_notes(contract))
    return Exported(model=made, files={".toml": config_toml(config)}, notes=notes)


def _shares(contract: Contract, share: np.ndarray) -> np.ndarray:
    """For each value of the observation the share that an action is seen as; 1 where it is no action."""
    terms = contract.observation
    parts = [share if term.name.startswith("last_action") else np.ones(sample_width(term, contract)) for term in terms]
    if contract.layout == "time":
        return np.concatenate([part for _ in terms[0].lags for part in parts])
    return np.concatenate([part for term, part in zip(terms, parts, strict=True) for _ in term.lags])


def config_toml(config: HolosomaConfig) -> str:
    """The configuration as TOML."""
    values = {key: value for key, value in vars(config).items() if value is not None and key != "obs_scales"}
    lines = [
        f"{key} = {json.dumps(list(value) if isinstance(value, tuple) else value)}" for key, value in values.items()
    ]
    scales = [f"{name} = {scale!r}" for name, scale in config.obs_scales.items()]
    return "\n".join([*lines, "", "[obs_scales]", *scales, ""])


def _pieces(index: int, term: ObservationTerm, contract: Contract, samples: int) -> list[Piece]:
    whole = tuple(range(sample_width(term, contract)))
    if term.name.startswith("joint_"):
        check_joints(term, contract)
    elif term.offset != 0.0:
        raise ExportFailed(f"term {term.name!r} has an offset {term.offset}, which holosoma cannot say")
    scaled = isinstance(term.scale, (int, float)) and term.clip is None
    if term.name in _NAMES:
        return [Piece(name=_NAMES[term.name], term=index, values=whole, history=samples, scaled=scaled)]
    if term.name == "command" and contract.need_command().signal == _COMMAND:
        parts = {name: values for values, name in _COMMAND_PARTS.items()}
        return [Piece(name=name, term=index, values=v, history=samples, scaled=scaled) for name, v in parts.items()]
    if term.name == "signal" and term.signal == _COMMAND and term.index in _COMMAND_PARTS:
        return [Piece(name=_COMMAND_PARTS[term.index], term=index, values=whole, history=samples, scaled=scaled)]
    raise ExportFailed(f"holosoma has no term {term.name!r}; known: command, {', '.join(_NAMES)}")


def _declared(piece: Piece, contract: Contract) -> float:
    """The scale that the tool applies; what it cannot say is inside the network."""
    scale = contract.observation[piece.term].scale
    return float(scale) if piece.scaled and isinstance(scale, (int, float)) else 1.0


def _gait_period(contract: Contract, names: Sequence[str]) -> float | None:
    if not {"sin_phase", "cos_phase"} & set(names):
        return None
    clock = contract.clock
    assert clock is not None
    step = clock.frequency * contract.period_ns * 1e-9
    close = (
        all(abs(a - b) < 1e-9 for a, b in zip(clock.start, (step, 0.5 + step), strict=False)) and len(clock.start) == 2
    )
    rule = (clock.still_below, clock.still_parts, clock.still, clock.restart)
    if not close or rule != (STILL, ((0, 1), (2,)), (0.5, 0.5), (0.0, 0.5)):
        raise ExportFailed(
            f"holosoma's clock is of two feet half a cycle apart, the first at {step:g} cycles at first, that stand at half a cycle "
            f"while the command is below {STILL}; {_said(clock)}"
        )
    return _plain_inverse(clock.frequency)


def _said(clock: PhaseClock) -> str:
    """A clock in words."""
    stands = "never stand" if clock.still_below is None else f"stand at {list(clock.still)} below {clock.still_below}"
    return f"the bundle's phases begin at {[float(f'{start:.6g}') for start in clock.start]} cycles and {stands}"


def _plain_inverse(number: float) -> float:
    """1 / number, with the fewest digits that give the same number back."""
    exact = 1.0 / number
    return next((plain for plain in (float(f"{exact:.{n}g}") for n in range(1, 17)) if 1.0 / plain == number), exact)


def _properties(contract: Contract, name: str) -> dict[str, object]:
    joints = contract.joints
    properties: dict[str, object] = {
        "dof_names": list(contract.joint_names),
        "kp": [joint.kp for joint in joints],
        "kd": [joint.kd for joint in joints],
        "wandb_run_path": name,
    }
    if contract.command is not None and contract.command.signal == _COMMAND:
        ranges = zip(contract.command.low, contract.command.high, strict=True)
        keys = ("lin_vel_x", "lin_vel_y", "ang_vel_yaw")
        properties["command_ranges"] = {key: list(ends) for key, ends in zip(keys, ranges, strict=True)}
    return properties


def _notes(contract: Contract) -> tuple[str, ...]:
    if contract.action.clip is not None:
        return ()
    return (f"holosoma-inference clips actions to +-{ACTION_CLIP:g}; the bundle does not",)
