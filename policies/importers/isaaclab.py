"""Isaac Lab: `exported/policy.onnx` of its exporter, with `params/env.yaml` and `params/agent.yaml` of the training run.

The network file says nothing of itself. The configuration names joints by patterns; their order is that of the simulated articulation
and stands nowhere, so the user gives it. Observation terms are those of `isaaclab.envs.mdp`; code of a task's own cannot be imported.
"""

import math
import re
from pathlib import Path
from typing import Literal, cast

from ..actions import JointPosition
from ..contract import SCHEMA, CommandSpec, Contract, ObservationTerm, history
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
    need_names,
)
from .files import read_onnx
from .onnx_network import recurrent_network
from .tagged_yaml import Mapping, Opaque, Slice, as_list, as_number, read_yaml

TERMS = {
    "base_lin_vel": "base_lin_vel",
    "base_ang_vel": "gyro",
    "projected_gravity": "gravity",
    "generated_commands": "command",
    "joint_pos_rel": "joint_pos",
    "joint_pos": "joint_pos_abs",
    "joint_vel_rel": "joint_vel",
    "joint_vel": "joint_vel",
    "last_action": "last_action",
}
OF_JOINTS = ("joint_pos", "joint_pos_abs", "joint_vel")
MODULES = ("isaaclab.envs.mdp", "omni.isaac.lab.envs.mdp")
GROUP = "policy"
LIMITS = (("actuator_", ""), ("", ""), ("", "_sim"))  # around the name of a limit, from 3.0 on and before
OF_ACTUATORS = {
    "kp": ("stiffness",),
    "kd": ("damping",),
    "effort_limit": tuple(f"{prefix}effort_limit{suffix}" for prefix, suffix in LIMITS),
    "velocity_limit": tuple(f"{prefix}velocity_limit{suffix}" for prefix, suffix in LIMITS),
}
GROUP_OPTIONS = (
    *("concatenate_terms", "concatenate_dim", "enable_corruption", "history_length", "flatten_history_dim"),
    "history_order",
)
COMMAND = "command.velocity"
ENDLESS = re.compile(r"[+*}?]\)[+*{]")  # such as (a+)+, whose search grows with the power of a name's length
OPEN = 3.0e38  # rad, about the largest float32: no end


def _config(path: Path) -> Path | None:
    """The env.yaml of a run's directory, or that file itself."""
    config = path / "params" / "env.yaml" if path.is_dir() else path
    return config if config.name == "env.yaml" and config.is_file() else None


def load(path: Path, facts: Facts) -> Imported:
    """See Importer."""
    config = _config(path)
    if config is None:
        raise ImportFailed(f"{path}: expected a run with params/env.yaml and exported/policy.onnx")
    env, missing = read_yaml(config), Missing(path, facts)
    task = missing.ask(facts.task, "task", "a name for what the policy does", "?")
    name, latency = ask_robot(facts, missing), ask_latency(facts, missing)
    clip = _action_clip(config.parent / "agent.yaml", facts, missing)
    robot = env.mapping("scene").mapping("robot")
    what = "names of all joints, in the order of the simulated articulation: env.yaml has patterns only"
    names = need_names(missing.ask(facts.joints, "joints", what, None), _fields(robot), facts, missing)
    joints, sources = build_joints(names, _given(robot, names), facts, missing)
    _check_rest(robot)
    command, group = _commanded(env), env.mapping("observations").mapping(GROUP)
    action = _action(env.mapping("actions"), names, tuple(joint.default_pos for joint in joints), clip)
    contract = Contract(
        schema=SCHEMA,
        task=task,
        robot=name,
        joints=joints,
        period_ns=agreed_period(_step(env), facts, missing),
        observation=_observation(group, names),
        layout=_layout(group),
        action=action,
        command=None if command is None else _command(env.mapping("commands").mapping(command)),
        chain=None,
        latency_s=latency,
    )
    missing.check()
    file = config.parent.parent / "exported" / "policy.onnx"
    network, memory = recurrent_network(read_onnx(file), str(file))
    return Imported(contract=contract, network=network, memory=memory, sources=sources, notes=_notes(group))


