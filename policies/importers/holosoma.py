"""holosoma: an ONNX with JSON properties, as holosoma-inference's LocomotionPolicy and WholeBodyTrackingPolicy run it.

Terms stand in alphabetical order, whatever order a configuration has; histories are oldest first and begin with zeros; actions
are clipped to +-100. What the observation is made of, newer files say themselves (`experiment_config`); for others it is in
holosoma-inference's Python, and a TOML beside, `<name>.toml` or `holosoma.toml`, says it. A file that takes `time_step` holds a
reference motion.
"""

import json
from dataclasses import replace
from pathlib import Path

import onnx

from ..contract import (
    SCHEMA,
    CommandSpec,
    Contract,
    JointPosition,
    ObservationTerm,
    PhaseClock,
    history,
)
from .common import (
    VELOCITIES,
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
)
from .files import metadata, read_onnx
from .holosoma_config import HolosomaConfig, check_rates, file_scale, read_config
from .holosoma_motion import MOTION_TERMS, motion_signals, reference_of
from .onnx_network import plain_network
from .tagged_yaml import Mapping

ACTION_CLIP = 100.0  # a constant of policies/base.py, rl_inference
STILL = 0.01  # m/s and rad/s, a constant of policies/locomotion.py, update_phase_time
COMMAND = "command.velocity"
_TERMS = {
    "actions": ObservationTerm(name="last_action", scale=1.0),
    "base_ang_vel": ObservationTerm(name="gyro", scale=1.0),
    "command_ang_vel": ObservationTerm(name="signal", signal=COMMAND, index=(2,), scale=1.0),
    "command_lin_vel": ObservationTerm(name="signal", signal=COMMAND, index=(0, 1), scale=1.0),
    "cos_phase": ObservationTerm(name="phase_cos", scale=1.0),
    "dof_pos": ObservationTerm(name="joint_pos", scale=1.0),
    "dof_vel": ObservationTerm(name="joint_vel", scale=1.0),
    "projected_gravity": ObservationTerm(name="gravity", scale=1.0),
    "sin_phase": ObservationTerm(name="phase_sin", scale=1.0),
}


def load(path: Path, facts: Facts) -> Imported:
    """The .onnx, with the TOML beside it where there is one."""
    model = read_onnx(path)
    data = _properties(model, path)
    names = data.texts("dof_names")
    missing = Missing(path, facts)
    config, given = read_config(data, names, path)
    moves = "time_step" in {value.name for value in model.graph.input}
    if moves:  # of motions alone the tool takes the file's own scale
        config = replace(config, policy_action_scale=file_scale(data) or config.policy_action_scale)
    check_rates(config, path)
    given |= {key: Numbers(values=data.numbers(key), source=data.where(key)) for key in ("kp", "kd") if key in data}
    joints, sources = build_joints(names, given, facts, missing)
    period = Numbers(values=(1.0 / config.rl_rate,), source=f"{path}: rl_rate")
    contract = Contract(
        schema=SCHEMA,
        task=facts.task or path.stem,
        robot=ask_robot(facts, missing),
        joints=joints,
        period_ns=agreed_period(period, facts, missing),
        observation=_observation(config, path, moves),
        action=JointPosition(joints=names, scale=config.policy_action_scale, clip=ACTION_CLIP, limited=False),
        command=_command(config, data, facts, missing),
        chain=None,
        latency_s=ask_latency(facts, missing),
        clock=_clock(config, path),
        own_signals=motion_signals(config.terms, len(names)) if moves else (),
    )
    reference = reference_of(model, contract, facts, missing, str(path)) if moves else None
    missing.check()
    ends = ("obs", "actions") if moves else ("actor_obs", "action")
    network, memory = plain_network(model, str(path), observation=ends[0], action=ends[1])
    return Imported(contract=contract, network=network, memory=memory, reference=reference, sources=sources)


def _properties(model: onnx.ModelProto, path: Path) -> Mapping:
    data: dict[object, object] = {}
    for key, text in metadata(model).items():
        try:
            data[key] = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ImportFailed(f"{path}: property {key!r} is not JSON, as holosoma writes it: {error}") from None
    return Mapping(data=data, source=str(path))  # pyright: ignore[reportArgumentType]


def _observation(config: HolosomaConfig, path: Path, moves: bool) -> tuple[ObservationTerm, ...]:
    known = {**_TERMS, **(MOTION_TERMS if moves else {})}
    unknown = sorted(set(config.terms) - set(known))
    if unknown or len(set(config.terms)) != len(config.terms) or not config.terms:
        raise ImportFailed(
            f"{path}: terms {unknown or list(config.terms)} are not supported; known: {', '.join(known)}, each once"
        )
    absent = [name for name in config.terms if name not in config.obs_scales]
    if absent:
        raise ImportFailed(f"{path}: obs_scales lacks {absent}")
    kept = [(known[name], config.obs_scales[name]) for name in sorted(config.terms)]
    return tuple(
        ObservationTerm(
            name=term.name,
            scale=scale,
            signal=term.signal,
            index=term.index,
            lags=history(config.history_length),
            fill="zero",
        )
        for term, scale in kept
    )


def _clock(config: HolosomaConfig, path: Path) -> PhaseClock | None:
    """Advanced before it is seen; both feet at pi while the command is small, and from the start again after that."""
    if not {"sin_phase", "cos_phase"} & set(config.terms):
        return None
    if config.gait_period is None or not config.gait_period > 0:
        raise ImportFailed(
            f"{path}: the terms have a phase; gait_period {config.gait_period} must be a positive number of seconds"
        )
    step = 1.0 / (config.rl_rate * config.gait_period)
    return PhaseClock(
        frequency=1.0 / config.gait_period,
        start=(step % 1.0, (0.5 + step) % 1.0),
        still_below=STILL,
        still_parts=((0, 1), (2,)),
        still=(0.5, 0.5),
        restart=(0.0, 0.5),
    )


def _command(config: HolosomaConfig, data: Mapping, facts: Facts, missing: Missing) -> CommandSpec | None:
    if not {"command_lin_vel", "command_ang_vel"} & set(config.terms):
        return None
    if "command_ranges" not in data:
        return ask_command(COMMAND, VELOCITIES, facts, missing)
    ranges = data.mapping("command_ranges")
    low, high = zip(*(_pair(ranges, key) for key in ("lin_vel_x", "lin_vel_y", "ang_vel_yaw")), strict=True)
    own = facts.command
    if own is not None and (own.low, own.high) != (low, high):
        said = f"{list(own.low)} .. {list(own.high)}"
        raise ImportFailed(
            f"command: {ranges.source} says {list(low)} .. {list(high)}, {facts.source} says {said}; make them agree"
        )
    return CommandSpec(signal=COMMAND, workspace=None, low=low, high=high)


def _pair(ranges: Mapping, key: str) -> tuple[float, float]:
    values = ranges.numbers(key)
    if len(values) != 2:
        raise ImportFailed(f"{ranges.where(key)}: {list(values)}; expected the lowest and the highest")
    return values[0], values[1]


def _recognises(path: Path) -> bool:
    if path.suffix != ".onnx":
        return False
    try:
        data = metadata(read_onnx(path))
        return isinstance(json.loads(data["dof_names"]), list)
    except (ImportFailed, KeyError, ValueError, RecursionError):
        return False


IMPORTER = Importer(
    name="holosoma", description="holosoma: an ONNX with JSON properties", recognises=_recognises, load=load
)
