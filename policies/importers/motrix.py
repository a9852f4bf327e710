"""motrix-deploy: a directory of manifest.json and a network, each with its digest.

The manifest says everything of robot, timing and files; what the observation is made of is code of the task that it names.
Known here is go2_walk/v1, MotrixLab's own: its phases go on while the robot stands, but are shown as 0 then, and at the first
tick.
"""

import hashlib
import json
from pathlib import Path, PurePosixPath

import numpy as np
import onnx

from ..contract import SCHEMA, CommandSpec, Contract, JointPosition, ObservationTerm, OwnSignal
from ..onnx_nodes import OPSET, NodeList, tensor
from ..plan import turns_in_ticks
from .common import (
    Facts,
    Imported,
    Importer,
    ImportFailed,
    Missing,
    Numbers,
    agreed_period,
    ask_latency,
    ask_robot,
    build_joints,
    check_scale,
)
from .files import parse_onnx, read_bytes, read_text
from .onnx_network import plain_network
from .tagged_yaml import Mapping

VERSION = "motrix-deploy/v1"
TASK = "go2_walk/v1"
COMMAND = "command.velocity"
PHASE, TICK, BEGUN = "reference.phase", "phase_tick", "phase_begun"
_ROBOT = {
    "default_joint_position": "default_pos",
    "position_lower": "lower",
    "position_upper": "upper",
    "torque_limit": "effort_limit",
}


def load(path: Path, facts: Facts) -> Imported:
    """The directory, or its manifest.json."""
    folder = path if path.is_dir() else path.parent
    data = _manifest(folder / "manifest.json")
    robot, control, task = data.mapping("robot"), data.mapping("control"), data.mapping("task")
    config = _config(task)
    names, missing = robot.texts("joint_names"), Missing(path, facts)
    given = {field: Numbers(values=robot.numbers(key), source=robot.where(key)) for key, field in _ROBOT.items()}
    given |= {key: Numbers(values=config.numbers(key), source=config.where(key)) for key in ("kp", "kd")}
    joints, sources = build_joints(names, given, facts, missing)
    said = Numbers(values=(control.number("period_s"),), source=control.where("period_s"))
    period = agreed_period(said, facts, missing)
    contract = Contract(
        schema=SCHEMA,
        task=facts.task or task.text("name"),
        robot=ask_robot(facts, missing),
        joints=joints,
        period_ns=period,
        observation=_observation(),
        action=_action(config, names),
        command=_command(config),
        chain=None,
        latency_s=ask_latency(facts, missing),
        own_signals=(_phases(config),),
    )
    missing.check()
    policy = data.mapping("policy")
    ends = [policy.mapping(key).text("name") for key in ("input", "output")]
    network, memory = plain_network(_network(folder, policy), str(path), observation=ends[0], action=ends[1])
    reference = _phase_model(config, period * 1e-9)
    notes = (
        "motrix-deploy stops a policy whose robot tilts beyond termination_min_up_z; the runtime's own limits hold here",
    )
    return Imported(
        contract=contract, network=network, memory=memory, reference=reference, sources=sources, notes=notes
    )


def _manifest(path: Path) -> Mapping:
    try:
        data = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise ImportFailed(f"{path}: cannot be read as JSON: {error}") from None
    if not isinstance(data, dict):
        raise ImportFailed(f"{path}: expected an object, got {type(data).__name__}")
    manifest = Mapping(data=data, source=str(path))
    if manifest.text("schema_version") != VERSION:
        raise ImportFailed(
            f"{manifest.where('schema_version')}: {manifest.text('schema_version')!r}; known: {VERSION!r}"
        )
    expected = {
        "mode": "joint_servo",
        "quaternion_order": "xyzw",
        "base_orientation": "body_to_world",
        "angular_velocity_frame": "body",
    }
    control = manifest.mapping("control")
    for key, value in expected.items():
        if control.text(key) != value:
            raise ImportFailed(f"{control.where(key)}: {control.text(key)!r} is not supported; known: {value!r}")
    return manifest


def _config(task: Mapping) -> Mapping:
    if task.text("name") != TASK:
        raise ImportFailed(
            f"{task.where('name')}: what the observation of {task.text('name')!r} is made of is in that task's code; known: {TASK!r}. "
            "Describe it in a TOML beside the network (importer 'bare')"
        )
    return task.mapping("config")


