"""holosoma: an ONNX with JSON properties, as holosoma-inference's LocomotionPolicy runs it.

Terms stand in alphabetical order, whatever order a configuration has; histories are oldest first and begin with zeros; actions
are clipped to +-100. What the observation is made of, newer files say themselves (`experiment_config`); for others it is in
holosoma-inference's Python, and a `holosoma.toml` beside says it.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import onnx

from isthmus.hardware.structure import FormatError, read_toml

from ..contract import (
    SCHEMA,
    CommandSpec,
    Contract,
    JointPosition,
    ObservationTerm,
    PhaseClock,
    history,
)
from ..contract_checks import LONGEST_LAG
from .common import (
    Facts,
    Imported,
    Importer,
    ImportFailed,
    Missing,
    Numbers,
    agree,
    build_joints,
    check_scale,
    period_ns,
)
from .files import metadata, read_onnx
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
_LISTS = {
    "dof_pos_lower_limit_list": "lower",
    "dof_pos_upper_limit_list": "upper",
    "dof_vel_limit_list": "velocity_limit",
    "dof_effort_limit_list": "effort_limit",
}


@dataclass(frozen=True, kw_only=True)
class HolosomaConfig:
    """holosoma.toml: the values of holosoma-inference's configuration, by its names."""

    terms: tuple[str, ...]  # obs_dict["actor_obs"]
    obs_scales: dict[str, float]
    policy_action_scale: float | tuple[float, ...]
    rl_rate: float  # Hz
    history_length: int = 1
    gait_period: float | None = None  # s, where the terms have a phase
    default_dof_angles: tuple[float, ...] | None = None  # rad, in the order of dof_names


def load(path: Path, facts: Facts) -> Imported:
    """The .onnx; a holosoma.toml in its folder is read where there is one."""
    model = read_onnx(path)
    data = _properties(model, path)
    if "time_step" in {value.name for value in model.graph.input}:
        raise ImportFailed(
            f"{path}: holds a reference motion (it takes time_step); of holosoma walking policies alone are read"
        )
    names = data.texts("dof_names")
    missing = Missing(path, facts)
    config, given = _config(data, names, path)
    _check_rates(config, path)
    given |= {key: Numbers(values=data.numbers(key), source=data.where(key)) for key in ("kp", "kd") if key in data}
    joints, sources = build_joints(names, given, facts, missing)
    period = Numbers(values=(1.0 / config.rl_rate,), source=f"{path}: rl_rate")
    own = None if facts.period_s is None else Numbers(values=(facts.period_s,), source=facts.source)
    contract = Contract(
        schema=SCHEMA,
        task=facts.task or path.stem,
        robot=missing.ask(facts.robot, "robot", "name of the robot", ""),
        joints=joints,
        period_ns=period_ns((agree("period_s", period, own) or period).values[0], period.source),
        observation=_observation(config, path),
        action=JointPosition(joints=names, scale=config.policy_action_scale, clip=ACTION_CLIP, limited=False),
        command=_command(config, data, facts, missing),
        chain=None,
        latency_s=missing.ask(
            facts.latency_s, "latency_s", "s, command delay that training saw: [least, most]", (0.0, 0.0)
        ),
        clock=_clock(config, path),
    )
    missing.check()
    network, memory = plain_network(model, str(path), observation="actor_obs", action="action")
    return Imported(contract=contract, network=network, memory=memory, sources=sources)


def _properties(model: onnx.ModelProto, path: Path) -> Mapping:
    data: dict[object, object] = {}
    for key, text in metadata(model).items():
        try:
            data[key] = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ImportFailed(f"{path}: property {key!r} is not JSON, as holosoma writes it: {error}") from None
    return Mapping(data=data, source=str(path))  # pyright: ignore[reportArgumentType]


def _config(data: Mapping, names: tuple[str, ...], path: Path) -> tuple[HolosomaConfig, dict[str, Numbers]]:
    """What the observation is made of, and numbers of the joints."""
    beside = path.parent / "holosoma.toml"
    given, trained = dict[str, Numbers](), None
    if "experiment_config" in data:
        trained = data.mapping("experiment_config")
        given = _trained_joints(trained.mapping("robot"), names)
    if not beside.is_file():
        if trained is None:
            raise ImportFailed(
                f"{path}: the file does not say what the observation is made of; write {beside.name} beside it with terms, obs_scales, "
                "policy_action_scale, rl_rate, history_length, gait_period and default_dof_angles of the holosoma-inference configuration"
            )
        return _trained(trained), given
    try:
        config = read_toml(beside, HolosomaConfig)
    except FormatError as error:
        raise ImportFailed(str(error)) from None
    pose = None
    if config.default_dof_angles is not None:
        pose = Numbers(values=config.default_dof_angles, source=str(beside))
    best = agree("default_dof_angles", given.get("default_pos"), pose)
    _check(config, len(names), beside)
    return config, given if best is None else {**given, "default_pos": best}


