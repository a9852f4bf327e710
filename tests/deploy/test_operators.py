"""Every operator keeps the contract; the scripted one sees and acts as a person would; the keyboard reads a real terminal."""

import os
import pty
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from isthmus.deploy.messages import OperatorCommand, Verdict
from isthmus.deploy.operators.keyboard import KeyboardOperator, decode_keys
from isthmus.deploy.operators.null import NullOperator
from isthmus.deploy.operators.operator import Operator, OperatorError, View
from isthmus.deploy.operators.scripted import ScriptedConfig, ScriptedOperator

TARGET = np.array([0.25, 0.05, 0.15])
TICK_NS = 20_000_000


class Stage:
    """A tip that goes exactly where the operator drives it, and a session around it."""

    def __init__(self) -> None:
        self.episode = -1
        self.tip = TARGET + np.array([0.05, -0.03, 0.02])
        self.now_ns = 10_000_000_000

    def view(self) -> View:
        return View(episode=self.episode, target=TARGET)

    def see(self) -> np.ndarray:
        return self.tip.copy()

    def run(self, operator: Operator, ticks: int) -> list[OperatorCommand]:
        commands = []
        for _ in range(ticks):
            command = operator.poll(self.now_ns)
            if command.engaged:
                self.tip = self.tip + np.array(command.values) * 0.02
            commands.append(command)
            self.now_ns += TICK_NS
        return commands


@pytest.fixture
def terminal() -> Iterator[tuple[int, str]]:
    ours, theirs = pty.openpty()
    yield ours, os.ttyname(theirs)
    os.close(ours)
    os.close(theirs)


@pytest.fixture(params=["null", "scripted", "keyboard"])
def staged(request: pytest.FixtureRequest, terminal: tuple[int, str]) -> Iterator[tuple[Stage, Operator]]:
    stage = Stage()
    build = {
        "null": lambda: NullOperator(stage.view),
        "scripted": lambda: ScriptedOperator(stage.view, see=stage.see),
        "keyboard": lambda: KeyboardOperator(stage.view, terminal=terminal[1]),
    }[request.param]
    operator = build()
    yield stage, operator
    operator.close()
    operator.close()


def test_an_operator_gives_signs_of_life_and_never_drives_between_attempts(staged: tuple[Stage, Operator]):
    stage, operator = staged
    commands = stage.run(operator, 150)
    assert [command.heartbeat_ns for command in commands] == [10_000_000_000 + i * TICK_NS for i in range(150)]
    assert (np.diff([command.sequence for command in commands]) > 0).all()
    assert not any(command.engaged or command.stop or command.verdict for command in commands)


def test_each_attempt_begins_without_driving(staged: tuple[Stage, Operator]):
    stage, operator = staged
    for episode in range(3):
        stage.episode = episode
        stage.tip = TARGET + 0.05
        first, *rest = stage.run(operator, 100)
        assert not first.engaged and first.verdict == Verdict.NONE
        for command in [first, *rest]:
            assert np.isfinite(command.values).all()


def test_the_scripted_operator_waits_takes_over_reaches_the_target_and_says_so():
    stage = Stage()
    operator = ScriptedOperator(stage.view, see=stage.see, seed=3)
    stage.episode = 0
    commands = stage.run(operator, 400)
    engaged = [command.engaged for command in commands]
    assert 50 <= engaged.index(True) <= 55  # 1 s
    assert all(engaged[engaged.index(True) :])
    verdicts = [command.verdict for command in commands]
    assert Verdict.SUCCESS in verdicts and verdicts.index(Verdict.SUCCESS) < 300
    assert np.linalg.norm(stage.tip - TARGET) < 0.005
    speeds = [np.linalg.norm(command.values) for command in commands]
    assert max(speeds) <= ScriptedConfig().max_speed + 1e-12


@pytest.mark.parametrize("seed", range(10))
def test_the_scripted_operator_does_not_oscillate(seed: int):
    stage = Stage()
    operator = ScriptedOperator(stage.view, see=stage.see, seed=seed)
    stage.episode = 0
    errors = []
    for _ in range(400):
        stage.run(operator, 1)
        errors.append(np.linalg.norm(stage.tip - TARGET))
    assert max(errors[250:]) < 0.010


def test_the_scripted_operator_reacts_to_what_was_seen_a_reaction_time_ago():
    stage = Stage()
    operator = ScriptedOperator(stage.view, see=stage.see, config=ScriptedConfig(noise_m=0.0), seed=0)
    stage.episode = 0
    stage.run(operator, 60)
    still = stage.tip = TARGET + np.array([0.06, 0.0, 0.0])
    stage.run(operator, 20)
    stage.tip = TARGET - np.array([0.06, 0.0, 0.0])
    signs = []
    for _ in range(25):
        signs.append(np.sign(operator.poll(stage.now_ns).values[0]))
        stage.now_ns += TICK_NS
    assert signs.index(1.0) == 15  # 0.3 s at 50 Hz
    assert still is not stage.tip