def _network(folder: Path, policy: Mapping) -> onnx.ModelProto:
    """The network, if it is the one that the manifest means."""
    name, where = policy.text("payload_path"), policy.where("payload_path")
    parts = PurePosixPath(name).parts
    if not parts or ".." in parts or PurePosixPath(name).is_absolute() or "\\" in name:
        raise ImportFailed(f"{where}: {name!r} leads out of {folder}")
    path = folder.joinpath(*parts)
    if any(folder.joinpath(*parts[: index + 1]).is_symlink() for index in range(len(parts))):
        raise ImportFailed(f"{where}: {name!r} is a link; only files inside {folder} are read")
    data = read_bytes(path)
    digest = hashlib.sha256(data).hexdigest()
    if digest != policy.text("sha256"):
        raise ImportFailed(
            f"{path}: its sha256 is {digest}, the manifest says {policy.text('sha256')}: damaged, or of another export"
        )
    return parse_onnx(data, str(path))


def _observation() -> tuple[ObservationTerm, ...]:
    """As Go2WalkPolicyProcessor.build_observation has it."""
    names = ("gyro", "gravity", "joint_pos", "joint_vel", "last_action", "command")
    return (
        *(ObservationTerm(name=name, scale=1.0) for name in names),
        ObservationTerm(name="signal", signal=PHASE, scale=1.0),
    )


def _action(config: Mapping, names: tuple[str, ...]) -> JointPosition:
    scale = Numbers(values=config.numbers("action_scale"), source=config.where("action_scale"))
    check_scale(scale)
    low, high = config.numbers("action_lower"), config.numbers("action_upper")
    for key, values in (("action_scale", scale.values), ("action_lower", low), ("action_upper", high)):
        if len(values) != len(names):
            raise ImportFailed(f"{config.where(key)}: {len(values)} values for {len(names)} joints")
    return JointPosition(joints=names, scale=scale.values, clip=high, clip_low=low)


def _command(config: Mapping) -> CommandSpec:
    bounds = [config.numbers(key) for key in ("command_lower", "command_upper")]
    return CommandSpec(signal=COMMAND, workspace=None, low=bounds[0], high=bounds[1])


def _phases(config: Mapping) -> OwnSignal:
    offsets = config.numbers("feet_phase_offsets")
    described = "phase of each foot, 0 at the first tick and while the robot is to stand"
    return OwnSignal(name=PHASE, width=len(offsets), unit="cycles", description=described, needs=(COMMAND,))


def _phase_model(config: Mapping, period: float) -> onnx.ModelProto:
    """Phases from ticks and command: (ticks * period * frequency + offset) modulo 1, or 0."""
    nodes, frequency = NodeList("phase"), config.number("gait_frequency_hz")
    if not frequency > 0:
        raise ImportFailed(f"{config.where('gait_frequency_hz')}: {frequency}; expected a positive number")
    offsets, count, one = (
        np.array(config.numbers("feet_phase_offsets")),
        f"state.{TICK}",
        nodes.constant(np.float32(1.0)),
    )
    cycle = turns_in_ticks(frequency * period)
    if cycle is None:
        passed, step, limit = count, frequency * period, one
    else:
        ticks, turns = (nodes.constant(np.float32(number)) for number in cycle)
        turned = nodes.add("Mod", nodes.add("Mul", count, turns), ticks, fmod=1)
        passed, step, limit = nodes.add("Div", turned, ticks), 1.0, ticks
    nodes.add("Mod", nodes.add("Add", count, nodes.constant(np.float32(step))), limit, fmod=1, name=f"next.{TICK}")
    nodes.add("Identity", nodes.constant(np.ones((1, 1))), name=f"next.{BEGUN}")
    phases = nodes.add("Mod", nodes.add("Add", passed, nodes.row(offsets % 1.0)), one, fmod=1)
    size = nodes.add("ReduceL2", COMMAND, nodes.constant(np.array([1])), keepdims=1)
    stands = nodes.add("Less", size, nodes.constant(np.float32(config.number("standing_threshold"))))
    walks = nodes.add("And", nodes.above_half(f"state.{BEGUN}"), nodes.add("Not", stands))
    nodes.add("Where", walks, phases, nodes.row(np.zeros(len(offsets))), name=PHASE)
    inputs = [tensor(COMMAND, 3), tensor(f"state.{TICK}", 1), tensor(f"state.{BEGUN}", 1)]
    outputs = [tensor(PHASE, len(offsets)), tensor(f"next.{TICK}", 1), tensor(f"next.{BEGUN}", 1)]
    return nodes.model("phase", inputs, outputs, OPSET)


def _recognises(path: Path) -> bool:
    manifest = path / "manifest.json" if path.is_dir() else path
    if manifest.name != "manifest.json" or not manifest.is_file():
        return False
    try:
        _manifest(manifest)
    except ImportFailed:
        return False
    return True


IMPORTER = Importer(
    name="motrix",
    description="motrix-deploy: a directory of manifest.json and a network",
    recognises=_recognises,
    load=load,
)
