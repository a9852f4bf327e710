"""rl_sar: base.yaml of a robot and, in a folder below, config.yaml and a network of one policy.

Joints are integers there: policy joint i is number joint_mapping[i] of the robot's motors, whose names base.yaml gives in that order.
"""

from pathlib import Path
from typing import Literal

from ..contract import (
    SCHEMA,
    CommandSpec,
    Contract,
    ContractJoint,
    JointPosition,
    ObservationTerm,
    observation_width,
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
    build_joints,
    check_scale,
    need_names,
)
from .network import read_network
from .tagged_yaml import Mapping, read_yaml

_TERMS = {
    "lin_vel": ("base_lin_vel", "lin_vel_scale"),
    "ang_vel": ("gyro", "ang_vel_scale"),
    "gravity_vec": ("gravity", None),
    "commands": ("command", "commands_scale"),
    "dof_pos": ("joint_pos", "dof_pos_scale"),
    "dof_vel": ("joint_vel", "dof_vel_scale"),
    "actions": ("last_action", None),
}
_JOINT_KEYS = {"rl_kp": "kp", "rl_kd": "kd", "default_dof_pos": "default_pos", "torque_limits": "effort_limit"}


def load(path: Path, facts: Facts) -> Imported:
    """A policy's folder, or its config.yaml."""
    folder = path if path.is_dir() else path.parent
    config = _Config(folder)
    if config.wholes("wheel_indices"):
        raise ImportFailed(
            f"{config.where('wheel_indices')}: wheels, driven by velocity beside joints that are driven by position, are not supported"
        )
    missing = Missing(path, facts)
    latency, period = ask_latency(facts, missing), _period(config, facts, missing)
    command = _command(config, facts, missing)
    names = _joint_names(config, facts, missing)
    given = {field: config.numbers(key) for key, field in _JOINT_KEYS.items() if key in config}
    joints, sources = build_joints(names, given, facts, missing)
    contract = Contract(
        schema=SCHEMA,
        task=facts.task or config.policy,
        robot=facts.robot or config.robot,
        joints=joints,
        period_ns=period,
        observation=_observation(config),
        action=_action(config, names, joints),
        command=command,
        chain=None,
        latency_s=latency,
        layout=_layout(config),
    )
    missing.check()
    width = observation_width(contract)
    network, memory = read_network(folder, config.text("model_name"), config.where("model_name"), width)
    return Imported(contract=contract, network=network, memory=memory, sources=sources, notes=_notes(config))


class _Config:
    """config.yaml over base.yaml, as rl_sar's ReadYaml lays them."""

    def __init__(self, folder: Path) -> None:
        own = _only(read_yaml(folder / "config.yaml"))
        self.robot, _, self.policy = own.source.rpartition(": ")[2].partition("/")
        base = (
            folder.resolve().parents[self.policy.count("/")] / "base.yaml"
        )  # the key is the path from the robots' folder
        self._layers = [own, *([_only(read_yaml(base))] if base.is_file() else [])]

    def __contains__(self, key: str) -> bool:
        return any(key in layer for layer in self._layers)

    def layer(self, key: str) -> Mapping:
        """The file that says it."""
        for layer in self._layers:
            if key in layer:
                return layer
        return self._layers[0]  # whose error says that it is missing

    def where(self, key: str) -> str:
        return self.layer(key).where(key)

    def text(self, key: str) -> str:
        return self.layer(key).text(key)

    def number(self, key: str) -> float:
        return self.layer(key).number(key)

    def numbers(self, key: str) -> Numbers:
        return Numbers(values=self.layer(key).numbers(key), source=self.where(key))

    def wholes(self, key: str) -> tuple[int, ...]:
        values = self.layer(key).numbers(key) if key in self else ()
        if any(value != int(value) or value < 0 for value in values):
            raise ImportFailed(f"{self.where(key)}: expected whole numbers, got {list(values)}")
        return tuple(int(value) for value in values)

    def texts(self, key: str) -> tuple[str, ...]:
        return self.layer(key).texts(key)


def _only(data: Mapping) -> Mapping:
    keys = data.names()
    if len(keys) != 1:
        raise ImportFailed(
            f"{data.source}: expected one key, the robot or robot/policy, above everything else; got {keys}"
        )
    return data.mapping(keys[0])


