"""efferent: an .app (a zip of manifest.yaml and a network), or an ONNX with the manifest in its properties or beside it.

Histories are newest first and begin with the first sample. Normaliser, action clip and action rate limit are the tool's own
steps between observation and scaled action: they become part of the network, so that the action fed back is the limited one, as
there.
"""

import io
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from ..contract import SCHEMA, Contract, JointPosition, ObservationTerm, OwnSignal, PhaseClock
from ..contract_checks import LONGEST_LAG
from ..onnx_nodes import NodeList, embed, opset_of, tensor
from .common import (
    Facts,
    Imported,
    Importer,
    ImportFailed,
    Missing,
    Numbers,
    agreed_period,
    ask_command,
    ask_latency,
    ask_robot,
    build_joints,
    check_scale,
)
from .files import metadata, parse_onnx, read_archive, read_bytes, read_onnx
from .onnx_network import plain_network
from .tagged_yaml import Mapping, as_list, parse_yaml, read_yaml

KEY = "efferent.manifest"
VERSION = 1
COMMAND = "command.efferent"
VELOCITY = ("vel_x", "vel_y", "yaw_rate")
_TERMS = {
    "base_lin_vel": "base_lin_vel",
    "base_ang_vel": "gyro",
    "projected_gravity": "gravity",
    "base_quat": "base_quat",
    "joint_pos": "joint_pos_abs",
    "joint_pos_rel": "joint_pos",
    "joint_vel": "joint_vel",
    "last_action": "last_action_raw",
    "command": "command",
    "time": "time",
}
_OFFSETS = {"joint_position_delta": None, "joint_position": 0.0}
_SMALLEST_STD = 1e-6  # a constant of runtime/policy.py
_MAX_NORM_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class _Package:
    manifest: Mapping
    network: onnx.ModelProto
    source: str  # of the network, for errors
    extras: dict[str, bytes]  # further files by name


def load(path: Path, facts: Facts) -> Imported:
    """An .app or an .onnx."""
    package = _read(path)
    data = package.manifest
    if data.whole("efferent") != VERSION:
        raise ImportFailed(
            f"{data.where('efferent')}: version {data.raw('efferent')} is not supported; known: {VERSION}"
        )
    control, missing = data.mapping("control"), Missing(path, facts)
    names, given = _joints(data)
    given |= _gains(control, names)
    joints, sources = build_joints(names, given, facts, missing)
    terms = [Mapping(data=item, source=f"{data.where('observation')}[{i}]") for i, item in _items(data)]
    commands = _command_names(terms)
    signal = COMMAND if commands not in (None, VELOCITY) else "command.velocity"
    observation = tuple(part for term in terms for part in _term(term, len(names)))
    contract = Contract(
        schema=SCHEMA,
        task=facts.task or data.text("name"),
        robot=ask_robot(facts, missing),
        joints=joints,
        period_ns=_period(control, facts, missing),
        observation=observation,
        action=_action(control, names),
        command=None if commands is None else ask_command(signal, commands, facts, missing),
        chain=None,
        latency_s=ask_latency(facts, missing),
        clock=_clock(terms),
        own_signals=_own_signals(signal, commands),
    )
    missing.check()
    network, memory = _network(package, control, len(names))
    return Imported(contract=contract, network=network, memory=memory, sources=sources, notes=_notes(data, path))


def _read(path: Path) -> _Package:
    if path.suffix == ".onnx":
        model = read_onnx(path)
        manifest = _manifest_of(model, path)
        return _Package(manifest=manifest, network=model, source=str(path), extras=_beside(manifest, path.parent))
    members = read_archive(path)
    if "manifest.yaml" not in members:
        raise ImportFailed(f"{path}: no manifest.yaml in it; it holds {sorted(members)}")
    try:
        manifest = parse_yaml(members["manifest.yaml"].decode(), f"{path}: manifest.yaml")
    except UnicodeDecodeError as error:
        raise ImportFailed(f"{path}: manifest.yaml is no text: {error}") from None
    file = manifest.mapping("policy").text("file")
    if file not in members:
        raise ImportFailed(f"{path}: {file!r}, which the manifest names, is not in it; it holds {sorted(members)}")
    return _Package(
        manifest=manifest,
        network=parse_onnx(members[file], f"{path}: {file}"),
        source=f"{path}: {file}",
        extras=members,
    )


def _manifest_of(model: onnx.ModelProto, path: Path) -> Mapping:
    """The manifest in an ONNX file's properties, or beside it."""
    embedded = metadata(model).get(KEY)
    if embedded is not None:
        return parse_yaml(embedded, f"{path}: {KEY}")
    for beside in (path.with_suffix(".yaml"), path.parent / "manifest.yaml"):
        if beside.is_file():
            return read_yaml(beside)
    raise ImportFailed(f"{path}: has no {KEY!r} and no manifest beside it")


