"""A scene in Genesis: robot, payload and objects from their MJCF files, and the ground.

Genesis is optional and takes seconds to import, so the functions import it, never the module.
"""

# genesis and mujoco build much of themselves at run time; neither ships complete type stubs.
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false, reportOptionalMemberAccess=false, reportMissingImports=false

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import mujoco
import numpy as np
import torch

from isthmus.hardware.errors import IsthmusError
from isthmus.hardware.structure import FormatError

from .scene import Scene, SceneObject
from .scene_checks import check_genesis_model, check_object_model, check_robot_model, check_scene, check_tip, load_spec
from .terrain import HeightField

if TYPE_CHECKING:
    import genesis as gs
    from genesis.engine.entities import RigidEntity

PAYLOAD = "payload"
NO_MASS = 1e-9  # kg of a payload that weighs nothing
_TIME_CONSTANT = 0.02  # s of contacts and limits whose model says nothing: MuJoCo's default
_CONTACT_PAIRS = 150  # candidate contact points per environment
_START = threading.Lock()


class GenesisError(IsthmusError):
    """Genesis cannot do what was asked on this machine or in this process."""


@dataclass(frozen=True, kw_only=True)
class GenesisScene:
    """What `build_scene` made."""

    scene: "gs.Scene"
    robot: "RigidEntity"
    objects: dict[str, "RigidEntity"]


def start(device: str) -> torch.device:
    """Initialise Genesis for "cpu" or "cuda"; a second call in the process is free.

    Genesis has one backend per process.

    Raises:
        GenesisError: Genesis is not installed, an unknown device, no such device here, or Genesis runs on another one already.
    """
    try:
        import genesis as gs
    except ImportError as error:
        raise GenesisError(f"engine 'genesis' cannot be imported ({error}); pip install 'isthmus[genesis]'") from None
    if device not in ("cpu", "cuda"):
        raise GenesisError(f'Genesis engine: device {device!r}, expected "cpu" or "cuda"')
    with _START:
        backend = gs.cpu if device == "cpu" else gs.cuda
        if device == "cuda" and not torch.cuda.is_available():
            raise GenesisError('Genesis engine: device "cuda", but torch finds no GPU here; use device "cpu"')
        if not gs._initialized:
            gs.init(backend=backend, precision="32", logging_level="error")  # no seed: it would reseed torch
    if gs.backend != backend:
        raise GenesisError(
            f"Genesis runs on {gs.backend.name} in this process already and cannot also run on {device}; "
            "use one device per process"
        )
    if not gs.use_zerocopy:
        raise GenesisError(
            "Genesis shares no memory with torch here; unset GS_ENABLE_ZEROCOPY and GS_TORCH_FORCE_CPU_DEVICE"
        )
    return torch.device(gs.device)


def build_scene(scene: Scene, num_envs: int, dt: float) -> GenesisScene:
    """Build `num_envs` copies at physics step `dt` s. The first build on a machine compiles for minutes, later ones for seconds.

    Integration is Euler with implicit joint damping, as in the MuJoCo engine. Model files keep their contact masks within one file;
    between files everything collides.
    """
    import genesis as gs

    check_scene(scene)
    built = gs.Scene(
        sim_options=gs.options.SimOptions(dt=dt, substeps=1),
        rigid_options=gs.options.RigidOptions(
            integrator=gs.integrator.Euler,
            constraint_timeconst=_TIME_CONSTANT,
            enable_neutral_collision=True,  # else bodies that overlap in the model's zero pose never touch
            contact_pruning_tolerance=None,
            max_collision_pairs=_CONTACT_PAIRS,
            batch_links_info=True,
            batch_dofs_info=True,
        ),
        show_viewer=False,
    )
    robot = built.add_entity(_morph(_robot_xml(scene)))
    objects = {}
    for item in scene.objects:
        objects[item.name] = built.add_entity(_morph(_object_xml(item)))
    _add_ground(built, scene)
    built.build(n_envs=num_envs)
    return GenesisScene(scene=built, robot=robot, objects=objects)


def view(array: object) -> torch.Tensor:
    """One of Genesis' arrays as a tensor that shares its memory, environments first."""
    from genesis.utils.misc import qd_to_torch

    return qd_to_torch(array, transpose=True, copy=False)


def _morph(xml: str) -> "gs.morphs.MJCF":
    import genesis as gs

    # Genesis gives joints without rotor inertia one of its own unless told not to.
    return gs.morphs.MJCF(file=xml, default_armature=None, align=False, batch_fixed_verts=True)


def _load(path: Path) -> mujoco.MjSpec:
    """Read an MJCF file; paths in it become absolute, because Genesis gets the text alone."""
    spec = load_spec(path)
    check_genesis_model(spec, path)
    folder = path.parent.resolve()
    spec.meshdir, spec.texturedir = str(folder / spec.meshdir), str(folder / spec.texturedir)
    return spec


def _robot_xml(scene: Scene) -> str:
    """The robot without its actuators, whose ranges Genesis would impose, and with a payload link."""
    spec = _load(scene.robot.model_path)
    check_robot_model(spec, scene.robot)
    for thing in (*spec.actuators, *spec.sensors, *spec.keys):
        spec.delete(thing)
    if scene.robot.payload_site is not None:
        site = spec.site(scene.robot.payload_site)
        payload = site.parent.add_body(name=PAYLOAD, pos=site.pos)
        payload.ipos = [0.0, 0.0, 0.0]
        payload.mass, payload.inertia, payload.explicitinertial = NO_MASS, [1e-12] * 3, True
    xml, model = _xml(spec, scene.robot.model_path)
    check_tip(model, scene.robot)
    return xml


def _object_xml(item: SceneObject) -> str:
    spec = _load(item.model_path)
    check_object_model(spec, item)
    body = spec.worldbody.bodies[0]
    body.pos = body.pos + np.asarray(item.pos)
    if item.free:
        body.add_freejoint()
    return _xml(spec, item.model_path)[0]


def _xml(spec: mujoco.MjSpec, path: Path) -> tuple[str, mujoco.MjModel]:
    try:
        model = spec.compile()
    except ValueError as error:
        raise FormatError(f"{path}: MuJoCo cannot build this model: {error}") from None
    return spec.to_xml(), model


def _add_ground(built: "gs.Scene", scene: Scene) -> None:
    import genesis as gs

    if scene.ground == "none":
        return
    morph = gs.morphs.Plane()
    # A height field collides by its cells; the distance grid that Genesis computes beside takes minutes unless it is coarse.
    material = gs.materials.Rigid(friction=scene.ground_friction, sdf_min_res=16, sdf_max_res=16)
    if isinstance(scene.ground, HeightField):
        morph = _terrain(scene.ground)
    built.add_entity(morph, material=material)


def _terrain(field: HeightField) -> "gs.morphs.Terrain":
    """Genesis puts the grid's first corner at pos and counts rows along x, as HeightField does."""
    import genesis as gs

    rows, columns = field.heights.shape
    return gs.morphs.Terrain(
        pos=(-(rows - 1) * field.spacing / 2.0, -(columns - 1) * field.spacing / 2.0, 0.0),
        horizontal_scale=field.spacing,
        vertical_scale=1.0,
        height_field=field.heights.astype(np.float32),
    )
