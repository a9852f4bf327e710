"""mjlab, and BeyondMimic (whole_body_tracking): one ONNX file whose properties are comma-separated lists.

Numbers are printed with three decimals. Observations are named as the tools' own tasks name them; what a name means stands in their code.
A file that takes `time_step` holds a reference motion and is run as motion_tracking_controller runs it.
"""

import math
from dataclasses import replace
from pathlib import Path

import onnx

from ..actions import JointPosition
from ..contract import SCHEMA, CommandSpec, Contract, ObservationTerm, OwnSignal, history
from .common import (
    VELOCITIES,
    Facts,
    Imported,
    Importer,
    ImportFailed,
    Missing,
    Numbers,
    agreed_period,
    ask_anchor,
    ask_command,
    ask_latency,
    ask_robot,
    build_joints,
    check_names,
    check_scale,
    parse_csv,
    parse_number,
)
from .files import metadata, read_onnx
from .motion import COMMAND, ORIENTATION, POSITION, Motion, motion_reference
from .onnx_network import modern, plain_network, pruned, recurrent_network

TERMS = {
    "base_lin_vel": "base_lin_vel",
    "base_ang_vel": "gyro",
    "projected_gravity": "gravity",
    "joint_pos": "joint_pos",
    "joint_vel": "joint_vel",
    "actions": "last_action_raw",
    "command": "command",
}
MOTION_TERMS = {
    "command": (COMMAND, "rad, rad/s", "joint angles and velocities of the motion", ()),
    "motion_anchor_ori_b": (ORIENTATION, "1", "two columns of the anchor's wanted rotation as it sees it", ("base_quat",)),
    "motion_anchor_pos_b": (POSITION, "m", "the anchor's wanted place as it sees it", ("base_quat", "base_pos")),
}  # fmt: skip
MOTION_OUTPUTS = ("joint_pos", "joint_vel", "body_pos_w", "body_quat_w")
COMMANDS = {"twist": "command.velocity", "base_velocity": "command.velocity"}
KEYS = ("joint_names", "joint_stiffness", "joint_damping", "default_joint_pos", "action_scale", "observation_names")


class _Properties:
    """The file's properties."""

    def __init__(self, model: onnx.ModelProto, path: Path) -> None:
        self._values, self._path = metadata(model), path
        absent = [key for key in KEYS if key not in self._values]
        if absent:
            raise ImportFailed(f"{path}: no properties {absent}; it has {sorted(self._values)}")

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def where(self, key: str) -> str:
        return f"{self._path.name}: {key}"

    def text(self, key: str) -> str:
        return self._values[key]

    def words(self, key: str) -> tuple[str, ...]:
        return tuple(word.strip() for word in self._values.get(key, "").split(",") if word.strip())

    def numbers(self, key: str) -> Numbers:
        return parse_csv(self._values[key], self.where(key))

    def each(self, key: str, count: int) -> tuple[str, ...]:
        """One entry per observation."""
        entries = tuple(self._values[key].split(","))
        if len(entries) != count:
            raise ImportFailed(f"{self.where(key)}: {len(entries)} entries for {count} observations")
        return entries


def load(path: Path, facts: Facts) -> Imported:
    """See Importer."""
    model, missing = read_onnx(path), Missing(path, facts)
    given = _Properties(model, path)
    names = given.words("joint_names")
    check_names(given.where("joint_names"), names)
    joints, sources = build_joints(names, _joint_numbers(given), facts, missing)
    moves = "time_step" in {value.name for value in model.graph.input}
    terms = _observation(given, moves)
    command = None if moves else _command(given, terms, facts, missing)
    clip = missing.ask(facts.action_clip, "action_clip", "clip_actions of the trainer, either way; inf: none", math.inf)
    contract = Contract(
        schema=SCHEMA,
        task=missing.ask(facts.task, "task", "a name for what the policy does", "?"),
        robot=ask_robot(facts, missing),
        joints=joints,
        period_ns=agreed_period(None, facts, missing),
        observation=tuple(_clipped(term) for term in terms) if math.isfinite(clip) else terms,
        action=_action(given, names, clip),
        command=command,
        chain=None,
        latency_s=ask_latency(facts, missing),
        own_signals=_references(terms, len(names)),
    )
    reference = _reference(model, given, contract, facts, missing) if moves else None
    missing.check()
    if reference is None:
        network, memory = recurrent_network(model, str(path))
    else:
        network, memory = plain_network(model, str(path), observation="obs", action="actions")
    return Imported(contract=contract, network=network, memory=memory, reference=reference, sources=sources)


def _joint_numbers(given: _Properties) -> dict[str, Numbers]:
    keys = {"kp": "joint_stiffness", "kd": "joint_damping", "default_pos": "default_joint_pos"}
    return {field: given.numbers(key) for field, key in keys.items()}


def _action(given: _Properties, names: tuple[str, ...], clip: float) -> JointPosition:
    scale = given.numbers("action_scale")
    if len(scale.values) not in (1, len(names)):
        raise ImportFailed(f"{scale.source}: {len(scale.values)} values for {len(names)} joints")
    check_scale(scale)
    each = scale.values * len(names) if len(scale.values) == 1 else scale.values
    return JointPosition(joints=names, scale=each, clip=clip if math.isfinite(clip) else None, limited=False)


def _clipped(term: ObservationTerm) -> ObservationTerm:
    """The trainer's clip comes before the environment, which sees the clipped action alone."""
    return replace(term, name="last_action") if term.name == "last_action_raw" else term