def _beside(manifest: Mapping, folder: Path) -> dict[str, bytes]:
    """The normaliser's file, if it is one in the same folder."""
    norm = manifest.mapping("normalization") if "normalization" in manifest else None
    name = norm.text("file") if norm is not None and "file" in norm else ""
    path = folder / name
    if not name or name != Path(name).name or path.is_symlink() or not path.is_file():
        return {}
    return {name: read_bytes(path, _MAX_NORM_BYTES)}


def _items(data: Mapping) -> list[tuple[int, dict]]:  # pyright: ignore[reportMissingTypeArgument]
    items = as_list(data.raw("observation"), data.where("observation"))
    if not items or not all(isinstance(item, dict) for item in items):
        raise ImportFailed(f"{data.where('observation')}: expected a list of terms")
    return [(index, item) for index, item in enumerate(items) if isinstance(item, dict)]


def _joints(data: Mapping) -> tuple[tuple[str, ...], dict[str, Numbers]]:
    """Names in the policy's order, and the default pose where all joints have one."""
    where = data.where("joints")
    joints = [Mapping(data=item, source=where) for item in as_list(data.raw("joints"), where) if isinstance(item, dict)]
    names = tuple(joint.text("name") for joint in joints)
    if not all("default" in joint for joint in joints):
        return names, {}
    return names, {"default_pos": Numbers(values=tuple(joint.number("default") for joint in joints), source=where)}


def _gains(control: Mapping, names: tuple[str, ...]) -> dict[str, Numbers]:
    if "gains" not in control:
        return {}
    gains = control.mapping("gains")
    return {key: Numbers(values=_per_joint(gains, key, names), source=gains.where(key)) for key in ("kp", "kd")}


def _per_joint(data: Mapping, key: str, names: tuple[str, ...]) -> tuple[float, ...]:
    """One number for all, a list in the policy's order, or numbers by name."""
    value = data.raw(key)
    if isinstance(value, dict):
        by_name = data.mapping(key)
        return tuple(by_name.number(name) for name in names)
    values = data.numbers(key) if isinstance(value, list) else (data.number(key),) * len(names)
    if len(values) != len(names):
        raise ImportFailed(f"{data.where(key)}: {len(values)} values for {len(names)} joints")
    return values


def _term(term: Mapping, joints: int) -> tuple[ObservationTerm, ...]:
    name = term.text("term")
    samples = term.whole("history") if "history" in term else 1
    if not 1 <= samples <= LONGEST_LAG + 1:
        raise ImportFailed(f"{term.where('history')}: {samples}; expected 1 .. {LONGEST_LAG + 1}")
    lags = tuple(range(samples))
    scale = _scale(term)
    if name == "phase":
        if samples > 1:
            raise ImportFailed(f"{term.source}: a phase with a history is not supported")
        sine, cosine = scale if isinstance(scale, tuple) and len(scale) == 2 else (scale, scale)
        return (ObservationTerm(name="phase_sin", scale=sine), ObservationTerm(name="phase_cos", scale=cosine))
    if name not in _TERMS:
        raise ImportFailed(f"{term.where('term')}: {name!r} is not supported; known: {', '.join((*_TERMS, 'phase'))}")
    return (ObservationTerm(name=_TERMS[name], scale=scale, lags=lags),)


def _scale(term: Mapping) -> float | tuple[float, ...]:
    if "scale" not in term:
        return 1.0
    return term.numbers("scale") if isinstance(term.raw("scale"), list) else term.number("scale")


def _command_names(terms: list[Mapping]) -> tuple[str, ...] | None:
    """Names of the command's values; None where no term is of it."""
    found = {term.texts("names") if "names" in term else VELOCITY for term in terms if term.text("term") == "command"}
    if len(found) > 1:
        raise ImportFailed(f"command terms name different values {sorted(found)}; not supported")
    return found.pop() if found else None


def _period(control: Mapping, facts: Facts, missing: Missing) -> int:
    said = None
    if "rate_hz" in control:
        rate = control.number("rate_hz")
        if not rate > 0:
            raise ImportFailed(f"{control.where('rate_hz')}: {rate}; expected a positive number")
        said = Numbers(values=(1.0 / rate,), source=control.where("rate_hz"))
    return agreed_period(said, facts, missing)


def _action(control: Mapping, names: tuple[str, ...]) -> JointPosition:
    kind = control.text("action_type")
    if kind not in _OFFSETS:
        raise ImportFailed(f"{control.where('action_type')}: {kind!r} is not supported; known: {', '.join(_OFFSETS)}")
    scale = Numbers(values=_per_joint(control, "action_scale", names), source=control.where("action_scale"))
    check_scale(scale)
    return JointPosition(joints=names, scale=scale.values, clip=None, offset=_OFFSETS[kind])


def _own_signals(signal: str, names: tuple[str, ...] | None) -> tuple[OwnSignal, ...]:
    if signal != COMMAND or names is None:
        return ()
    return (OwnSignal(name=COMMAND, width=len(names), unit="as trained", description=", ".join(names)),)