def _action_clip(agent: Path, facts: Facts, missing: Missing) -> float | None:
    """The trainer's clip of the network's action; `inf` in the facts says that there is none."""
    if agent.is_file():
        config = read_yaml(agent)
        said = config.number("clip_actions") if "clip_actions" in config else math.inf
        if facts.action_clip not in (None, said):
            raise ImportFailed(
                f"{config.where('clip_actions')} is {said}, {facts.source} says action_clip = {facts.action_clip}"
            )
        return None if said == math.inf else said
    clip = missing.ask(facts.action_clip, "action_clip", "clip_actions of the trainer, either way; inf: none", 1.0)
    return None if clip == float("inf") else clip


def _fields(robot: Mapping) -> list[str]:
    """What the configuration says of joints, whatever they are called."""
    groups = robot.mapping("actuators")
    each = [groups.mapping(name) for name in groups.names()]
    told = [field for field, keys in OF_ACTUATORS.items() if all(any(key in group for key in keys) for group in each)]
    return ["default_pos", *told]


def _step(env: Mapping) -> Numbers:
    seconds = env.mapping("sim").number("dt") * env.whole("decimation")
    return Numbers(values=(seconds,), source=env.where("decimation"))


def _given(robot: Mapping, names: tuple[str, ...]) -> dict[str, Numbers]:
    """Default pose, gains and effort limits, from the patterns of the articulation's configuration."""
    pose = robot.mapping("init_state").mapping("joint_pos")
    given = {"default_pos": _numbers(_matched(pose, names), names, pose.source)}
    groups = robot.mapping("actuators")
    for field, keys in OF_ACTUATORS.items():
        found = _of_actuators(groups, keys, names)
        if found is not None:
            given[field] = _numbers(found, names, f"{groups.source}: {keys[0]}")
    return given


def _of_actuators(groups: Mapping, keys: tuple[str, ...], names: tuple[str, ...]) -> dict[str, float] | None:
    """One number per joint of all actuator groups; None where a group does not say (the value is in the robot's model)."""
    found = dict[str, float]()
    for name in groups.names():
        group = groups.mapping(name)
        members = _select(group.texts("joint_names_expr"), names, group.where("joint_names_expr"))
        key = next((key for key in keys if key in group), None)
        if key is None:
            return None
        found |= _value(group, key, members)
    return found if set(found) == set(names) else None


def _value(config: Mapping, key: str, members: tuple[str, ...]) -> dict[str, float]:
    """A number for all, or numbers by pattern."""
    value = config.raw(key)
    if isinstance(value, dict):
        return _matched(config.mapping(key), members)
    return dict.fromkeys(members, as_number(value, config.where(key)))


def _matched(patterns: Mapping, names: tuple[str, ...]) -> dict[str, float]:
    """Numbers of the joints that the patterns name; each joint by one pattern alone."""
    found = dict[str, float]()
    for pattern in patterns.names():
        for name in _select((pattern,), names, patterns.source):
            if name in found:
                raise ImportFailed(f"{patterns.source}: joint {name!r} matches more than one pattern")
            found[name] = patterns.number(pattern)
    return found


def _select(patterns: tuple[str, ...], names: tuple[str, ...], where: str) -> tuple[str, ...]:
    """The names that any of the patterns matches, in the order of the names."""
    endless = [pattern for pattern in patterns if ENDLESS.search(pattern)]
    if endless:
        raise ImportFailed(f"{where}: {endless} repeat a repetition, which may take for ever; write them plainly")
    try:
        compiled = [re.compile(pattern) for pattern in patterns]
    except re.error as error:
        raise ImportFailed(f"{where}: {error.pattern!r} is not a pattern: {error}") from None
    chosen = tuple(name for name in names if any(pattern.fullmatch(name) for pattern in compiled))
    unmatched = [p.pattern for p in compiled if not any(p.fullmatch(name) for name in names)]
    if unmatched:
        raise ImportFailed(f"{where}: {unmatched} match none of the joints {list(names)}; give the joints of training")
    return chosen


def _in_order(patterns: tuple[str, ...], names: tuple[str, ...], keep: bool, where: str) -> tuple[str, ...]:
    """The names that patterns choose: in the articulation's order, or in that of the patterns where it is kept."""
    if not keep:
        return _select(patterns, names, where)
    return tuple(name for pattern in patterns for name in _select((pattern,), names, where))


def _numbers(found: dict[str, float], names: tuple[str, ...], source: str) -> Numbers:
    without = [name for name in names if name not in found]
    if without:
        raise ImportFailed(f"{source}: says nothing of {without}; give the joints of training")
    return Numbers(values=tuple(found[name] for name in names), source=source)


