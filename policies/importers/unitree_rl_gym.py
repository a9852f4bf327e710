"""unitree_rl_gym (and legged_gym in its form): a YAML of deploy_real or deploy_mujoco, and a TorchScript network.

The observation and its clock are in the tool's code, not in the file: rates, gravity, command, joints, last action, sine and
cosine of a gait of 0.8 s whose first tick is one period in. No joint has a name there: deploy_real gives numbers of motors,
deploy_mujoco the simulator's order.
"""

from pathlib import Path

from ..contract import (
    SCHEMA,
    Contract,
    ContractJoint,
    JointPosition,
    ObservationTerm,
    PhaseClock,
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
    ask_robot,
    build_joints,
    check_scale,
    need_names,
)
from .network import read_network
from .tagged_yaml import Mapping, read_yaml

GAIT_S = 0.8  # a constant of deploy_real.py and deploy_mujoco.py
KEYS = ("policy_path", "kps", "num_obs", "cmd_scale")
MAX_MOTORS = 1000  # more is a mistake
_JOINT_KEYS = {"kps": "kp", "kds": "kd", "default_angles": "default_pos"}
_OTHER_KEYS = {"arm_waist_kps": "kp", "arm_waist_kds": "kd", "arm_waist_target": "default_pos"}


def load(path: Path, facts: Facts) -> Imported:
    """A YAML of deploy/deploy_real/configs or deploy/deploy_mujoco/configs."""
    data = read_yaml(path)
    missing = Missing(path, facts)
    robot, latency = ask_robot(facts, missing), ask_latency(facts, missing)
    command = ask_command("command.velocity", VELOCITIES, facts, missing)
    period = _period(data, facts, missing)
    driven, others = _joint_names(data, facts, missing)
    given = {
        field: _both(data, key, other) for (key, field), other in zip(_JOINT_KEYS.items(), _OTHER_KEYS, strict=True)
    }
    joints, sources = build_joints((*driven, *others), given, facts, missing)
    contract = Contract(
        schema=SCHEMA,
        task=facts.task or path.stem,
        robot=robot,
        joints=joints,
        period_ns=period,
        observation=_observation(data, driven),
        action=_action(data, driven, joints),
        command=command,
        chain=None,
        latency_s=latency,
        clock=PhaseClock(frequency=1 / GAIT_S, start=(period * 1e-9 / GAIT_S % 1.0,)),
    )
    missing.check()
    folder, name = _network_file(path, data.text("policy_path"), data.where("policy_path"))
    network, memory = read_network(folder, name, data.where("policy_path"), observation_width(contract))
    return Imported(contract=contract, network=network, memory=memory, sources=sources, notes=_notes(data))


