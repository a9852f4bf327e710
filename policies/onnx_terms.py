"""Observation terms that are more than picked values, as ONNX nodes."""

import math

import numpy as np

from isthmus.hardware.kinematics import turn_parts

from . import plan
from .contract import Contract
from .onnx_nodes import NodeList


def computed_term(nodes: NodeList, term: str, contract: Contract) -> str:
    """Add a term's raw value, (1, w)."""
    if term == "base_rotation":
        return _rotation(nodes)
    if term == "base_rpy":
        return _roll_pitch_yaw(nodes)
    if term == "base_pos_error":
        return nodes.add("Sub", "command.position", "base_pos")
    if term == "time":
        return nodes.add("Mul", f"state.{plan.TICKS}", nodes.constant(np.float32(contract.period_ns * 1e-9)))
    if term == "phase":
        return "phase"
    if term in ("phase_sin", "phase_cos"):
        angle = nodes.add("Mul", "phase", nodes.constant(np.float32(2.0 * math.pi)))
        return nodes.add("Sin" if term == "phase_sin" else "Cos", angle)
    return _tip_rotation(nodes, contract) if term == "tip_rotation" else _tip_error(nodes, contract)


def _products(nodes: NodeList) -> str:
    """All products of base_quat's parts, (1, 16): ww wx wy wz xw xx ..."""
    column = nodes.add("Reshape", "base_quat", nodes.constant(np.array([4, 1])))
    return nodes.add("Reshape", nodes.add("Mul", column, "base_quat"), nodes.constant(np.array([1, 16])))


def _quadratic(nodes: NodeList, rows: list[dict[str, float]], constant: list[float]) -> str:
    """Constant + sums of products such as {"xy": 2.0, "wz": -2.0}, (1, len(rows))."""
    matrix = np.zeros((16, len(rows)))
    for index, row in enumerate(rows):
        for pair, factor in row.items():
            matrix[4 * "wxyz".index(pair[0]) + "wxyz".index(pair[1]), index] = factor
    return nodes.add("Gemm", _products(nodes), nodes.constant(matrix), nodes.row(np.array(constant)))


def _rotation(nodes: NodeList) -> str:
    """R(base_quat), body -> world, row by row."""
    rows = [
        {"yy": -2.0, "zz": -2.0}, {"xy": 2.0, "wz": -2.0}, {"xz": 2.0, "wy": 2.0},
        {"xy": 2.0, "wz": 2.0}, {"xx": -2.0, "zz": -2.0}, {"yz": 2.0, "wx": -2.0},
        {"xz": 2.0, "wy": -2.0}, {"yz": 2.0, "wx": 2.0}, {"xx": -2.0, "yy": -2.0},
    ]  # fmt: skip
    return _quadratic(nodes, rows, [1, 0, 0, 0, 1, 0, 0, 0, 1])


def _roll_pitch_yaw(nodes: NodeList) -> str:
    """Angles of Rz Ry Rx = R(base_quat): sines of roll and yaw, their cosines, and the sine of pitch come from the products."""
    rows = [
        {"wx": 2.0, "yz": 2.0}, {"wz": 2.0, "xy": 2.0},
        {"xx": -2.0, "yy": -2.0}, {"yy": -2.0, "zz": -2.0},
        {"wy": 2.0, "xz": -2.0},
    ]  # fmt: skip
    parts = _quadratic(nodes, rows, [0, 0, 1, 1, 0])
    sine, cosine, pitch = (nodes.columns(parts, places, 5) for places in ([0, 1], [2, 3], [4]))
    turned = _atan2(nodes, sine, cosine)
    one = nodes.constant(np.float32(1.0))
    pitch = nodes.add("Asin", nodes.add("Clip", pitch, nodes.constant(np.float32(-1.0)), one))
    return nodes.add("Gather", nodes.concat([turned, pitch]), nodes.constant(np.array([0, 2, 1])), axis=1)


def _atan2(nodes: NodeList, y: str, x: str) -> str:
    """Half-angle forms, each where it is well-conditioned: 2 atan(y / (r + x)) for x > 0, else 2 atan((r - x) / y); 0 for y = x = 0."""
    zero = nodes.constant(np.float32(0.0))
    radius = nodes.add("Sqrt", nodes.add("Add", nodes.add("Mul", x, x), nodes.add("Mul", y, y)))
    ahead = nodes.add("Greater", x, zero)
    top = nodes.where(ahead, y, nodes.add("Sub", radius, x))
    bottom = nodes.where(ahead, nodes.add("Add", radius, x), y)
    angle = nodes.add("Mul", nodes.add("Atan", nodes.add("Div", top, bottom)), nodes.constant(np.float32(2.0)))
    return nodes.where(nodes.add("Greater", radius, zero), angle, zero)


def _turns(nodes: NodeList, contract: Contract) -> list[str]:
    """Each link's rotation in the link before, after the joint's turn, (3, 3): A + sin(q) B + cos(q) C."""
    chain = contract.reach_chain()
    places = [contract.joint_names.index(name) for name in chain.joint_names]
    count = len(places)
    angles = nodes.columns("joint_pos", places, len(contract.joints))
    angles = nodes.add("Reshape", angles, nodes.constant(np.array([count, 1, 1])))
    still, sine, cosine = np.moveaxis(turn_parts(chain).reshape(count, 3, 3, 3), -1, 0)
    turned = nodes.add("Mul", nodes.add("Sin", angles), nodes.constant(sine))
    turned = nodes.add("Add", turned, nodes.add("Mul", nodes.add("Cos", angles), nodes.constant(cosine)))
    turned = nodes.add("Add", turned, nodes.constant(still))
    return [nodes.add("Gather", turned, nodes.constant(np.int64(link)), axis=0) for link in range(count)]


def _tip_rotation(nodes: NodeList, contract: Contract) -> str:
    """Rotation of the chain's last link -> base frame, row by row."""
    turns = _turns(nodes, contract)
    rotation = turns[0]
    for turn in turns[1:]:
        rotation = nodes.add("MatMul", rotation, turn)
    return nodes.add("Reshape", rotation, nodes.constant(np.array([1, 9])))


def _tip_error(nodes: NodeList, contract: Contract) -> str:
    """command.target - tip, in the frame of the first joint after its turn."""
    chain, turns = contract.reach_chain(), _turns(nodes, contract)
    origins = [np.array(link.pos)[:, None] for link in chain.links]
    tip = nodes.constant(np.array(chain.tip_pos)[:, None])
    for turn, origin in zip(turns[:0:-1], origins[:0:-1], strict=True):
        tip = nodes.add("Add", nodes.add("MatMul", turn, tip), nodes.constant(origin))
    point = nodes.shifted("command.target", -origins[0][:, 0])  # (1, 3); R^T p is p R as a row
    seen = nodes.add("MatMul", point, turns[0])
    return nodes.add("Sub", seen, nodes.add("Reshape", tip, nodes.constant(np.array([1, 3]))))
