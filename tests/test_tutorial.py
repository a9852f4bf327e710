"""docs/tutorial.md, followed word by word: its files are installed as a package and its commands run."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from isthmus.deploy.cli import main
from isthmus.policies.bundle import load_bundle

TUTORIAL = (Path(__file__).parents[1] / "docs" / "tutorial.md").read_text()
NAMED = re.compile(r"(?:<!-- |# )([\w./]+\.(?:xml|toml|py))(?: -->)?")
PROGRAM = (sys.executable, "-c", "from isthmus.deploy.cli import main; main()")
TASK = "pendulum-swing-up"
QUICK = {"train": ("--iterations", "2", "--envs", "16", "--evaluate", "8"), "export": ("--evaluate", "4")}


def files() -> dict[str, str]:
    """The tutorial's files by name: blocks whose first line names one, and the empty one of its list."""
    found = {"src/my_robot/__init__.py": ""}
    for body in re.findall(r"^```\w+\n(.*?)^```", TUTORIAL, re.DOTALL | re.MULTILINE):
        first, rest = body.split("\n", 1)
        if name := NAMED.fullmatch(first):
            found[name[1]] = rest
    return found


def write(folder: Path, contents: dict[str, str]) -> None:
    for name, text in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def commands() -> list[list[str]]:
    """The commands that follow the files."""
    (block,) = re.findall(r"^```sh\n(.*?)^```", TUTORIAL, re.DOTALL | re.MULTILINE)
    return [shlex.split(line) for line in block.splitlines()]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the package is, installed without a network."""
    folder = tmp_path_factory.mktemp("tutorial")
    write(folder / "source", files())
    pip = (sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-index", "--no-deps")
    subprocess.run([*pip, "--no-build-isolation", "--target", folder / "site", folder / "source"], check=True)
    return folder / "site"


def test_the_list_of_files_is_the_list_of_blocks():
    listed = re.findall(r"([\w/]+\.(?:xml|toml|py))", TUTORIAL[TUTORIAL.index("my_robot/\n") : TUTORIAL.index("## 1.")])
    assert {Path(name).name for name in listed} == {Path(name).name for name in files()}
    assert len(listed) == len(files()) == 7


@pytest.mark.slow
def test_the_tutorial_works_from_the_first_command_to_the_last(installed: Path, tmp_path: Path):
    environment = {**os.environ, "PYTHONPATH": str(installed), "COLUMNS": "200"}
    said: dict[str, str] = {}
    first, *rest = commands()
    assert first == ["pip", "install", "-e", "."] and {words[0] for words in rest} == {"isthmus"}
    for words in rest:
        arguments = [*words[1:], *QUICK.get(words[1], ())]
        done = subprocess.run(
            [*PROGRAM, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{' '.join(words)}\n{done.stderr}"
        said[" ".join(words[1:3])] = done.stdout
    assert "speed_when_up" in said[f"tasks {TASK}"] and "latency_s" in said[f"tasks {TASK}"]
    assert re.search(r"height 0\.\d+ \+- ", said[f"play {TASK}"])
    assert (tmp_path / "random.png").is_file() and (tmp_path / "trained.gif").is_file()
    assert (tmp_path / "runs" / "pendulum" / "curve.png").is_file()
    assert "100 episodes" in said["play pendulum.onnx"]
    assert load_bundle(tmp_path / "pendulum.onnx").manifest.contract.robot == "pendulum"


Changed = Callable[[str, str, str], None]
Spoiled = Callable[..., str]


@pytest.fixture
def changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Changed:
    """Put the tutorial's package, with a change in one of its files, where this process finds it."""

    def change(name: str, old: str, new: str) -> None:
        contents = files()
        assert old in contents[name], f"{old!r} is not in {name}"
        contents[name] = contents[name].replace(old, new, 1)
        points = re.sub(r'"isthmus\.(\w+)"', r"isthmus.\1", contents.pop("pyproject.toml"))
        groups = re.findall(r"entry-points\.(isthmus\.\w+)\]\n(\S+) = \"(\S+)\"", points)
        entries = "".join(f"[{group}]\n{key} = {value}\n" for group, key, value in groups)
        write(tmp_path, {Path(key).relative_to("src").as_posix(): text for key, text in contents.items()})
        metadata = "Metadata-Version: 2.1\nName: my-robot\nVersion: 0.1.0\n"
        write(tmp_path / "my_robot-0.1.0.dist-info", {"METADATA": metadata, "entry_points.txt": entries})
        monkeypatch.syspath_prepend(str(tmp_path))
        for module in [module for module in sys.modules if module.split(".")[0] == "my_robot"]:
            monkeypatch.delitem(sys.modules, module)

    return change


