"""A person takes over and gives back: the command never jumps."""

import numpy as np
import pytest
from deploy_fakes import CHAIN, SPEC, STEP, Bench, ConstantPolicy, ReachPolicy

from isthmus.deploy.messages import OperatorCommand
from isthmus.deploy.modes import Mode
from isthmus.deploy.takeover import Blend, HumanDrive, TakeoverConfig, damped_step
from isthmus.hardware.kinematics import tip_jacobian, tip_position
from isthmus.policies.episode import Source

INDICES = [SPEC.joint_names.index(name) for name in CHAIN.joint_names]


@pytest.mark.parametrize("seed", range(5))
def test_a_damped_step_solves_its_least_squares_problem(seed: int):
    rng = np.random.default_rng(seed)
    jacobian, displacement, damping = rng.normal(size=(3, 5)), rng.normal(size=3), 0.3
    stacked = np.vstack([jacobian, damping * np.eye(5)])
    expected = np.linalg.lstsq(stacked, np.concatenate([displacement, np.zeros(5)]), rcond=None)[0]
    np.testing.assert_allclose(damped_step(jacobian, displacement, damping), expected, atol=1e-12)


@pytest.mark.parametrize("velocity", [(0.1, 0.0, 0.0), (0.0, -0.08, 0.0), (0.02, 0.03, 0.1)])
def test_the_tip_moves_as_the_person_says(velocity: tuple[float, float, float]):
    drive = HumanDrive(SPEC, TakeoverConfig(damping=0.001), 0.02)
    joint_pos = SPEC.array("default_pos")
    target = drive.target(OperatorCommand(values=velocity), joint_pos, joint_pos)
    moved = tip_position(CHAIN, target[INDICES]) - tip_position(CHAIN, joint_pos[INDICES])
    np.testing.assert_allclose(moved, np.array(velocity) * 0.02, atol=1e-4)
    assert target[SPEC.joint_names.index("gripper")] == joint_pos[SPEC.joint_names.index("gripper")]


def test_a_stretched_arm_does_not_race():
    config = TakeoverConfig()
    drive = HumanDrive(SPEC, config, 0.02)
    joint_pos = np.zeros(6)
    jacobian = tip_jacobian(CHAIN, joint_pos[INDICES])
    direction = np.linalg.svd(jacobian)[0][:, -1]
    step = drive.target(OperatorCommand(values=tuple(100.0 * direction)), joint_pos, joint_pos) - joint_pos
    assert np.linalg.norm(step) <= config.max_tip_speed * 0.02 / (2 * config.damping) + 1e-12  # s/(s^2+d^2) <= 1/(2d)


@pytest.mark.parametrize("velocity", [(np.nan, 0.0, 0.0), (np.inf, 0.0, 0.0), (0.0, 0.0, 0.0)])
def test_a_velocity_that_means_nothing_holds(velocity: tuple[float, float, float]):
    drive = HumanDrive(SPEC, TakeoverConfig(), 0.02)
    joint_pos = SPEC.array("default_pos")
    np.testing.assert_array_equal(drive.target(OperatorCommand(values=velocity), joint_pos, joint_pos), joint_pos)


def test_a_blend_starts_with_the_old_step_and_ends_with_the_new_one():
    blend = Blend(0.3)
    executed, old, new = np.zeros(2), np.array([0.02, -0.01]), np.array([-0.03, 0.0])
    blend.start(0, old)
    steps = np.array([blend.apply(executed + new, executed, t) - executed for t in range(0, 320_000_000, 20_000_000)])
    np.testing.assert_array_equal(steps[0], old)
    np.testing.assert_array_equal(steps[-1], new)
    assert (np.diff(steps[:, 0]) <= 0).all()
    assert np.abs(np.diff(steps, axis=0)).max() < 0.3 * np.abs(old - new).max()
    assert not blend.active


def takeover(policy: ReachPolicy | ConstantPolicy) -> np.ndarray:
    """Ticks of a run in which a person drives for a second, amid the policy's motion."""
    bench = Bench([policy])
    bench.arm()
    bench.start_policy(8, target=(0.2, 0.25, 0.3))
    for tick in range(50):
        bench.desk.drive(velocity=(0.15 * np.cos(tick / 5), -0.2, 0.1))
        bench.steps(1)
        assert bench.runtime.mode is Mode.TELEOP
    for _ in range(50):
        bench.desk.drive(engaged=False)
        bench.steps(1)
    assert bench.runtime.mode is Mode.POLICY
    return bench.ticks()