def _joint_names(config: _Config, facts: Facts, missing: Missing) -> tuple[str, ...]:
    """Joints in the policy's order."""
    mapping = config.wholes("joint_mapping")
    count = len(config.numbers("default_dof_pos").values)
    if sorted(mapping) != list(range(count)):
        raise ImportFailed(f"{config.where('joint_mapping')}: {list(mapping)}; expected each of 0 .. {count - 1} once")
    named = config.texts("joint_names") if "joint_names" in config else None
    if named and facts.sdk_joints and named != facts.sdk_joints:
        raise ImportFailed(f"{config.where('joint_names')}: {list(named)}, but sdk_joints are {list(facts.sdk_joints)}")
    what = f"{count} names of joints, in the order of the robot's motors: the files have the motors' numbers only"
    motors = missing.ask(named or facts.sdk_joints, "sdk_joints", what, None)
    motors = need_names(motors, [field for key, field in _JOINT_KEYS.items() if key in config], facts, missing)
    if len(motors) != count:
        raise ImportFailed(f"{config.where('joint_names')}: {len(motors)} names for {count} joints")
    return tuple(motors[index] for index in mapping)


def _period(config: _Config, facts: Facts, missing: Missing) -> int:
    said = None
    if "dt" in config and "decimation" in config:
        said = Numbers(values=(config.number("dt") * config.number("decimation"),), source=config.where("dt"))
    return agreed_period(said, facts, missing)


def _observation(config: _Config) -> tuple[ObservationTerm, ...]:
    names = config.texts("observations")
    unknown = [name for name in names if name not in _TERMS]
    if unknown:
        raise ImportFailed(f"{config.where('observations')}: {unknown} are not supported; known: {', '.join(_TERMS)}")
    lags = config.wholes("observations_history") or (0,)
    clip = config.number("clip_obs")
    return tuple(
        ObservationTerm(name=term, scale=_scale(config, key), clip=clip, clip_scaled=True, lags=lags, fill="zero")
        for term, key in (_TERMS[name] for name in names)
    )


def _scale(config: _Config, key: str | None) -> float | tuple[float, ...]:
    if key is None:
        return 1.0
    if key == "commands_scale":
        return config.numbers(key).values
    return config.number(key)


def _layout(config: _Config) -> Literal["term", "time"]:
    if not config.wholes("observations_history"):
        return "term"
    priority = config.text("observations_history_priority")
    if priority == "time" or priority == "term":
        return priority
    raise ImportFailed(f"{config.where('observations_history_priority')}: {priority!r}; expected 'time' or 'term'")


def _action(config: _Config, names: tuple[str, ...], joints: tuple[ContractJoint, ...]) -> JointPosition:
    scale = config.numbers("action_scale")
    check_scale(scale)
    bounds = [config.numbers(key) for key in ("clip_actions_lower", "clip_actions_upper") if key in config]
    for numbers in (scale, *bounds):
        if len(numbers.values) != len(joints):
            raise ImportFailed(f"{numbers.source}: {len(numbers.values)} values for {len(joints)} joints")
    low, high = (b.values for b in bounds) if len(bounds) == 2 else (None, None)  # it clips only where both are given
    return JointPosition(joints=names, scale=scale.values, clip=high, clip_low=low, limited=False)


def _command(config: _Config, facts: Facts, missing: Missing) -> CommandSpec | None:
    if "commands" not in config.texts("observations"):
        return None
    return ask_command("command.velocity", VELOCITIES, facts, missing)


def _notes(config: _Config) -> tuple[str, ...]:
    return (
        f"rl_sar moves the robot with the gains fixed_kp, fixed_kd before the policy starts; here it starts with {config.policy}'s own",
    )


def _recognises(path: Path) -> bool:
    folder = path if path.is_dir() else path.parent
    if not (folder / "config.yaml").is_file() or (path.is_file() and path.name != "config.yaml"):
        return False
    try:
        return "joint_mapping" in _only(read_yaml(folder / "config.yaml"))
    except ImportFailed:
        return False


IMPORTER = Importer(
    name="rl_sar", description="rl_sar: base.yaml, config.yaml and a .pt or .onnx", recognises=_recognises, load=load
)
