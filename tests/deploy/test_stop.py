"""A person who says stop ends the command: no further attempt, and what ended before is kept."""

import os
import signal
import termios
import time
from pathlib import Path

import numpy as np
import pytest
from command_line import PATIENCE_S, Running, isthmus, moved_rad, nominal_joints
from deploy_fakes import SPEC, FakeClock, FakeRobot, ReachPolicy

from isthmus.deploy.attempt import EpisodeResult, StoppedByOperator
from isthmus.deploy.cli import main
from isthmus.deploy.commands.attempts import attempt_all, load_attempts
from isthmus.deploy.log import Log, read_log
from isthmus.deploy.messages import OperatorCommand
from isthmus.deploy.modes import Mode
from isthmus.deploy.operators.operator import ViewSource
from isthmus.deploy.session import LockstepSession
from isthmus.hardware.virtual.client import VirtualArm
from isthmus.policies.bundle import load_bundle
from isthmus.policies.learning.dataset import read_dataset

TARGETS = np.array([[0.25, 0.1, 0.15], [0.28, -0.1, 0.12], [0.22, 0.12, 0.2], [0.3, 0.0, 0.15]])
LIMP_FALL_RAD = 0.1  # a folded arm that goes limp sinks no further


class StopsIn:
    """Presses x once, for as long as a short press lasts, in the attempt with this number; in none while the arm gets ready."""

    def __init__(self, view: ViewSource, episode: int, after: int = 10) -> None:
        self._view, self._episode, self._after = view, episode, after
        self._polls = self._inside = 0

    def poll(self, now_ns: int) -> OperatorCommand:
        self._polls += 1
        self._inside += self._view().episode == self._episode
        stop = self._after <= self._inside < self._after + 5
        return OperatorCommand(sequence=self._polls, heartbeat_ns=now_ns, stop=stop)

    def filenos(self) -> tuple[int, ...]:
        return ()

    def close(self) -> None: ...


class Stopper:
    """Builds operators that stop in this attempt."""

    def __init__(self, episode: int, after: int = 10) -> None:
        self._arguments = (episode, after)

    def __call__(self, view: ViewSource) -> StopsIn:
        return StopsIn(view, *self._arguments)


class World:
    """A fake arm and its session."""

    def __init__(self, log_path: Path | None = None) -> None:
        self.clock = FakeClock()
        self.robot = FakeRobot(self.clock)
        self.policy = ReachPolicy()
        self.session = LockstepSession(self.robot, [self.policy], self._advance, log_path=log_path)

    def _advance(self, dt_s: float) -> None:
        self.clock.time_ns += round(dt_s * 1e9)


def attempts_until_stop(world: World, operator: Stopper) -> tuple[list[EpisodeResult], StoppedByOperator]:
    results: list[EpisodeResult] = []
    with pytest.raises(StoppedByOperator) as stop:
        attempt_all(
            world.session,
            TARGETS,
            policy_id="reach",
            referee=None,
            operator=operator,
            on_result=lambda _, result: results.append(result),
        )
    return results, stop.value


def test_a_stop_ends_the_row_of_attempts_and_the_arm_does_not_drive_any_more():
    world = World()
    world.session.arm()
    results, stop = attempts_until_stop(world, Stopper(2))
    assert str(stop) == "stopped by the operator after 2 of 4 targets" and stop.episode == 2
    assert [result.episode for result in results] == [0, 1]
    proposals = len(world.policy.seen)
    for _ in range(150):  # 3 s
        world.session.runtime.step()
    assert len(world.policy.seen) == proposals
    assert world.session.status().mode is Mode.HOLD and world.session.status().episode == -1
    np.testing.assert_array_equal(np.ptp(world.robot.written[-100:], axis=0), 0.0)  # slowed down to a hold before


def test_a_stop_that_is_still_pressed_does_not_keep_the_arm_from_its_rest_pose():
    world = World()
    world.session.arm()
    attempts_until_stop(world, Stopper(0))
    world.session.park()
    np.testing.assert_allclose(world.session.status().executed_target, SPEC.array("rest_pos"), atol=1e-9)


