"""Whole sessions without a wall clock: on a fake robot, and on the virtual arm over its serial bus."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from deploy_fakes import CHAIN, SPEC, STEP, FakeClock, FakeRobot, N, ReachPolicy

from isthmus.deploy.log import read_log
from isthmus.deploy.modes import Mode
from isthmus.deploy.operators.scripted import ScriptedOperator
from isthmus.deploy.session import LockstepSession, SessionError
from isthmus.hardware.drivers import open_robot
from isthmus.hardware.errors import Disconnected
from isthmus.hardware.joint_calibration import ArmCalibration
from isthmus.hardware.kinematics import tip_position
from isthmus.hardware.virtual.client import VirtualArm

TARGET = np.array([0.25, 0.1, 0.15])
INDICES = [SPEC.joint_names.index(name) for name in CHAIN.joint_names]


class FakeWorld:
    """A fake robot whose joint readings are off, so that a policy misses and a referee sees it."""

    def __init__(
        self,
        *policies: ReachPolicy,
        offset: float = 0.0,
        log_path: Path | None = None,
        fail_read: Exception | None = None,
    ) -> None:
        self.clock = FakeClock()
        self.robot = FakeRobot(self.clock)
        self.robot.fail_read = fail_read
        self.offset = np.full(N, offset)
        self.policies = list(policies) or [ReachPolicy()]
        self.session = LockstepSession(self.robot, self.policies, self.advance, log_path=log_path)

    def advance(self, dt_s: float) -> None:
        self.clock.time_ns += round(dt_s * 1e9)

    def tip(self) -> np.ndarray:
        return tip_position(CHAIN, (self.robot.joint_pos + self.offset)[INDICES])


def test_an_episode_needs_arming():
    world = FakeWorld()
    with pytest.raises(SessionError, match=r"arm\(\)"):
        world.session.run_episode(TARGET, 5.0)
    assert world.robot.written == []


def test_a_good_policy_settles_and_the_arm_holds_afterwards():
    world = FakeWorld()
    world.session.arm()
    result = world.session.run_episode(TARGET, 10.0, referee=world.tip)
    assert (result.success, result.intervened, result.ended) == (True, False, "settled")
    assert result.final_error_m < 0.010
    assert 0.5 < result.seconds < 5.0
    assert world.session.status().mode is Mode.HOLD
    assert world.session.status().episode == -1
    recorded = world.session.recorded(result.episode)
    assert recorded.success and (recorded.ticks["episode"] == result.episode).all()
    assert len(recorded.ticks) == pytest.approx(result.seconds / 0.02, abs=2)


def test_the_next_episode_starts_where_the_arm_is():
    world = FakeWorld()
    world.session.arm()
    world.session.run_episode(TARGET, 10.0, referee=world.tip)
    before = world.robot.joint_pos.copy()
    result = world.session.run_episode([0.28, -0.1, 0.12], 10.0, referee=world.tip)
    np.testing.assert_allclose(world.session.recorded(result.episode).ticks["joint_pos"][0], before, atol=0.03)


def test_a_policy_that_misses_times_out():
    world = FakeWorld(offset=0.05)
    world.session.arm()
    result = world.session.run_episode(TARGET, 3.0, referee=world.tip)
    assert (result.success, result.ended) == (False, "timeout")
    assert result.final_error_m > 0.010
    assert result.seconds == pytest.approx(3.0, abs=0.03)


def test_an_operator_corrects_what_the_policy_misses():
    world = FakeWorld(offset=0.05)
    world.session.arm()
    operator = partial(ScriptedOperator, see=world.tip, seed=1)
    result = world.session.run_episode(TARGET, 15.0, operator=operator, referee=world.tip)
    assert (result.success, result.intervened, result.ended) == (True, True, "operator")
    assert result.final_error_m < 0.008
    ticks = world.session.recorded(result.episode).ticks
    assert ticks["intervention"].any() and not ticks["intervention"][:45].any()
    steps = np.diff(np.array(world.robot.written), axis=0)
    assert (np.abs(steps) <= STEP + 1e-12).all()


def test_a_fault_ends_the_episode_with_its_text_and_the_arm_holds(tmp_path: Path):
    policy = ReachPolicy()
    world = FakeWorld(policy, log_path=tmp_path / "log.mcap")
    world.session.arm()

    def referee() -> np.ndarray:
        policy.broken = len(policy.seen) > 20
        return world.tip()

    with pytest.raises(SessionError, match="finite"):
        world.session.run_episode([0.3, -0.2, 0.1], 5.0, referee=referee)
    assert world.session.status().mode is Mode.HOLD
    world.session.close()
    assert world.robot.calls[-2:] == ["hold", "close"]
    log = read_log(tmp_path / "log.mcap")
    assert [event.kind for event in log.events][-1] == "episode_end"
    assert [episode.success for episode in log.episodes()] == [False]


GONE = Disconnected("/dev/arm went away; plug the adapter in again and reconnect")


@pytest.mark.parametrize(
    "move",
    [
        lambda session: session.run_episode(TARGET, 5.0),
        lambda session: session.run_trajectory(np.zeros((5, N))),
        lambda session: session.park(),
        lambda session: session.hold(),
    ],
    ids=["run_episode", "run_trajectory", "park", "hold"],
)
def test_a_fault_between_attempts_is_told_by_the_next_one(move: Callable[[LockstepSession], object]):
    world = FakeWorld()
    world.session.arm()
    world.robot.fail_read = world.robot.fail_hold = GONE
    for _ in range(10):
        world.session.runtime.step()
    with pytest.raises(SessionError, match=r"mode DAMP \(last fault: Disconnected: /dev/arm went away"):
        move(world.session)


def test_a_robot_that_never_answered_is_told_by_whoever_wants_to_move_it():
    world = FakeWorld(fail_read=GONE)
    with pytest.raises(SessionError, match=r"mode IDLE \(last fault: Disconnected"):
        world.session.park()


@pytest.mark.parametrize("broken", ["read", "read and hold"])
@pytest.mark.parametrize("ticks", [0, 1, 7, 14])
def test_a_fault_while_the_session_merely_waits_is_told(broken: str, ticks: int):
    world = FakeWorld()
    waited = 0

    def advance(dt_s: float) -> None:
        nonlocal waited
        world.advance(dt_s)
        if world.session.runtime.sources.arrived:
            if waited == ticks:
                world.robot.fail_read = GONE
                world.robot.fail_hold = GONE if "hold" in broken else None
            waited += 1

    world.session = LockstepSession(world.robot, world.policies, advance)
    with pytest.raises(SessionError, match="Disconnected: /dev/arm went away"):
        world.session.arm()
    assert world.session.status().mode is (Mode.DAMP if "hold" in broken else Mode.HOLD)


def test_closing_can_leave_the_arm_limp_and_an_arm_that_never_drove_is_left_alone():
    world = FakeWorld()
    world.session.arm()
    world.session.close(damp=True)
    assert world.robot.calls[-2:] == ["damp", "close"]
    idle = FakeWorld()
    idle.session.close()
    assert idle.robot.calls == ["connect", "close"]


@pytest.mark.parametrize("target", [[0.1, 0.2], [0.1, float("nan"), 0.2], [[0.1, 0.2, 0.3]]])
def test_an_impossible_target_is_refused_before_anything_moves(target: list[float]):
    world = FakeWorld()
    world.session.arm()
    writes = len(world.robot.written)
    with pytest.raises(SessionError, match="three finite numbers"):
        world.session.run_episode(target, 5.0)
    with pytest.raises(SessionError, match="no policy 3"):
        world.session.run_episode(TARGET, 5.0, policy_index=3)
    assert len(world.robot.written) == writes


def test_a_target_outside_the_workspace_of_the_policy_is_refused_with_the_workspace():
    policy = ReachPolicy()
    policy.contract = SimpleNamespace(command=SimpleNamespace(workspace=SPEC.workspace), chain=CHAIN)
    world = FakeWorld(policy)
    world.session.arm()
    with pytest.raises(SessionError, match="outside the workspace"):
        world.session.run_episode([0.25, 0.1, 1.5], 5.0)
    assert world.session.status().mode is Mode.READY


def test_a_trajectory_is_played_exactly_after_a_slow_approach():
    world = FakeWorld()
    world.session.arm()
    start = world.session.status().executed_target
    targets = start + 0.2 + 0.05 * np.sin(np.arange(100)[:, None] / 8)
    episode = world.session.run_trajectory(targets)
    executed = episode.ticks["executed_target"]
    first = int(np.argmin(np.abs(executed - targets[0]).max(axis=1)))
    np.testing.assert_allclose(executed[first : first + 99], targets[:99], atol=1e-12)
    assert np.abs(np.diff(np.vstack([start, executed[: first + 1]]), axis=0)).max() <= 0.5 * 0.02 + 1e-12
    assert world.session.status().mode is Mode.HOLD
    assert episode.policy_id == "trajectory"


@pytest.mark.parametrize("targets", [np.zeros((5, 2)), np.zeros((0, 6)), np.full((3, 6), np.nan)])
def test_a_trajectory_that_cannot_be_played_is_refused(targets: np.ndarray):
    world = FakeWorld()
    world.session.arm()
    with pytest.raises(ValueError, match="trajectory"):
        world.session.run_trajectory(targets)


@pytest.fixture(scope="module")
def virtual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[VirtualArm, LockstepSession, Path]]:
    log_path = tmp_path_factory.mktemp("lockstep") / "log.mcap"
    with VirtualArm("soft", lockstep=True) as arm:
        robot = open_robot(SPEC, port=arm.port, calibration=ArmCalibration.nominal(SPEC))
        with LockstepSession(robot, [ReachPolicy()], arm.advance, log_path=log_path) as session:
            session.arm()
            yield arm, session, log_path


def test_on_the_virtual_arm_an_operator_brings_the_true_tip_to_the_target(
    virtual: tuple[VirtualArm, LockstepSession, Path],
):
    arm, session, _ = virtual

    def see() -> np.ndarray:
        return arm.truth().tip_pos

    for seed, target in enumerate(([0.25, 0.1, 0.15], [0.28, -0.12, 0.1])):
        operator = partial(ScriptedOperator, see=see, seed=seed)
        result = session.run_episode(target, 15.0, operator=operator, referee=see)
        assert result.success
        assert np.linalg.norm(see() - target) < 0.012
        ticks = session.recorded(result.episode).ticks
        assert (np.abs(ticks["executed_target"] - ticks["joint_target"]) <= STEP * (1 + 1e-9)).all()
        assert (np.diff(ticks["monotonic_ns"]) == 20_000_000).all()
        assert (ticks["missed"] == 0).all()