def _observation(given: _Properties, moves: bool) -> tuple[ObservationTerm, ...]:
    names = given.words("observation_names")
    count = len(names)
    scales = given.each("observation_terms_scale", count) if "observation_terms_scale" in given else ("1",) * count
    clips = given.each("observation_terms_clip", count) if "observation_terms_clip" in given else ("-inf;inf",) * count
    samples = _samples(given, count)
    return tuple(
        _term(name, given, moves, scale=scale, clip=clip, samples=length)
        for name, scale, clip, length in zip(names, scales, clips, samples, strict=True)
    )


def _samples(given: _Properties, count: int) -> tuple[int, ...]:
    """Samples of each observation: mjlab writes 0 for no history, BeyondMimic 1; mjlab with decimals."""
    key = next((k for k in ("observation_terms_history_length", "observation_history_lengths") if k in given), None)
    if key is None:
        return (1,) * count
    lengths = tuple(parse_number(word, given.where(key)) for word in given.each(key, count))
    if any(length != int(length) or length < 0 for length in lengths):
        raise ImportFailed(f"{given.where(key)}: {given.text(key)}; expected whole numbers")
    flat = "observation_terms_flatten_history_dim"
    if flat in given:
        words = given.each(flat, count)
        if any(
            word not in ("True", "1", "1.0", "1.000") and length for word, length in zip(words, lengths, strict=True)
        ):
            raise ImportFailed(f"{given.where(flat)}: {given.text(flat)}; only one vector can be imported")
    return tuple(max(int(length), 1) for length in lengths)


def _term(name: str, given: _Properties, moves: bool, *, scale: str, clip: str, samples: int) -> ObservationTerm:
    known = {**TERMS, **(MOTION_TERMS if moves else {})}
    if name not in known:
        raise ImportFailed(
            f"{given.where('observation_names')}: {name!r} is code of a task's own; known: {', '.join(known)}"
        )
    where = given.where("observation_terms_clip")
    low, high = (*(_bound(word, where) for word in clip.split(";")), math.nan)[:2]
    if not low < high:
        raise ImportFailed(f"{where}: {clip!r} of {name!r}; expected a lowest and a highest number")
    numbers = tuple(parse_number(word, given.where("observation_terms_scale")) for word in scale.split(";"))
    moving = moves and name in MOTION_TERMS
    if moving and samples > 1:
        raise ImportFailed(f"{given.where('observation_names')}: a history of {name!r} cannot be imported")
    big = 3.0e38  # about the largest float32: an open end
    return ObservationTerm(
        name="signal" if moving else TERMS[name],
        signal=MOTION_TERMS[name][0] if moving else None,
        scale=numbers[0] if len(numbers) == 1 else numbers,
        clip=None if math.isinf(low) and math.isinf(high) else (max(low, -big), min(high, big)),
        lags=history(samples),
    )


def _bound(word: str, where: str) -> float:
    return float(word) if word.strip() in ("inf", "-inf") else parse_number(word, where)


def _command(
    given: _Properties, terms: tuple[ObservationTerm, ...], facts: Facts, missing: Missing
) -> CommandSpec | None:
    if "command" not in {term.name for term in terms}:
        return None
    names = given.words("command_names")
    signal = COMMANDS.get(names[0]) if len(names) == 1 else None
    if signal is None:
        raise ImportFailed(f"{given.where('command_names')}: {list(names)}; known: {', '.join(COMMANDS)}")
    return ask_command(signal, VELOCITIES, facts, missing)


def _references(terms: tuple[ObservationTerm, ...], joints: int) -> tuple[OwnSignal, ...]:
    widths = {COMMAND: 2 * joints, ORIENTATION: 6, POSITION: 3}
    seen = {term.signal for term in terms if term.signal is not None}
    return tuple(
        OwnSignal(name=name, width=widths[name], unit=unit, description=text, needs=needs)
        for name, unit, text, needs in MOTION_TERMS.values()
        if name in seen
    )


def _reference(
    model: onnx.ModelProto, given: _Properties, contract: Contract, facts: Facts, missing: Missing
) -> onnx.ModelProto:
    """The motion that the file holds."""
    bodies, anchor = given.words("body_names"), given.text("anchor_body_name").strip()
    if anchor not in bodies:
        raise ImportFailed(f"{given.where('anchor_body_name')}: {anchor!r} is none of {list(bodies)}")
    seen = tuple(term.signal for term in contract.observation if term.signal is not None)
    joints = ask_anchor(repr(anchor), contract.joint_names, facts, missing) if set(seen) - {COMMAND} else ()
    frames = pruned(modern(model, given.where("time_step")), MOTION_OUTPUTS, given.where("time_step"))
    body = bodies.index(anchor)
    motion = Motion(frames=frames, anchor_body=body, heading_body=body, anchor=joints)
    return motion_reference(motion, contract.joint_names, seen, given.where("time_step"))


def _recognises(path: Path) -> bool:
    if path.suffix != ".onnx" or not path.is_file():
        return False
    try:
        keys = metadata(read_onnx(path))
    except ImportFailed:
        return False
    return all(key in keys for key in KEYS)


IMPORTER = Importer(
    name="mjlab",
    description="mjlab and BeyondMimic: an ONNX file with comma-separated properties",
    recognises=_recognises,
    load=load,
)