@pytest.fixture(params=["reach", "absolute"])
def ticks(request: pytest.FixtureRequest) -> np.ndarray:
    if request.param == "reach":
        return takeover(ReachPolicy(gain=40.0))
    return takeover(ConstantPolicy(SPEC.array("default_pos") + 1.0))


def test_the_command_never_jumps_at_entry_or_exit(ticks: np.ndarray):
    driven = ticks[ticks["written_ns"] > 0]
    assert (np.abs(np.diff(driven["executed_target"], axis=0)) <= STEP + 1e-12).all()


def test_even_the_speed_of_the_command_changes_smoothly_where_a_person_comes_and_goes(ticks: np.ndarray):
    steps = ticks["executed_target"] - ticks["joint_target"]
    human = ticks["mode"] == Mode.TELEOP
    entry = int(np.argmax(human))
    leave = entry + int(human[entry:].argmin())
    for change in (entry, leave):
        assert np.abs(steps[change] - steps[change - 1]).max() <= 0.1 * STEP.max()


def test_the_record_says_who_drove_and_the_policy_ran_in_the_shadow(ticks: np.ndarray):
    human = ticks["mode"] == Mode.TELEOP
    assert human.sum() == 50
    assert ticks["intervention"][human].all()
    assert np.isfinite(ticks["policy_target"][human]).all()
    assert np.isfinite(ticks["human_target"][human]).all()
    assert (ticks["source"][human][:15] == Source.BLEND).all()
    assert (ticks["source"][human][16:] == Source.HUMAN).all()
    after = np.flatnonzero(human)[-1] + 1
    assert (
        ticks["intervention"][after : after + 15].all() and (ticks["source"][after : after + 15] == Source.BLEND).all()
    )
    assert not ticks["intervention"][after + 16 :].any()
    assert np.isnan(ticks["human_target"][after + 16 :]).all()


def test_at_entry_the_human_target_starts_at_the_executed_target():
    bench = Bench()
    bench.arm()
    bench.start_policy(10)
    bench.desk.drive(velocity=(0.0, 0.0, 0.0))
    bench.steps(1)
    tick = bench.ticks()[-1]
    np.testing.assert_array_equal(tick["human_target"], tick["joint_target"])


def test_a_person_who_goes_silent_makes_the_arm_stop_smoothly():
    bench = Bench()
    bench.arm()
    bench.start_policy(5)
    for _ in range(30):
        bench.desk.drive(velocity=(0.0, 0.2, 0.0))
        bench.steps(1)
    bench.steps(13)
    assert bench.runtime.mode is Mode.TELEOP
    bench.steps(2)
    assert bench.runtime.mode is Mode.HOLD
    assert "operator" in bench.runtime.fault
    bench.steps(20)
    written = np.array(bench.robot.written)
    assert (np.abs(np.diff(written, axis=0)) <= STEP + 1e-12).all()
    np.testing.assert_array_equal(written[-1], written[-3])


def test_someone_who_still_drives_from_before_has_to_let_go_first():
    bench = Bench()
    bench.arm()
    bench.desk.drive()
    bench.desk.ask(Mode.POLICY)
    for engaged, mode in ((True, Mode.POLICY), (False, Mode.POLICY), (True, Mode.TELEOP)):
        bench.desk.drive(engaged=engaged)
        bench.steps(1)
        assert bench.runtime.mode is mode


def test_a_failing_shadow_leaves_the_arm_to_the_person_and_holds_when_it_is_given_back():
    policy = ReachPolicy()
    bench = Bench([policy])
    bench.arm()
    bench.start_policy(5)
    bench.desk.drive()
    bench.steps(1)
    policy.broken = True
    for _ in range(20):
        bench.desk.drive(velocity=(0.0, 0.1, 0.0))
        bench.steps(1)
    assert bench.runtime.mode is Mode.TELEOP
    assert np.isnan(bench.ticks()[-1]["policy_target"]).all()
    assert len(bench.events("fault")) == 1
    bench.desk.drive(engaged=False)
    bench.steps(1)
    assert bench.runtime.mode is Mode.HOLD
    assert np.isfinite(bench.robot.written[-1]).all()
