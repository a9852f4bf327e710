"""`isthmus export c` and `isthmus bench c`."""

import json
from pathlib import Path

import pytest
from c_policies import needs_gcc, run

from isthmus.deploy.cli import main
from isthmus.policies.c99.board import missing_tools


def said_by(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 0
    return capsys.readouterr().out


@needs_gcc
@pytest.mark.parametrize("weights", ["float32", "int8"])
def test_a_bundle_is_written_as_c_and_the_next_step_said_works(
    weights: str, bundles: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "export",
        "c",
        str(bundles["cartpole-balance"]),
        "--out",
        str(tmp_path / "new"),
        "--weights",
        weights,
        "--name",
        "pole",
    ]
    said = said_by(words, capsys)
    assert ("off by" in said) == (weights == "int8")
    command = said.splitlines()[-1].removeprefix("next: ").replace("-o selftest", f"-o {tmp_path}/selftest")
    assert "64 golden rows" in run(["sh", "-c", command.replace("./selftest", f"{tmp_path}/selftest")])
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["pole.c", "pole.h"]


@pytest.mark.skipif(bool(missing_tools()), reason=f"{', '.join(missing_tools())} not installed")
def test_the_bench_writes_what_it_measured(
    bundles: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = said_by(["bench", "c", str(bundles["cartpole-balance"]), "--out", str(tmp_path)], capsys)
    rows = json.loads((tmp_path / "c.json").read_text())["rows"]
    assert [(row["weights"], row["board"]) for row in rows] == [
        (weights, board) for weights in ("float32", "int8") for board in ("Cortex-M4F", "Cortex-M7")
    ]
    assert all(f"{row['instructions']:,}" in said and row["policy"] == "cartpole-balance" for row in rows)
    assert all(1_000 < row["instructions"] < 20_000 and 1_000 < row["flash"] < 20_000 for row in rows)


def test_export_of_a_run_needs_no_further_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ["export", str(tmp_path)],
        ["export", "bundle", str(tmp_path)],
        ["export", "--evaluate", "5", str(tmp_path)],
    ):
        with pytest.raises(SystemExit) as end:
            main([*words, "--out", str(tmp_path / "policy.onnx")])
        assert end.value.code == 2
        assert str(tmp_path) in capsys.readouterr().err
