"""LEAPP: a YAML that says what each tensor of an exported graph is, the graph as ONNX, and initial values as safetensors.

Raw signals in, joint targets out: clip, scale, history and last action are inside the graph, and so is the default pose, which the
user gives. Quaternions are in the order that the file names. Isaac Lab 3 writes this format.
"""

import hashlib
import json
import struct
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from ..actions import JointPosition
from ..contract import SCHEMA, CommandSpec, Contract, ObservationTerm, OwnSignal
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
    check_names,
    period_ns,
)
from .files import parse_onnx, read_bytes
from .onnx_network import plain_network
from .tagged_yaml import Mapping, as_list, as_number, parse_yaml, read_yaml

KEYS = ("models", "pipeline", "system information")
JOINT_TERMS = {"joint_pos": "joint_pos_abs", "joint_vel": "joint_vel"}
BODY_TERMS = {  # properties of Isaac Lab's articulation, in the body's frame unless they end in _w
    "root_ang_vel_b": "gyro",
    "root_link_ang_vel_b": "gyro",
    "root_lin_vel_b": "base_lin_vel",
    "root_link_lin_vel_b": "base_lin_vel",
    "projected_gravity_b": "gravity",
}
QUATERNIONS = ("root_quat_w", "root_link_quat_w")
JOINT_KINDS = {"state/joint/position": "joint_pos", "state/joint/velocity": "joint_vel"}
TARGET, KP, KD = "target/joint/position", "kp", "kd"
VELOCITY = ["lin_vel_x", "lin_vel_y", "ang_vel_z"]
NUMBERS = {"F32": "<f4", "I64": "<i8", "I32": "<i4", "BOOL": "?"}  # as safetensors names them
VELOCITY_KIND = "command/body/velocity"


def _description(path: Path) -> Path | None:
    """The YAML of an export, or of the directory that holds it; None where there is none."""
    candidates = sorted(path.glob("*.yaml")) if path.is_dir() else [path] if path.suffix in (".yaml", ".yml") else []
    found = list[Path]()
    for candidate in candidates:
        try:
            text = read_bytes(candidate, 2**22).decode(errors="replace")
        except ImportFailed:
            continue
        if all(f"\n{key}:" in f"\n{text}" for key in KEYS):
            found.append(candidate)
    return found[0] if len(found) == 1 else None


class _Tensor:
    """One tensor of the description."""

    def __init__(self, data: Mapping) -> None:
        self.name, self.where = data.text("name"), data.source
        self.kind = data.text("kind") if "kind" in data else ""
        self.link = data.text("isaaclab_connection") if "isaaclab_connection" in data else ""
        self.shape = tuple(int(size) for size in data.numbers("shape"))
        self.elements = _elements(data)

    @property
    def width(self) -> int:
        return int(np.prod(self.shape))


def _elements(data: Mapping) -> list[str]:
    """Names of the last axis."""
    axes = as_list(data.raw("element_names"), data.where("element_names")) if "element_names" in data else []
    last = as_list(axes[-1], data.where("element_names")) if axes and isinstance(axes[-1], list) else axes
    return [str(name) for name in last]


def load(path: Path, facts: Facts) -> Imported:
    """See Importer."""
    file = _description(path)
    if file is None:
        raise ImportFailed(f"{path}: expected one YAML with {', '.join(KEYS)}")
    data, missing = read_yaml(file), Missing(path, facts)
    node, model = _only_model(data, file)
    graph = _graph(model.mapping("parameters"), file)
    tensors = {"inputs": _tensors(model, "inputs"), "outputs": _tensors(model, "outputs")}
    pipeline = data.mapping("pipeline")
    memory = _feedback(pipeline, node)
    seen = [tensor for tensor in tensors["inputs"] if tensor.name not in memory]
    target = _one_of(tensors["outputs"], TARGET, file)
    names = _joint_names(seen, target)
    given = {key: _gains(graph, tensors["outputs"], key, names, file) for key in (KP, KD)}
    joints, sources = build_joints(names, {k: v for k, v in given.items() if v is not None}, facts, missing)
    terms = tuple(_term(tensor) for tensor in seen)
    command, own = _command([t for t in seen if t.link.startswith("command:")], facts, missing)
    contract = Contract(
        schema=SCHEMA,
        task=missing.ask(facts.task, "task", "a name for what the policy does", "?"),
        robot=ask_robot(facts, missing),
        joints=joints,
        period_ns=_period(pipeline, facts, missing),
        observation=terms,
        action=JointPosition(joints=tuple(target.elements), scale=1.0, clip=None, offset=0.0, limited=False),
        command=command,
        chain=None,
        latency_s=ask_latency(facts, missing),
        own_signals=own,
    )
    missing.check()
    network, widths = plain_network(
        graph,
        str(file),
        observation=[tensor.name for tensor in seen],
        action=target.name,
        memory=memory,
        initial=_initial(pipeline, file, node),
    )
    return Imported(contract=contract, network=network, memory=widths, sources=sources)


