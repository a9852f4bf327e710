import numpy as np
import pytest
from deploy_fakes import PERIOD_NS, SPEC, STEP, Bench, ConstantPolicy, N, ReachPolicy

from isthmus.deploy.bound_policy import BindingError
from isthmus.deploy.modes import Mode
from isthmus.hardware.errors import BusTimeout, Disconnected, ServoFault
from isthmus.hardware.kinematics import tip_position
from isthmus.policies.episode import Source

TARGET = np.array([0.25, 0.1, 0.15])


def test_nothing_is_written_before_both_arming_steps():
    bench = Bench()
    bench.steps(5)
    for mode in (Mode.READY, Mode.POLICY, Mode.HOLD, Mode.TELEOP):
        bench.desk.ask(mode)
        bench.steps(2)
        assert bench.runtime.mode is Mode.IDLE
    assert bench.robot.calls == []
    bench.desk.ask(Mode.DAMP)
    bench.steps(2)
    bench.desk.ask(Mode.POLICY)
    bench.steps(2)
    assert bench.runtime.mode is Mode.DAMP
    assert bench.robot.written == []


def test_ready_moves_from_the_measured_pose_to_the_start_pose_at_limited_speed():
    bench = Bench(ready_speed=0.5)
    start = bench.robot.joint_pos.copy()
    bench.arm()
    written = np.array([start, *bench.robot.written])
    assert np.abs(np.diff(written, axis=0)).max() <= 0.5 * 0.02 + 1e-12
    np.testing.assert_allclose(written[-1], SPEC.array("default_pos"), atol=1e-9)


def test_a_request_acts_once_although_its_command_is_repeated_as_heartbeat():
    bench = Bench()
    bench.arm()
    bench.start_policy()
    bench.desk.drive(stop=True, engaged=False)
    bench.steps(1)
    assert bench.runtime.mode is Mode.HOLD
    bench.desk.beat()
    bench.steps(3)
    assert bench.runtime.mode is Mode.HOLD


def test_the_policy_gets_signals_in_its_own_joint_order_and_the_target_executed_last():
    policy = ReachPolicy(joint_names=tuple(reversed(SPEC.joint_names)))
    bench = Bench([policy])
    bench.arm()
    bench.start_policy(30, target=TARGET)
    ticks = bench.ticks()
    assert policy.resets == 1
    for seen, tick, before in zip(policy.seen[-20:], ticks[-20:], ticks[-21:-1], strict=True):
        np.testing.assert_array_equal(seen["joint_pos"], tick["joint_pos"][::-1])
        np.testing.assert_array_equal(seen["joint_vel"], tick["joint_vel"][::-1])
        np.testing.assert_array_equal(seen["joint_target"], before["executed_target"][::-1])
        np.testing.assert_array_equal(seen["command.target"], TARGET)
        np.testing.assert_array_equal(tick["joint_target"], before["executed_target"])


def test_a_good_policy_reaches_the_target_and_every_tick_is_recorded():
    bench = Bench()
    bench.arm()
    bench.start_policy(150, episode=7, target=TARGET)
    tip = tip_position_of(bench)
    assert np.linalg.norm(tip - TARGET) < 0.005
    ticks = bench.ticks()[-150:]
    assert (ticks["episode"] == 7).all()
    assert (ticks["mode"] == Mode.POLICY).all()
    assert (ticks["source"] == Source.POLICY).all()
    assert (np.diff(ticks["tick"]) == 1).all()
    assert (np.diff(ticks["monotonic_ns"]) == PERIOD_NS).all()
    assert (ticks["written_ns"] >= ticks["monotonic_ns"]).all()
    assert np.isfinite(ticks["base_action"]).all()
    assert np.isnan(ticks["human_target"]).all()
    np.testing.assert_array_equal(np.array(bench.robot.written[-150:]), ticks["executed_target"])


def tip_position_of(bench: Bench) -> np.ndarray:
    from deploy_fakes import CHAIN

    return tip_position(CHAIN, bench.robot.joint_pos[[SPEC.joint_names.index(name) for name in CHAIN.joint_names]])


def test_a_proposal_beyond_the_limits_is_kept_within_rate_and_range():
    bench = Bench([ConstantPolicy(np.full(N, 50.0))])
    bench.arm()
    before = bench.runtime.executed.copy()
    bench.start_policy(300)
    path = np.array([before, *bench.robot.written[-300:]])
    assert (np.abs(np.diff(path, axis=0)) <= STEP + 1e-12).all()
    np.testing.assert_allclose(path[-1], SPEC.array("upper"))


