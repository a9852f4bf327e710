"""A reference motion as holosoma-inference follows it: what is seen at a tick is the frame that the inference before it gave.

So the first frame is seen twice. The motion starts with the policy here; the tool waits at its first frame for a person to start it.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper

from ..contract import Contract, ObservationTerm, OwnSignal
from ..onnx_nodes import NodeList, embed
from .common import Facts, Missing, ask_anchor
from .motion import COMMAND, ORIENTATION, Motion, motion_reference
from .onnx_network import modern, pruned, rebuilt

MOTION_TERMS = {
    "motion_command": ObservationTerm(name="signal", signal=COMMAND, scale=1.0),
    "motion_ref_ori_b": ObservationTerm(name="signal", signal=ORIENTATION, scale=1.0),
}
_OUTPUTS = ("joint_pos", "joint_vel", "ref_pos_xyz", "ref_quat_xyzw")


def motion_signals(terms: tuple[str, ...], joints: int) -> tuple[OwnSignal, ...]:
    """What the graph computes of the motion."""
    known = {
        "motion_command": OwnSignal(
            name=COMMAND, width=2 * joints, unit="rad, rad/s", description="joint angles and velocities of the motion"
        ),
        "motion_ref_ori_b": OwnSignal(
            name=ORIENTATION,
            width=6,
            unit="1",
            description="two columns of the anchor's wanted rotation as it sees it",
            needs=("base_quat",),
        ),
    }
    return tuple(signal for name, signal in known.items() if name in terms)


def reference_of(
    model: onnx.ModelProto, contract: Contract, facts: Facts, missing: Missing, source: str
) -> onnx.ModelProto:
    """The model that computes those signals from the frames in the file."""
    seen = tuple(signal.name for signal in contract.own_signals)
    whose = "the body that the motion is of"
    joints = ask_anchor(whose, contract.joint_names, facts, missing) if ORIENTATION in seen else ()
    frames = _late(pruned(modern(model, source), _OUTPUTS, source), len(contract.joints), source)
    motion = Motion(frames=frames, anchor_body=0, heading_body=0, anchor=joints)
    return motion_reference(motion, contract.joint_names, seen, source)


def _late(frames: onnx.ModelProto, joints: int, source: str) -> onnx.ModelProto:
    """Frames one tick late, with the one body as `Motion` has bodies, quaternion wxyz."""
    nodes = NodeList("late")
    before = nodes.add("Sub", "time_step", nodes.constant(np.float32(1.0)))
    step = nodes.add("Max", before, nodes.constant(np.float32(0.0)))
    names = {"time_step": step, "joint_pos": "joint_pos", "joint_vel": "joint_vel"}
    embed(nodes, frames, "inner", names)
    wxyz = nodes.add("Gather", "inner/ref_quat_xyzw", nodes.constant(np.array([3, 0, 1, 2])), axis=1)
    for value, width, name in (("inner/ref_pos_xyz", 3, "body_pos_w"), (wxyz, 4, "body_quat_w")):
        nodes.add("Reshape", value, nodes.constant(np.array([1, 1, width])), name=name)
    inputs = [helper.make_tensor_value_info("time_step", TensorProto.FLOAT, [1, 1])]
    shapes = {"joint_pos": [1, joints], "joint_vel": [1, joints], "body_pos_w": [1, 1, 3], "body_quat_w": [1, 1, 4]}
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    graph = helper.make_graph(nodes.nodes, "frames", inputs, outputs, list(nodes.constants.values()))
    return rebuilt(frames, graph, source)
