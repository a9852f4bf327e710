"""How tasks look in a mirror: reflections by task name, and the mirror images of an environment's observations and actions.

A world is reflected whole, by the plane y = 0: what a robot measures, what it is asked to do, where it starts and what its
randomised parameters are. Installed packages add their own reflections by entry point group `isthmus.mirrors`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from isthmus.hardware.plugins import plugins
from isthmus.sim.engine import ENGINE_PARAMETERS
from isthmus.sim.tasks.go2_rough import SCAN_X, SCAN_Y
from isthmus.sim.world import World
from isthmus.sim.world_parameters import EACH_JOINT, WORLD_PARAMETERS

from ..contract import Contract, ObservationTerm, RotorSpeed
from .env import ContractEnv
from .symmetry import (
    Mirror,
    MirrorError,
    MirrorSpec,
    joined,
    joint_mirror,
    planar_command_mirror,
    repeated,
    unchanged,
    vector_mirror,
)

POLAR, AXIAL = vector_mirror("polar"), vector_mirror("axial")
# Parameters that see left from right. Of joints: with their signs, or only swapped.
PARAMETERS = {
    "com_offset_m": POLAR,
    "gravity_m_s2": POLAR,
    "gyro_bias_rad_s": AXIAL,
    "imu_misalignment_rad": AXIAL,
    "gyro_scale": unchanged(3),
    "push_velocity_m_s": Mirror(permutation=(0, 1), signs=(1.0, -1.0)),
    "initial_base_lin_vel_m_s": POLAR,
    "initial_base_ang_vel_rad_s": AXIAL,
    "initial_yaw_rad": Mirror(permutation=(0,), signs=(-1.0,)),
}
SIGNED_OF_JOINTS = ("encoder_offset_rad", "initial_joint_pos_rad")
SWAPPED_OF_JOINTS = ("motor_strength_scale", "backlash_rad")


@dataclass(frozen=True, kw_only=True)
class Reflection:
    """What is particular to a task and its robot; see symmetry.joint_mirror for joints."""

    signs: dict[str, float]  # by joint
    pairs: dict[str, str] = field(default_factory=dict)  # joints left -> right
    command: Mirror
    privileged: tuple[Mirror, ...] = ()  # of Task.privileged, one each


def cartpole_balance() -> Reflection:
    """The rail's other end becomes this one."""
    other = Mirror(permutation=(0,), signs=(-1.0,))
    return Reflection(signs={"slider": -1.0, "pole": -1.0}, command=other, privileged=(joined([other, other]),))


def go2_velocity() -> Reflection:
    """Left legs become right legs. The trunk's products of inertia, half a percent, are taken for what a symmetric one has."""
    parts = ("hip", "thigh", "calf")
    signs = {f"{e}{s}_{part}_joint": -1.0 if part == "hip" else 1.0 for e in "FR" for s in "LR" for part in parts}
    pairs = {f"{end}L_{part}_joint": f"{end}R_{part}_joint" for end in "FR" for part in parts}
    feet = Mirror(permutation=(1, 0, 3, 2), signs=(1.0,) * 4)  # FL, FR, RL, RR
    privileged = (POLAR, unchanged(1), feet, AXIAL)
    return Reflection(signs=signs, pairs=pairs, command=planar_command_mirror(), privileged=privileged)


def go2_velocity_rough() -> Reflection:
    """As on flat ground; the scan's rows are along the robot, so that each row is read from the other side."""
    flat = go2_velocity()
    across = Mirror(permutation=tuple(reversed(range(len(SCAN_Y)))), signs=(1.0,) * len(SCAN_Y))
    scan = repeated(across, len(SCAN_X))
    return Reflection(signs=flat.signs, pairs=flat.pairs, command=flat.command, privileged=(*flat.privileged, scan))


OWN: dict[str, Callable[[], Reflection]] = {
    "cartpole-balance": cartpole_balance,
    "go2-velocity": go2_velocity,
    "go2-velocity-rough": go2_velocity_rough,
}


