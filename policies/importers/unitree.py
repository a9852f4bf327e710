"""unitree_rl_lab and unitree_rl_mjlab: `params/deploy.yaml` beside `exported/policy.onnx`.

The file numbers motors and names no joint: the user gives the names in the order of the SDK's motors. Numbers are printed with three
significant digits. `stiffness` and `damping` are in SDK order, everything else in the policy's.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from ..actions import JointPosition
from ..contract import SCHEMA, CommandSpec, Contract, ObservationTerm, PhaseClock, history
from .common import (
    ANCHOR_FORM,
    Facts,
    Imported,
    Importer,
    ImportFailed,
    Missing,
    Numbers,
    agreed_period,
    ask_anchor,
    ask_latency,
    ask_robot,
    build_joints,
    check_scale,
    need_names,
)
from .files import read_onnx
from .onnx_network import plain_network
from .tagged_yaml import Mapping, Slice, as_list, as_number, read_yaml
from .unitree_motion import TERMS as MOTION_TERMS
from .unitree_motion import motion_signals, unitree_reference

DIGITS = 3  # significant digits that the exporter prints
TERMS = {
    "base_ang_vel": "gyro",
    "projected_gravity": "gravity",
    "velocity_commands": "command",
    "keyboard_velocity_commands": "command",
    "joint_pos_rel": "joint_pos",
    "joint_pos": "joint_pos_abs",
    "joint_vel_rel": "joint_vel",
    "last_action": "last_action_raw",
    "gait_phase": "phase",
}
OPTIONS = ("scale_first", "use_gym_history")  # among the terms
INPUT = "obs"
OF_JOINTS = ("joint_pos", "joint_pos_abs", "joint_vel")
COMMAND = "command.velocity"
ANCHORED = "the body that the motion is anchored to"


@dataclass(frozen=True, kw_only=True)
class _Files:
    config: Path
    network: Path


def _files(path: Path) -> _Files | None:
    """The two files of a policy directory; None where it is none."""
    config = path / "params" / "deploy.yaml" if path.is_dir() else path
    network = config.parent.parent / "exported" / "policy.onnx"
    return _Files(config=config, network=network) if config.name == "deploy.yaml" and config.is_file() else None


def load(path: Path, facts: Facts) -> Imported:
    """See Importer."""
    files = _files(path)
    if files is None:
        raise ImportFailed(f"{path}: expected a directory with params/deploy.yaml and exported/policy.onnx")
    config, missing = read_yaml(files.config), Missing(path, facts)
    task = missing.ask(facts.task, "task", "a name for what the policy does", "?")
    robot, latency = ask_robot(facts, missing), ask_latency(facts, missing)
    names, ids = _names(config, facts, missing)
    rate = config.number("step_dt")
    period = agreed_period(Numbers(values=(rate,), source=config.where("step_dt")), facts, missing)
    given = {
        "kp": _pick(_numbers(config, "stiffness"), ids),
        "kd": _pick(_numbers(config, "damping"), ids),
        "default_pos": _numbers(config, "default_joint_pos"),
    }
    joints, sources = build_joints(names, given, facts, missing)
    group, observed = _group(config)
    terms, layout = _observation(group, names, _ranges(config))
    seen = tuple(name for name in MOTION_TERMS.values() if name in {term.signal for term in terms})
    contract = Contract(
        schema=SCHEMA,
        task=task,
        robot=robot,
        joints=joints,
        period_ns=period,
        observation=terms,
        action=_action(config.mapping("actions"), names),
        command=_command(config),
        chain=None,
        latency_s=latency,
        layout=layout,
        clock=_clock(group, rate),
        own_signals=motion_signals(seen, len(names)),
    )
    anchor = ask_anchor(ANCHORED, names, facts, missing) if seen else ()
    missing.check()
    reference = unitree_reference(files.config.parent, names, anchor, seen, rate) if seen else None
    source = str(files.network)
    network, _ = plain_network(read_onnx(files.network), source, observation=observed, action="actions")
    return Imported(contract=contract, network=network, reference=reference, sources=sources)


def _names(config: Mapping, facts: Facts, missing: Missing) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Joint names in the policy's order, and each one's motor."""
    ids = tuple(int(number) for number in config.numbers("joint_ids_map"))
    what = f"{len(ids)} names of joints, in the order of the SDK's motors: the file has the motors' numbers only"
    motors = missing.ask(facts.sdk_joints, "sdk_joints", what, None)
    if motors is None and set(MOTION_TERMS) & set(_group(config)[0].names()):
        missing.ask(facts.anchor, "anchor", f"joints from the base to {ANCHORED}; {ANCHOR_FORM}", ())
    motors = need_names(motors, ("kp", "kd", "default_pos"), facts, missing)
    if sorted(set(ids)) != sorted(ids) or any(not 0 <= i < len(motors) for i in ids):
        raise ImportFailed(
            f"{config.where('joint_ids_map')}: {list(ids)}; expected different numbers of the {len(motors)} sdk_joints"
        )
    return tuple(motors[i] for i in ids), ids