def _only_model(data: Mapping, file: Path) -> tuple[str, Mapping]:
    models = data.mapping("models")
    if len(models.names()) != 1:
        raise ImportFailed(f"{file}: models {models.names()}; one graph can be imported, export the policy as one node")
    return models.names()[0], models.mapping(models.names()[0])


def _tensors(model: Mapping, key: str) -> list[_Tensor]:
    items = as_list(model.raw(key), model.where(key))
    if not all(isinstance(item, dict) for item in items):
        raise ImportFailed(f"{model.where(key)}: expected a list of mappings")
    return [_Tensor(model.item(key, index)) for index in range(len(items))]


def _graph(parameters: Mapping, file: Path) -> onnx.ModelProto:
    """The graph, whose bytes must have the digest that the description gives."""
    name, backend = parameters.text("model_path"), parameters.text("backend")
    if backend != "onnx":
        raise ImportFailed(f"{parameters.where('backend')}: {backend!r}; only onnx can be imported, export with it")
    _check_inside(name, parameters.where("model_path"))
    content = read_bytes(file.parent / name)
    digest = hashlib.sha256(content).hexdigest()
    if digest != parameters.text("sha256sum").lower():
        raise ImportFailed(
            f"{file.parent / name}: sha256 {digest} is not that of {file.name}: damaged or another export"
        )
    return parse_onnx(content, str(file.parent / name), file.parent)


def _check_inside(name: str, where: str) -> None:
    if name != Path(name).name or name in ("", ".", "..") or "\\" in name:
        raise ImportFailed(f"{where}: {name!r}; only a file in the description's own folder is read")


def _feedback(pipeline: Mapping, node: str) -> dict[str, str]:
    """For each input that is fed back the output that feeds it."""
    if "data_flow" in pipeline and pipeline.mapping("data_flow").names():
        raise ImportFailed(f"{pipeline.where('data_flow')}: one graph can be imported")
    flow = pipeline.mapping("feedback_flow") if "feedback_flow" in pipeline else None
    memory = dict[str, str]()
    for source in [] if flow is None else flow.names():
        assert flow is not None
        for end in flow.texts(source):
            if not source.startswith(f"{node}/") or not end.startswith(f"{node}/"):
                raise ImportFailed(f"{flow.where(source)}: {end}; expected tensors of {node!r}")
            memory[end.removeprefix(f"{node}/")] = source.removeprefix(f"{node}/")
    if len(set(memory.values())) != len(memory):
        raise ImportFailed(f"{pipeline.where('feedback_flow')}: an output that feeds two inputs cannot be imported")
    return memory


def _initial(pipeline: Mapping, file: Path, node: str) -> dict[str, np.ndarray]:
    """What the states are at reset."""
    if "initial_values" not in pipeline:
        return {}
    name = pipeline.text("initial_values")
    _check_inside(name, pipeline.where("initial_values"))
    values = read_safetensors(file.parent / name)
    return {key.removeprefix(f"{node}/"): value for key, value in values.items()}


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """Every tensor of a safetensors file: the length of a JSON header, the header, then plain numbers."""
    data = read_bytes(path)
    try:
        (length,) = struct.unpack_from("<Q", data)
        header = parse_yaml(json.dumps(json.loads(data[8 : 8 + length])), str(path))
    except (struct.error, ValueError) as error:
        raise ImportFailed(f"{path}: not a safetensors file: {error}") from None
    body, values = data[8 + length :], dict[str, np.ndarray]()
    for key in header.names():
        if key == "__metadata__":
            continue
        entry = header.mapping(key)
        shape, (start, stop) = tuple(int(n) for n in entry.numbers("shape")), entry.numbers("data_offsets")[:2]
        part, kind = body[int(start) : int(stop)], NUMBERS.get(entry.text("dtype"))
        if kind is None or len(part) != np.dtype(kind).itemsize * int(np.prod(shape)):
            raise ImportFailed(f"{path}: {key!r} is not {', '.join(NUMBERS)} of shape {shape}, or cut off")
        values[key] = np.frombuffer(part, dtype=kind).reshape(shape)
    return values


def _one_of(tensors: list[_Tensor], kind: str, file: Path) -> _Tensor:
    found = [tensor for tensor in tensors if tensor.kind == kind]
    others = [tensor.kind for tensor in tensors if tensor.kind.startswith("target/") and tensor.kind != kind]
    if len(found) != 1 or others or len(found[0].elements) != found[0].width:
        kinds = [tensor.kind for tensor in tensors]
        raise ImportFailed(f"{file}: outputs of kinds {kinds}; expected one {kind} with the names of its joints")
    return found[0]