def _check(config: HolosomaConfig, count: int, source: Path) -> None:
    scale = config.policy_action_scale
    values = scale if isinstance(scale, tuple) else (scale,)
    if len(values) not in (1, count):
        raise ImportFailed(f"{source}: policy_action_scale has {len(values)} values for {count} joints")
    check_scale(Numbers(values=values, source=f"{source}: policy_action_scale"))


def _check_rates(config: HolosomaConfig, source: Path) -> None:
    longest = LONGEST_LAG + 1
    if not config.rl_rate > 0 or not 1 <= config.history_length <= longest:
        raise ImportFailed(
            f"{source}: {config.rl_rate} actions a second from {config.history_length} samples; expected a positive number, "
            f"and 1 .. {longest}"
        )


def _trained_joints(robot: Mapping, names: tuple[str, ...]) -> dict[str, Numbers]:
    """Default pose and limits from the configuration of training, in the order of the file's joints."""
    order = robot.texts("dof_names")
    if sorted(order) != sorted(names):
        raise ImportFailed(f"{robot.where('dof_names')}: {list(order)}, but the file's are {list(names)}")
    angles = robot.mapping("init_state").mapping("default_joint_angles")
    given = {"default_pos": Numbers(values=tuple(angles.number(name) for name in names), source=angles.source)}
    for key, field in _LISTS.items():
        values = robot.numbers(key) if key in robot else ()
        if len(values) == len(order):
            by_name = dict(zip(order, values, strict=True))
            given[field] = Numbers(values=tuple(by_name[name] for name in names), source=robot.where(key))
    return given


def _trained(config: Mapping) -> HolosomaConfig:
    """The runtime's configuration as that of training gives it."""
    group = config.mapping("observation").mapping("groups").mapping("actor_obs")
    terms = group.mapping("terms")
    for name in terms.names():
        if terms.mapping(name).raw("clip") is not None:
            raise ImportFailed(f"{terms.where(name)}: clip: holosoma-inference clips no term; not supported")
    control, sim = (
        config.mapping("robot").mapping("control"),
        config.mapping("simulator").mapping("config").mapping("sim"),
    )
    if "action_scales_by_effort_limit_over_p_gain" in control and control.flag(
        "action_scales_by_effort_limit_over_p_gain"
    ):
        raise ImportFailed(f"{control.source}: action scales by effort limit and gain; give them in holosoma.toml")
    scale = control.number("action_scale")
    check_scale(Numbers(values=(scale,), source=control.where("action_scale")))
    decimation = sim.number("control_decimation")
    if not decimation > 0:
        raise ImportFailed(f"{sim.where('control_decimation')}: {decimation}; expected a positive number")
    return HolosomaConfig(
        terms=tuple(terms.names()),
        obs_scales={name: terms.mapping(name).number("scale") for name in terms.names()},
        policy_action_scale=scale,
        rl_rate=sim.number("fps") / decimation,
        history_length=group.whole("history_length"),
        gait_period=_gait_period(config),
    )


def _gait_period(config: Mapping) -> float | None:
    setup = config.mapping("command").mapping("setup_terms")
    if "locomotion_gait" not in setup:
        return None
    return setup.mapping("locomotion_gait").mapping("params").number("gait_period")


def _observation(config: HolosomaConfig, path: Path) -> tuple[ObservationTerm, ...]:
    unknown = sorted(set(config.terms) - set(_TERMS))
    if unknown or len(set(config.terms)) != len(config.terms) or not config.terms:
        raise ImportFailed(
            f"{path}: terms {unknown or list(config.terms)} are not supported; known: {', '.join(_TERMS)}, each once"
        )
    absent = [name for name in config.terms if name not in config.obs_scales]
    if absent:
        raise ImportFailed(f"{path}: obs_scales lacks {absent}")
    kept = [(_TERMS[name], config.obs_scales[name]) for name in sorted(config.terms)]
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
        start=(step, 0.5 + step),
        still_below=STILL,
        still_parts=((0, 1), (2,)),
        still=(0.5, 0.5),
        restart=(0.0, 0.5),
    )


def _command(config: HolosomaConfig, data: Mapping, facts: Facts, missing: Missing) -> CommandSpec | None:
    if not {"command_lin_vel", "command_ang_vel"} & set(config.terms):
        return None
    if facts.command is not None:
        return CommandSpec(signal=COMMAND, workspace=None, low=facts.command.low, high=facts.command.high)
    if "command_ranges" not in data:
        missing.ask(
            None, "command", "low and high of command.velocity: m/s forwards and to the left, rad/s to the left", None
        )
        return CommandSpec(signal=COMMAND, workspace=None, low=(0.0,) * 3, high=(0.0,) * 3)
    ranges = data.mapping("command_ranges")
    low, high = zip(*(_pair(ranges, key) for key in ("lin_vel_x", "lin_vel_y", "ang_vel_yaw")), strict=True)
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
