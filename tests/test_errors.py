"""Every error that a user can meet is an IsthmusError, and the command says each in one line."""

import importlib
import inspect
from pathlib import Path
from types import ModuleType

import pytest

import isthmus.calibration
import isthmus.deploy
import isthmus.hardware
import isthmus.policies
import isthmus.sim
from isthmus.deploy.cli import main
from isthmus.deploy.commands.robots import Robots
from isthmus.hardware.errors import IsthmusError

PACKAGES = (isthmus.hardware, isthmus.sim, isthmus.policies, isthmus.calibration, isthmus.deploy)
INTERNAL = {
    "_WrongType": "raised and caught inside structure.py, which makes a FormatError of it",
    "TwinError": "lives in the virtual arm's process; its client raises VirtualArmError with the text",
    "TimeIsUp": "caught by `isthmus run`, which says that the seconds have passed",
    "Finished": "ends another tool's loop in its own process, where the bench wants no more ticks",
    "PolicyFault": "caught by the runtime, which holds the arm and reports the text as a fault",
}


def modules() -> list[ModuleType]:
    """Every module, also in folders without __init__.py."""
    found: list[ModuleType] = []
    for package in PACKAGES:
        (home,) = (Path(folder) for folder in package.__path__)
        for path in sorted(home.rglob("*.py")):
            parts = path.relative_to(home).with_suffix("").parts
            found.append(importlib.import_module(".".join((package.__name__, *parts)).removesuffix(".__init__")))
    return found


def exceptions() -> dict[str, type[BaseException]]:
    """Exceptions that these packages define, by qualified name."""
    return {
        f"{kind.__module__}.{kind.__name__}": kind
        for module in modules()
        for kind in vars(module).values()
        if inspect.isclass(kind) and issubclass(kind, BaseException) and kind.__module__ == module.__name__
    }


ALL = exceptions()
TOLD = {name: kind for name, kind in ALL.items() if kind.__name__ not in INTERNAL}


def test_there_are_errors_of_every_package():
    assert {name.split(".")[1] for name in TOLD} == {"hardware", "sim", "policies", "calibration", "deploy"}
    assert {name.rsplit(".", 1)[1] for name in ALL} >= set(INTERNAL)


@pytest.mark.parametrize("name", TOLD)
def test_an_error_that_reaches_a_user_is_an_isthmus_error_and_says_what_it_is(name: str):
    kind = TOLD[name]
    assert issubclass(kind, IsthmusError), (
        f"{name}: derive it from IsthmusError, or list it in INTERNAL with the reason"
    )
    assert kind.__doc__ and (kind is IsthmusError or kind.__doc__ != IsthmusError.__doc__)


@pytest.mark.parametrize("name", [name for name, kind in ALL.items() if kind.__name__ in INTERNAL])
def test_an_internal_exception_is_no_isthmus_error(name: str):
    assert not issubclass(ALL[name], IsthmusError)


def end_of(raised: BaseException, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple:
    """Exit code and stderr of a command that raises."""

    def run(self: Robots) -> int:
        raise raised

    monkeypatch.setattr(Robots, "run", run)
    with pytest.raises(SystemExit) as end:
        main(["robots"])
    return end.value.code, capsys.readouterr().err


@pytest.mark.parametrize("name", TOLD)
def test_the_command_says_an_error_in_one_line_and_ends_with_2(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    kind = TOLD[name]
    error = kind.__new__(kind, "the cause;\n  the remedy")
    assert end_of(error, monkeypatch, capsys) == (2, "isthmus: the cause; the remedy\n")


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (OSError(28, "No space left on device", "run.mcap"), 2, "run.mcap: No space left on device"),
        (OSError("what a library says"), 2, "what a library says"),
        (ModuleNotFoundError("no", name="torch"), 2, "this command needs torch; install it with: pip install"),
        (KeyboardInterrupt(), 130, "interrupted; what was written so far is kept"),
    ],
)
def test_other_things_that_happen_to_a_user_are_told_too(
    raised: BaseException,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    ended, line = end_of(raised, monkeypatch, capsys)
    assert ended == code and line.startswith(f"isthmus: {said}") and line.count("\n") == 1


def test_a_defect_is_not_dressed_up_as_bad_input(monkeypatch: pytest.MonkeyPatch):
    def run(self: Robots) -> int:
        raise ValueError("a defect")

    monkeypatch.setattr(Robots, "run", run)
    with pytest.raises(ValueError, match="a defect"):
        main(["robots"])
