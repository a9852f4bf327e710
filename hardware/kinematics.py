"""Position of the tip of a serial chain, from the MJCF itself: one definition for numpy, torch and ONNX export.

Each joint frame is `T_parent * Trans(pos) * Rot(quat) * Rot(axis, q)`; quaternions are wxyz.
"""

import math
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from .structure import FormatError

Vector = tuple[float, float, float]


@dataclass(frozen=True, kw_only=True)
class ChainLink:
    """A hinge joint and its fixed pose in the parent joint's frame."""

    joint: str
    pos: Vector  # m
    quat: tuple[float, float, float, float]  # wxyz
    axis: Vector  # unit vector in the joint's own frame


@dataclass(frozen=True, kw_only=True)
class KinematicChain:
    """Hinges from the robot base to a tip point."""

    links: tuple[ChainLink, ...]
    tip_pos: Vector  # m, in the last joint's frame

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Joints from base to tip."""
        return tuple(link.joint for link in self.links)


def chain_from_mjcf(path: Path, site: str) -> KinematicChain:
    """Read the hinge chain from the world to a site.

    Raises:
        FormatError: the site does not exist, or a body on the way has no hinge at its origin or an orientation other than `quat`.
    """
    root = ET.parse(path).getroot()
    world = root.find("worldbody")
    bodies = [] if world is None else _path_to_site(world, site)
    if not bodies:
        raise FormatError(f"{path}: no site {site!r} below worldbody")
    inherited = {key for item in root.iter("default") for joint in item.findall("joint") for key in joint.attrib}
    links: list[ChainLink] = []
    for body in bodies:
        joints = _own_joints(body)
        turned = any(key in body.attrib for key in ("euler", "axisangle", "xyaxes", "zaxis"))
        if not joints and not links and not turned and _is_identity(body):
            continue  # the fixed base
        if len(joints) != 1 or turned:
            raise FormatError(f"{path}: body {body.get('name')!r} needs exactly one hinge and a quat orientation")
        links.append(_link(body, joints[0], f"{path}: body {body.get('name')!r}", inherited))
    if not links:
        raise FormatError(f"{path}: no hinge between the world and site {site!r}; expected at least one")
    tip = next(s for s in bodies[-1].findall("site") if s.get("name") == site)
    if "fromto" in tip.attrib:
        raise FormatError(f"{path}: site {site!r} has fromto; expected pos, a point")
    return KinematicChain(links=tuple(links), tip_pos=_numbers(tip, "pos", "0 0 0"))  # pyright: ignore[reportArgumentType]


def _link(body: ET.Element, joint: ET.Element, where: str, inherited: set[str]) -> ChainLink:
    """A body and its hinge; `inherited`: attributes that some <default> gives to joints."""
    name = joint.get("name")
    if name is None:
        raise FormatError(f"{where}: its joint has no name; expected one")
    where = f"{where}: joint {name!r}"
    for key in ("type", "axis", "pos", "ref"):
        if key in inherited and key not in joint.attrib:
            raise FormatError(f"{where}: {key} comes from a <default>; expected it on the joint itself")
    if joint.get("type", "hinge") != "hinge":
        raise FormatError(f"{where} is a {joint.get('type')}; expected a hinge on the way to the tip")
    if any(_numbers(joint, "pos", "0 0 0")) or any(_numbers(joint, "ref", "0")):
        raise FormatError(
            f"{where}: pos = {joint.get('pos', '0 0 0')!r}, ref = {joint.get('ref', '0')!r}; expected a hinge at the origin of its"
            " body whose zero is the pose of the file: leave both out"
        )
    return ChainLink(
        joint=name,
        pos=_numbers(body, "pos", "0 0 0"),  # pyright: ignore[reportArgumentType]
        quat=_unit(_numbers(body, "quat", "1 0 0 0"), f"{where}: quat of its body"),  # pyright: ignore[reportArgumentType]
        axis=_unit(_numbers(joint, "axis", "0 0 1"), f"{where}: axis"),  # pyright: ignore[reportArgumentType]
    )


def joint_frames(chain: KinematicChain, joint_pos: Any, xp: Any = np) -> tuple[list[Any], list[Any], Any]:
    """Frames of the joints and the tip, in the base frame.

    Args:
        chain: m links.
        joint_pos: shape (..., m), rad, in the chain's order; numpy or torch.
        xp: the module that `joint_pos` belongs to, numpy or torch.

    Returns:
        rotations: m arrays of shape (..., 3, 3), after each joint's own turn.
        origins: m arrays of shape (..., 3), m.
        tip: shape (..., 3), m.
    """
    turns, places = _turned(chain, joint_pos, xp)
    rotation, origin = turns[0], places[0] + 0.0 * turns[0][0]
    rotations, origins = [rotation], [origin]
    for turn, place in zip(turns[1:], places[1:], strict=False):
        origin = origin + (rotation * place).sum(1)
        rotation = (rotation[:, :, None] * turn[None]).sum(1)
        rotations.append(rotation)
        origins.append(origin)
    tip = origin + (rotation * places[-1]).sum(1)
    shape = joint_pos.shape[:-1]
    matrices = [matrix.reshape(9, -1).T.reshape(*shape, 3, 3) for matrix in rotations]
    return matrices, [place.T.reshape(*shape, 3) for place in origins], tip.T.reshape(*shape, 3)


def tip_point(chain: KinematicChain, joint_pos: Any, xp: Any = np) -> Any:
    """The tip of `joint_frames` alone, several times faster: a vector goes from tip to base, no matrix the other way.

    Args:
        chain: m links.
        joint_pos: shape (..., m), rad, in the chain's order; numpy or torch.
        xp: the module that `joint_pos` belongs to, numpy or torch.

    Returns:
        Shape (..., 3), m, base frame.
    """
    turns, places = _turned(chain, joint_pos, xp)
    tip = places[0] + (turns[0] * _tip_in_first_link(turns, places)).sum(1)
    return tip.T.reshape(*joint_pos.shape[:-1], 3)


def tip_error(chain: KinematicChain, joint_pos: Any, point: Any, xp: Any = np) -> Any:
    """From the tip to a point, in the frame of the first joint after its turn.

    Args:
        chain: m links.
        joint_pos: shape (..., m), rad, in the chain's order; numpy or torch.
        point: shape (..., 3), m, base frame.
        xp: the module that `joint_pos` belongs to, numpy or torch.

    Returns:
        Shape (..., 3), m.
    """
    turns, places = _turned(chain, joint_pos, xp)
    seen = (turns[0] * (point.reshape(-1, 3).T - places[0])[:, None]).sum(0)
    return (seen - _tip_in_first_link(turns, places)).T.reshape(*joint_pos.shape[:-1], 3)


def _tip_in_first_link(turns: list[Any], places: list[Any]) -> Any:
    """(3, B), from what `_turned` gives."""
    tip = places[-1]
    for index in range(len(turns) - 1, 0, -1):
        tip = places[index] + (turns[index] * tip).sum(1)
    return tip


def _turned(chain: KinematicChain, joint_pos: Any, xp: Any) -> tuple[list[Any], list[Any]]:
    """Rotations of the m links, (3, 3, B) each, and places (3, 1) of their origins and of the tip in the link before, m.

    Poses come last: products of small matrices are then a few long operations, not many short ones.
    """

    def constant(value: np.ndarray) -> Any:
        return xp.asarray(value, dtype=joint_pos.dtype, device=joint_pos.device)

    count = len(chain.links)
    # (m, B), side by side in memory: sines are then five times as fast.
    angles = xp.stack(_rows(joint_pos.reshape(-1, count).T))
    parts = xp.stack([xp.ones_like(angles), xp.sin(angles), xp.cos(angles)], 1)  # (m, 3, B)
    turns = (constant(turn_parts(chain)) @ parts).reshape(count, 3, 3, -1)
    return _rows(turns), _rows(constant(_places(chain)))


def _rows(values: Any) -> list[Any]:
    """Views along the first axis, in one operation where torch has one."""
    return list(values.unbind(0)) if hasattr(values, "unbind") else list(values)


@lru_cache
def turn_parts(chain: KinematicChain) -> np.ndarray:
    """Each link's own turn is A + sin(q) B + cos(q) C (Rodrigues); A, B, C as columns, (m, 9, 3)."""
    fixed = np.array([_matrix(link.quat) for link in chain.links])
    cross = np.array([_cross_matrix(link.axis) for link in chain.links])
    still, sine, cosine = fixed @ (np.eye(3) + cross @ cross), fixed @ cross, -fixed @ cross @ cross
    return np.stack([still, sine, cosine], axis=-1).reshape(len(chain.links), 9, 3)


