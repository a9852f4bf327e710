"""Signal logs as files, and what the numpy observation makes of them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benches import Good

from isthmus.deploy.cli import main
from isthmus.deploy.doctor.diagnose import diagnose
from isthmus.deploy.doctor.observe import compare, observations
from isthmus.deploy.doctor.replay import in_contract_order
from isthmus.deploy.doctor.signal_file import read_signals, write_signals
from isthmus.deploy.log import LogError


def test_a_log_comes_back_as_it_was_written(good: Callable[[str, int], Good], tmp_path: Path) -> None:
    log = good("sway", 0).logs[0].part(slice(0, 30))
    signals = {**log.signals, "gyro": np.where(np.arange(30)[:, None] == 4, np.nan, log.signals["gyro"])}
    write_signals(tmp_path / "log.mcap", replace(log, signals=signals))
    back = read_signals(tmp_path / "log.mcap")
    assert back.metadata == log.metadata
    np.testing.assert_array_equal(back.stamps, log.stamps)
    np.testing.assert_array_equal(back.begin, log.begin)
    for name, values in signals.items():
        np.testing.assert_array_equal(back.signals[name], values)
    for name in ("executed", "proposed", "action", "observation"):
        np.testing.assert_array_equal(getattr(back, name), getattr(log, name))


@pytest.mark.parametrize("text", [b"", b"no mcap at all, but long enough to be read as one", b"\x89MCAP0\r\n"])
def test_what_is_no_log_is_refused(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "log.mcap"
    path.write_bytes(text)
    with pytest.raises(LogError, match=r"log\.mcap"):
        read_signals(path)


@pytest.mark.parametrize("name", ["reach", "sway", "hover", "cart", "hand"])
def test_the_observation_in_numpy_is_what_the_network_was_shown(good: Callable[[str, int], Good], name: str) -> None:
    sound = good(name, 0)
    log, contract = sound.logs[0].part(slice(0, 60)), sound.bundle.manifest.contract
    rows = in_contract_order(log, sound.bundle)
    assert isinstance(rows, dict)
    assert log.action is not None and log.observation is not None
    expected = observations(contract, rows, log.action)
    assert expected is not None and np.isfinite(expected).all()
    size = np.maximum(1.0, np.abs(expected).max(0))
    assert float((np.abs(expected - log.observation) / size).max()) < 1e-5
    assert compare(contract, expected, log.observation) == ""


def test_a_log_of_a_run_is_healthy_and_one_that_is_cut_off_says_so(
    good: Callable[[str, int], Good], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sound, path = good("reach", 0), tmp_path / "run.mcap"
    with pytest.raises(SystemExit):
        main(["run", str(sound.bundle.path), "--arm", "soft", "--lockstep", "--targets", "1", "--log", str(path)])
    whole = read_signals(path)
    assert whole.broken == "" and whole.metadata.period_ns == sound.bundle.manifest.contract.period_ns
    findings = diagnose(sound.bundle.path, sound.robot, whole).findings
    assert not [f.cause for f in findings if f.stage in ("stream", "timing", "replay", "dry run")]
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    cut = read_signals(path)
    assert cut.broken == "ends in the middle" and 0 < len(cut) <= len(whole)
