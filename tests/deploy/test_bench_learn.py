"""`isthmus bench learn`: seeds, engines, going on."""

import json
from pathlib import Path

import pytest

from isthmus.deploy.commands.bench_learn import BenchLearn
from isthmus.deploy.commands.checks import OptionError


def _table(folder: Path) -> dict:
    return json.loads((folder / "learn.json").read_text())


def test_each_seed_is_trained_evaluated_and_drawn_and_a_second_call_trains_none(tmp_path: Path):
    bench = BenchLearn(out=tmp_path, seeds=(0, 3), iterations=2, episodes=8)
    assert bench.run() == 0
    table = _table(tmp_path)
    assert [row["seed"] for row in table["seeds"]] == [0, 3]
    for row in table["seeds"]:
        (outcome,) = row["outcomes"]
        assert row["steps"] == 2 * 24 * table["num_envs"] and row["seconds"] > 0
        assert outcome["engine"] == "mujoco" and outcome["episodes"] == 8
        low, high = outcome["interval"]
        assert 0 <= low <= outcome["success"] <= high <= 1
    assert (tmp_path / "learn.png").read_bytes().startswith(b"\x89PNG")
    assert bench.run() == 0  # evaluations have seeds of their own, so the same comes out
    assert _table(tmp_path)["seeds"] == table["seeds"]


def test_a_run_with_other_settings_is_not_gone_on_with(tmp_path: Path):
    BenchLearn(out=tmp_path, seeds=(0,), iterations=1, episodes=4).run()
    with pytest.raises(OptionError, match="holds a run with other settings"):
        BenchLearn(out=tmp_path, seeds=(0,), iterations=2, episodes=4).run()


@pytest.mark.parametrize(
    ("bench", "says"),
    [
        (BenchLearn(seeds=()), "--seeds is empty"),
        (BenchLearn(seeds=(-1,)), "--seeds is -1"),
        (BenchLearn(episodes=0), "--episodes is 0"),
        (BenchLearn(iterations=0), "--iterations is 0"),
        (BenchLearn(time_limit=0.0), "--time-limit is 0"),
    ],
)
def test_what_cannot_be_measured_is_refused(bench: BenchLearn, says: str):
    with pytest.raises(OptionError, match=says):
        bench.run()
