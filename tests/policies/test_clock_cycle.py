"""A clock keeps time over hours, whatever its period is in ticks."""

import numpy as np
import onnxruntime as ort
import pytest

from isthmus.hardware.robot import load_robot
from isthmus.policies.contract import SCHEMA, Contract, JointPosition, ObservationTerm, PhaseClock, contract_joints
from isthmus.policies.onnx_graph import policy_model
from isthmus.policies.onnx_nodes import OPSET, NodeList, tensor
from isthmus.policies.plan import clock_cycle


def contract(frequency: float) -> Contract:
    robot = load_robot("so101")
    return Contract(
        schema=SCHEMA,
        task="clock",
        robot=robot.name,
        joints=contract_joints(robot),
        period_ns=20_000_000,
        observation=(ObservationTerm(name="phase_sin", scale=1.0),),
        action=JointPosition(joints=robot.joint_names[:1], scale=1.0, clip=None),
        command=None,
        chain=None,
        latency_s=(0.0, 0.0),
        clock=PhaseClock(frequency=frequency, start=(0.25,)),
    )


@pytest.mark.parametrize(("frequency", "cycle"), [(1.25, (40, 1)), (1.5, (100, 3)), (1 / 0.9, (45, 1)), (2**0.5, None)])
def test_ticks_are_counted_where_a_whole_number_of_them_is_a_whole_number_of_turns(frequency, cycle) -> None:
    assert clock_cycle(contract(frequency)) == cycle


@pytest.mark.parametrize("frequency", [1.25, 1.5, 1.7])
def test_a_clock_is_right_after_an_hour(frequency: float) -> None:
    nodes = NodeList("none")
    nodes.add("Mul", "observation", nodes.constant(np.float32(0.0)), name="action")
    network = nodes.model("none", [tensor("observation", 1)], [tensor("action", 1)], OPSET)
    session = ort.InferenceSession(policy_model(contract(frequency), network).SerializeToString())
    given = {v.name: np.zeros(v.shape, dtype=np.float32) for v in session.get_inputs()}
    ticks = 50 * 3600
    ticks_of_cycle = clock_cycle(contract(frequency))
    assert ticks_of_cycle is not None
    given["state.clock"][:] = ticks % ticks_of_cycle[0]
    for tick in range(ticks, ticks + 20):
        seen, given["state.clock"] = (np.asarray(v) for v in session.run(["observation", "next.clock"], given))
        assert seen[0, 0] == pytest.approx(np.sin(2 * np.pi * (0.25 + tick * 0.02 * frequency)), abs=2e-6)
