"""`isthmus doctor` as people call it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from benches import Good
from faults import Case, signal

from isthmus.deploy.cli import main
from isthmus.deploy.commands.doctor import save
from isthmus.deploy.doctor.findings import Diagnosis, fault
from isthmus.deploy.doctor.signal_file import write_signals


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


def test_a_bundle_that_cannot_be_loaded_is_told_with_and_without_robot(
    good: Callable[[str, int], Good], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = tmp_path / "cut.onnx"
    cut.write_bytes(good("reach", 0).bundle.path.read_bytes()[:-5])
    for path, cause in (
        (cut, "cut short"),
        (tmp_path / "nothing.onnx", "no such bundle"),
        (tmp_path, "a directory"),
    ):
        for words in ((), ("--robot", "so101")):
            assert _doctor(path, *words) == 1
            said = capsys.readouterr().out
            assert said.count("\n") == 1
            assert "fault bundle (load)" in said and cause in said and "--robot" not in said


def test_a_report_replaces_no_bundle_and_no_log(
    good: Callable[[str, int], Good], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = good("reach", 0).bundle.path
    before = bundle.read_bytes()
    for out in (bundle, tmp_path / "log.mcap", tmp_path):
        assert _doctor(bundle, "--out", out) == 2
    assert bundle.read_bytes() == before and not [*tmp_path.iterdir()]
    assert ".json" in capsys.readouterr().err


def test_a_report_is_json_that_every_reader_takes(tmp_path: Path) -> None:
    odd = fault(
        "probe", "gains", "it hangs", "look", numbers={"gain over robot.toml's [1]": float("inf"), "load [N m]": 2.0}
    )
    save(tmp_path / "report.json", Diagnosis(findings=(odd,), checked=("probe",)))

    def refuse(word: str) -> None:
        raise AssertionError(word)

    report = json.loads((tmp_path / "report.json").read_text(), parse_constant=refuse)
    assert report["findings"][0]["numbers"] == {"gain over robot.toml's [1]": None, "load [N m]": 2.0}
