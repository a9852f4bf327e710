"""What a holosoma observation is made of: from its `experiment_config`, or from a TOML beside it, `<name>.toml` or `holosoma.toml`."""

from dataclasses import dataclass
from pathlib import Path

from isthmus.hardware.structure import FormatError, read_toml

from ..contract_checks import LONGEST_LAG
from .common import ImportFailed, Numbers, agree, check_scale
from .files import toml_tables
from .tagged_yaml import Mapping

_LISTS = {
    "dof_pos_lower_limit_list": "lower",
    "dof_pos_upper_limit_list": "upper",
    "dof_vel_limit_list": "velocity_limit",
    "dof_effort_limit_list": "effort_limit",
}


@dataclass(frozen=True, kw_only=True)
class HolosomaConfig:
    """The TOML: the values of holosoma-inference's configuration, by its names."""

    terms: tuple[str, ...]  # obs_dict["actor_obs"]
    obs_scales: dict[str, float]
    policy_action_scale: float | tuple[float, ...]
    rl_rate: float  # Hz
    history_length: int = 1
    gait_period: float | None = None  # s, where the terms have a phase
    default_dof_angles: tuple[float, ...] | None = None  # rad, in the order of dof_names


def read_config(data: Mapping, names: tuple[str, ...], path: Path) -> tuple[HolosomaConfig, dict[str, Numbers]]:
    """What the observation is made of, and numbers of the joints."""
    beside = _beside(path)
    given, trained = dict[str, Numbers](), None
    if "experiment_config" in data:
        trained = data.mapping("experiment_config")
        given = _trained_joints(trained.mapping("robot"), names)
    if beside is None:
        if trained is None:
            raise ImportFailed(
                f"{path}: the file does not say what the observation is made of; write {path.stem}.toml beside it with terms, obs_scales, "
                "policy_action_scale, rl_rate, history_length, gait_period and default_dof_angles of the holosoma-inference configuration"
            )
        return _trained(trained, data), given
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


def _beside(path: Path) -> Path | None:
    """The TOML of a policy: of its name, or holosoma.toml, which is of all in the folder; None where there is neither."""
    own, common = path.with_suffix(".toml"), path.parent / "holosoma.toml"
    if own.is_file() and _is_config(own):
        return own
    return common if common.is_file() else None


def _is_config(path: Path) -> bool:
    """Whether a TOML is one of these, rather than facts or a description of another kind."""
    return "obs_scales" in toml_tables(path)


def _check(config: HolosomaConfig, count: int, source: Path) -> None:
    scale = config.policy_action_scale
    values = scale if isinstance(scale, tuple) else (scale,)
    if len(values) not in (1, count):
        raise ImportFailed(f"{source}: policy_action_scale has {len(values)} values for {count} joints")
    check_scale(Numbers(values=values, source=f"{source}: policy_action_scale"))


def check_rates(config: HolosomaConfig, source: Path) -> None:
    """Refuse rates and histories that cannot be."""
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


def _trained(config: Mapping, data: Mapping) -> HolosomaConfig:
    """The runtime's configuration as that of training gives it."""
    group = config.mapping("observation").mapping("groups").mapping("actor_obs")
    terms = group.mapping("terms")
    for name in terms.names():
        if terms.mapping(name).raw("clip") is not None:
            raise ImportFailed(f"{terms.where(name)}: clip: holosoma-inference clips no term; not supported")
    sim = config.mapping("simulator").mapping("config").mapping("sim")
    decimation = sim.number("control_decimation")
    if not decimation > 0:
        raise ImportFailed(f"{sim.where('control_decimation')}: {decimation}; expected a positive number")
    return HolosomaConfig(
        terms=tuple(terms.names()),
        obs_scales={name: terms.mapping(name).number("scale") for name in terms.names()},
        policy_action_scale=_trained_scale(config.mapping("robot").mapping("control"), data),
        rl_rate=sim.number("fps") / decimation,
        history_length=group.whole("history_length"),
        gait_period=_gait_period(config),
    )


def _trained_scale(control: Mapping, data: Mapping) -> float | tuple[float, ...]:
    """The action scale of training; where it follows from limits and gains, the file's own property has the numbers."""
    by_gain = "action_scales_by_effort_limit_over_p_gain"
    if by_gain in control and control.flag(by_gain):
        given = file_scale(data)
        if given is None:
            raise ImportFailed(
                f"{control.where(by_gain)}: the scales are not in the file; give policy_action_scale in a TOML beside it"
            )
        return given
    scale = control.number("action_scale")
    check_scale(Numbers(values=(scale,), source=control.where("action_scale")))
    return scale


def file_scale(data: Mapping) -> float | tuple[float, ...] | None:
    """The property action_scale, a number or a list, in JSON; None where there is none."""
    if "action_scale" not in data:
        return None
    where = data.where("action_scale")
    if not isinstance(data.raw("action_scale"), list):
        check_scale(Numbers(values=(data.number("action_scale"),), source=where))
        return data.number("action_scale")
    values = data.numbers("action_scale")
    check_scale(Numbers(values=values, source=where))
    return values[0] if len(values) == 1 else values


def _gait_period(config: Mapping) -> float | None:
    setup = config.mapping("command").mapping("setup_terms")
    if "locomotion_gait" not in setup:
        return None
    return setup.mapping("locomotion_gait").mapping("params").number("gait_period")
