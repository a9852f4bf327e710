"""Recordings as tables: every number is there, at full precision, where other tools find it."""

import csv
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from deploy_fakes import SPEC, FakeClock, FakeRobot, ReachPolicy

from isthmus.deploy.cli import main
from isthmus.deploy.convert import columns, write_csv, write_parquet
from isthmus.deploy.lockstep import LockstepSession
from isthmus.deploy.log import Log, read_log
from isthmus.hardware.joint_calibration import ArmCalibration
from isthmus.policies.learning.dataset import read_dataset


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of two attempts."""
    clock, path = FakeClock(), tmp_path_factory.mktemp("log") / "log.mcap"

    def advance(dt_s: float) -> None:
        clock.time_ns += round(dt_s * 1e9)

    with LockstepSession(FakeRobot(clock), [ReachPolicy()], advance, log_path=path) as session:
        session.arm()
        for target in ([0.25, 0.1, 0.15], [0.28, -0.1, 0.12]):
            session.run_episode(target, 5.0)
    return path


@pytest.fixture(scope="module")
def log(path: Path) -> Log:
    return read_log(path)


def same(column: np.ndarray, values: np.ndarray) -> bool:
    return bool(((column == values) | (np.isnan(column) & np.isnan(values))).all())


def test_every_number_of_a_tick_has_a_column_of_its_own(log: Log):
    table = columns(log)
    assert len(table) == sum(int(np.prod(log.ticks.dtype[name].shape)) for name in log.ticks.dtype.names or ())
    np.testing.assert_array_equal(
        table["joint_pos.elbow_flex"], log.ticks["joint_pos"][:, SPEC.joint_names.index("elbow_flex")]
    )
    assert {"target.x", "base_action.4", "lateness_us", "tick"} <= set(table)


def test_csv_keeps_every_bit(log: Log, tmp_path: Path):
    write_csv(tmp_path / "log.csv", log)
    with (tmp_path / "log.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(log.ticks)
    for name, values in columns(log).items():
        assert same(np.array([float(row[name] or "nan") for row in rows]), values.astype(np.float64)), name


def test_parquet_keeps_every_bit_and_says_what_it_is_of(log: Log, tmp_path: Path):
    write_parquet(tmp_path / "log.parquet", log)
    table = pq.read_table(tmp_path / "log.parquet")
    for name, values in columns(log).items():
        found = table[name].to_numpy(zero_copy_only=False).astype(np.float64)
        assert same(found, values.astype(np.float64)), name
    assert table.schema.metadata[b"joint_names"].decode().split(",") == list(SPEC.joint_names)


def run(*words: object) -> int | str | None:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return ended.value.code


def test_the_command_writes_what_the_name_says(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    calibration = tmp_path / "joints.json"
    ArmCalibration.nominal(SPEC).save(calibration)
    for name in ("a.csv", "a.parquet"):
        assert run("convert", path, "--out", tmp_path / name) == 0 and (tmp_path / name).stat().st_size > 10_000
    assert run("convert", path, "--out", tmp_path / "data", "--joints", calibration) == 0
    assert "2 episodes written" in capsys.readouterr().out
    episodes = read_dataset(tmp_path / "data")
    assert [episode.success for episode in episodes] == [True, True]


@pytest.mark.parametrize(
    ("out", "words"),
    [("log.mcap", "would replace the recording"), ("a.txt", "ends with .txt"), ("data", "give --joints")],
)
def test_what_cannot_be_written_is_refused(path: Path, out: str, words: str, capsys: pytest.CaptureFixture[str]):
    assert run("convert", path, "--out", path.parent / out) == 2
    assert words in capsys.readouterr().err


def test_a_recording_that_ends_in_the_middle_is_converted_as_far_as_it_goes(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "cut.mcap").write_bytes(path.read_bytes()[:-20_000])
    assert run("convert", tmp_path / "cut.mcap", "--out", tmp_path / "a.csv") == 0
    assert "ends in the middle" in capsys.readouterr().out


def test_a_viewer_that_is_not_installed_is_named(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.setitem(sys.modules, "rerun", None)
    assert run("convert", path, "--out", tmp_path / "a.rrd") == 2
    assert "rerun" in capsys.readouterr().err and not (tmp_path / "a.rrd").exists()


def test_rerun_reads_it_where_it_is_installed(log: Log, tmp_path: Path):
    pytest.importorskip("rerun", reason="rerun-sdk is not installed here: pip install 'isthmus[viewer]'")
    from isthmus.deploy.convert import write_rerun

    write_rerun(tmp_path / "log.rrd", log)
    assert (tmp_path / "log.rrd").stat().st_size > 10_000
