"""What somebody at the terminal sees: everything that matters, at any size, whatever the numbers are."""

import fcntl
import math
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import textwrap
from dataclasses import replace
from functools import cache
from io import StringIO

import numpy as np
import pytest
from deploy_fakes import SPEC, FakeClock, FakeRobot, ReachPolicy
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from isthmus.deploy.attempt import EpisodeResult
from isthmus.deploy.dashboard import MODE_COLOURS, lines, plain_line, render
from isthmus.deploy.key_help import Key, keys_now
from isthmus.deploy.live_dashboard import dashboard, result_line
from isthmus.deploy.modes import Mode
from isthmus.deploy.session import LockstepSession
from isthmus.deploy.snapshot import JointView, Scene, Snapshot, Watcher, joint_views
from isthmus.deploy.sparkline import LATENESS_EDGES_US, octaves, sparkline
from isthmus.deploy.status import Status
from isthmus.deploy.timing import Lateness

RESULT = EpisodeResult(episode=0, success=True, final_error_m=0.0042, seconds=2.0, intervened=True, ended="operator")
POSE = SPEC.array("default_pos")
FAULT = "ServoFault: servo 5 (wrist_flex) reports overload (error byte 0x20); take the load off, let it cool"
SCENE = Scene(spec=SPEC, robot="so101", policies=("reach.onnx", "better.onnx"), episodes=3, period_ns=20_000_000)
SNAPSHOT = Snapshot(
    robot="so101 at /dev/ttyUSB0",
    mode=Mode.TELEOP,
    source="human",
    policy="reach.onnx",
    policies=2,
    episode=2,
    episodes=10,
    gap=(0.03, -0.04, 0.0),
    left_s=7.26,
    last_result="2/10  reached, 4.2 mm, settled",
    asked_hz=50.0,
    achieved_hz=49.98,
    missed=3,
    lateness_p50_us=72.0,
    lateness_p99_us=210.0,
    lateness_max_us=1240.0,
    lateness_counts=(0, 0, 0, 3, 80, 4000, 9000, 700, 90, 10, 2, 1, 0, 0, 0, 0),
    joints=joint_views(SPEC, POSE, POSE + 0.05),
    temperature=41.0,
    hottest="elbow_flex",
    bus_errors=7,
    dropped=1,
    faults=1,
    fault=FAULT,
    granted="granted: CPU 1; refused: SCHED_FIFO, mlockall",
    keys=keys_now(Mode.TELEOP, keyboard=True),
)


def shown(snapshot: Snapshot, width: int, height: int, *, ascii_only: bool = False) -> list[str]:
    return [line.plain for line in lines(snapshot, width, height, ascii_only=ascii_only)]


def printed(snapshot: Snapshot, width: int, height: int) -> list[str]:
    """What rich makes of it on a terminal of that size."""
    console = Console(file=StringIO(), width=width, height=height, force_terminal=True, color_system="truecolor")
    console.print(render(snapshot, width, height))
    plain = Console(file=StringIO(), width=width, height=height, color_system=None)
    plain.print(render(snapshot, width, height))
    assert isinstance(plain.file, StringIO) and isinstance(console.file, StringIO)
    return plain.file.getvalue().splitlines()


def test_everything_that_matters_is_on_a_usual_terminal():
    text = " ".join(" ".join(shown(SNAPSHOT, 100, 60)).split())
    for said in (
        "TELEOP", "so101 at /dev/ttyUSB0", "3 of 10", "7.3 s left", "50 mm", "x (forward) +3.0", "y (left) -4.0",
        "reach.onnx (1 of 2)", "by human", "49.98 Hz of 50", "3 ticks missed", "1 records dropped", "p50 72 us",
        "p99 210 us", "max 1.24 ms", "41 deg C (elbow_flex)", "7 bus errors", "refused: SCHED_FIFO, mlockall",
        "2/10 reached", "x: stop", "space: give back", "▂▄██▆▄▃▁▁", "< 128 us 9000",
    ):  # fmt: skip
        assert said in text, f"{said!r} is not in\n{text}"
    assert FAULT in text
    assert all(joint.name in text for joint in SPEC.joints)


@pytest.mark.parametrize(
    ("width", "height"), [(20, 5), (40, 12), (80, 24), (200, 50), (1, 1), (3, 2), (119, 9), (120, 9)]
)
def test_it_fits_and_rich_wraps_nothing(width: int, height: int):
    found = printed(SNAPSHOT, width, height)
    assert 1 <= len(found) <= height
    assert all(len(line) <= width for line in found)
    assert [line.rstrip() for line in found] == [line.rstrip() for line in shown(SNAPSHOT, width, height)]
    assert found[0].strip() == "" or found[0].strip().startswith("TELEOP"[: width - 1])


