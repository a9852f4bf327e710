"""Makes the helpers beside the tests importable, also in processes that a test spawns."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def reach_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy that comes near its target, and on the soft arm reaches some."""
    from reach_bundle import write_reach_bundle

    path = tmp_path_factory.mktemp("bundle") / "reach.onnx"
    write_reach_bundle(path)
    return path


@pytest.fixture
def refuse(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Call a command in an empty folder and check that it refuses in these words, with exit code 2; returns what it said."""
    from command_line import Outcome

    from isthmus.deploy.cli import main

    monkeypatch.chdir(tmp_path)

    def refuse(*arguments: object, says: tuple[str, ...]) -> str:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return Outcome(code=int(end.value.code or 0), out=printed.out, err=printed.err).refused(*says)

    return refuse