def _clock(terms: list[Mapping]) -> PhaseClock | None:
    params = [term.mapping("params") if "params" in term else None for term in terms if term.text("term") == "phase"]
    found = {1.0 if each is None or "freq" not in each else each.number("freq") for each in params}
    if len(found) > 1:
        raise ImportFailed(f"phases of different frequencies {sorted(found)} are not supported")
    return PhaseClock(frequency=found.pop(), start=(0.0,)) if found else None


def _network(package: _Package, control: Mapping, actions: int) -> tuple[onnx.ModelProto, dict[str, int]]:
    """Normaliser, network, action clip and action rate limit in one."""
    policy = package.manifest.mapping("policy")
    ends = {key: policy.text(key) if key in policy else name for key, name in (("input", "obs"), ("output", "actions"))}
    pairs = _states(policy)
    plain, memory = plain_network(
        package.network, package.source, observation=ends["input"], action=ends["output"], memory=pairs
    )
    nodes, inner = NodeList("efferent"), [value.name for value in (*plain.graph.input, *plain.graph.output)]
    width = plain.graph.input[0].type.tensor_type.shape.dim[1].dim_value
    outer = [
        _normalised(nodes, package, width),
        *(f"state.{name}" for name in memory),
        "efferent/action",
        *(f"next.{name}" for name in memory),
    ]
    embed(nodes, plain, "network", dict(zip(inner, outer, strict=True)))
    action = "efferent/action"
    if "clip_actions" in control:
        low, high = control.numbers("clip_actions")
        action = nodes.bounded(action, np.full(actions, low), np.full(actions, high))
    if "max_action_rate" in control:
        step, before = nodes.constant(np.float32(control.number("max_action_rate"))), "state.limited"
        action = nodes.add("Max", action, nodes.add("Sub", before, step))
        action = nodes.add("Min", action, nodes.add("Add", before, step), name="next.limited")
        memory = {**memory, "limited": actions}
    nodes.add("Identity", action, name="action")
    inputs = [tensor("observation", width), *(tensor(f"state.{name}", size) for name, size in memory.items())]
    outputs = [tensor("action", actions), *(tensor(f"next.{name}", size) for name, size in memory.items())]
    return nodes.model("efferent", inputs, outputs, opset_of(plain)), memory


def _states(policy: Mapping) -> dict[str, str]:
    """Each input that is a state, and the output that follows it."""
    given = [_listed(policy, key) for key in ("state_input", "state_output")]
    if len(given[0]) != len(given[1]):
        raise ImportFailed(f"{policy.source}: state_input {given[0]} and state_output {given[1]} are no pairs")
    return dict(zip(*given, strict=True))


def _listed(data: Mapping, key: str) -> tuple[str, ...]:
    if key not in data:
        return ()
    return (data.text(key),) if isinstance(data.raw(key), str) else data.texts(key)


def _normalised(nodes: NodeList, package: _Package, width: int) -> str:
    norm = package.manifest.mapping("normalization") if "normalization" in package.manifest else None
    value = "observation"
    if norm is not None and "file" in norm:
        mean, std = _statistics(package, norm.text("file"), width)
        value = nodes.add("Div", nodes.shifted(value, -mean), nodes.row(np.maximum(std, np.float32(_SMALLEST_STD))))
    if norm is not None and "clip_obs" in norm:
        clip = norm.number("clip_obs")
        value = nodes.bounded(value, np.full(width, -clip), np.full(width, clip))
    return value


def _statistics(package: _Package, name: str, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the observation."""
    where = f"{package.source}: {name}"
    if name not in package.extras or len(package.extras[name]) > _MAX_NORM_BYTES:
        raise ImportFailed(f"{where}: the normaliser's file is missing or too large")
    data = package.extras[name]
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(info.file_size for info in archive.infolist()) > _MAX_NORM_BYTES:
                raise ImportFailed(f"{where}: more than {_MAX_NORM_BYTES} bytes unpacked")
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            mean, std = (arrays[key].astype(np.float32).ravel() for key in ("mean", "std"))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        if isinstance(error, ImportFailed):
            raise
        raise ImportFailed(f"{where}: mean and std cannot be read: {error}") from None
    if mean.shape != (width,) or std.shape != (width,) or not (np.isfinite(mean).all() and np.isfinite(std).all()):
        raise ImportFailed(f"{where}: mean {mean.shape} and std {std.shape}; expected {width} finite numbers each")
    return mean, std


def _notes(data: Mapping, path: Path) -> tuple[str, ...]:
    notes = [
        "joints that the policy does not drive hold where they are in efferent; they are not part of this contract"
    ]
    if "envelope" in data:
        notes.append(f"{path.name} says from which states the policy may start (envelope); that is not checked here")
    return tuple(notes)


def _recognises(path: Path) -> bool:
    if path.suffix == ".app":
        return True
    if path.suffix != ".onnx":
        return False
    try:
        return "efferent" in _manifest_of(read_onnx(path), path)
    except ImportFailed:
        return False


IMPORTER = Importer(
    name="efferent", description="efferent: an .app, or an ONNX with its manifest", recognises=_recognises, load=load
)