def _check_rest(robot: Mapping) -> None:
    """`joint_vel_rel` is relative to the initial velocities, which are 0 in every shipped task."""
    velocities = robot.mapping("init_state").mapping("joint_vel")
    if any(velocities.number(key) != 0.0 for key in velocities.names()):
        raise ImportFailed(f"{velocities.source}: initial velocities that are not 0 cannot be imported")


def _action(actions: Mapping, names: tuple[str, ...], default: tuple[float, ...], clip: float | None) -> JointPosition:
    terms = [key for key in actions.names() if key in actions]
    if len(terms) != 1:
        raise ImportFailed(f"{actions.source}: {terms}; one action term can be imported")
    action = actions.mapping(terms[0])
    if _name(action, "class_type") != "JointPositionAction":
        raise ImportFailed(
            f"{action.where('class_type')}: {action.raw('class_type')}; only JointPositionAction can be imported"
        )
    keep = "preserve_order" in action and action.flag("preserve_order")
    driven = _in_order(action.texts("joint_names"), names, keep, action.where("joint_names"))
    scale = Numbers(values=_per_joint(action, "scale", driven, 1.0), source=action.where("scale"))
    check_scale(scale)
    pose = dict(zip(names, default, strict=True))
    offset = (
        tuple(pose[n] for n in driven)
        if action.flag("use_default_offset")
        else _per_joint(action, "offset", driven, 0.0)
    )
    lowest, highest = _target_range(action, driven)
    return JointPosition(
        joints=driven,
        scale=scale.values,
        clip=clip,
        offset=offset,
        limited=False,
        lowest=lowest,
        highest=highest,
        others="default",
    )


def _target_range(
    action: Mapping, driven: tuple[str, ...]
) -> tuple[tuple[float, ...] | None, tuple[float, ...] | None]:
    """Lowest and highest target of each driven joint, open where no pattern names it; None where nothing is clipped."""
    if "clip" not in action:
        return None, None
    clips, found = action.mapping("clip"), dict[str, tuple[float, ...]]()
    for pattern in clips.names():
        ends = clips.numbers(pattern)
        if len(ends) != 2 or ends[0] > ends[1]:
            raise ImportFailed(f"{clips.where(pattern)}: expected a lowest and a highest number")
        found |= dict.fromkeys(_select((pattern,), driven, clips.source), ends)
    ranges = [found.get(name, (-OPEN, OPEN)) for name in driven]
    return tuple(ends[0] for ends in ranges), tuple(ends[1] for ends in ranges)


def _per_joint(action: Mapping, key: str, driven: tuple[str, ...], unmatched: float) -> tuple[float, ...]:
    """Scale or offset; of joints that no pattern names what the tool takes for them."""
    found = _value(action, key, driven)
    return tuple(found.get(name, unmatched) for name in driven)


def _name(config: Mapping, key: str) -> str:
    """The last part of a dotted name of a function or class."""
    return re.split(r"[.:]", config.text(key))[-1]


def _observation(group: Mapping, names: tuple[str, ...]) -> tuple[ObservationTerm, ...]:
    if "concatenate_terms" in group and not group.flag("concatenate_terms"):
        raise ImportFailed(f"{group.source}: concatenate_terms is false; only one vector can be imported")
    if "flatten_history_dim" in group and not group.flag("flatten_history_dim"):
        raise ImportFailed(f"{group.source}: flatten_history_dim is false; only one vector can be imported")
    common = group.whole("history_length") if "history_length" in group else None
    return tuple(_term(group.mapping(key), names, common) for key in _terms(group))


def _layout(group: Mapping) -> Literal["term", "time"]:
    """Order of a group's history; a term's own history is always in one piece."""
    order = group.text("history_order") if "history_order" in group else "term"
    if order not in ("term", "time"):
        raise ImportFailed(f"{group.where('history_order')}: {order!r}; expected term or time")
    together = "history_length" in group and group.whole("history_length") > 0
    return "time" if order == "time" and together else "term"


def _notes(group: Mapping) -> tuple[str, ...]:
    """Delays of sensors that training simulated; on a robot they are its own."""
    terms = [group.mapping(key) for key in _terms(group)]
    late = [term.source for term in terms if "delay_max_lag" in term and term.number("delay_max_lag") > 0]
    return tuple(f"{where}: training delayed this observation; the bundle does not" for where in late)