def test_a_stop_on_the_way_to_the_start_pose_ends_there():
    world = World()
    world.session.prepare(TARGETS, operator=Stopper(-1))
    with pytest.raises(StoppedByOperator, match="on the way to the start pose"):
        world.session.arm()
    assert world.session.status().mode is Mode.HOLD
    assert world.policy.seen == []


def test_on_tick_sees_the_judged_tip_and_the_time_that_is_left():
    world = World()
    world.session.arm()
    seen: list[tuple[int, np.ndarray, float]] = []
    tip = np.array([0.1, 0.2, 0.3])
    world.session.run_episode(
        TARGETS[0],
        1.0,
        referee=lambda: tip,
        on_tick=lambda status, tip, left: seen.append((status.tick, tip, left)),
    )
    assert (np.diff([tick for tick, _, _ in seen]) == 1).all()
    assert all(given is tip for _, given, _ in seen)
    np.testing.assert_allclose([left for _, _, left in seen], 1.0 - 0.02 * np.arange(1, 51), atol=1e-9)


def command(*arguments: object) -> int:
    """A command in this process; returns its exit code."""
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return int(end.value.code or 0)


def policies_after(log: Log, episode: int) -> set[str]:
    return {e.policy_id for e in log.episodes() if len(e.ticks) and e.ticks["episode"][0] > episode}