def _joint_names(data: Mapping, facts: Facts, missing: Missing) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Joints that the policy drives, in its order, and those that are held."""
    count = data.whole("num_actions")
    if not 0 < count <= MAX_MOTORS:
        raise ImportFailed(f"{data.where('num_actions')}: {count}; expected 1 .. {MAX_MOTORS}")
    if "leg_joint2motor_idx" not in data:
        what = f"{count} names of joints, in the simulator's order: the file names none"
        names = missing.ask(facts.joints, "joints", what, None)
        names = need_names(names, _JOINT_KEYS.values(), facts, missing)
        if len(names) != count:
            raise ImportFailed(f"{facts.source}: joints names {len(names)}, {data.where('num_actions')} is {count}")
        return names, ()
    driven, held = (
        [_motor(n, data, k) for n in data.numbers(k)] for k in ("leg_joint2motor_idx", "arm_waist_joint2motor_idx")
    )
    if len(driven) != count:
        raise ImportFailed(f"{data.where('leg_joint2motor_idx')}: {len(driven)} motors for {count} actions")
    count = max((*driven, *held)) + 1
    what = f"{count} names of joints, in the order of the robot's motors: the file has the motors' numbers only"
    motors = missing.ask(facts.sdk_joints, "sdk_joints", what, None)
    motors = need_names(motors, _JOINT_KEYS.values(), facts, missing)
    if max((*driven, *held)) >= len(motors):
        raise ImportFailed(
            f"{facts.source}: sdk_joints names {len(motors)} motors, {data.source} uses number {max((*driven, *held))}"
        )
    return tuple(motors[i] for i in driven), tuple(motors[i] for i in held)


def _motor(value: float, data: Mapping, key: str) -> int:
    if value != int(value) or not 0 <= value < MAX_MOTORS:
        raise ImportFailed(f"{data.where(key)}: {value} is not the number of a motor")
    return int(value)


def _both(data: Mapping, key: str, other: str) -> Numbers:
    """Numbers of the driven joints, then of those that are held."""
    values = data.numbers(key)
    if len(values) != data.whole("num_actions"):
        raise ImportFailed(f"{data.where(key)}: {len(values)} values for {data.whole('num_actions')} actions")
    held = data.numbers(other) if "leg_joint2motor_idx" in data else ()
    return Numbers(values=(*values, *held), source=data.where(key))


def _period(data: Mapping, facts: Facts, missing: Missing) -> int:
    if "control_dt" in data:
        said = Numbers(values=(data.number("control_dt"),), source=data.where("control_dt"))
    else:
        seconds = data.number("simulation_dt") * data.number("control_decimation")
        said = Numbers(values=(seconds,), source=data.where("simulation_dt"))
    return agreed_period(said, facts, missing)


def _observation(data: Mapping, driven: tuple[str, ...]) -> tuple[ObservationTerm, ...]:
    expected = 11 + 3 * len(driven)
    if data.whole("num_obs") != expected:
        raise ImportFailed(
            f"{data.where('num_obs')}: {data.whole('num_obs')}; the tool's code gives {expected} for {len(driven)} joints"
        )
    return (
        ObservationTerm(name="gyro", scale=data.number("ang_vel_scale")),
        ObservationTerm(name="gravity", scale=1.0),
        ObservationTerm(name="command", scale=data.numbers("cmd_scale")),
        ObservationTerm(name="joint_pos", scale=data.number("dof_pos_scale")),
        ObservationTerm(name="joint_vel", scale=data.number("dof_vel_scale")),
        ObservationTerm(name="last_action_raw", scale=1.0),
        ObservationTerm(name="phase_sin", scale=1.0),
        ObservationTerm(name="phase_cos", scale=1.0),
    )


def _action(data: Mapping, driven: tuple[str, ...], joints: tuple[ContractJoint, ...]) -> JointPosition:
    scale = Numbers(values=(data.number("action_scale"),), source=data.where("action_scale"))
    check_scale(scale)
    others = "default" if len(joints) > len(driven) else "keep"
    return JointPosition(joints=driven, scale=scale.values[0], clip=None, limited=False, others=others)


def _network_file(path: Path, given: str, source: str) -> tuple[Path, str]:
    """Folder and name of the network: beside the YAML, or in the checkout that the YAML lies in."""
    inside = given.removeprefix("{LEGGED_GYM_ROOT_DIR}").lstrip("/")
    parts = Path(inside).parts
    if not parts or ".." in parts or Path(inside).is_absolute() or "\\" in inside:
        raise ImportFailed(f"{source}: {given!r}; expected a file below {{LEGGED_GYM_ROOT_DIR}}")
    places = [path.parent / parts[-1], *(folder.joinpath(*parts) for folder in path.resolve().parents[:6])]
    for place in places:
        if place.is_file():
            return place.parent, place.name
    raise ImportFailed(
        f"{source}: {parts[-1]} lies neither beside {path.name} nor at {inside} above it; put it beside {path.name}"
    )


def _notes(data: Mapping) -> tuple[str, ...]:
    notes = ["nothing bounds the tool's targets; the runtime keeps them within the joint limits"]
    if "max_cmd" in data:
        notes.append(
            f"the tool's sticks give commands up to {list(data.numbers('max_cmd'))}; here the command is in m/s and rad/s"
        )
    if "imu_type" in data and data.text("imu_type") == "torso":
        notes.append(
            "the tool turns the torso IMU's attitude and rates back by the waist's yaw; here gravity and gyro are the pelvis's"
        )
    return tuple(notes)


def _recognises(path: Path) -> bool:
    if path.suffix not in (".yaml", ".yml"):
        return False
    try:
        data = read_yaml(path)
    except ImportFailed:
        return False
    return all(key in data for key in KEYS)


IMPORTER = Importer(
    name="unitree_rl_gym",
    description="unitree_rl_gym: a deploy_real or deploy_mujoco YAML and a TorchScript network",
    recognises=_recognises,
    load=load,
)