@pytest.fixture
def spoiled(changed: Changed, capsys: pytest.CaptureFixture[str]) -> Spoiled:
    """Change a file of the tutorial's package, run a command and give the one line that it refuses with."""

    def spoil(command: tuple[str, ...], name: str, old: str, new: str) -> str:
        changed(name, old, new)
        with pytest.raises(SystemExit) as end:
            main([*command])
        error = capsys.readouterr().err
        assert end.value.code == 2 and error.count("\n") == 1, error
        return error

    return spoil


PLAY = ("play", TASK, "--episodes", "3")
TRAIN = ("train", "--task", TASK, "--iterations", "1", "--envs", "3", "--evaluate", "2", "--out", "RUN")
COSINE = "return 0.5 * (1.0 + torch.cos(truth.joint_pos[:, 0]))"


@pytest.mark.parametrize("command", [PLAY, TRAIN], ids=["play", "train"])
@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (COSINE, "return torch.cos(truth.joint_pos)", r"reward term 'height' returned \(3, 1\); expected .* \(3,\)"),
        (COSINE, "return 1.0", r"reward term 'height' returned a float; expected one value per environment"),
        (
            "return truth.joint_vel[:, 0].square()",
            "return torch.nan * truth.joint_vel[:, 0]",
            r"reward term 'speed_when_up' is not finite in environments \[0, 1, 2\]",
        ),
        ("math.pi).abs() > math.pi + 1.5", "math.pi).any()", r"termination 'wound_up' returned \(\)"),
        ("return torch.cos(truth.joint_pos[:, 0]) >", "return truth.joint_pos >", r"success returned \(3, 1\)"),
        ("Uniform(low=0.9, high=1.1)", "Uniform(low=1.1, high=0.9)", r"mass_scale.*1\.1.*0\.9"),
        ("Uniform(low=0.9, high=1.1)", "Uniform(low=-1.0, high=1.1)", r"mass_scale.*-1"),
        ("mass_scale", "mass", r"unknown .*parameter 'mass'; known: .*mass_scale"),
        ("def task() -> Task:", "def task() -> Task:\n    1 / 0\n\n\ndef other() -> Task:", r"ZeroDivisionError"),
    ],
)
def test_a_mistake_in_a_task_is_told_by_the_name_of_what_is_wrong(
    spoiled: Spoiled, tmp_path: Path, command: tuple[str, ...], old: str, new: str, says: str
):
    words = tuple(str(tmp_path / "run") if word == "RUN" else word for word in command)
    assert re.search(says, spoiled(words, "src/my_robot/task.py", old, new))


@pytest.mark.parametrize(
    ("name", "old", "new", "says"),
    [
        ("src/my_robot/task.py", "import math", "import maths", "cannot be made: ModuleNotFoundError"),
        ("src/my_robot/task.py", "import math", "raise OSError('no')", "cannot be made: OSError: no"),
        ("src/my_robot/contract.py", '"all_joint_pos"', '"odometry"', "unknown observation term 'odometry'; known"),
        ("src/my_robot/contract.py", '"all_joint_pos"', '"gyro"', r"signals \['gyro'\].*does not give.*joint_pos"),
        ("src/my_robot/contract.py", '("pivot",)', '("hinge",)', r"'hinge'.*not among the contract's joints"),
        (
            "src/my_robot/preset.py",
            "return Preset(",
            "return dict(",
            "gave a dict; expected a function that returns a Preset",
        ),
        (
            "pyproject.toml",
            f'{TASK} = "my_robot.task',
            'so101-reach = "my_robot.task',
            "exists already; give it another",
        ),
        (
            "pyproject.toml",
            f'{TASK} = "my_robot.task',
            'other = "my_robot.task',
            f"unknown task '{TASK}'; known.* other",
        ),
    ],
)
def test_a_mistake_in_a_package_is_told_with_the_package_or_the_place(
    spoiled: Spoiled, tmp_path: Path, name: str, old: str, new: str, says: str
):
    command = tuple(str(tmp_path / "run") if word == "RUN" else word for word in TRAIN)
    said = spoiled(command, name, old, new)
    assert re.search(says, said)
    if "cannot be made" in says or "exists" in says:
        assert "of package 'my-robot'" in said


@pytest.mark.parametrize(
    ("new", "says"),
    [("import math", "swing a pendulum up with a weak motor"), ("raise OSError('no')", "cannot be made: OSError: no")],
)
def test_a_package_that_is_broken_does_not_hide_the_tasks_of_others(
    changed: Changed, capsys: pytest.CaptureFixture[str], new: str, says: str
):
    changed("src/my_robot/task.py", "import math", new)
    with pytest.raises(SystemExit) as end:
        main(["tasks"])
    listed = " ".join(capsys.readouterr().out.split())
    assert end.value.code == 0
    assert "cartpole-balance balance a pole" in listed and TASK in listed and says in listed