@pytest.mark.parametrize("done", [2, 0])
def test_a_stop_ends_run_and_only_what_ended_counts(
    done: int,
    reach_bundle: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr("isthmus.deploy.commands.run.operator_for", lambda *_: Stopper(done))
    log, out = tmp_path / "run.mcap", tmp_path / "out.json"
    arm = ("--arm", "soft", "--lockstep", "--targets", 60)
    assert command("run", reach_bundle, *arm, "--operator", "scripted", "--log", log, "--out", out) == 2
    said = capsys.readouterr()
    assert said.err.strip().endswith(f"isthmus: stopped by the operator after {done} of 60 targets")
    assert policies_after(read_log(log), done) == {"trajectory"}  # it parks, and nothing else
    if done:
        assert len(load_attempts(out).rows) == done and f"of {done} targets reached" in said.out
    else:
        assert not out.exists() and "targets reached" not in said.out


@pytest.mark.parametrize("done", [1, 0])
def test_a_stop_ends_correct_and_the_stopped_attempt_is_in_no_dataset(
    done: int,
    reach_bundle: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr("isthmus.deploy.commands.correct.operator_for", lambda *_: Stopper(done))
    log, data = tmp_path / "correct.mcap", tmp_path / "data"
    arm = ("--arm", "soft", "--lockstep", "--episodes", 20, "--operator", "scripted")
    assert command("correct", reach_bundle, *arm, "--log", log, "--out", data) == 2
    said = capsys.readouterr()
    assert said.err.strip().endswith(f"isthmus: stopped by the operator after {done} of 20 targets")
    assert "next:" not in said.out
    assert policies_after(read_log(log), done) == {"trajectory"}
    if done:
        assert len(read_dataset(data)) == done and f"1 episodes, 0 with a takeover, added to {data}" in said.out
    else:
        assert not data.exists() and str(data) not in said.out and "no episode ended" in said.out


def test_ctrl_c_writes_the_results_of_the_attempts_that_ended(reach_bundle: Path, tmp_path: Path):
    log = tmp_path / "run.mcap"
    arguments = ("--arm", "soft", "--lockstep", "--targets", 2000, "--out", "out.json")
    running = Running("run", reach_bundle, *arguments, folder=tmp_path)
    running.until(lambda: "targets: 10/2000" in running.out, "ten attempts")
    running.interrupt()
    ended = running.outcome()
    rows = load_attempts(tmp_path / "out.json").rows
    assert ended.code == 130 and len(rows) >= 10
    assert f"{len(rows)} results written to out.json" in ended.out
    finished = [e for e in read_log(log).episodes() if e.policy_id == load_bundle(reach_bundle).sha256]
    assert [e.success for e in finished] == [row.success for row in rows]


def test_ctrl_c_before_an_episode_has_ended_names_no_dataset(reach_bundle: Path, tmp_path: Path):
    arguments = ("--arm", "soft", "--operator", "scripted", "--out", "data")
    running = Running("correct", reach_bundle, *arguments, folder=tmp_path)
    running.until(lambda: "moving to the ready pose" in running.out, "an arm that moves")
    running.interrupt()
    ended = running.outcome()
    assert ended.code == 130
    assert "no episode ended" in ended.out and "data\n" not in ended.out and not (tmp_path / "data").exists()


def test_ctrl_c_says_how_many_episodes_were_added_and_where(reach_bundle: Path, tmp_path: Path):
    log = tmp_path / "correct.mcap"
    arguments = ("--arm", "soft", "--lockstep", "--operator", "scripted", "--out", "data", "--episodes", 200)
    running = Running("correct", reach_bundle, *arguments, folder=tmp_path)
    running.until(lambda: "episodes: 10/200" in running.out, "ten episodes")
    running.interrupt()
    ended = running.outcome()
    episodes = [e for e in read_log(log).episodes() if e.policy_id == load_bundle(reach_bundle).sha256]
    assert ended.code == 130 and len(read_dataset(tmp_path / "data")) == len(episodes) >= 10
    assert f"{len(episodes)} episodes, " in ended.out and "added to data" in ended.out


def test_run_says_what_it_does_before_the_first_attempt_and_how_many_ticks_there_were(
    reach_bundle: Path, tmp_path: Path
):
    done = isthmus("run", reach_bundle, "--arm", "soft", "--lockstep", "--targets", 1, folder=tmp_path)
    first, *said, moving, _, _, last = done.out.splitlines()
    assert (first, moving) == ("starting the arm", "moving to the ready pose")
    assert any(line.startswith("torque comes on, and the arm goes to its start pose: shoulder_lift") for line in said)
    assert said[-1].startswith("then 1 targets by ")
    ticks = len(read_log(tmp_path / "run.mcap").ticks)
    assert last.startswith("0 of ") and " control ticks missed; recorded in run.mcap" in last
    assert 100 < int(last.split()[2]) <= ticks


@pytest.mark.slow
def test_x_at_a_keyboard_ends_run_parked_and_the_arm_does_not_drive_again(reach_bundle: Path, tmp_path: Path):
    log = tmp_path / "run.mcap"
    with VirtualArm("soft") as arm:
        arguments = ("--port", arm.port, "--joints", nominal_joints(tmp_path), "--targets", 60)
        running = Running("run", reach_bundle, *arguments, "--operator", "keyboard", folder=tmp_path, keyboard=True)
        running.until(lambda: log.exists() and log.stat().st_size > 0 and ticks_of(log, 1) > 10, "a second attempt")
        running.press("x")
        ended = running.outcome()
        assert ended.code == 2
        assert ended.err.strip() == "isthmus: stopped by the operator after 1 of 60 targets"
        assert "space takes over" in ended.out
        assert moved_rad(arm, SPEC.array("rest_pos")) < LIMP_FALL_RAD
    assert policies_after(read_log(log), 1) == {"trajectory"}


def ticks_of(log: Path, episode: int) -> int:
    return int((read_log(log).ticks["episode"] == episode).sum())


@pytest.mark.slow
def test_a_killed_operator_leaves_the_terminal_as_it_was(reach_bundle: Path, tmp_path: Path):
    log = tmp_path / "run.mcap"
    with VirtualArm("soft") as arm:
        arguments = ("--port", arm.port, "--joints", nominal_joints(tmp_path), "--operator", "keyboard")
        running = Running("run", reach_bundle, *arguments, folder=tmp_path, keyboard=True)
        before = termios.tcgetattr(running.terminal)
        running.until(lambda: log.exists() and log.stat().st_size > 0 and ticks_of(log, 0) > 10, "an attempt")
        assert termios.tcgetattr(running.terminal) != before
        os.kill(keyboard_of(running.group), signal.SIGKILL)
        deadline = time.monotonic() + PATIENCE_S
        while not running.ended:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert termios.tcgetattr(running.terminal) == before
        running.outcome().refused("operator process was killed by SIGKILL")


def keyboard_of(group: int) -> int:
    """The process of a group that has opened its terminal by name."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(process.name)) == group and "/dev/tty" in map(os.readlink, (process / "fd").iterdir()):
                return int(process.name)
        except OSError:
            continue
    raise AssertionError("nobody reads the keyboard")
