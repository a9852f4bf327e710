"""A reference motion inside the graph: which frame it is, and how the motion lies relative to the robot.

At its first tick the motion is turned about the vertical, and moved, so that its anchor body lies where the robot's does; from then on
it is followed one frame a tick.
"""

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from ..onnx_nodes import NodeList, embed, tensor
from .common import AnchorJoint, ImportFailed
from .onnx_network import rebuilt

FRAME, ALIGNED = "reference.frame", "reference.aligned"
COMMAND, ORIENTATION, POSITION = "reference.motion", "reference.anchor_rotation", "reference.anchor_position"


@dataclass(frozen=True, kw_only=True)
class Motion:
    """A tool's frames and its anchor."""

    frames: (
        onnx.ModelProto
    )  # time_step (1, 1) -> joint_pos, joint_vel (1, n), body_pos_w (1, b, 3), body_quat_w (1, b, 4) wxyz
    anchor_body: int  # of the b bodies
    heading_body: int  # of the b bodies, whose heading is laid upon that of the robot's anchor
    anchor: tuple[AnchorJoint, ...]  # from the robot's base to the anchor body
    start: int = 0  # first frame


def motion_reference(
    motion: Motion, joint_names: tuple[str, ...], terms: tuple[str, ...], source: str
) -> onnx.ModelProto:
    """The model that computes reference signals, as `onnx_graph.policy_model` takes it.

    Args:
        motion: frames and anchor.
        joint_names: in the order of `joint_pos`.
        terms: which of COMMAND, ORIENTATION and POSITION the policy sees.
        source: the file, for errors.
    """
    nodes = NodeList("motion")
    step = nodes.add("Add", f"state.{FRAME}", nodes.constant(np.float32(motion.start)), name="motion/time_step")
    nodes.add("Add", f"state.{FRAME}", nodes.constant(np.float32(1.0)), name=f"next.{FRAME}")
    if [value.name for value in motion.frames.graph.input] != ["time_step"]:
        raise ImportFailed(f"{source}: the motion depends on {[value.name for value in motion.frames.graph.input]}")
    embed(nodes, motion.frames, "frames", {"time_step": step})
    inputs, outputs = [tensor(f"state.{FRAME}", 1)], [tensor(f"next.{FRAME}", 1)]
    if COMMAND in terms:
        nodes.add("Concat", "frames/joint_pos", "frames/joint_vel", axis=1, name=COMMAND)
        outputs.append(tensor(COMMAND, 2 * len(joint_names)))
    if ORIENTATION in terms or POSITION in terms:
        inputs += [tensor("base_quat", 4), tensor("joint_pos", len(joint_names)), tensor(f"state.{ALIGNED}", 5)]
        outputs.append(tensor(f"next.{ALIGNED}", 5))
        inputs += [tensor("base_pos", 3)] if POSITION in terms else []
        _anchored(nodes, motion, joint_names, terms)
        outputs += [tensor(name, width) for name, width in ((ORIENTATION, 6), (POSITION, 3)) if name in terms]
    weights = list(nodes.constants.values())
    return rebuilt(motion.frames, helper.make_graph(nodes.nodes, "reference", inputs, outputs, weights), source)


def _anchored(nodes: NodeList, motion: Motion, joint_names: tuple[str, ...], terms: tuple[str, ...]) -> None:
    """Rotation and position of the motion's anchor as the robot's anchor sees them."""
    place = nodes.constant(np.array(motion.anchor_body, dtype=np.int64))
    wanted = _matrix(nodes, nodes.add("Gather", "frames/body_quat_w", place, axis=1))
    there = nodes.add("Gather", "frames/body_pos_w", place, axis=1)
    base = "base_pos" if POSITION in terms else nodes.constant(np.zeros((1, 3)))
    turned, moved = _robot_anchor(nodes, motion.anchor, joint_names, base)
    ahead = nodes.constant(np.array(motion.heading_body, dtype=np.int64))
    heading = _matrix(nodes, nodes.add("Gather", "frames/body_quat_w", ahead, axis=1))
    turn = _difference(nodes, _yaw(nodes, turned), _yaw(nodes, heading))
    shift = nodes.add("Sub", moved, _apply(nodes, _about_vertical(nodes, turn), there))
    first = nodes.add("Less", f"state.{FRAME}", nodes.constant(np.float32(0.5)))
    nodes.add("Where", first, nodes.concat([turn, shift]), f"state.{ALIGNED}", name=f"next.{ALIGNED}")
    turn, shift = (nodes.columns(f"next.{ALIGNED}", places, 5) for places in ([0, 1], [2, 3, 4]))
    upright = _about_vertical(nodes, turn)
    inverse = nodes.add("Transpose", turned)
    if ORIENTATION in terms:
        seen = nodes.add("MatMul", inverse, nodes.add("MatMul", upright, wanted))
        columns = nodes.add("Gather", seen, nodes.constant(np.array([0, 1])), axis=1)
        nodes.add("Reshape", columns, nodes.constant(np.array([1, 6])), name=ORIENTATION)
    if POSITION in terms:
        ahead = nodes.add("Sub", nodes.add("Add", _apply(nodes, upright, there), shift), moved)
        nodes.add("Identity", _apply(nodes, inverse, ahead), name=POSITION)