def test_a_policy_with_nan_holds_at_once_and_damps_when_nobody_reacts():
    policy = ReachPolicy()
    bench = Bench([policy], fault_hold_s=1.0)
    bench.arm()
    bench.start_policy(10)
    executed = bench.runtime.executed.copy()
    policy.broken = True
    bench.steps(1)
    assert bench.runtime.mode is Mode.HOLD
    assert "finite" in bench.runtime.fault
    np.testing.assert_array_equal(bench.robot.written[-1], executed)
    bench.steps(45)
    assert bench.runtime.mode is Mode.HOLD
    np.testing.assert_array_equal(bench.robot.written[-1], executed)
    bench.steps(10)
    assert bench.runtime.mode is Mode.DAMP
    assert bench.robot.calls[-1] == "damp"
    assert len(bench.events("fault")) == 1


def test_a_supervisor_who_reacts_to_a_fault_keeps_the_arm_from_going_limp():
    policy = ReachPolicy()
    bench = Bench([policy], fault_hold_s=0.5)
    bench.arm()
    bench.start_policy(10)
    policy.broken = True
    bench.steps(5)
    bench.desk.ask(Mode.HOLD)
    bench.steps(100)
    assert bench.runtime.mode is Mode.HOLD


def test_a_policy_that_raises_holds_with_its_text():
    bench = Bench([ReachPolicy()])
    bench.arm()
    bench.start_policy(1)
    bench.policies[0].act = lambda signals: (_ for _ in ()).throw(KeyError("gyro"))
    bench.steps(1)
    assert bench.runtime.mode is Mode.HOLD
    assert "KeyError" in bench.runtime.fault and "gyro" in bench.runtime.fault


@pytest.mark.parametrize(
    "error",
    [
        BusTimeout("elbow_flex does not answer"),
        ServoFault("overload", joint="elbow_flex", bits=32),
        Disconnected("gone"),
    ],
)
@pytest.mark.parametrize("stage", ["fail_read", "fail_write"])
def test_a_bus_that_still_takes_a_hold_holds_and_then_damps(error: Exception, stage: str):
    bench = Bench(fault_hold_s=0.5)
    bench.arm()
    bench.start_policy(10)
    setattr(bench.robot, stage, error)
    bench.steps(1)
    assert bench.runtime.mode is Mode.HOLD
    assert bench.robot.calls[-1] == "hold"
    assert type(error).__name__ in bench.runtime.fault and str(error) in bench.runtime.fault
    writes = len(bench.robot.written)
    bench.steps(30)
    assert bench.runtime.mode is Mode.DAMP
    assert len(bench.robot.written) == writes
    assert len(bench.events("fault")) == 1


def test_a_bus_that_takes_nothing_is_damped_at_once():
    bench = Bench()
    bench.arm()
    bench.start_policy(10)
    bench.robot.fail_read = bench.robot.fail_hold = Disconnected("the adapter is gone; plug it in")
    bench.steps(1)
    assert bench.runtime.mode is Mode.DAMP
    assert bench.robot.calls[-2:] == ["hold", "damp"]
    assert np.isnan(bench.ticks()[-1]["joint_pos"]).all()
    assert bench.ticks()[-1]["written_ns"] == 0


def test_after_a_passing_bus_fault_the_runtime_holds_the_target_it_had():
    bench = Bench()
    bench.arm()
    bench.start_policy(10)
    before = bench.robot.written[-1]
    bench.robot.fail_read = BusTimeout("once")
    bench.steps(1)
    bench.robot.fail_read = None
    bench.steps(1)
    assert bench.runtime.mode is Mode.HOLD
    np.testing.assert_array_equal(bench.robot.written[-1], before)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"stamp_age_ns": 150_000_000}, "0.150 s old"),
        ({"temperature": 85.0}, "85 deg C"),
        ({"errors": 30}, "30 bus errors"),
        ({"joint_vel": np.full(N, np.nan), "goal": None}, "not all finite"),
    ],
)
def test_a_monitor_stops_driving_and_says_why(change: dict[str, object], text: str):
    bench = Bench()
    bench.arm()
    bench.start_policy(10)
    for name, value in change.items():
        setattr(bench.robot, name, value)
    bench.steps(1)
    assert bench.runtime.mode is Mode.HOLD
    assert text in bench.runtime.fault


def test_a_few_bus_errors_now_and_then_stop_nobody():
    bench = Bench()
    bench.arm()
    bench.start_policy(1)
    for _ in range(60):
        bench.robot.errors += 1
        bench.steps(10)
    assert bench.runtime.mode is Mode.POLICY
    assert bench.ticks()[-1]["bus_errors"] == 60


def test_a_silent_supervisor_makes_the_arm_hold_and_then_go_limp():
    bench = Bench(supervisor_timeout_s=1.0, fault_hold_s=1.0)
    bench.steps(1)
    for mode, ticks in ((Mode.DAMP, 1), (Mode.READY, 40), (Mode.POLICY, 40)):
        bench.desk.ask(mode)
        bench.steps(ticks)
    assert bench.runtime.mode is Mode.POLICY
    bench.steps(12)
    assert bench.runtime.mode is Mode.HOLD
    assert "supervisor" in bench.runtime.fault
    bench.steps(55)
    assert bench.runtime.mode is Mode.DAMP


