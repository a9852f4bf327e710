"""The keyboard keeps the contract on a real terminal, whatever it drives; escape sequences, repeats and lost terminals."""

import os
import pty
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from operator_bench import OperatorBench, Stage
from operator_contract import DeviceContract

from isthmus.deploy.messages import Drive, OperatorCommand, Verdict
from isthmus.deploy.operators.hand_drive import HandDrive, command_drive, joint_drive, tip_drive
from isthmus.deploy.operators.keyboard import KEYS_HELP, KeyboardConfig, KeyboardOperator
from isthmus.deploy.operators.keys import decode_keys
from isthmus.deploy.operators.operator import OperatorError
from isthmus.hardware.robot import load_robot
from isthmus.policies.contract import CommandSpec

WALK = CommandSpec(signal="command.velocity", workspace=None, low=(-0.5, -0.4, -1.0), high=(1.0, 0.4, 1.0))
DRIVES = {
    "tip": tip_drive(0.1),
    "joints": joint_drive(load_robot("so101"), 0.3),
    "command": command_drive(WALK),
}


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    ours, theirs = pty.openpty()
    yield ours, theirs
    for fd in (ours, theirs):
        try:
            os.close(fd)
        except OSError:
            assert fd in (ours, theirs)  # a test may have pulled the plug


def keyboard_bench(terminal: tuple[int, int], drive: HandDrive, move: bytes = b"w") -> OperatorBench:
    ours, theirs = terminal
    stage = Stage()
    operator = KeyboardOperator(stage.view, drive=drive, terminal=os.ttyname(theirs))

    def press(keys: bytes, after_s: float = 0.2) -> None:  # nobody's finger is faster
        stage.now_ns += round(after_s * 1e9)
        os.write(ours, keys)

    def unplug() -> None:
        os.close(theirs)
        os.close(ours)

    def wait_for_rewind_to_end() -> None:
        stage.now_ns += 800_000_000
        os.write(ours, b"?")

    return OperatorBench(
        operator=operator,
        stage=stage,
        width=len(drive.names),
        engage=partial(press, b" "),
        release=partial(press, b" "),
        move=partial(press, move),
        lose=unplug,
        press={
            "stop": partial(press, b"x"),
            "done": partial(press, b"\n"),
            "give_up": partial(press, b"g"),
            "resume": partial(press, b"c"),
            "rewind": partial(press, b"r"),
            "rewind_off": wait_for_rewind_to_end,
        },
        held=False,
    )


@pytest.mark.parametrize("kind", DRIVES)
class TestTheKeyboardKeepsTheContract(DeviceContract):
    @pytest.fixture
    def bench(self, terminal: tuple[int, int], kind: str) -> Iterator[OperatorBench]:
        bench = keyboard_bench(terminal, DRIVES[kind], b"+" if kind == "joints" else b"w")
        yield bench
        bench.operator.close()


@pytest.fixture
def tip(terminal: tuple[int, int]) -> Iterator[OperatorBench]:
    bench = keyboard_bench(terminal, DRIVES["tip"])
    bench.stage.episode = 0
    yield bench
    bench.operator.close()


def type_keys(bench: OperatorBench, terminal: tuple[int, int], keys: bytes, after_s: float = 1.0) -> OperatorCommand:
    bench.stage.now_ns += round(after_s * 1e9)
    return bench.do(partial(os.write, terminal[0], keys))


def test_keys_drive_along_the_axes_only_after_taking_over(tip: OperatorBench, terminal: tuple[int, int]):
    press = partial(type_keys, tip, terminal)
    assert press(b"w").values == (0.0, 0.0, 0.0)
    assert press(b" ").engaged
    assert press(b"w").values == (0.1, 0.0, 0.0)
    tip.rest()
    assert tip.poll().values == (0.0, 0.0, 0.0)  # nothing pressed: holds
    assert press(b"\x1b[D").values == (0.0, 0.1, 0.0)
    assert press(b"q").values == (0.0, 0.0, -0.1)
    assert press(b"\x1b[6~").values == (0.0, 0.0, -0.1)
    assert press(b"\x1b[5~").values == (0.0, 0.0, 0.1)
    assert press(b"w\x1b[A").values == (0.1, 0.0, 0.0)  # two keys for one direction are no faster


def test_joints_are_chosen_by_digit_or_arrow_and_a_key_for_one_does_not_move_another(terminal: tuple[int, int]):
    bench = keyboard_bench(terminal, DRIVES["joints"])
    bench.stage.episode = 0
    press = partial(type_keys, bench, terminal)
    assert press(b" ").drive == Drive.JOINT_VELOCITY
    assert press(b"3+").values == (0.0, 0.0, 0.3, 0.0, 0.0, 0.0)
    assert press(b"-").values == (0.0, 0.0, -0.3, 0.0, 0.0, 0.0)
    assert press(b"\x1b[C\x1b[A").values == (0.0, 0.0, 0.0, 0.3, 0.0, 0.0)
    assert press(b"\x1b[A4", after_s=0.1).values == (0.0,) * 6  # chosen anew: nothing moves until it is pressed again
    assert press(b"1\x1b[D+").values == (0.0, 0.0, 0.0, 0.0, 0.0, 0.3)
    assert press(b"9+").values == (0.0, 0.0, 0.0, 0.0, 0.0, 0.3)  # there is no ninth joint
    bench.operator.close()