def _terms(group: Mapping) -> list[str]:
    """Names of the terms of a group."""
    return [key for key in group.names() if key not in GROUP_OPTIONS and key in group]


def _term(term: Mapping, names: tuple[str, ...], common: int | None) -> ObservationTerm:
    function = term.text("func")
    name = TERMS.get(_name(term, "func"))
    if name is None or not function.startswith(MODULES):
        raise ImportFailed(f"{term.where('func')}: {function} is code of a task's own; known: {', '.join(TERMS)}")
    if "modifiers" in term:
        raise ImportFailed(f"{term.where('modifiers')}: modifiers cannot be imported")
    own = term.whole("history_length") if "history_length" in term else 0
    samples = max(own if common is None else common, 1)  # 0: no history, which is one sample
    return ObservationTerm(
        name=name,
        scale=_scale(term),
        clip=_clip(term),
        lags=history(samples),
        joints=_term_joints(term, name, names),
    )


def _scale(term: Mapping) -> float | tuple[float, ...]:
    if "scale" not in term:
        return 1.0
    return term.numbers("scale") if isinstance(term.raw("scale"), list) else term.number("scale")


def _clip(term: Mapping) -> tuple[float, float] | None:
    if "clip" not in term:
        return None
    low, high = (*term.numbers("clip"), 0.0, 0.0)[:2]
    if low > high or len(term.numbers("clip")) != 2:
        raise ImportFailed(f"{term.where('clip')}: expected a lowest and a highest number")
    return low, high


def _term_joints(term: Mapping, name: str, names: tuple[str, ...]) -> tuple[str, ...] | None:
    """The joints of a term: by number where the run resolved them, else by pattern; all of the articulation's by default."""
    if name not in OF_JOINTS:
        return None
    params = term.mapping("params")
    if "asset_cfg" not in params:
        return names
    entity = params.mapping("asset_cfg")
    ids = entity.raw("joint_ids")
    if isinstance(ids, list):
        where = entity.where("joint_ids")
        numbers = [int(as_number(item, where)) for item in as_list(cast("list[object]", ids), where)]
        if any(not 0 <= index < len(names) for index in numbers):
            raise ImportFailed(f"{where}: {numbers}; expected numbers below {len(names)}")
        return tuple(names[index] for index in numbers)
    if isinstance(ids, Opaque) or (isinstance(ids, Slice) and not ids.everything):
        raise ImportFailed(f"{entity.where('joint_ids')}: {ids}; expected numbers or all joints")
    if "joint_names" not in entity:
        return names
    raw = entity.raw("joint_names")
    patterns = (raw,) if isinstance(raw, str) else entity.texts("joint_names")
    keep = "preserve_order" in entity and entity.flag("preserve_order")
    return _in_order(patterns, names, keep, entity.where("joint_names"))


def _commanded(env: Mapping) -> str | None:
    """Name of the command that the policy sees; None where it sees none."""
    group = env.mapping("observations").mapping(GROUP)
    terms = [group.mapping(key) for key in _terms(group)]
    seen = [
        term.mapping("params").text("command_name") for term in terms if _name(term, "func") == "generated_commands"
    ]
    if len(seen) > 1:
        raise ImportFailed(f"{group.source}: commands {seen}; one can be imported")
    return seen[0] if seen else None


def _command(command: Mapping) -> CommandSpec:
    if "VelocityCommand" not in _name(command, "class_type"):
        raise ImportFailed(
            f"{command.where('class_type')}: {command.raw('class_type')}; only a velocity can be imported"
        )
    ranges = command.mapping("ranges")
    pairs = [ranges.numbers(key) for key in ("lin_vel_x", "lin_vel_y", "ang_vel_z")]
    if any(len(pair) != 2 or pair[0] > pair[1] for pair in pairs):
        raise ImportFailed(f"{ranges.source}: expected a lowest and a highest number each")
    low, high = zip(*pairs, strict=True)
    return CommandSpec(signal=COMMAND, workspace=None, low=low, high=high)


IMPORTER = Importer(
    name="isaaclab",
    description="Isaac Lab: exported/policy.onnx with params/env.yaml and params/agent.yaml",
    recognises=lambda path: _config(path) is not None,
    load=load,
)
