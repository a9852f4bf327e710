"""`isthmus compare`: the demo's promotion, by hand."""

from dataclasses import replace
from pathlib import Path

import pytest

from isthmus.deploy.cli import main
from isthmus.deploy.commands.attempts import AttemptRow, Attempts, save_attempts


def run_compare(champion: Path, challenger: Path) -> int:
    with pytest.raises(SystemExit) as end:
        main(["compare", str(champion), str(challenger)])
    return int(end.value.code or 0)


def test_compare_tells_a_win_from_a_tie_and_from_runs_of_other_targets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    def attempts(name: str, error_m: float, success: bool, start: float = 0.1) -> Path:
        row = AttemptRow(target=(0.2, 0.0, 0.1), success=success, final_error_m=error_m, seconds=1.0, intervened=False)
        rows = tuple(replace(row, target=(0.2, start + 0.01 * k, 0.1)) for k in range(10))
        save_attempts(tmp_path / name, Attempts(policy_id=name, rows=rows))
        return tmp_path / name

    bad, good = attempts("bad.json", 0.03, success=False), attempts("good.json", 0.005, success=True)
    assert run_compare(bad, good) == 0
    said = capsys.readouterr().out
    assert "the challenger wins: 10 more successes" in said and "-25.0 mm" in said
    for pair, reason in (((good, bad), "10 fewer successes"), ((good, good), "a tie")):
        assert run_compare(*pair) == 1
        assert f"keep the champion: {reason}" in capsys.readouterr().out
    assert run_compare(good, attempts("elsewhere.json", 0.005, success=True, start=0.2)) == 2
    assert "same targets" in capsys.readouterr().err
    assert run_compare(good, tmp_path / "nothing.json") == 2
    assert "nothing.json" in capsys.readouterr().err