@lru_cache
def _places(chain: KinematicChain) -> np.ndarray:
    """Where each link's origin, and then the tip, is in the link before, (m + 1, 3, 1) m."""
    return np.array([*(link.pos for link in chain.links), chain.tip_pos])[..., None]


def tip_position(chain: KinematicChain, joint_pos: np.ndarray) -> np.ndarray:
    """Tip position in the base frame. joint_pos (..., m) rad -> (..., 3) m."""
    return tip_point(chain, joint_pos)


def tip_jacobian(chain: KinematicChain, joint_pos: np.ndarray) -> np.ndarray:
    """Derivative of the tip position. joint_pos (..., m) rad -> (..., 3, m) m/rad; column i is axis_i x (tip - origin_i)."""
    rotations, origins, tip = joint_frames(chain, joint_pos)
    columns = [
        np.cross(rotation @ np.array(link.axis), tip - origin)
        for link, rotation, origin in zip(chain.links, rotations, origins, strict=True)
    ]
    return np.stack(columns, axis=-1)


def _path_to_site(element: ET.Element, site: str) -> list[ET.Element]:
    for body in element.findall("body"):
        if any(s.get("name") == site for s in body.findall("site")):
            return [body]
        below = _path_to_site(body, site)
        if below:
            return [body, *below]
    return []