@pytest.mark.parametrize(("width", "height"), [(20, 5), (30, 6)])
def test_the_smallest_terminal_still_has_mode_fault_keys_and_attempt(width: int, height: int):
    first, *rest = shown(SNAPSHOT, width, height)
    assert "TELEOP" in first
    assert any(line.startswith("ServoFault") for line in rest)
    assert any(line.startswith("x: stop") for line in rest) and any(line.startswith("3 of 10") for line in rest)


def test_a_fault_keeps_its_remedy_where_there_is_room():
    narrow = " ".join(line.strip() for line in shown(SNAPSHOT, 50, 40))
    assert "overload" in narrow and "take the load off, let it" in narrow and "cool" in narrow


def test_the_worst_joints_are_named():
    pose, target = POSE.copy(), POSE.copy()
    pose[2] = SPEC.joints[2].upper - math.radians(1.5)
    target[3] += 0.5 * SPEC.joints[3].effort_limit / SPEC.joints[3].kp
    target[2] = pose[2]
    snapshot = replace(SNAPSHOT, joints=joint_views(SPEC, pose, target))
    assert snapshot.nearest is not None and snapshot.strained is not None
    assert (snapshot.nearest.name, snapshot.strained.name) == ("elbow_flex", "wrist_flex")
    assert snapshot.strained.lead == pytest.approx(0.5)
    text = "\n".join(shown(snapshot, 100, 20))
    assert "elbow_flex 1.5 deg from its limit" in text and "wrist_flex asks for 50 % of its torque" in text


def test_a_joint_beyond_its_limit_has_a_negative_margin_and_one_without_stiffness_no_lead():
    joint = JointView(name="j", pos=1.2, target=1.2, lower=-1.0, upper=1.0, lead=math.nan)
    assert joint.margin == pytest.approx(-0.2)
    snapshot = Snapshot(robot="r", mode=Mode.HOLD, joints=(joint,))
    assert snapshot.nearest is joint and snapshot.strained is None
    loose = replace(SPEC, joints=(replace(SPEC.joints[0], kp=0.0),))
    (view,) = joint_views(loose, np.zeros(1), np.ones(1))
    assert math.isnan(view.lead)


def test_what_is_not_known_is_left_out_or_a_dash():
    found = shown(Snapshot(robot="", mode=Mode.IDLE), 80, 24)
    text = "\n".join(found)
    assert "IDLE" in text and "nan" not in text.lower() and "fault" not in text and "margin" not in text
    assert "- Hz of -" in text and "p50 -" in text


def test_every_mode_has_a_colour_and_a_dry_run_says_so():
    for mode in Mode:
        assert mode.name in MODE_COLOURS
        assert any(mode.name in line for line in shown(replace(SNAPSHOT, mode=mode), 80, 24))
    dry = shown(replace(SNAPSHOT, dry_run=True), 80, 8)
    assert "DRY RUN, nothing is written" in dry[0] and "TELEOP" in dry[0]
    assert shown(replace(SNAPSHOT, dry_run=True), 20, 5)[0].startswith(" DRY TELEOP")


