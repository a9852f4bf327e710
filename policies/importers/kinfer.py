"""kinfer: a .kinfer (tar.gz) of init_fn.onnx, step_fn.onnx and metadata.json.

step_fn takes raw quantities by name and gives absolute joint positions; `carry` is its memory and begins with what init_fn
gives. What its providers (kinfer-sim, kinfer-kbot) put in is not in the file: projected_gravity is in m/s^2 there, 9.81 long.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort

from ..contract import SCHEMA, Contract, JointPosition, ObservationTerm, OwnSignal
from ..onnx_nodes import NodeList, embed, opset_of, prepared, shape_of, tensor
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
)
from .files import parse_onnx, read_archive

GRAVITY = 9.81  # m/s^2, of kinfer-sim's and kinfer-kbot's providers
COMMAND = "command.kinfer"
VELOCITY = ("xvel", "yvel", "yawrate")
MEMBERS = ("init_fn.onnx", "step_fn.onnx", "metadata.json")
_TERMS = {
    "joint_angles": ("joint_pos_abs", 1.0),
    "joint_angular_velocities": ("joint_vel", 1.0),
    "projected_gravity": ("gravity", GRAVITY),
    "accelerometer": ("accelerometer", 1.0),
    "gyroscope": ("gyro", 1.0),
    "command": ("command", 1.0),
    "time": ("time", 1.0),
}


@dataclass(frozen=True, kw_only=True)
class _Metadata:
    joints: tuple[str, ...]
    commands: tuple[str, ...]
    carry: tuple[int, ...]  # shape


def load(path: Path, facts: Facts) -> Imported:
    """A .kinfer file."""
    members = read_archive(path)
    if sorted(members) != sorted(MEMBERS):
        raise ImportFailed(f"{path}: holds {sorted(members)}; expected {list(MEMBERS)} and nothing else")
    data = _metadata(members["metadata.json"], f"{path}: metadata.json")
    init, step = (parse_onnx(members[name], f"{path}: {name}") for name in MEMBERS[:2])
    carry = _initial_carry(init, data, str(path))
    inputs = _inputs(step, data, path)
    missing = Missing(path, facts)
    joints, sources = build_joints(data.joints, dict[str, Numbers](), facts, missing)
    signal = "command.velocity" if data.commands == VELOCITY else COMMAND
    contract = Contract(
        schema=SCHEMA,
        task=facts.task or path.stem,
        robot=ask_robot(facts, missing),
        joints=joints,
        period_ns=agreed_period(None, facts, missing),
        observation=tuple(ObservationTerm(name=term, scale=scale) for term, scale in (_TERMS[name] for name in inputs)),
        action=JointPosition(joints=data.joints, scale=1.0, clip=None, offset=0.0, limited=False),
        command=ask_command(signal, data.commands, facts, missing) if "command" in inputs else None,
        chain=None,
        latency_s=ask_latency(facts, missing),
        own_signals=_own_signals(signal, data, inputs),
    )
    missing.check()
    network = _network(step, inputs, data, carry)
    return Imported(
        contract=contract, network=network, memory={"carry": carry.size}, sources=sources, notes=_notes(inputs, data)
    )


def _metadata(content: bytes, source: str) -> _Metadata:
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ImportFailed(f"{source}: cannot be read as JSON: {error}") from None
    if not isinstance(data, dict):
        raise ImportFailed(f"{source}: expected an object, got {type(data).__name__}")
    joints, carry = data.get("joint_names"), data.get("carry_size")
    if not isinstance(joints, list) or not all(isinstance(name, str) for name in joints):
        raise ImportFailed(f"{source}: joint_names {joints!r}; expected a list of names")
    check_names(f"{source}: joint_names", tuple(joints))
    shape = [carry] if isinstance(carry, int) else carry
    if not isinstance(shape, list) or not all(isinstance(size, int) and size > 0 for size in shape):
        raise ImportFailed(f"{source}: carry_size {carry!r}; expected sizes of the carry")
    return _Metadata(joints=tuple(joints), commands=_commands(data, source), carry=tuple(shape))


def _commands(data: dict[str, object], source: str) -> tuple[str, ...]:
    """Names of the command's values; older files give their number alone."""
    names = data.get("command_names")
    if names is None:
        count = data.get("num_commands") or 0
        names = [f"value_{index}" for index in range(count)] if isinstance(count, int) and 0 <= count < 1000 else count
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ImportFailed(f"{source}: command_names {names!r}; expected a list of names")
    if names:
        check_names(f"{source}: command_names", tuple(names))
    return tuple(names)


