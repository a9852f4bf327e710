"""`isthmus bench train`: who is compared, and how."""

import json
import sys
from pathlib import Path

import pytest

from isthmus.deploy.commands.bench_contenders import BenchError, Iteration, UniLab, check_python
from isthmus.deploy.commands.bench_train import BenchTrain
from isthmus.deploy.commands.bench_unilab_driver import copy_robot
from isthmus.deploy.commands.checks import OptionError

SPEAKS = """#!/usr/bin/env bash
# arguments: the driver, the descriptor for answers, UniLab's own
echo "{\\"version\\": \\"9.9\\", \\"threads\\": 3}" >&$2
while read line; do echo "{\\"collect\\": 1.5, \\"update\\": 0.25, \\"tracking\\": 0.9}" >&$2; done
"""
FAILS = "#!/bin/sh\necho 'no module named mujoco'\nexit 1\n"


def _python(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_unilab_answers_an_iteration_at_a_time(tmp_path: Path):
    unilab = UniLab(_python(tmp_path / "python", SPEAKS), 16, tmp_path / "work")
    try:
        assert "unilab 9.9, 3 torch threads" in unilab.about
        assert [unilab.iterate(), unilab.iterate()] == 2 * [Iteration(collect=1.5, update=0.25, tracking=0.9)]
    finally:
        unilab.close()


def test_a_unilab_that_ends_says_its_last_words(tmp_path: Path):
    with pytest.raises(BenchError, match=r"no module named mujoco; see .*unilab\.log"):
        UniLab(_python(tmp_path / "python", FAILS), 16, tmp_path / "work")


def test_a_python_without_unilab_is_refused(tmp_path: Path):
    with pytest.raises(BenchError, match="has no UniLab; install it there with"):
        check_python("--unilab-python", Path(sys.executable))
    with pytest.raises(BenchError, match="does not run: No such file"):
        check_python("--unilab-python", tmp_path / "nothing")


def test_meshes_that_are_missing_get_a_stand_in_and_the_others_stay(tmp_path: Path):
    source = tmp_path / "go2"
    (source / "assets").mkdir(parents=True)
    (source / "go2.xml").write_text('<mesh name="a" file="there.obj"/><mesh file="missing.obj"/>')
    (source / "assets" / "there.obj").write_text("v 0 0 0")
    copy_robot(source, tmp_path / "copy")
    assert (tmp_path / "copy" / "assets" / "there.obj").read_text() == "v 0 0 0"
    assert (tmp_path / "copy" / "assets" / "missing.obj").read_text().count("\nf ") == 4
    assert not (source / "assets" / "missing.obj").exists()


def test_a_small_bench_compares_in_turns_and_trains_to_a_level(tmp_path: Path):
    bench = BenchTrain(out=tmp_path, task="so101-reach", num_envs=16, repeats=1, term="close", level=0.0)
    assert bench.run() == 0
    table = json.loads((tmp_path / "train.json").read_text())
    rows = {row["name"]: row for row in table["speeds"]}
    assert {"isthmus", "rsl-rl"} <= set(rows)
    assert rows["isthmus"]["ours"] == {"median": 1.0, "low": 1.0, "high": 1.0}
    for row in rows.values():
        seconds = row["collect_s"]["median"] + row["update_s"]["median"]
        assert row["steps_per_s"]["median"] == pytest.approx(16 * 24 / seconds)
        ours = rows["isthmus"]["steps_per_s"]["median"] / row["steps_per_s"]["median"]
        assert row["ours"]["median"] == pytest.approx(ours)
    assert table["hidden_dims"] == [512, 256, 128]
    assert table["levels"] == []


@pytest.mark.parametrize(("level", "reached"), [(0.99, True), (1.01, False)])
def test_the_level_is_of_the_term_itself_whatever_its_weight_and_the_period(
    tmp_path: Path, level: float, reached: bool
):
    # "alive" is 1 at every tick: five iterations, over which it is averaged, show it.
    bench = BenchTrain(
        out=tmp_path,
        task="cartpole-balance",
        repeats=0,
        term="alive",
        level=level,
        time_limit=1000.0 if reached else 1.0,
    )
    assert bench.run() == 0
    result = json.loads((tmp_path / "train.json").read_text())["levels"][0]
    assert [point["value"] for point in result["points"]] == pytest.approx([1.0] * len(result["points"]))
    if reached:
        assert len(result["points"]) == 5
        assert (result["seconds"], result["steps"]) == (result["points"][-1]["seconds"], result["points"][-1]["steps"])
    else:
        assert (result["seconds"], result["steps"]) == (None, None)


def test_unilab_trains_to_the_same_level_in_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("isthmus.deploy.commands.bench_contenders.check_python", lambda option, python: None)
    python = _python(tmp_path / "python", SPEAKS)
    bench = BenchTrain(out=tmp_path, num_envs=16, repeats=0, level=0.01, time_limit=1.0, unilab_python=python)
    assert bench.run() == 0
    ours, unilab = json.loads((tmp_path / "train.json").read_text())["levels"]
    assert (ours["name"], unilab["name"]) == ("isthmus", "UniLab")
    assert unilab["points"][0] == {"seconds": 1.75, "steps": 16 * 24, "value": 0.9}
    assert unilab["seconds"] is None  # one iteration a call, five are needed, and 1 s is over


@pytest.mark.parametrize(
    ("bench", "says"),
    [
        (BenchTrain(term="elegance"), "expected one of tracks_velocity, "),
        (BenchTrain(num_envs=0), "--num-envs is 0"),
        (BenchTrain(repeats=-1), "--repeats is -1"),
        (BenchTrain(level=-0.1), "--level is -0.1"),
        (BenchTrain(time_limit=0.0), "--time-limit is 0"),
    ],
)
def test_what_cannot_be_measured_is_refused(bench: BenchTrain, says: str):
    with pytest.raises(OptionError, match=says):
        bench.run()