def test_without_colour_the_mode_stands_out_all_the_same(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NO_COLOR", "1")
    console = Console(file=StringIO(), width=80, height=24, force_terminal=True)
    console.print(render(SNAPSHOT, 80, 24))
    assert isinstance(console.file, StringIO)
    said = console.file.getvalue()
    assert "\x1b[1;7m" in said  # bold and reversed
    assert not any(f"\x1b[{code}" in said for code in ("1;7;3", "31m", "33m", "1;31m"))


def test_a_terminal_that_knows_only_ascii_gets_only_that():
    found = shown(replace(SNAPSHOT, fault=""), 100, 60, ascii_only=True)
    assert all(line.isascii() for line in found)
    assert any("[   " in line and "@" in line for line in found)


def test_control_characters_of_others_do_not_reach_the_terminal():
    nasty = replace(SNAPSHOT, fault="bad\x1b[2J\nworse\r\x07", robot="a\tb\x9b", policy="x\x1b]0;title\x07")
    for width, height in ((40, 12), (200, 50)):
        assert all(line.isprintable() for line in shown(nasty, width, height))
    assert plain_line(nasty).isprintable()


odd = st.floats(allow_nan=True, allow_infinity=True)
counts = st.integers(min_value=0, max_value=1 << 62)
joint_view = st.builds(JointView, name=st.text(max_size=30), pos=odd, target=odd, lower=odd, upper=odd, lead=odd)
snapshots = st.builds(
    Snapshot,
    robot=st.text(max_size=60),
    mode=st.sampled_from(Mode),
    source=st.text(max_size=10),
    policy=st.text(max_size=80),
    policies=st.integers(min_value=0, max_value=9),
    episode=st.integers(min_value=-1, max_value=10**9),
    episodes=counts,
    gap=st.none() | st.tuples(odd, odd, odd),
    left_s=odd,
    asked_hz=odd,
    achieved_hz=odd,
    missed=counts,
    lateness_p50_us=odd,
    lateness_p99_us=odd,
    lateness_max_us=odd,
    lateness_counts=st.just(()) | st.lists(counts, min_size=16, max_size=16).map(tuple),
    joints=st.lists(joint_view, max_size=8).map(tuple),
    temperature=odd,
    hottest=st.text(max_size=20),
    bus_errors=st.none() | counts,
    dropped=counts,
    fault=st.text(max_size=400),
    granted=st.text(max_size=200),
    operator=st.text(max_size=200),
    keys=st.lists(st.builds(Key, key=st.text(max_size=9), does=st.text(max_size=30)), max_size=9).map(tuple),
    dry_run=st.booleans(),
)


@settings(max_examples=200, deadline=None)
@given(snapshot=snapshots, width=st.integers(1, 260), height=st.integers(1, 70), ascii_only=st.booleans())
def test_nothing_is_longer_or_higher_than_the_terminal_and_nothing_fails(
    snapshot: Snapshot, width: int, height: int, ascii_only: bool
):
    found = lines(snapshot, width, height, ascii_only=ascii_only)
    assert 1 <= len(found) <= height
    assert all(line.cell_len <= width and line.plain.isprintable() for line in found)
    assert "\n" not in plain_line(snapshot)


def test_the_histogram_counts_every_tick_in_its_octave():
    lateness = Lateness()
    for late_us in (0.0, 1.5, 3.0, 70.0, 70.0, 1500.0, 40_000.0, 1e9):
        lateness.add(late_us)
    found = {edge: n for edge, n in zip(LATENESS_EDGES_US, octaves(lateness.counts), strict=True) if n}
    assert found == {2.0: 2, 4.0: 1, 128.0: 2, 2048.0: 1, 65536.0: 2}


def test_one_late_tick_in_a_million_is_seen():
    drawn = sparkline((0, 1_000_000, 1, 0))
    assert drawn[1] == "█" and drawn[2] != " " and drawn[0] == drawn[3] == " "
    assert sparkline((0, 0)) == "  " and sparkline(()) == ""
    assert sparkline((0, 5, 1), ascii_only=True).isascii()


@pytest.fixture
def status() -> Status:
    clock = FakeClock()
    session = LockstepSession(FakeRobot(clock), [ReachPolicy()], lambda dt_s: None)
    return replace(session.status(), mode=Mode.TELEOP, target=np.array([0.30, -0.10, 0.15]))


def test_the_rate_is_that_of_the_last_second(status: Status):
    watcher = Watcher(scene=SCENE)

    def rate(tick: int, time_s: float) -> float:
        return watcher.look(replace(status, tick=tick, monotonic_ns=round(time_s * 1e9)), np.zeros(3), 1.0).achieved_hz

    assert math.isnan(rate(100, 10.0)) and math.isnan(rate(120, 10.5))
    assert rate(150, 11.0) == pytest.approx(50.0)
    assert rate(160, 11.5) == pytest.approx(50.0)
    assert rate(190, 12.0) == pytest.approx(40.0)
    assert rate(5, 20.0) == pytest.approx(40.0)  # another runtime: begin again
    assert rate(105, 22.0) == pytest.approx(50.0)


def test_a_snapshot_says_which_way_to_go_and_what_runs(status: Status):
    snapshot = Watcher(scene=SCENE).look(replace(status, policy_index=1), np.array([0.27, -0.06, 0.15]), 7.0)
    np.testing.assert_allclose(np.array(snapshot.gap), [0.03, -0.04, 0.0], atol=1e-12)
    assert snapshot.policy == "better.onnx" and snapshot.asked_hz == 50.0 and len(snapshot.joints) == len(SPEC.joints)
    played = Watcher(scene=SCENE).look(replace(status, policy_index=2), np.zeros(3), 7.0)
    assert played.policy == ""  # a trajectory is no policy of the list


@pytest.mark.parametrize("mode", Mode)
def test_the_keys_are_those_of_the_mode(mode: Mode):
    assert [key.key for key in keys_now(mode, keyboard=False)] == ["Ctrl-C"]
    keys = [key.key for key in keys_now(mode, keyboard=True)]
    assert keys[0] == "x" and keys[-1] == "Ctrl-C"
    assert ("Enter" in keys) == (mode is Mode.TELEOP) and ("space" in keys) == (
        mode.name in ("POLICY", "TELEOP", "REWIND", "HELP")
    )


def test_without_a_terminal_there_are_lines_and_no_control_characters(
    status: Status, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("isthmus.deploy.live_dashboard.LINE_S", 0.0)
    with dashboard("targets", replace(SCENE, episodes=1)) as (show, on_tick):
        on_tick(status, np.zeros(3), 5.0)
        show(0, RESULT)
    said = capsys.readouterr().out
    assert "\x1b" not in said and "\r" not in said
    first, *rest = said.splitlines()
    assert first.startswith("TELEOP  1/1 5.0 s  - Hz miss 0") and "targets: 1/1" in rest[-1]


PROGRAM = textwrap.dedent("""
    import fcntl, struct, sys, termios
    import numpy as np
    from deploy_fakes import SPEC, FakeClock, FakeRobot, ReachPolicy
    from isthmus.deploy import live_dashboard
    from isthmus.deploy.attempt import EpisodeResult
    from isthmus.deploy.lockstep import LockstepSession
    from isthmus.deploy.snapshot import Scene
    live_dashboard._PERIOD_S = 0.0
    status = LockstepSession(FakeRobot(FakeClock()), [ReachPolicy()], lambda dt_s: None).status()
    scene = Scene(spec=SPEC, robot="so101", policies=("reach.onnx",), episodes=3, period_ns=20_000_000)
    result = EpisodeResult(
        episode=0, success=True, final_error_m=0.0042, seconds=2.0, intervened=True, ended="operator"
    )
    with live_dashboard.dashboard("targets", scene) as (show, on_tick):
        on_tick(status, np.zeros(3), 5.0)
        show(0, result)
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 8, 30, 0, 0))
        on_tick(status, np.zeros(3), 4.0)
        END
""")


@cache
def on_a_terminal(end: str, term: str = "xterm-256color") -> str:
    """What a program writes to a terminal of 100 x 30 that becomes one of 30 x 8, and how it ends."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    before = termios.tcgetattr(theirs)
    clean = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    settings = {**clean, "TERM": term, "PYTHONPATH": os.path.dirname(__file__)}
    words = [sys.executable, "-c", PROGRAM.replace("END", end)]
    with subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, env=settings) as process:
        written, ended = b"", False
        while not ended:
            ended = process.poll() is not None  # looked at before reading: nothing is left behind
            while select.select([ours], [], [], 0.05)[0]:
                written += os.read(ours, 65536)
        assert process.stderr is not None
        said = process.stderr.read().decode()
    assert ("Traceback" in said) == (end != "pass"), said
    assert termios.tcgetattr(theirs) == before
    os.close(theirs)
    os.close(ours)
    return written.decode()


@pytest.mark.parametrize("end", ["pass", "raise RuntimeError('broken')", "raise KeyboardInterrupt"])
def test_the_terminal_is_as_before_whatever_happens(end: str):
    written = on_a_terminal(end)
    assert written.count("\x1b[?1049h") == written.count("\x1b[?1049l") == 1  # a screen of its own, and back
    assert written.rindex("\x1b[?25h") > written.rindex("\x1b[?25l")  # the cursor is shown again
    _, _, after = written.partition("\x1b[?1049l")
    assert "1/3  reached, 4.2 mm, operator" in after


def frames(written: str) -> list[list[str]]:
    """Lines of each drawing, without styles."""
    drawn = written.partition("\x1b[?1049h")[2].partition("\x1b[?1049l")[0]
    parts = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", part) for part in drawn.split("\x1b[H")]
    return [[line.rstrip("\r") for line in part.split("\n")] for part in parts if part.strip()]


def test_a_terminal_that_is_made_smaller_gets_a_smaller_drawing():
    found = frames(on_a_terminal("pass"))
    assert "IDLE" in "".join(found[0]) and "IDLE" in "".join(found[-1])
    assert any(len(line.rstrip()) > 30 for line in found[0])
    assert len(found[-1]) <= 8 and all(len(line) <= 30 for line in found[-1])


def test_a_dumb_terminal_gets_lines():
    written = on_a_terminal("pass", term="dumb")
    assert "\x1b" not in written and "targets" in written


def test_a_result_in_words():
    assert result_line(4, 9, replace(RESULT, success=False)) == "5/9  missed, 4.2 mm, operator"