def _is_identity(body: ET.Element) -> bool:
    return _numbers(body, "pos", "0 0 0") == (0.0, 0.0, 0.0) and _numbers(body, "quat", "1 0 0 0") == (
        1.0,
        0.0,
        0.0,
        0.0,
    )


def _own_joints(body: ET.Element) -> list[ET.Element]:
    """Joints of a body, also those in a <frame> of it, but not those of bodies below."""
    inner = [joint for frame in body.findall("frame") for joint in _own_joints(frame)]
    return body.findall("joint") + inner


def _numbers(element: ET.Element, key: str, default: str) -> tuple[float, ...]:
    text, count = element.get(key, default), len(default.split())
    try:
        values = tuple(float(v) for v in text.split())
    except ValueError:
        values = ()
    if len(values) != count or not all(map(math.isfinite, values)):
        what = f"{element.tag} {element.get('name', '')!r}"
        raise FormatError(f"{what}: {key} = {text!r}; expected {count} finite number{'s' if count > 1 else ''}")
    return values


def _unit(vector: tuple[float, ...], what: str) -> tuple[float, ...]:
    """At length 1, as MuJoCo makes it."""
    length = math.sqrt(sum(v * v for v in vector))
    if length < 1e-9:
        raise FormatError(f"{what} = {vector}; expected a vector that is not zero")
    return vector if length == 1.0 else tuple(v / length for v in vector)


def _cross_matrix(axis: Vector) -> list[list[float]]:
    x, y, z = axis
    return [[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]]


def _matrix(quat: tuple[float, float, float, float]) -> list[list[float]]:
    w, x, y, z = quat
    return [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
