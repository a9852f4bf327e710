"""What a policy said, said again from the log, to the last bit."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from deploy_fakes import SPEC, FakeClock, FakeRobot, N
from mcap.reader import make_reader
from reach_bundle import write_reach_bundle

from isthmus.deploy.cli import main
from isthmus.deploy.lockstep import LockstepSession
from isthmus.deploy.log import Log, read_log
from isthmus.deploy.modes import Mode
from isthmus.deploy.operators.scripted import ScriptedOperator
from isthmus.deploy.replay import ReplayError, replay
from isthmus.deploy.status import tip_of
from isthmus.hardware.interface import JointState
from isthmus.policies.bundle import load_bundle
from isthmus.policies.episode import Ran

TARGETS = ([0.25, 0.1, 0.15], [0.28, -0.1, 0.12])


class NoisyRobot(FakeRobot):
    """Readings with noise, so that no two ticks are alike, and joints that are not where they read."""

    def __init__(self, clock: FakeClock, seed: int) -> None:
        super().__init__(clock)
        self.rng = np.random.default_rng(seed)

    def read(self) -> JointState:
        state = super().read()
        state.joint_pos = state.joint_pos + self.rng.normal(0.0, 1e-3, N)
        state.joint_vel = state.joint_vel + self.rng.normal(0.0, 1e-2, N)
        return state


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two policies that differ."""
    folder = tmp_path_factory.mktemp("bundles")
    for name, gain in (("one", 40.0), ("two", 20.0)):
        write_reach_bundle(folder / f"{name}.onnx", gain=gain)
    return [folder / "one.onnx", folder / "two.onnx"]


def record(path: Path, bundles: list[Path], seed: int) -> Log:
    """Two attempts, the second with the other policy; where the seed is odd a person takes over."""
    clock = FakeClock()
    robot = NoisyRobot(clock, seed)

    def advance(dt_s: float) -> None:
        clock.time_ns += round(dt_s * 1e9)

    tip = tip_of(SPEC)
    see = lambda: tip(robot.joint_pos) + 0.03  # noqa: E731
    operator = partial(ScriptedOperator, see=see, seed=seed) if seed % 2 else None
    policies = [load_bundle(bundle).policy() for bundle in bundles]
    with LockstepSession(robot, policies, advance, log_path=path) as session:
        session.arm()
        for index, target in enumerate(TARGETS):
            session.run_episode(target, 3.0, operator=operator, referee=see, policy_index=index)
    return read_log(path)


@pytest.mark.parametrize("seed", range(10))
def test_a_log_replays_to_the_last_bit(tmp_path: Path, bundles: list[Path], seed: int):
    log = record(tmp_path / "log.mcap", bundles, seed)
    result = replay(log, [load_bundle(bundle).policy() for bundle in bundles[::-1]])
    assert result.first is None and result.skipped == 0
    assert result.compared == int(((log.ticks["ran"] & Ran.ACTED) != 0).sum()) > 100
    assert (log.ticks["mode"] == Mode.TELEOP).any() == bool(seed % 2)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory, bundles: list[Path]) -> Log:
    """A log with takeovers."""
    return record(tmp_path_factory.mktemp("log") / "log.mcap", bundles, 1)


@pytest.mark.parametrize("field", ["joint_pos", "joint_target", "target", "base_action", "policy_target"])
def test_the_smallest_change_is_found_and_its_tick_named(log: Log, bundles: list[Path], field: str):
    ticks = log.ticks.copy()
    acted = np.flatnonzero(ticks["ran"] & Ran.ACTED)
    place = acted[len(acted) // 2]
    ticks[field][place, 1] += 1e-3 if field in ("joint_pos", "joint_target", "target") else 1e-7
    first = replay(replace(log, ticks=ticks), [load_bundle(bundle).policy() for bundle in bundles]).first
    assert first is not None and first.tick == ticks["tick"][place]


def test_after_a_gap_nothing_is_compared_until_the_policy_starts_over(log: Log, bundles: list[Path]):
    acted = np.flatnonzero(log.ticks["ran"] & Ran.ACTED)
    begins = np.flatnonzero(log.ticks["ran"] & Ran.RESET)
    assert len(begins) == 2
    lost = replace(log, ticks=np.delete(log.ticks, acted[20]))
    result = replay(lost, [load_bundle(bundle).policy() for bundle in bundles])
    rest = int((acted < begins[1]).sum()) - 21
    assert result.first is None and result.skipped == rest and result.compared == len(acted) - 1 - rest


def test_other_policies_are_refused(log: Log, bundles: list[Path], tmp_path: Path):
    write_reach_bundle(tmp_path / "other.onnx", gain=30.0)
    other, first = (load_bundle(path).policy() for path in (tmp_path / "other.onnx", bundles[0]))
    with pytest.raises(ReplayError, match="did not run in this log"):
        replay(log, [other])
    with pytest.raises(ReplayError, match="ran in this log and are not given"):
        replay(log, [first])
    with pytest.raises(ReplayError, match="no tick in which a policy ran"):
        replay(replace(log, ticks=log.ticks[:0]), [])


def test_the_command_says_how_it_went(tmp_path: Path, bundles: list[Path], capsys: pytest.CaptureFixture[str]):
    record(tmp_path / "log.mcap", bundles, 2)
    with pytest.raises(SystemExit) as ended:
        main(["replay", str(tmp_path / "log.mcap"), *map(str, bundles)])
    assert ended.value.code == 0 and "every bit the same" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main(["replay", str(tmp_path / "log.mcap"), str(bundles[0])])
    assert ended.value.code == 2 and "give their bundles too" in capsys.readouterr().err
    with (tmp_path / "log.mcap").open("rb") as file:  # and any MCAP tool can read it
        assert sum(1 for _ in make_reader(file).iter_messages(topics=["/tick"])) > 100
