"""Joints that do not follow, are pushed away, rest out of range, or cannot be switched off."""

import numpy as np
import pytest
from deploy_fakes import SPEC, Bench, N

from isthmus.deploy.modes import Mode
from isthmus.hardware.errors import BusTimeout


def without_torque(bench: Bench) -> None:
    bench.arm()
    bench.start_policy(5)
    bench.desk.ask_hold()
    bench.steps(40)
    bench.robot.goal = None  # targets go nowhere
    bench.robot.write = lambda joint_target: bench.robot.written.append(joint_target.copy())


def test_a_joint_that_does_not_follow_is_a_fault_that_names_it():
    bench = Bench()
    without_torque(bench)
    for _ in range(20):
        bench.robot.joint_pos = (
            bench.robot.joint_pos - 0.03 * np.eye(N)[1]
        )  # the shoulder sinks, the target goes with it
        bench.steps(1)
    bench.steps(30)
    assert bench.runtime.mode is Mode.HOLD and not bench.runtime.fault  # not yet: it may be on its way
    bench.steps(30)
    assert bench.runtime.mode is Mode.HOLD
    assert "shoulder_lift did not follow the target for 1.0 s" in bench.runtime.fault


def test_a_joint_that_was_pushed_away_faster_than_it_may_move_is_a_fault_and_nothing_is_written():
    bench = Bench()
    without_torque(bench)
    bench.robot.joint_pos = bench.robot.joint_pos - 0.6 * np.eye(N)[1]
    bench.steps(10)
    assert bench.runtime.mode is Mode.HOLD and not bench.runtime.fault  # not yet: a reading may be wrong once
    written = len(bench.robot.written)
    bench.steps(30)
    assert len(bench.robot.written) == written  # no target keeps all limits
    assert bench.runtime.mode is Mode.HOLD and "shoulder_lift is 0.60 rad from its target" in bench.runtime.fault
    bench.steps(120)
    assert bench.runtime.mode is Mode.DAMP


def test_torque_that_could_not_be_switched_off_is_tried_again_until_it_is():
    bench = Bench()
    bench.arm()
    calls = []

    def refuse():
        calls.append("damp")
        if len(calls) < 3:
            raise BusTimeout("shoulder_lift: no answer")

    bench.robot.damp = refuse
    bench.runtime._request(Mode.DAMP)
    bench.steps(120)
    assert len(calls) == 3 and bench.runtime.mode is Mode.DAMP
    assert "trying on: shoulder_lift: no answer" in bench.runtime.fault


@pytest.mark.parametrize(("beyond", "arms"), [(0.07, True), (0.2, False)])
def test_a_joint_that_rests_a_little_outside_its_range_can_be_armed_and_one_far_outside_is_named(
    beyond: float, arms: bool
):
    bench = Bench()
    bench.robot.joint_pos = SPEC.array("rest_pos")
    bench.robot.joint_pos[1] = SPEC.joints[1].lower - beyond
    if arms:
        for mode in (Mode.DAMP, Mode.READY):
            bench.steps(1)
            bench.desk.ask(mode)
        bench.steps(120)
        assert bench.runtime.sources.arrived
        steps = np.abs(np.diff(np.array(bench.robot.written), axis=0))
        assert (steps <= SPEC.array("velocity_limit") * 0.02 + 1e-9).all()
    else:
        for mode in (Mode.DAMP, Mode.READY):
            bench.steps(1)
            bench.desk.ask(mode)
        bench.steps(1)
        assert bench.runtime.mode is Mode.DAMP and not bench.robot.written
        assert "shoulder_lift at -1.95 rad" in bench.runtime.fault