def test_estop_damps_from_anywhere_and_only_idle_leads_out():
    bench = Bench()
    bench.arm()
    bench.start_policy(3)
    bench.desk.ask(Mode.ESTOP)
    bench.steps(1)
    assert bench.runtime.mode is Mode.ESTOP
    assert bench.robot.calls[-1] == "damp"
    for mode in (Mode.DAMP, Mode.READY, Mode.POLICY, Mode.HOLD):
        bench.desk.ask(mode)
        bench.steps(1)
        assert bench.runtime.mode is Mode.ESTOP
    bench.desk.ask(Mode.IDLE)
    bench.steps(1)
    assert bench.runtime.mode is Mode.IDLE


def test_late_ticks_are_skipped_and_counted_and_never_burst():
    bench = Bench()
    bench.steps(10)
    bench.clock.late_ns = round(3.4 * PERIOD_NS)
    bench.steps(1)
    assert bench.runtime.missed == 3
    late = bench.ticks()[-1]
    assert late["lateness_us"] == pytest.approx(3.4 * 20_000)
    bench.steps(10)
    stamps = bench.ticks()["monotonic_ns"]
    assert np.diff(stamps[10:]).min() >= 0.5 * PERIOD_NS
    assert ((stamps[11:] - stamps[0]) % PERIOD_NS == 0).all()  # back on the original grid
    assert bench.runtime.missed == 3


def test_lateness_does_not_add_up():
    bench = Bench()
    for _ in range(100):
        bench.clock.late_ns = 300_000
        bench.steps(1)
    stamps = bench.ticks()["monotonic_ns"]
    assert stamps[-1] - stamps[0] == 99 * PERIOD_NS


def test_another_policy_takes_over_from_rest_and_without_a_step():
    first, second = ReachPolicy(name="first"), ReachPolicy(name="second", gain=-4.0)
    bench = Bench([first, second])
    bench.arm()
    bench.start_policy(10, policy_index=1)
    assert (len(first.seen), len(second.seen)) == (0, 10)
    bench.desk.ask(Mode.POLICY, policy_index=0)
    bench.steps(20)
    assert (len(first.seen), len(second.seen)) == (20, 10) and first.resets == 1
    executed = bench.ticks()["executed_target"]
    steps = np.diff(executed, axis=0)
    switch = len(steps) - 20
    change = np.abs(np.diff(steps, axis=0))[switch - 2 : switch + 14].max()
    assert change < 0.35 * np.abs(steps[switch - 1]).max() + 1e-9  # the increments change over, they do not jump
    sources = bench.ticks()["source"]
    assert sources[-20] == Source.BLEND and sources[-1] == Source.POLICY


def test_the_policy_that_runs_goes_on_when_it_is_asked_for_again():
    policy = ReachPolicy()
    bench = Bench([policy])
    bench.arm()
    bench.start_policy(3)
    bench.desk.ask(Mode.POLICY, episode=1)
    bench.steps(3)
    assert policy.resets == 1 and bench.ticks()["episode"][-1] == 1


@pytest.mark.parametrize("index", [-1, 1, 99])
def test_a_policy_that_does_not_exist_is_refused(index: int):
    bench = Bench()
    bench.arm()
    bench.desk.ask(Mode.POLICY, policy_index=index)
    bench.steps(1)
    assert bench.runtime.mode is Mode.READY
    assert "there are 1 policies" in bench.runtime.fault


def test_a_policy_for_other_joints_or_another_period_is_refused():
    with pytest.raises(BindingError, match="thumb"):
        policy = ReachPolicy()
        policy.joint_names = (*SPEC.joint_names, "thumb")
        Bench([policy])
    with pytest.raises(BindingError, match="10000000"):
        policy = ReachPolicy()
        policy.period_ns = 10_000_000
        Bench([policy])


def test_an_arm_outside_its_range_is_not_armed():
    bench = Bench()
    bench.robot.joint_pos[5] = SPEC.joints[5].upper + 0.2
    bench.steps(1)
    bench.desk.ask(Mode.DAMP)
    bench.steps(1)
    bench.desk.ask(Mode.READY)
    bench.steps(1)
    assert bench.runtime.mode is Mode.DAMP
    assert "outside" in bench.runtime.fault
    assert bench.robot.written == []


def test_modes_are_events_with_their_cause():
    bench = Bench()
    bench.arm()
    bench.start_policy(1)
    assert bench.events("mode") == [
        "IDLE -> DAMP (ASK_DAMP)",
        "DAMP -> READY (ASK_READY)",
        "READY -> POLICY (ASK_POLICY)",
    ]
