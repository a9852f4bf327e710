"""What somebody at the keyboard sees: who drives, how far the tip is from the target and which way, how long is left."""

import fcntl
import io
import os
import pty
import struct
import termios
from dataclasses import replace

import numpy as np
import pytest
from deploy_fakes import FakeClock, FakeRobot, ReachPolicy

from isthmus.deploy.attempt import EpisodeResult
from isthmus.deploy.live_line import LiveLine, live_text
from isthmus.deploy.modes import Mode
from isthmus.deploy.progress import operated_progress
from isthmus.deploy.session import LockstepSession
from isthmus.deploy.status import Status

TARGET = np.array([0.30, -0.10, 0.15])
TIP = np.array([0.27, -0.06, 0.15])  # 3 cm behind, 4 cm too far left: 50 mm
RESULT = EpisodeResult(episode=0, success=True, final_error_m=0.0042, seconds=2.0, intervened=True, ended="operator")


@pytest.fixture
def status() -> Status:
    clock = FakeClock()
    session = LockstepSession(FakeRobot(clock), [ReachPolicy()], lambda dt_s: None)
    return replace(session.status(), mode=Mode.TELEOP, target=TARGET)


def test_the_line_says_who_drives_which_way_to_go_how_far_and_how_long(status: Status):
    line = live_text(status, TIP, 7.26, 200)
    assert line.startswith("YOU ")
    words = line.split()
    assert words[words.index("(forward)") + 1] == "+3.0"
    assert words[words.index("(left)") + 1] == "-4.0"
    assert words[words.index("(up)") + 1] == "+0.0"
    assert line.endswith("50 mm  7.3 s left")


@pytest.mark.parametrize(("mode", "who"), [(Mode.POLICY, "POLICY"), (Mode.HOLD, "HOLD"), (Mode.DAMP, "HOLD")])
def test_the_line_names_whoever_drives(status: Status, mode: Mode, who: str):
    assert live_text(replace(status, mode=mode), TIP, 1.0, 200).split()[0] == who


@pytest.mark.parametrize("width", [1, 2, 10, 40, 60, 80, 100, 300])
def test_the_line_never_wraps(status: Status, width: int):
    assert len(live_text(status, TIP + 3.0, 1000.0, width)) < width


@pytest.mark.parametrize("width", [40, 80])
def test_a_narrow_terminal_shows_every_figure(status: Status, width: int):
    line = live_text(status, TIP, 12.0, width)
    assert all(figure in line for figure in ("YOU", "+3.0", "-4.0", "+0.0", "50 mm", "12.0 s"))


@pytest.mark.parametrize("columns", [30, 132])
def test_the_line_fits_the_terminal_and_is_written_ten_times_a_second_at_most(status: Status, columns: int):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with os.fdopen(theirs, "w") as terminal:
        line = LiveLine(3, terminal)
        for _ in range(20):
            line.tick(status, TIP, 5.0)
        line.result(0, RESULT)
        line.clear()
        written = ""
        while not written.endswith("\n\r\x1b[K"):  # a terminal hands over what it has, not all at once
            written += os.read(ours, 10000).decode()
    os.close(ours)
    lines = [line for line in written.replace("\x1b[K", "").split("\r") if "YOU" in line]
    assert 1 <= len(lines) <= 3
    assert all(len(line) < columns for line in lines)
    assert "1/3  reached, 4.2 mm" in written


def test_without_a_terminal_there_are_the_keys_and_no_live_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    with operated_progress("targets", 1, keyboard=True) as (show, on_tick):
        show(0, RESULT)
    said = capsys.readouterr().out
    assert on_tick is None and "\x1b" not in said and "\r" not in said
    assert said.startswith("space takes over and gives back") and "targets: 1/1" in said


def test_on_a_terminal_the_keys_come_first_then_the_line(status: Status, monkeypatch: pytest.MonkeyPatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stdout = Terminal()
    monkeypatch.setattr("sys.stdout", stdout)
    with operated_progress("targets", 1, keyboard=True) as (_, on_tick):
        assert on_tick is not None
        on_tick(status, TIP, 5.0)
    said = stdout.getvalue()
    assert said.index("space takes over") < said.index("YOU") and said.endswith("\r\x1b[K")
