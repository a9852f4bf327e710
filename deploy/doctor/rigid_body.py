"""Rigid bodies from an MJCF in numpy: poses, Jacobians and inverse dynamics of a tree, batched over the ticks of a log.

What a log says of a robot can so be held against its model.xml on the robot itself, where no simulator is installed.
"""

import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from isthmus.hardware.errors import IsthmusError

GRAVITY = 9.81  # m/s^2
_TURNED = ("euler", "axisangle", "xyaxes", "zaxis")


class ModelUnread(IsthmusError, ValueError):
    """A model.xml says what a body is in a way that this reader does not know."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Body:
    """A body and the joint that carries it; vectors in its own frame unless said otherwise."""

    name: str
    parent: int  # -1: the base
    pos: np.ndarray  # (3,) m, in the parent
    rot: np.ndarray  # (3, 3) body -> parent at joint angle 0
    mass: float  # kg
    com: np.ndarray  # (3,) m
    inertia: np.ndarray  # (3, 3) kg m^2, about the centre of mass
    joint: int  # in robot order; -1: fixed
    slide: bool
    axis: np.ndarray  # (3,)
    anchor: np.ndarray  # (3,) m, where a hinge's axis passes
    armature: float  # kg m^2 or kg
    damping: float  # N m s/rad or N s/m
    friction: float  # N m or N


@dataclass(frozen=True, kw_only=True, eq=False)
class RigidModel:
    """Bodies, parents first; body 0 is the base, which the world or its motion carries."""

    bodies: tuple[Body, ...]
    num_joints: int
    base_rot: np.ndarray  # (3, 3) base -> world, of a base that stands as the file has it

    def index(self, name: str) -> int:
        """Place of a body by name."""
        return [body.name for body in self.bodies].index(name)

    def chain(self, body: int) -> list[int]:
        """Bodies with joints from the base to a body, itself included."""
        found: list[int] = []
        while body >= 0:
            found += [body] if self.bodies[body].joint >= 0 else []
            body = self.bodies[body].parent
        return found[::-1]

    def leaf(self, body: int) -> bool:
        """Whether nothing hangs on a body."""
        return all(other.parent != body for other in self.bodies)

    def of_joint(self, joint: int) -> Body:
        """The body that a joint carries."""
        return next(body for body in self.bodies if body.joint == joint)

    @property
    def mass(self) -> float:
        """Of all bodies, kg."""
        return sum(body.mass for body in self.bodies)


def read_model(path: Path, joint_names: tuple[str, ...], base: str) -> RigidModel:
    """Read the tree below the body `base` with the joints of a robot.

    Raises:
        ModelUnread: says which body is described in a way that this reader does not know.
    """
    root = ET.parse(path).getroot()
    classes = _joint_classes(root)
    way = _way(root.find("worldbody"), base)
    if not way:
        raise ModelUnread(f"{path}: no body {base!r}; expected the robot's base_body")
    bodies: list[Body] = []
    turn = np.eye(3)
    for body in way:
        turn = turn @ matrix(_vector(body, "quat", "1 0 0 0"))
    _add(way[-1], -1, bodies, classes, joint_names, way[-1].get("childclass"), str(path), base=True)
    missing = [name for k, name in enumerate(joint_names) if k not in {body.joint for body in bodies}]
    if missing:
        raise ModelUnread(f"{path}: no joint {', '.join(missing)} below body {base!r}")
    return RigidModel(bodies=tuple(bodies), num_joints=len(joint_names), base_rot=turn)


def _way(element: ET.Element | None, base: str) -> list[ET.Element]:
    """Bodies from the world to `base`."""
    for body in [] if element is None else element.findall("body"):
        if body.get("name") == base:
            return [body]
        if below := _way(body, base):
            return [body, *below]
    return []


def _add(
    element: ET.Element,
    parent: int,
    bodies: list[Body],
    classes: Mapping[str, dict[str, str]],
    names: tuple[str, ...],
    childclass: str | None,
    path: str,
    *,
    base: bool = False,
) -> None:
    childclass = element.get("childclass", childclass)
    where = f"{path}: body {element.get('name')!r}"
    if any(key in element.attrib for key in _TURNED) or element.find("frame") is not None:
        raise ModelUnread(f"{where} is turned by something else than quat")
    joints = [] if base else element.findall("joint")
    if element.find("freejoint") is not None and not base:
        raise ModelUnread(f"{where} moves freely")
    mass, com, inertia = _inertial(element, where)
    frames: list[ET.Element | None] = [*joints] or [None]
    for place, joint in enumerate(frames):
        first, last = place == 0, place == len(frames) - 1
        values = {} if joint is None else {**classes.get(joint.get("class", childclass or ""), {}), **joint.attrib}
        if values.get("type", "hinge") not in ("hinge", "slide"):
            raise ModelUnread(f"{where}: joint of type {values['type']}")
        bodies.append(
            Body(
                name=element.get("name", "") if last else f"{element.get('name', '')}/{place}",
                parent=parent,
                pos=np.zeros(3) if base or not first else _vector(element, "pos", "0 0 0"),
                rot=np.eye(3) if base or not first else matrix(_vector(element, "quat", "1 0 0 0")),
                mass=mass if last else 0.0,
                com=com if last else np.zeros(3),
                inertia=inertia if last else np.zeros((3, 3)),
                joint=-1 if joint is None or joint.get("name") not in names else names.index(joint.get("name", "")),
                slide=values.get("type") == "slide",
                axis=_unit(np.array([float(v) for v in values.get("axis", "0 0 1").split()])),
                anchor=np.array([float(v) for v in values.get("pos", "0 0 0").split()]),
                armature=float(values.get("armature", 0.0)),
                damping=float(values.get("damping", "0").split()[0]),
                friction=float(values.get("frictionloss", 0.0)),
            )
        )
        parent = len(bodies) - 1
    for child in element.findall("body"):
        _add(child, parent, bodies, classes, names, childclass, path)


def _inertial(element: ET.Element, where: str) -> tuple[float, np.ndarray, np.ndarray]:
    own = element.find("inertial")
    if own is None:
        if element.find("geom") is None:
            return 0.0, np.zeros(3), np.zeros((3, 3))
        raise ModelUnread(f"{where} has geoms and no <inertial>: its mass would follow from their shapes")
    turn = matrix(_vector(own, "quat", "1 0 0 0"))
    if "fullinertia" in own.attrib:
        xx, yy, zz, xy, xz, yz = (float(v) for v in own.get("fullinertia", "").split())
        inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    else:
        inertia = np.diag(_vector(own, "diaginertia", "0 0 0"))
    return float(own.get("mass", "0")), _vector(own, "pos", "0 0 0"), turn @ inertia @ turn.T


def _joint_classes(root: ET.Element) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}

    def visit(item: ET.Element, inherited: dict[str, str], outermost: bool) -> None:
        joint = item.find("joint")
        values = {**inherited, **({} if joint is None else joint.attrib)}
        found[item.get("class", "main" if outermost else "")] = values
        if outermost:
            found[""] = values
        for child in item.findall("default"):
            visit(child, values, outermost=False)

    for item in root.findall("default"):
        visit(item, {}, outermost=True)
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class Poses:
    """Where bodies are in the base frame, for T ticks."""

    rot: list[np.ndarray]  # (T, 3, 3) of each body
    pos: list[np.ndarray]  # (T, 3) m


def poses(model: RigidModel, joint_pos: np.ndarray) -> Poses:
    """Poses for joint positions (T, n) rad or m."""
    rots, places = [], []
    for body in model.bodies:
        rot, pos = _step(body, joint_pos)
        if body.parent >= 0:
            above = rots[body.parent]
            pos = places[body.parent] + (above @ pos[..., None])[..., 0]
            rot = above @ rot
        rots.append(rot)
        places.append(pos)
    return Poses(rot=rots, pos=places)


def jacobian(model: RigidModel, found: Poses, body: int) -> tuple[list[int], np.ndarray]:
    """Joints that move a body's origin, and its velocity in the base frame for a unit speed of each, (T, 3, k)."""
    chain = model.chain(body)
    columns = []
    for link in chain:
        part = model.bodies[link]
        axis = found.rot[link] @ part.axis
        arm = found.pos[body] - found.pos[link] - found.rot[link] @ part.anchor
        columns.append(axis if part.slide else np.cross(axis, arm))
    return [model.bodies[link].joint for link in chain], np.stack(columns, axis=-1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Motion:
    """Of T ticks."""

    pos: np.ndarray  # (T, n) rad or m
    vel: np.ndarray  # (T, n)
    acc: np.ndarray  # (T, n)
    up: np.ndarray | None = (
        None  # (T, 3) acceleration of the base less gravity, base frame, m/s^2; None: a base at rest
    )
    ang_vel: np.ndarray | None = None  # (T, 3) rad/s, base frame


def inverse_dynamics(model: RigidModel, motion: Motion) -> tuple[np.ndarray, np.ndarray]:
    """What the motion takes, by recursive Newton-Euler.

    Returns:
        Efforts of the joints (T, n) N m or N, rotor inertia included, friction not; force and torque on the base, (T, 6) N, N m.
    """
    ticks, bodies = len(motion.pos), model.bodies
    zero = np.zeros((ticks, 3))
    spin, turn, lift = [], [], []  # angular velocity, angular and linear acceleration, each in the body's frame
    rots, places, force, torque = [], [], [], []
    for body in bodies:
        rot, pos = _step(body, motion.pos)
        rots.append(rot)
        places.append(pos)
        if body.parent < 0:
            w, a = (zero if motion.ang_vel is None else motion.ang_vel), zero
            lin = GRAVITY * model.base_rot[2] + zero if motion.up is None else motion.up
        else:
            above_w, above_a = spin[body.parent], turn[body.parent]
            lin = lift[body.parent] + np.cross(above_a, pos) + np.cross(above_w, np.cross(above_w, pos))
            w, a, lin = (np.einsum("tji,tj->ti", rot, v) for v in (above_w, above_a, lin))
            if body.joint >= 0:
                speed, rise = (v[:, body.joint, None] * body.axis for v in (motion.vel, motion.acc))
                if body.slide:
                    lin = lin + rise + 2.0 * np.cross(w, speed)
                else:
                    a = a + rise + np.cross(w, speed)
                    w = w + speed
        spin.append(w)
        turn.append(a)
        lift.append(lin)
        force.append(body.mass * (lin + np.cross(a, body.com) + np.cross(w, np.cross(w, body.com))))
        torque.append(a @ body.inertia.T + np.cross(w, w @ body.inertia.T) + np.cross(body.com, force[-1]))
    return _efforts(model, motion, rots, places, force, torque)


def _efforts(
    model: RigidModel,
    motion: Motion,
    rots: list[np.ndarray],
    places: list[np.ndarray],
    force: list[np.ndarray],
    torque: list[np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    efforts = np.zeros((len(motion.pos), model.num_joints))
    for index in range(len(model.bodies) - 1, 0, -1):
        body = model.bodies[index]
        if body.joint >= 0:
            load = force[index] if body.slide else torque[index] - np.cross(body.anchor, force[index])
            efforts[:, body.joint] = load @ body.axis + body.armature * motion.acc[:, body.joint]
        up = np.einsum("tij,tj->ti", rots[index], force[index])
        force[body.parent] = force[body.parent] + up
        torque[body.parent] = (
            torque[body.parent] + np.einsum("tij,tj->ti", rots[index], torque[index]) + np.cross(places[index], up)
        )
    return efforts, np.concatenate([force[0], torque[0]], axis=-1)


def _step(body: Body, joint_pos: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rotation body -> parent (T, 3, 3) and origin in the parent (T, 3)."""
    ticks = len(joint_pos)
    if body.joint < 0:
        return np.broadcast_to(body.rot, (ticks, 3, 3)), np.broadcast_to(body.pos, (ticks, 3))
    angle = joint_pos[:, body.joint]
    if body.slide:
        return np.broadcast_to(body.rot, (ticks, 3, 3)), body.pos + angle[:, None] * (body.rot @ body.axis)
    x, y, z = body.axis
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    turn = np.eye(3) + np.sin(angle)[:, None, None] * cross + (1.0 - np.cos(angle))[:, None, None] * (cross @ cross)
    shift = body.anchor - turn @ body.anchor if body.anchor.any() else np.zeros(3)
    return body.rot @ turn, np.broadcast_to(body.pos + shift @ body.rot.T, (ticks, 3))


def matrix(quat: np.ndarray) -> np.ndarray:
    """Rotation matrix of a quaternion wxyz, any length, shape (..., 4) -> (..., 3, 3)."""
    quat = quat / np.linalg.norm(quat, axis=-1, keepdims=True)
    w, x, y, z = np.moveaxis(quat, -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def _vector(element: ET.Element, key: str, default: str) -> np.ndarray:
    return np.array([float(v) for v in element.get(key, default).split()])


def _unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)