def get_reflection(task: str) -> Reflection:
    """The reflection of a task; raises MirrorError naming the tasks that have one."""
    known = plugins("isthmus.mirrors", Reflection, OWN)
    if task not in known:
        raise MirrorError(f"task {task!r} has no mirror image, so symmetry cannot be used; known: {', '.join(known)}")
    return known[task]()


def mirror_spec(env: ContractEnv, reflection: Reflection) -> MirrorSpec:
    """Mirror images of the environment's observation groups and of its actions.

    Raises:
        MirrorError: something that is observed has no known mirror image, or not the width that is expected.
    """
    actor = joined([_term_mirror(term, env.contract, reflection) for term in env.contract.observation])
    hidden = [parameter_mirror(name, env.world, reflection) for name in env.world.parameters]
    critic = joined([actor, *reflection.privileged, *hidden])
    width = int(env.get_observations()["critic"].shape[-1])
    if critic.width != width:
        raise MirrorError(
            f"task {env.world.task.name!r}: critics see {width} values, the mirror image has {critic.width}; "
            "Reflection.privileged needs one Mirror for each of Task.privileged"
        )
    return MirrorSpec(actor=actor, critic=critic, action=_driven(env.contract, reflection))


def parameter_mirror(name: str, world: World, reflection: Reflection) -> Mirror:
    """Of a randomised parameter's values; raises MirrorError for one whose mirror image is not known."""
    if name in PARAMETERS:
        return PARAMETERS[name]
    joints = world.robot.joint_names
    if name in SIGNED_OF_JOINTS:
        return joint_mirror(joints, reflection.pairs, reflection.signs)
    if name in SWAPPED_OF_JOINTS:
        return joint_mirror(joints, reflection.pairs, dict.fromkeys(joints, 1.0))
    width = (ENGINE_PARAMETERS | WORLD_PARAMETERS)[name].width
    if width == EACH_JOINT or width > 1:
        raise MirrorError(f"parameter {name!r} has no known mirror image: leave it out, or leave symmetry out")
    return unchanged(1)


def _term_mirror(term: ObservationTerm, contract: Contract, reflection: Reflection) -> Mirror:
    """Of one block of the observation, all lags included."""
    if term.joints is not None or contract.layout == "time":
        raise MirrorError(
            f"observation term {term.name!r} is of some joints only, or laid out by time: its mirror image is not known"
        )
    if term.name in (
        "joint_pos",
        "joint_pos_abs",
        "joint_vel",
        "joint_target",
        "joint_target_offset",
        "joint_lead",
        "last_action",
        "last_action_raw",
    ):
        block = _driven(contract, reflection)
    elif term.name in ("all_joint_pos", "all_joint_vel"):
        block = joint_mirror(contract.joint_names, reflection.pairs, reflection.signs)
    elif term.name == "command":
        block = reflection.command
    elif term.name in ("gravity", "base_lin_vel", "base_pos_error"):
        block = POLAR
    elif term.name == "gyro":
        block = AXIAL
    elif term.name == "base_rotation":
        signs = POLAR.signs
        block = Mirror(permutation=tuple(range(9)), signs=tuple(a * b for a in signs for b in signs))
    else:
        raise MirrorError(f"observation term {term.name!r} has no known mirror image, so symmetry cannot be used")
    return repeated(block, len(term.lags))


def _driven(contract: Contract, reflection: Reflection) -> Mirror:
    """Of one number for each driven joint, such as the action."""
    if isinstance(contract.action, RotorSpeed):
        raise MirrorError("rotors have no known mirror image, so symmetry cannot be used")
    driven = contract.action.joints
    signs = {name: sign for name, sign in reflection.signs.items() if name in driven}
    pairs = {left: right for left, right in reflection.pairs.items() if left in driven}
    return joint_mirror(driven, pairs, signs)
