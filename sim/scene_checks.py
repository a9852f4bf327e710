"""What of a scene an engine would leave out or read otherwise than its author meant: told when the scene is built."""

# mujoco builds its classes at run time and ships no type stubs for them.
# pyright: reportAttributeAccessIssue=false

import math
from collections import Counter
from pathlib import Path

import mujoco
import numpy as np

from isthmus.hardware.kinematics import chain_from_mjcf, tip_position
from isthmus.hardware.robot import RobotSpec
from isthmus.hardware.structure import FormatError

from .scene import Scene, SceneObject

GRAVITY = (0.0, 0.0, -9.81)  # m/s^2; randomised as gravity_m_s2, never read from a model
_TIP_TOLERANCE = 1e-5  # m
_JOINT = mujoco.mjtJoint


def check_scene(scene: Scene) -> None:
    """Refuse names and numbers that no engine can build.

    Raises:
        FormatError: names the field, what it is and what is expected.
    """
    counts = Counter(item.name for item in scene.objects)
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise FormatError(f"Scene.objects: name {twice[0]!r} occurs {counts[twice[0]]} times; expected one name each")
    for item in scene.objects:
        if len(item.pos) != 3 or not all(map(math.isfinite, item.pos)):
            raise FormatError(f"Scene.objects: {item.name!r}: pos = {item.pos}; expected three finite numbers, m")
    if not (math.isfinite(scene.ground_friction) and scene.ground_friction > 0):
        raise FormatError(f"Scene.ground_friction = {scene.ground_friction}; expected a positive, finite coefficient")


def load_spec(path: Path) -> mujoco.MjSpec:
    """Read an MJCF file; raises FormatError for one that is not there or that MuJoCo cannot read."""
    if not path.is_file():
        raise FormatError(f"model {path} does not exist")
    try:
        return mujoco.MjSpec.from_file(str(path))
    except ValueError as error:
        raise FormatError(f"{path}: MuJoCo cannot read this model: {error}") from None


def check_robot_model(spec: mujoco.MjSpec, robot: RobotSpec) -> None:
    """Refuse what no engine here takes from a robot's model; raises FormatError naming file and element."""
    _check_shared(spec, robot.model_path)
    _check_joints(spec, robot)
    for index, actuator in enumerate(spec.actuators):
        if not _is_plain(actuator):
            raise FormatError(
                f"{robot.model_path}: actuator {_name(actuator, index)} is no motor, position or velocity servo of a joint;"
                " its dynamics, muscle, plugin, tendon or site would be left out: remove it, and give drive, kp and kd in robot.toml"
            )


def check_object_model(spec: mujoco.MjSpec, item: SceneObject) -> None:
    """Refuse what an object's model has beside its one body; raises FormatError naming file and element."""
    path, bodies = item.model_path, spec.worldbody.bodies
    _check_shared(spec, path)
    jointed = next((body for body in spec.bodies if body.joints), None)
    if len(bodies) != 1 or jointed is not None:
        got = f"got {len(bodies)}" if jointed is None else f"got joints on body {jointed.name!r}"
        raise FormatError(f"{path}: expected exactly one body without joints, {got}")
    if spec.worldbody.geoms:
        raise FormatError(
            f"{path}: geoms lie in the worldbody itself, where they would be lost; put them into the body"
        )
    for element, found in (("actuator", spec.actuators), ("tendon", spec.tendons), ("equality", spec.equalities)):
        if found:
            raise FormatError(
                f"{path}: {element} {_name(found[0], 0)} is not supported in an object's model; remove it"
            )


def check_tip(model: mujoco.MjModel, robot: RobotSpec) -> None:
    """Refuse a tip that MuJoCo has elsewhere than hardware/kinematics.py reads it, which contracts and commands use.

    Raises:
        FormatError: names file and site, with both places.
    """
    if robot.tip_site is None:
        return
    chain, data = chain_from_mjcf(robot.model_path, robot.tip_site), mujoco.MjData(model)
    joints = {joint.name: joint for joint in robot.joints}
    for share in (0.3, 0.8):  # two poses, so that no joint is at zero by chance
        pose = [joints[name].lower + share * (joints[name].upper - joints[name].lower) for name in chain.joint_names]
        for name, angle in zip(chain.joint_names, pose, strict=True):
            data.joint(name).qpos = angle
        mujoco.mj_kinematics(model, data)
        read, simulated = tip_position(chain, np.array(pose)), _tip_in_base(model, data, robot)
        if not np.allclose(read, simulated, atol=_TIP_TOLERANCE):
            raise FormatError(
                f"{robot.model_path}: site {robot.tip_site!r}: MuJoCo has the tip at {np.round(simulated, 4).tolist()} m and"
                f" the chain read from the file at {np.round(read, 4).tolist()} m; give type, axis, pos and ref on the joints"
                " themselves, not in <default>, <include> or <frame>"
            )