def _initial_carry(init: onnx.ModelProto, data: _Metadata, source: str) -> np.ndarray:
    """What init_fn gives."""
    if init.graph.input or len(init.graph.output) != 1:
        raise ImportFailed(f"{source}: init_fn.onnx: expected no input and one output, the carry")
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(init.SerializeToString(), options, providers=["CPUExecutionProvider"])
        carry = np.asarray(session.run(None, {})[0])
    except Exception as error:  # onnxruntime raises its own classes, one per cause
        raise ImportFailed(f"{source}: init_fn.onnx cannot be run: {error}") from None
    if carry.shape != data.carry or carry.dtype != np.float32 or not np.isfinite(carry).all():
        raise ImportFailed(
            f"{source}: init_fn.onnx gives {carry.dtype} of shape {carry.shape}; expected finite float32 of {data.carry}"
        )
    return carry


def _inputs(step: onnx.ModelProto, data: _Metadata, path: Path) -> tuple[str, ...]:
    """Names of step_fn's inputs without the carry, in its order."""
    widths = {
        "joint_angles": len(data.joints),
        "joint_angular_velocities": len(data.joints),
        "command": len(data.commands),
        "time": 1,
    }
    names = []
    for value in step.graph.input:
        expected = list(data.carry) if value.name == "carry" else [widths.get(value.name, 3)]
        if value.name not in (*_TERMS, "carry"):
            raise ImportFailed(
                f"{path}: step_fn.onnx: input {value.name!r} is not supported; known: {', '.join((*_TERMS, 'carry'))}"
            )
        if shape_of(value) != expected:
            raise ImportFailed(
                f"{path}: step_fn.onnx: input {value.name} has shape {shape_of(value)}, expected {expected}"
            )
        names += [value.name] if value.name != "carry" else []
    outputs = [shape_of(value) for value in step.graph.output]
    if outputs != [[len(data.joints)], list(data.carry)]:
        raise ImportFailed(
            f"{path}: step_fn.onnx: outputs have shapes {outputs}; expected {len(data.joints)} positions and the carry"
        )
    return tuple(names)


def _network(step: onnx.ModelProto, inputs: tuple[str, ...], data: _Metadata, carry: np.ndarray) -> onnx.ModelProto:
    """step_fn with one observation, and with the carry as its difference from the initial one: states are zero at reset."""
    step, nodes, start = prepared(step), NodeList("kinfer"), 0
    sizes = {value.name: int(np.prod([int(size) for size in shape_of(value)])) for value in step.graph.input}
    width = sum(sizes[name] for name in inputs)
    names: dict[str, str] = {}
    for name in inputs:
        part = nodes.columns("observation", list(range(start, start + sizes[name])), width)
        names[name] = nodes.add("Reshape", part, nodes.constant(np.array([sizes[name]])), name=f"kinfer/{name}")
        start += sizes[name]
    if "carry" in sizes:
        shaped = nodes.add("Reshape", "state.carry", nodes.constant(np.array(data.carry)))
        names["carry"] = nodes.add("Add", shaped, nodes.constant(carry))
    action, following = (value.name for value in step.graph.output)
    names |= {action: "kinfer/action", following: "kinfer/next_carry"}
    embed(nodes, step, "step_fn", names)
    nodes.add("Reshape", "kinfer/action", nodes.constant(np.array([1, len(data.joints)])), name="action")
    change = nodes.add("Sub", "kinfer/next_carry", nodes.constant(carry))
    nodes.add("Reshape", change, nodes.constant(np.array([1, carry.size])), name="next.carry")
    inputs_of = [tensor("observation", width), tensor("state.carry", carry.size)]
    outputs = [tensor("action", len(data.joints)), tensor("next.carry", carry.size)]
    return nodes.model("kinfer", inputs_of, outputs, opset_of(step))


def _own_signals(signal: str, data: _Metadata, inputs: tuple[str, ...]) -> tuple[OwnSignal, ...]:
    if "command" not in inputs or signal != COMMAND:
        return ()
    described = ", ".join(data.commands)
    return (OwnSignal(name=COMMAND, width=len(data.commands), unit="as trained", description=described),)


def _notes(inputs: tuple[str, ...], data: _Metadata) -> tuple[str, ...]:
    notes = []
    if "projected_gravity" in inputs:
        notes.append(f"projected_gravity is taken as kinfer-sim and kinfer-kbot give it, {GRAVITY} m/s^2 long")
    if "time" in inputs:
        notes.append("time begins at 0 with the policy; kinfer's providers count from when they start")
    if "command" in inputs and data.commands != VELOCITY:
        notes.append(f"the command is {COMMAND!r}: {', '.join(data.commands)}")
    return tuple(notes)


def _recognises(path: Path) -> bool:
    return path.suffix == ".kinfer"


IMPORTER = Importer(name="kinfer", description="kinfer: a .kinfer archive", recognises=_recognises, load=load)