def _joint_names(seen: list[_Tensor], target: _Tensor) -> tuple[str, ...]:
    """Every joint that is named, those that are measured first."""
    named = [name for tensor in seen if _property(tensor) in JOINT_TERMS for name in tensor.elements]
    names = tuple(dict.fromkeys([*named, *target.elements]))
    check_names(target.where, names)
    check_names(target.where, tuple(target.elements))
    return names


def _property(tensor: _Tensor) -> str:
    """What an input is, as Isaac Lab names it."""
    parts = tensor.link.split(":")
    if len(parts) == 3 and parts[0] == "state":
        return parts[2]
    return JOINT_KINDS.get(tensor.kind, "") if not tensor.link else ""


def _term(tensor: _Tensor) -> ObservationTerm:
    what = _property(tensor)
    if what in JOINT_TERMS and len(tensor.elements) == tensor.width:
        return ObservationTerm(name=JOINT_TERMS[what], scale=1.0, joints=tuple(tensor.elements))
    if what in BODY_TERMS and tensor.width == 3:
        return ObservationTerm(name=BODY_TERMS[what], scale=1.0)
    if what in QUATERNIONS and tensor.width == 4:
        return ObservationTerm(name="signal", scale=1.0, signal="base_quat", index=_quaternion_order(tensor))
    if what == "root_pos_w" and tensor.width == 3:
        return ObservationTerm(name="signal", scale=1.0, signal="base_pos")
    if tensor.link.startswith("command:"):
        return ObservationTerm(name="command", scale=1.0)
    raise ImportFailed(
        f"{tensor.where}: input {tensor.name!r} ({tensor.link or tensor.kind or 'of no kind'}) is nothing that can be measured; known: "
        f"{', '.join((*JOINT_TERMS, *BODY_TERMS, *QUATERNIONS, 'root_pos_w', 'command'))}"
    )


def _quaternion_order(tensor: _Tensor) -> tuple[int, ...]:
    places = {"qw": 0, "qx": 1, "qy": 2, "qz": 3}
    if sorted(tensor.elements) != sorted(places):
        raise ImportFailed(
            f"{tensor.where}: {tensor.name!r} has elements {tensor.elements}; expected qw, qx, qy, qz in any order"
        )
    return tuple(places[name] for name in tensor.elements)


def _command(
    tensors: list[_Tensor], facts: Facts, missing: Missing
) -> tuple[CommandSpec | None, tuple[OwnSignal, ...]]:
    if not tensors:
        return None, ()
    if len(tensors) > 1:
        raise ImportFailed(f"{tensors[0].where}: commands {[t.name for t in tensors]}; one can be imported")
    tensor = tensors[0]
    if tensor.kind == VELOCITY_KIND and tensor.width == 3:
        if tensor.elements and tensor.elements != VELOCITY:
            raise ImportFailed(f"{tensor.where}: {tensor.name!r} has elements {tensor.elements}; expected {VELOCITY}")
        signal, own = "command.velocity", ()
    else:
        signal = f"command.{tensor.name}"
        unit = ", ".join(tensor.elements) or "of the tool"
        own = (OwnSignal(name=signal, width=tensor.width, unit=unit, description=f"{tensor.link}, {tensor.kind}"),)
    values = tuple(tensor.elements) or (VELOCITY if not own else (f"{signal}[{i}]" for i in range(tensor.width)))
    return ask_command(signal, tuple(values), facts, missing), own


def _gains(
    graph: onnx.ModelProto, outputs: list[_Tensor], kind: str, names: tuple[str, ...], file: Path
) -> Numbers | None:
    """Gains that the graph gives as constants, in the order of the joints; None where it gives none for some of them."""
    found = dict[str, float]()
    constants = {weight.name: weight for weight in graph.graph.initializer}
    for tensor in outputs:
        if tensor.kind != kind:
            continue
        if tensor.name not in constants or len(tensor.elements) != tensor.width:
            raise ImportFailed(f"{tensor.where}: {tensor.name!r} is no constant; gains that change cannot be imported")
        values = numpy_helper.to_array(constants[tensor.name]).reshape(-1)
        found |= {
            name: as_number(float(value), tensor.where) for name, value in zip(tensor.elements, values, strict=True)
        }
    if not set(names) <= set(found):
        return None
    return Numbers(values=tuple(found[name] for name in names), source=f"{file.name}: outputs of kind {kind}")


def _period(pipeline: Mapping, facts: Facts, missing: Missing) -> int:
    configs = pipeline.mapping("configs") if "configs" in pipeline else None
    if configs is not None and "frequency" in configs:
        frequency, where = configs.number("frequency"), configs.where("frequency")
        said = Numbers(values=(1.0 / frequency if frequency > 0 else 0.0,), source=where)
        period_ns(said.values[0], where)
        return agreed_period(said, facts, missing)
    return agreed_period(None, facts, missing)


IMPORTER = Importer(
    name="leapp",
    description="LEAPP: a directory with its YAML, ONNX graph and initial values",
    recognises=lambda path: _description(path) is not None,
    load=load,
)