def check_genesis_model(spec: mujoco.MjSpec, path: Path) -> None:
    """Refuse what Genesis leaves out of a model without a word; raises FormatError naming file and element."""
    only = "Genesis would leave it out: remove it, or use engine 'mujoco'"
    if spec.tendons:
        raise FormatError(f"{path}: tendon {_name(spec.tendons[0], 0)}: {only}")
    option = spec.option
    for field, value in (("density", option.density), ("viscosity", option.viscosity), ("wind", option.wind)):
        if np.any(np.asarray(value) != 0.0):
            raise FormatError(f"{path}: option {field} = {value}: {only}")
    for joint in spec.joints:
        if np.any(np.asarray(joint.stiffness) != 0.0) and joint.springref != joint.ref:
            raise FormatError(f"{path}: joint {joint.name!r}: springref = {joint.springref:g}: {only}")


def _check_shared(spec: mujoco.MjSpec, path: Path) -> None:
    if spec.flexes:
        raise FormatError(f"{path}: flex {_name(spec.flexes[0], 0)}: soft bodies are not supported; use rigid ones")
    for body in spec.bodies:
        if body.mocap:
            raise FormatError(
                f"{path}: body {body.name!r}: mocap = true, but nothing here moves mocap bodies; remove the attribute"
            )
        if body.plugin.active:
            raise FormatError(f"{path}: body {body.name!r}: plugins are not supported; remove it")
    if not np.allclose(spec.option.gravity, GRAVITY):
        raise FormatError(
            f"{path}: option gravity = {spec.option.gravity.tolist()}; expected {list(GRAVITY)} m/s^2: leave it out, and"
            " change gravity by a RandomTerm of gravity_m_s2"
        )


def _check_joints(spec: mujoco.MjSpec, robot: RobotSpec) -> None:
    """Each joint is one of robot.toml, but for the free joint of a base that floats."""
    floats = False
    for body in spec.bodies:
        for joint in body.joints:
            where = f"{robot.model_path}: body {body.name!r}: joint {joint.name!r}"
            if joint.type == _JOINT.mjJNT_BALL:
                raise FormatError(f"{where}: ball joints are not supported; use three hinges")
            if joint.type == _JOINT.mjJNT_FREE:
                if not (robot.floating and body.name == robot.base_body):
                    raise FormatError(
                        f"{where}: a free joint belongs to base_body of a robot with floating = true, here"
                        f" base_body = {robot.base_body!r} and floating = {str(robot.floating).lower()}; a thing that"
                        " moves freely is a SceneObject"
                    )
                floats = True
            elif joint.name not in robot.joint_names:
                raise FormatError(
                    f'{where} is not among the [[joints]] of robot.toml; add it, with drive = "passive" where nothing'
                    " drives it"
                )
    if robot.floating and not floats:
        raise FormatError(
            f"{robot.model_path}: base_body {robot.base_body!r} has no free joint, but floating = true; add <freejoint/>"
        )


def _is_plain(actuator: mujoco.MjsActuator) -> bool:
    on_joint = actuator.trntype in (mujoco.mjtTrn.mjTRN_JOINT, mujoco.mjtTrn.mjTRN_JOINTINPARENT)
    muscle = actuator.gaintype == mujoco.mjtGain.mjGAIN_MUSCLE
    return on_joint and actuator.dyntype == mujoco.mjtDyn.mjDYN_NONE and not muscle and not actuator.plugin.active


def _tip_in_base(model: mujoco.MjModel, data: mujoco.MjData, robot: RobotSpec) -> np.ndarray:
    """Place of the tip, (3,) m; in the world, or in the base where that floats."""
    tip = data.site(robot.tip_site).xpos
    if not robot.floating:
        return tip
    base = data.body(robot.base_body)
    return base.xmat.reshape(3, 3).T @ (tip - base.xpos)


def _name(element: object, index: int) -> str:
    return repr(getattr(element, "name", "")) if getattr(element, "name", "") else f"number {index}"
