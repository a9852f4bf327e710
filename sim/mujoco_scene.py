"""A scene as one MuJoCo model: robot, payload, objects, ground, and a sensor for each contact body."""

# mujoco builds its classes at run time and ships no type stubs for them.
# pyright: reportAttributeAccessIssue=false

import mujoco
import numpy as np

from isthmus.hardware.structure import FormatError

from .scene import Scene, SceneObject
from .scene_checks import check_object_model, check_robot_model, check_scene, check_tip, load_spec
from .terrain import HeightField

GROUND = "ground"
PAYLOAD = "payload"
NO_MASS = 1e-9  # kg of a payload body that weighs nothing
_GROUND_TYPE, _GROUND_AFFINITY = 2, 1  # the ground touches geoms of contype 1, and no other ground
_VIEW = 2.0  # m around the robot that pictures are about, where the ground would make it tens of metres
_NET_FORCE = 3  # reduction of a contact sensor to one net force in the world frame


def build_model(scene: Scene, dt: float) -> mujoco.MjModel:
    """Compile a scene at physics step `dt` s.

    Integration is Euler with implicit joint damping: torques act as computed, which keeps a servo law inside the engine equal to the
    same law outside it.

    Raises:
        FormatError: a model file that MuJoCo cannot read, with its message, or with parts that would be left out or misread.
    """
    check_scene(scene)
    robot = scene.robot
    spec = load_spec(robot.model_path)
    check_robot_model(spec, robot)
    spec.option.timestep = dt
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_EULER
    spec.visual.global_.offwidth, spec.visual.global_.offheight = 1920, 1080
    _add_payload(spec, robot.payload_site)
    _add_servos(spec, scene)
    for item in scene.objects:
        _add_object(spec, item)
    _add_ground(spec, scene)
    _add_contact_sensors(spec, robot.contact_bodies)
    _add_sky_and_light(spec, scene)
    try:
        model = spec.compile()
    except ValueError as error:
        raise FormatError(f"{robot.model_path}: MuJoCo cannot build the scene: {error}") from None
    check_tip(model, robot)
    model.vis.map.shadowclip = _VIEW / model.stat.extent
    return model


def _add_payload(spec: mujoco.MjSpec, site_name: str | None) -> None:
    if site_name is None:
        return
    site = spec.site(site_name)
    payload = site.parent.add_body(name=PAYLOAD, pos=site.pos)
    payload.ipos = [0.0, 0.0, 0.0]  # else the compiler puts it at pos once more
    payload.mass, payload.inertia, payload.explicitinertial = NO_MASS, [1e-12] * 3, True


def _add_servos(spec: mujoco.MjSpec, scene: Scene) -> None:
    """One actuator a joint, whose gain and bias the engine sets: plain effort, or a position servo with its limit."""
    for actuator in list(spec.actuators):
        spec.delete(actuator)
    for joint in scene.robot.joints:
        actuator = spec.add_actuator(
            name=joint.name, target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT, gaintype=mujoco.mjtGain.mjGAIN_FIXED
        )
        actuator.biastype = mujoco.mjtBias.mjBIAS_AFFINE
        actuator.forcelimited = True
        actuator.forcerange = [-1e9, 1e9]
        actuator.gainprm[0] = 1.0


def _add_object(spec: mujoco.MjSpec, item: SceneObject) -> None:
    child = load_spec(item.model_path)
    check_object_model(child, item)
    body = spec.worldbody.add_frame(pos=list(item.pos)).attach_body(child.worldbody.bodies[0], f"{item.name}/", "")
    body.name = item.name
    if item.free:
        body.add_freejoint()


def _add_ground(spec: mujoco.MjSpec, scene: Scene) -> None:
    if scene.ground == "none":
        return
    shape = {"type": mujoco.mjtGeom.mjGEOM_PLANE, "size": [0.0, 0.0, 1.0]}
    if isinstance(scene.ground, HeightField):
        shape = _add_height_field(spec, scene.ground)
    texture = spec.add_texture(
        name=GROUND,
        type=mujoco.mjtTexture.mjTEXTURE_2D,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_CHECKER,
        width=256,
        height=256,
        rgb1=[0.86, 0.86, 0.84],
        rgb2=[0.76, 0.77, 0.78],
    )
    material = spec.add_material(name=GROUND, texrepeat=[1.0, 1.0], texuniform=True)
    material.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = texture.name
    geom = spec.worldbody.add_geom(name=GROUND, material=GROUND, **shape)
    geom.contype, geom.conaffinity, geom.condim = _GROUND_TYPE, _GROUND_AFFINITY, 3
    geom.friction[0] = scene.ground_friction


def _add_sky_and_light(spec: mujoco.MjSpec, scene: Scene) -> None:
    """For pictures: what the robot's own model does not bring. The light follows the robot, and so do sharp shadows."""
    if not any(texture.type == mujoco.mjtTexture.mjTEXTURE_SKYBOX for texture in spec.textures):
        spec.add_texture(
            name="sky",
            type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
            builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
            width=64,
            height=384,
            rgb1=[0.92, 0.95, 0.98],
            rgb2=[0.75, 0.82, 0.9],
        )
    if not spec.lights:
        light = spec.body(scene.robot.base_body).add_light(
            pos=[-0.9, -1.2, 3.0],
            dir=[0.3, 0.4, -1.0],
            type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
            diffuse=[0.5, 0.5, 0.5],
        )
        light.mode = mujoco.mjtCamLight.mjCAMLIGHT_TRACKCOM
    if isinstance(scene.ground, HeightField):
        spec.stat.extent = _VIEW


def _add_height_field(spec: mujoco.MjSpec, field: HeightField) -> dict:
    """MuJoCo keeps heights between 0 and 1, rows along y, above a base plate."""
    low, high = float(field.heights.min()), float(field.heights.max())
    rise = max(high - low, 1e-6)
    rows, columns = field.heights.shape
    extent = [(rows - 1) * field.spacing / 2.0, (columns - 1) * field.spacing / 2.0]
    spec.add_hfield(
        name=GROUND,
        size=[*extent, rise, 1.0],
        nrow=columns,
        ncol=rows,
        userdata=((field.heights.T - low) / rise).astype(np.float32).ravel().tolist(),
    )
    return {"type": mujoco.mjtGeom.mjGEOM_HFIELD, "hfieldname": GROUND, "pos": [0.0, 0.0, low]}


def _add_contact_sensors(spec: mujoco.MjSpec, bodies: tuple[str, ...]) -> None:
    """For each body the net force that it exerts on what it touches, then for each its position."""
    force = 1 << int(mujoco.mjtConDataField.mjCONDATA_FORCE)
    for name in bodies:
        spec.add_sensor(
            name=f"{name}.contact_force",
            type=mujoco.mjtSensor.mjSENS_CONTACT,
            objtype=mujoco.mjtObj.mjOBJ_BODY,
            objname=name,
            intprm=[force, _NET_FORCE, 1],
        )
    for name in bodies:
        spec.add_sensor(
            name=f"{name}.pos",
            type=mujoco.mjtSensor.mjSENS_FRAMEPOS,
            objtype=mujoco.mjtObj.mjOBJ_XBODY,
            objname=name,
        )