def test_a_velocity_command_is_set_in_steps_of_what_the_policy_was_trained_for(terminal: tuple[int, int]):
    bench = keyboard_bench(terminal, DRIVES["command"])
    bench.stage.episode = 0
    press = partial(type_keys, bench, terminal)
    assert press(b" ").drive == Drive.COMMAND
    assert press(b"www").values == pytest.approx((0.3, 0.0, 0.0))
    assert bench.poll().values == pytest.approx((0.3, 0.0, 0.0))  # stays: it is set, not held
    assert press(b"q" + b"a" * 30).values == pytest.approx((0.3, 0.4, 0.1))
    assert press(b"s" * 30).values == pytest.approx((-0.5, 0.4, 0.1))
    assert press(b"0").values == (0.0, 0.0, 0.0)
    press(b"w")
    assert press(b" ").values == (0.0, 0.0, 0.0)
    assert press(b" ").values == (0.0, 0.0, 0.0)  # given back and taken over again: stands
    bench.operator.close()


def test_space_held_down_does_not_flutter(tip: OperatorBench, terminal: tuple[int, int]):
    engaged = [type_keys(tip, terminal, b" ", after_s=0.5).engaged]
    engaged += [type_keys(tip, terminal, b" ", after_s=0.03).engaged for _ in range(20)]
    assert engaged == [True] * 21
    assert not type_keys(tip, terminal, b" ", after_s=0.3).engaged


def test_r_takes_over_and_goes_back_as_long_as_it_is_held(tip: OperatorBench, terminal: tuple[int, int]):
    first = type_keys(tip, terminal, b"r")
    assert first.engaged and first.rewind
    assert type_keys(tip, terminal, b"r", after_s=0.6).rewind  # the pause before a terminal repeats
    assert all(type_keys(tip, terminal, b"r", after_s=0.03).rewind for _ in range(10))
    assert not type_keys(tip, terminal, b"w", after_s=0.03).rewind  # any other key ends it at once
    type_keys(tip, terminal, b"r")
    tip.rest()
    last = tip.poll()
    assert last.engaged and not last.rewind  # the robot stays in the person's hands


def test_c_gives_back(tip: OperatorBench, terminal: tuple[int, int]):
    type_keys(tip, terminal, b" ")
    command = type_keys(tip, terminal, b"c")
    assert command.resume and not command.engaged


def test_a_stop_comes_first_in_whatever_company(tip: OperatorBench, terminal: tuple[int, int]):
    command = type_keys(tip, terminal, b" x r w")
    assert command.stop and not command.engaged and not command.rewind


def test_an_escape_sequence_that_comes_in_two_parts_is_one_key(tip: OperatorBench, terminal: tuple[int, int]):
    parts = (b" ", b"\x1b[", b"D", b"\x1b[1;5", b"D")
    velocities = [type_keys(tip, terminal, part).values for part in parts]
    # The second part of each must come before the next poll without keys, as it does from a terminal.
    assert velocities == [(0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.1, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)]
    assert not type_keys(tip, terminal, b"\x1b").stop
    assert type_keys(tip, terminal, b"x").stop  # a lone Escape does not swallow it


def test_keys_that_nobody_read_do_not_stay_in_the_terminal(terminal: tuple[int, int]):
    name = os.ttyname(terminal[1])
    operator = KeyboardOperator(Stage().view, terminal=name)
    os.write(terminal[0], b"rm -r x\n")
    operator.close()
    shell = os.open(name, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
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
        KeyboardOperator(Stage().view, terminal=str(tmp_path / path))


def test_the_help_names_every_key_that_does_something():
    for word in ("space", "arrows", "w s", "a d", "e q", "page", " r,", " c ", "Enter", " g ", "x stops"):
        assert word in KEYS_HELP
    joints = KeyboardConfig(drive=DRIVES["joints"]).first_line
    assert "1 shoulder_pan" in joints and "6 gripper" in joints
    assert "0 stands still" in KeyboardConfig(drive=DRIVES["command"]).first_line


def test_judging_needs_no_second_key(tip: OperatorBench, terminal: tuple[int, int]):
    type_keys(tip, terminal, b" ")
    assert type_keys(tip, terminal, b"\n").verdict == Verdict.SUCCESS
    tip.stage.episode = 1
    assert type_keys(tip, terminal, b"g\n").verdict == Verdict.NONE  # nobody has taken over
    type_keys(tip, terminal, b" ")
    assert type_keys(tip, terminal, b"g").verdict == Verdict.GIVE_UP
