"""The reference motion of unitree_rl_mjlab's mimic policies: an npz beside the policy, played frame by frame."""

import io
import math
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from ..contract import OwnSignal
from ..onnx_nodes import OPSET, NodeList
from .common import AnchorJoint, ImportFailed
from .files import read_archive
from .motion import COMMAND, ORIENTATION, Motion, motion_reference

TERMS = {"motion_command": COMMAND, "motion_anchor_ori_b": ORIENTATION}
FRAME_S = np.float32(1.0) / np.float32(50.0)  # of every motion: a constant of the deployment code
ARRAYS = {"body_quat_w": 3, "joint_pos": 2, "joint_vel": 2}  # with their number of axes


def motion_signals(seen: tuple[str, ...], joints: int) -> tuple[OwnSignal, ...]:
    """The reference signals that the policy sees."""
    known = {
        COMMAND: OwnSignal(
            name=COMMAND, width=2 * joints, unit="rad, rad/s", description="joint angles and velocities of the motion"
        ),
        ORIENTATION: OwnSignal(
            name=ORIENTATION,
            width=6,
            unit="1",
            description="two columns of the anchor's wanted rotation as it sees it",
            needs=("base_quat",),
        ),
    }
    return tuple(known[name] for name in known if name in seen)


def unitree_reference(
    folder: Path, joint_names: tuple[str, ...], anchor: tuple[AnchorJoint, ...], seen: tuple[str, ...], step: float
) -> onnx.ModelProto:
    """The model that computes the reference signals.

    Args:
        folder: with the motion, its only npz.
        joint_names: of the policy, which are those of the motion.
        anchor: joints from the root to the anchor body.
        seen: which reference signals the policy sees.
        step: s, control period.
    """
    found = sorted(folder.glob("*.npz"))
    if len(found) != 1:
        names = [path.name for path in found]
        raise ImportFailed(f"{folder}: motions {names}; put the one that the policy follows there, as its only npz")
    arrays = _arrays(found[0], len(joint_names))
    frames = _frame_of_each_tick(len(arrays["joint_pos"]), np.float32(step))
    root = arrays["body_quat_w"][:, 0].astype(np.float64)
    quats = np.stack([root, _turned(root, arrays["joint_pos"], anchor, joint_names)], axis=1)
    tables = {
        "joint_pos": arrays["joint_pos"][frames],
        "joint_vel": arrays["joint_vel"][frames],
        "body_quat_w": quats[frames],
        "body_pos_w": np.zeros((len(frames), 2, 3)),
    }
    motion = Motion(frames=_lookup(tables), anchor_body=1, heading_body=0, anchor=anchor)
    return motion_reference(motion, joint_names, seen, str(found[0]))


def _arrays(path: Path, joints: int) -> dict[str, np.ndarray]:
    """The motion's arrays, as plain numbers."""
    members, arrays = read_archive(path), dict[str, np.ndarray]()
    for name, axes in ARRAYS.items():
        try:
            content = members[f"{name}.npy"]
            array = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
        except (KeyError, ValueError, EOFError) as error:
            raise ImportFailed(f"{path}: {name}: not an array of numbers: {error}") from None
        if array.ndim != axes or array.dtype != np.float32 or not np.isfinite(array).all() or not len(array):
            raise ImportFailed(
                f"{path}: {name}: expected finite float32 of {axes} axes, got {array.dtype} {array.shape}"
            )
        arrays[name] = array
    count = {len(array) for array in arrays.values()}
    if len(count) != 1 or arrays["joint_pos"].shape[1] != joints or arrays["joint_vel"].shape[1] != joints:
        shapes = {name: array.shape for name, array in arrays.items()}
        raise ImportFailed(f"{path}: {shapes}; expected as many frames each, and {joints} joints")
    return arrays


def _frame_of_each_tick(count: int, step: np.float32) -> np.ndarray:
    """The frame that the deployment code shows at each tick until the last one, in its single precision."""
    ticks = np.arange(math.ceil(count * float(FRAME_S) / float(step)) + 2, dtype=np.float32)
    times = np.clip(ticks * step, np.float32(0.0), np.float32(count) * FRAME_S)
    return np.minimum(np.floor(times / FRAME_S).astype(np.int64), count - 1)


def _turned(
    quat: np.ndarray, joint_pos: np.ndarray, anchor: tuple[AnchorJoint, ...], joint_names: tuple[str, ...]
) -> np.ndarray:
    """Attitude wxyz (frames, 4) of the anchor body."""
    for joint in anchor:
        half = joint_pos[:, joint_names.index(joint.joint)].astype(np.float64) / 2.0
        axis = np.eye(3)["xyz".index(joint.axis)]
        w, v, c, s = quat[:, :1], quat[:, 1:], np.cos(half)[:, None], np.sin(half)[:, None] * axis
        quat = np.concatenate([w * c - np.sum(v * s, axis=1, keepdims=True), w * s + c * v + np.cross(v, s)], axis=1)
    return quat


def _lookup(tables: dict[str, np.ndarray]) -> onnx.ModelProto:
    """A model time_step (1, 1) -> a row of each table; the last row stays."""
    nodes = NodeList("table")
    last = nodes.constant(np.float32(len(tables["joint_pos"]) - 1))
    place = nodes.add("Min", "time_step", last)
    place = nodes.add("Cast", place, to=TensorProto.INT64)
    place = nodes.add("Reshape", place, nodes.constant(np.array([1], dtype=np.int64)))
    for name, table in tables.items():
        nodes.add("Gather", nodes.constant(table.astype(np.float32)), place, axis=0, name=name)
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, *table.shape[1:]]) for name, table in tables.items()
    ]
    inputs = [helper.make_tensor_value_info("time_step", TensorProto.FLOAT, [1, 1])]
    graph = helper.make_graph(nodes.nodes, "motion", inputs, outputs, list(nodes.constants.values()))
    opsets = [helper.make_opsetid("", OPSET)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=helper.find_min_ir_version_for(opsets))