def _robot_anchor(
    nodes: NodeList, anchor: tuple[AnchorJoint, ...], joint_names: tuple[str, ...], base: str
) -> tuple[str, str]:
    """Rotation (3, 3) and position (1, 3) of the robot's anchor body in the world."""
    turned, moved = _matrix(nodes, "base_quat"), base
    for joint in anchor:
        moved = nodes.add("Add", moved, _apply(nodes, turned, nodes.row(np.array(joint.pos))))
        angle = nodes.columns("joint_pos", [joint_names.index(joint.joint)], len(joint_names))
        turned = nodes.add("MatMul", turned, _about_axis(nodes, angle, "xyz".index(joint.axis)))
    return turned, moved


def _matrix(nodes: NodeList, quat: str) -> str:
    """Rotation matrix (3, 3) of a unit quaternion (1, 4), wxyz."""
    doubled = nodes.add("Mul", quat, nodes.constant(np.float32(2.0)))
    w, x, y, z = (nodes.columns(quat, [place], 4) for place in range(4))
    x2, y2, z2 = (nodes.columns(doubled, [place], 4) for place in (1, 2, 3))
    mul = lambda a, b: nodes.add("Mul", a, b)  # noqa: E731
    one = nodes.constant(np.float32(1.0))
    sides = {key: mul(*pair) for key, pair in {"xx": (x, x2), "yy": (y, y2), "zz": (z, z2), "xy": (x, y2), "xz": (x, z2),
             "yz": (y, z2), "wx": (w, x2), "wy": (w, y2), "wz": (w, z2)}.items()}  # fmt: skip
    rest = lambda a, b: nodes.add("Sub", one, nodes.add("Add", sides[a], sides[b]))  # noqa: E731
    less = lambda a, b: nodes.add("Sub", sides[a], sides[b])  # noqa: E731
    more = lambda a, b: nodes.add("Add", sides[a], sides[b])  # noqa: E731
    return _square(nodes, [
        rest("yy", "zz"), less("xy", "wz"), more("xz", "wy"),
        more("xy", "wz"), rest("xx", "zz"), less("yz", "wx"),
        less("xz", "wy"), more("yz", "wx"), rest("xx", "yy"),
    ])  # fmt: skip


def _square(nodes: NodeList, entries: list[str]) -> str:
    """A matrix (3, 3) of nine values, row by row."""
    return nodes.add("Reshape", nodes.concat(entries), nodes.constant(np.array([3, 3])))


def _about_axis(nodes: NodeList, angle: str, axis: int) -> str:
    """Rotation matrix (3, 3) by an angle (1, 1) about one of the axes."""
    return _turn_about(nodes, nodes.add("Cos", angle), nodes.add("Sin", angle), axis)


def _about_vertical(nodes: NodeList, turn: str) -> str:
    """Rotation matrix (3, 3) about z by the cosine and sine (1, 2)."""
    return _turn_about(nodes, nodes.columns(turn, [0], 2), nodes.columns(turn, [1], 2), 2)


def _turn_about(nodes: NodeList, cosine: str, sine: str, axis: int) -> str:
    zero, one = nodes.row(np.zeros(1)), nodes.row(np.ones(1))
    entries, (i, j) = [zero] * 9, ((axis + 1) % 3, (axis + 2) % 3)
    entries[4 * axis] = one
    entries[4 * i] = entries[4 * j] = cosine
    entries[3 * i + j] = nodes.add("Neg", sine)
    entries[3 * j + i] = sine
    return _square(nodes, entries)


def _yaw(nodes: NodeList, matrix: str) -> str:
    """Cosine and sine (1, 2) of a rotation's heading."""
    flat = nodes.add("Reshape", matrix, nodes.constant(np.array([1, 9])))
    ahead = nodes.columns(flat, [0, 3], 9)
    square = nodes.add("ReduceSum", nodes.add("Mul", ahead, ahead), nodes.constant(np.array([1])), keepdims=1)
    return nodes.add("Div", ahead, nodes.add("Sqrt", square))


def _difference(nodes: NodeList, first: str, second: str) -> str:
    """Cosine and sine (1, 2) of the first heading minus the second."""
    c, s = (nodes.columns(first, [place], 2) for place in (0, 1))
    a, b = (nodes.columns(second, [place], 2) for place in (0, 1))
    cosine = nodes.add("Add", nodes.add("Mul", c, a), nodes.add("Mul", s, b))
    sine = nodes.add("Sub", nodes.add("Mul", s, a), nodes.add("Mul", c, b))
    return nodes.concat([cosine, sine])


def _apply(nodes: NodeList, matrix: str, vector: str) -> str:
    """A matrix (3, 3) times a vector (1, 3)."""
    column = nodes.add("Reshape", vector, nodes.constant(np.array([3, 1])))
    return nodes.add("Reshape", nodes.add("MatMul", matrix, column), nodes.constant(np.array([1, 3])))