def test_the_scripted_operator_sees_with_noise():
    config = ScriptedConfig(patience_s=0.0, tolerance_m=0.0, hold_within_m=0.0, success_after_s=100.0, max_speed=10.0)
    stage = Stage()
    operator = ScriptedOperator(stage.view, see=lambda: TARGET.copy(), config=config)
    stage.episode = 0
    commands = [command for command in stage.run(operator, 400) if command.engaged]
    seen = np.array([command.values for command in commands]) / config.gain
    assert np.std(seen) == pytest.approx(config.noise_m, rel=0.1)


def test_the_scripted_operator_lets_a_good_policy_finish():
    stage = Stage()
    operator = ScriptedOperator(stage.view, see=stage.see)
    stage.episode = 0
    stage.tip = TARGET + np.array([0.004, 0.0, 0.0])
    assert not any(command.engaged for command in stage.run(operator, 200))


def test_the_scripted_operator_gives_up_on_an_arm_that_does_not_follow():
    stage = Stage()
    operator = ScriptedOperator(stage.view, see=lambda: TARGET + 0.1, config=ScriptedConfig(give_up_after_s=2.0))
    stage.episode = 0
    assert stage.run(operator, 250)[-1].verdict == Verdict.GIVE_UP


def test_keys_drive_along_the_axes_only_after_taking_over(terminal: tuple[int, str]):
    stage = Stage()
    operator = KeyboardOperator(stage.view, terminal=terminal[1], speed=0.1)
    stage.episode = 0

    def press(keys: bytes) -> OperatorCommand:
        os.write(terminal[0], keys)
        return stage.run(operator, 1)[0]

    assert press(b"w").values == (0.0, 0.0, 0.0)
    stage.now_ns += 10**9
    assert press(b" ").engaged
    assert press(b"w").values == (0.1, 0.0, 0.0)
    stage.now_ns += 10**9
    assert press(b"").values == (0.0, 0.0, 0.0)  # nothing pressed: holds
    assert press(b"\x1b[D").values == (0.0, 0.1, 0.0)
    stage.now_ns += 10**9
    assert press(b"q").values == (0.0, 0.0, -0.1)
    stage.now_ns += 10**9
    assert press(b"\x1b[6~").values == (0.0, 0.0, -0.1)
    stage.now_ns += 10**9
    assert press(b"\x1b[5~").values == (0.0, 0.0, 0.1)
    assert press(b"\n").verdict == Verdict.SUCCESS
    stage.episode = 1
    fresh = press(b"")
    assert not fresh.engaged and fresh.verdict == Verdict.NONE
    assert press(b"g\n").verdict == Verdict.NONE  # nobody has taken over
    assert press(b" ").verdict == Verdict.NONE
    assert press(b"g").verdict == Verdict.GIVE_UP
    operator.close()


def test_a_stop_of_the_keyboard_is_for_good(terminal: tuple[int, str]):
    stage = Stage()
    operator = KeyboardOperator(stage.view, terminal=terminal[1])
    stage.episode = 0
    os.write(terminal[0], b" x")
    assert all(command.stop and not command.engaged for command in stage.run(operator, 100))
    stage.episode = 1
    os.write(terminal[0], b" ")
    assert all(command.stop and not command.engaged for command in stage.run(operator, 5))
    operator.close()


def test_an_escape_sequence_that_comes_in_two_parts_is_one_key(terminal: tuple[int, str]):
    stage = Stage()
    operator = KeyboardOperator(stage.view, terminal=terminal[1], speed=0.1)
    stage.episode = 0
    velocities = []
    for part in (b" ", b"\x1b[", b"D", b"\x1b[1;5", b"D"):
        os.write(terminal[0], part)
        velocities.append(stage.run(operator, 1)[0].values)
        stage.now_ns += 10**9
    assert velocities == [(0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.1, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)]
    os.write(terminal[0], b"\x1b")
    assert not stage.run(operator, 1)[0].stop
    os.write(terminal[0], b"x")  # a lone Escape does not swallow it
    assert stage.run(operator, 1)[0].stop
    operator.close()


def test_keys_that_nobody_read_do_not_stay_in_the_terminal(terminal: tuple[int, str]):
    operator = KeyboardOperator(Stage().view, terminal=terminal[1])
    os.write(terminal[0], b"rm -r x\n")
    operator.close()
    shell = os.open(terminal[1], os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    with pytest.raises(BlockingIOError):
        os.read(shell, 100)
    os.close(shell)


def test_arrows_page_keys_and_letters_are_told_apart():
    assert decode_keys(b"W\x1b[A\x1bOBx \n") == ["w", "up", "down", "x", " ", "\n"]
    assert decode_keys(b"\x1b[5~\x1b[6~e") == ["page up", "page down", "e"]


@pytest.mark.parametrize(
    "sequence", [b"\x1b[1;5A", b"\x1b[3~", b"\x1b[[A", b"\x1b[24~", b"\x1bOP", b"\x1b[200~", b"\x1bOx"]
)
def test_an_unknown_escape_sequence_is_ignored_whole(sequence: bytes):
    assert decode_keys(b"a" + sequence + b"q") == ["a", "q"]


@pytest.mark.parametrize("path", ["missing", "file"])
def test_without_a_terminal_the_keyboard_says_what_to_do(path: str, tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OperatorError, match="run in a terminal, or choose another operator"):
        partial(KeyboardOperator, Stage().view, terminal=str(tmp_path / path))()
