"""`isthmus doctor` as people call it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from benches import Good
from faults import Case, signal

from isthmus.deploy.cli import main
from isthmus.deploy.doctor.signal_log import write_signals


def _doctor(*words: object) -> int:
    with pytest.raises(SystemExit) as end:
        main(["doctor", *(str(word) for word in words)])
    return int(end.value.code or 0)


def test_a_healthy_robot_ends_with_0(
    good: Callable[[str, int], Good], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sound = good("sway", 0)
    write_signals(tmp_path / "log.mcap", sound.logs[0])
    assert _doctor(sound.bundle.path, "--robot", "go2", "--log", tmp_path / "log.mcap") == 0
    assert "nothing speaks against it" in capsys.readouterr().out


def test_a_fault_ends_with_1_and_is_written_with_its_cause(
    good: Callable[[str, int], Good], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sound = good("sway", 0)
    case = Case(good=sound, path=sound.bundle.path, robot=sound.robot, log=sound.logs[0], folder=tmp_path)
    write_signals(tmp_path / "log.mcap", signal("gyro", lambda values: values * 57.29578)(case).log)
    out = tmp_path / "report.json"
    assert _doctor(sound.bundle.path, "--log", tmp_path / "log.mcap", "--out", out) == 1
    assert "gyro is in degrees" in " ".join(capsys.readouterr().out.split())
    report = json.loads(out.read_text())
    assert not report["healthy"]
    assert report["findings"][0]["link"] == "gyro"
    assert report["findings"][0]["numbers"]


def test_another_robot_ends_with_1(good: Callable[[str, int], Good], capsys: pytest.CaptureFixture[str]) -> None:
    assert _doctor(good("sway", 0).bundle.path, "--robot", "so101") == 1
    assert "trained for robot" in " ".join(capsys.readouterr().out.split())


def test_the_arm_is_probed_and_keeps_its_place(
    good: Callable[[str, int], Good], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _doctor(good("reach", 0).bundle.path, "--probe", "--arm", "soft", "--lockstep") == 0
    assert "probe" in capsys.readouterr().out


def test_options_of_the_probe_want_the_probe(
    good: Callable[[str, int], Good], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _doctor(good("reach", 0).bundle.path, "--arm", "soft") == 2
    assert "add it" in capsys.readouterr().err