def _numbers(config: Mapping, key: str) -> Numbers:
    values = config.numbers(key)
    return Numbers(values=values, source=config.where(key), resolution=tuple(_half_digit(value) for value in values))


def _half_digit(value: float) -> float:
    """Half a unit of the last of the exporter's significant digits."""
    return 0.0 if value == 0.0 else 0.5 * 10.0 ** (int(f"{value:e}".partition("e")[2]) - DIGITS + 1)


def _pick(numbers: Numbers, ids: tuple[int, ...]) -> Numbers:
    """Numbers in SDK order, brought into the policy's."""
    steps = numbers.resolution or ()
    if max(ids) >= len(numbers.values):
        raise ImportFailed(f"{numbers.source}: {len(numbers.values)} values, but joint_ids_map names motor {max(ids)}")
    return Numbers(
        values=tuple(numbers.values[i] for i in ids), source=numbers.source, resolution=tuple(steps[i] for i in ids)
    )


def _action(actions: Mapping, names: tuple[str, ...]) -> JointPosition:
    if actions.names() != ["JointPositionAction"]:
        raise ImportFailed(f"{actions.source}: {actions.names()}; only one JointPositionAction can be imported")
    action = actions.mapping("JointPositionAction")
    _check_all_joints(action, len(names))
    scale = _per_joint(action, "scale", 1.0, len(names))
    check_scale(scale)
    offset = _per_joint(action, "offset", 0.0, len(names))
    lowest, highest = _target_range(action, len(names))
    return JointPosition(
        joints=names,
        scale=scale.values,
        clip=None,
        offset=offset.values,
        limited=False,
        lowest=lowest,
        highest=highest,
    )


def _target_range(action: Mapping, count: int) -> tuple[tuple[float, ...] | None, tuple[float, ...] | None]:
    """Lowest and highest target of each joint; None where the tool does not clip."""
    if "clip" not in action:
        return None, None
    where = action.where("clip")
    pairs = [[as_number(end, where) for end in as_list(pair, where)] for pair in as_list(action.raw("clip"), where)]
    if len(pairs) != count or any(len(pair) != 2 or pair[0] > pair[1] for pair in pairs):
        raise ImportFailed(f"{where}: expected a lowest and a highest number for each of {count} joints")
    return tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)


def _per_joint(action: Mapping, key: str, absent: float, count: int) -> Numbers:
    """One number per joint; what the deployment code does without the key stands in for it."""
    numbers = _numbers(action, key) if key in action else Numbers(values=(absent,) * count, source=action.where(key))
    if len(numbers.values) != count:
        raise ImportFailed(f"{numbers.source}: {len(numbers.values)} values for {count} joints")
    return numbers


def _check_all_joints(action: Mapping, count: int) -> None:
    ids = action.raw("joint_ids")
    if ids is None or (isinstance(ids, Slice) and ids.everything):
        return
    if ids != list(range(count)):
        raise ImportFailed(f"{action.where('joint_ids')}: the deployment code drives all joints in order; got others")


def _ranges(config: Mapping) -> tuple[tuple[float, float], ...]:
    """Lowest and highest forward, sideways and turning speed; empty where the policy takes no velocity."""
    commands = config.mapping("commands")
    if "base_velocity" not in commands:
        return ()
    ranges = commands.mapping("base_velocity").mapping("ranges")
    pairs = [ranges.numbers(key) for key in ("lin_vel_x", "lin_vel_y", "ang_vel_z")]
    if any(len(pair) != 2 or pair[0] > pair[1] for pair in pairs):
        raise ImportFailed(f"{ranges.source}: expected a lowest and a highest number each")
    return tuple((pair[0], pair[1]) for pair in pairs)


def _command(config: Mapping) -> CommandSpec | None:
    ranges = _ranges(config)
    if not ranges:
        return None
    low, high = zip(*ranges, strict=True)
    return CommandSpec(signal=COMMAND, workspace=None, low=low, high=high)


def _group(config: Mapping) -> tuple[Mapping, str]:
    """The terms, and the network's input that they are: the file holds terms, or one group of them by that name."""
    terms = config.mapping("observations")
    keys = terms.names()
    if not keys or keys[0] in OPTIONS:
        raise ImportFailed(f"{terms.source}: the deployment code needs a term or a group first, got {keys[:1]}")
    if "params" in terms.mapping(keys[0]):
        return terms, INPUT
    if len(keys) > 1:
        raise ImportFailed(f"{terms.source}: groups {keys}; one can be imported")
    return terms.mapping(keys[0]), keys[0]


def _observation(
    terms: Mapping, names: tuple[str, ...], ranges: tuple[tuple[float, float], ...]
) -> tuple[tuple[ObservationTerm, ...], Literal["term", "time"]]:
    by_time = "use_gym_history" in terms and terms.flag("use_gym_history")
    scale_first, built = False, list[ObservationTerm]()
    for key in terms.names():
        if key == "scale_first":
            scale_first = terms.flag(key)  # of the terms that follow
        elif key not in OPTIONS:
            built += _term(terms.mapping(key), key, names, ranges, (scale_first, by_time))
    if by_time and len({term.lags for term in built}) > 1:
        raise ImportFailed(f"{terms.source}: use_gym_history with different history lengths")
    return tuple(built), "time" if by_time else "term"


def _term(
    term: Mapping, key: str, names: tuple[str, ...], ranges: tuple[tuple[float, float], ...], how: tuple[bool, bool]
) -> list[ObservationTerm]:
    name, (scale_first, by_time) = "signal" if key in MOTION_TERMS else TERMS.get(key), how
    if name is None:
        raise ImportFailed(f"{term.source}: unknown observation; known: {', '.join((*TERMS, *MOTION_TERMS))}")
    samples = term.whole("history_length") if "history_length" in term else 1
    if samples < 1:
        raise ImportFailed(f"{term.where('history_length')}: {samples}; expected 1 at least")
    common = ObservationTerm(
        name=name, scale=_scale(term), clip=_clip(term), clip_scaled=scale_first, lags=history(samples),
        joints=_term_joints(term, name, names), signal=MOTION_TERMS.get(key),
    )  # fmt: skip
    if samples > 1 and (name == "phase" or key in MOTION_TERMS):
        raise ImportFailed(f"{term.source}: a history of {key} cannot be imported")
    if name == "phase":
        return _phase(common)
    if key == "velocity_commands":
        return _clamped_command(common, term, ranges, by_time)
    return [common]


def _scale(term: Mapping) -> float | tuple[float, ...]:
    return term.numbers("scale") if "scale" in term else 1.0


def _clip(term: Mapping) -> tuple[float, float] | None:
    if "clip" not in term:
        return None
    clip = term.numbers("clip")
    if len(clip) != 2 or clip[0] > clip[1]:
        raise ImportFailed(f"{term.where('clip')}: expected a lowest and a highest number")
    return clip[0], clip[1]


def _term_joints(term: Mapping, name: str, names: tuple[str, ...]) -> tuple[str, ...] | None:
    """The joints that a term lists by number; None: all."""
    params = term.mapping("params")
    if name not in OF_JOINTS or "asset_cfg" not in params:
        return None
    chosen = params.mapping("asset_cfg").raw("joint_ids")
    if chosen is None or (isinstance(chosen, Slice) and chosen.everything):
        return None
    where = f"{term.source}: joint_ids"
    ids = [int(as_number(item, where)) for item in as_list(chosen, where)]
    if any(not 0 <= index < len(names) for index in ids):
        raise ImportFailed(f"{where}: {ids}; expected numbers below {len(names)}")
    return tuple(names[index] for index in ids) or None


def _clamped_command(
    common: ObservationTerm, term: Mapping, ranges: tuple[tuple[float, float], ...], by_time: bool
) -> list[ObservationTerm]:
    """The deployment code keeps each value of the command within its range, then within the clip of all."""
    if not ranges:
        raise ImportFailed(f"{term.source}: the file gives no ranges of base_velocity")
    scale = common.scale if isinstance(common.scale, tuple) else (common.scale,) * len(ranges)
    if len(scale) != len(ranges):
        raise ImportFailed(f"{term.where('scale')}: {len(scale)} values for a command of {len(ranges)}")
    values = [
        replace(
            common,
            name="signal",
            signal=COMMAND,
            index=(index,),
            scale=scale[index],
            clip=_within(ranges[index], common, scale[index]),
            clip_scaled=False,
        )
        for index in range(len(ranges))
    ]
    if by_time:
        return values
    return [replace(value, lags=(lag,)) for lag in common.lags for value in values]  # all values of a sample together


def _within(limits: tuple[float, float], common: ObservationTerm, scale: float) -> tuple[float, float]:
    if not isinstance(common.clip, tuple):
        return limits
    low, high = sorted(bound / scale for bound in common.clip) if common.clip_scaled else common.clip
    return min(max(limits[0], low), high), min(max(limits[1], low), high)


def _phase(common: ObservationTerm) -> list[ObservationTerm]:
    """Sin and cos of the gait's phase."""
    scale = common.scale if isinstance(common.scale, tuple) else (common.scale,) * 2
    return [replace(common, name=name, scale=scale[i]) for i, name in enumerate(("phase_sin", "phase_cos"))]


def _clock(terms: Mapping, step: float) -> PhaseClock | None:
    """The phase is moved on at the reset and again before its first use, so that an episode begins at two steps."""
    if "gait_phase" not in terms:
        return None
    period = terms.mapping("gait_phase").mapping("params").number("period")
    if period <= 0:
        raise ImportFailed(f"{terms.source}: gait_phase: period {period}; expected a positive number of seconds")
    return PhaseClock(frequency=1.0 / period, start=((2.0 * step / period) % 1.0,))


IMPORTER = Importer(
    name="unitree",
    description="unitree_rl_lab, unitree_rl_mjlab: params/deploy.yaml and exported/policy.onnx",
    recognises=lambda path: _files(path) is not None,
    load=load,
)
