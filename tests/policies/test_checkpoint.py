"""A checkpoint is whole at any time: through kills, full disks and Ctrl-C; and what is none says what it is."""

import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from isthmus.deploy.cli import main
from isthmus.policies.learning.checkpoint import (
    CHECKPOINT_FILE,
    PREVIOUS_FILE,
    CheckpointError,
    publish_checkpoint,
    read_state,
    resume_file,
    write_state,
)
from isthmus.policies.learning.env import ContractEnv
from isthmus.policies.learning.recipe import Run

KILLS = 40
TRAIN = ("train", "--task", "cartpole-balance", "--envs", "8", "--evaluate", "2", "--out")
GO_ON = ("train", "--resume", "--evaluate", "2", "--out")


def state(iteration: int) -> dict[str, object]:
    return {"iteration": iteration, "weights": torch.full((100_000,), float(iteration))}


def save(folder: Path, iteration: int) -> None:
    write_state(resume_file(folder, iteration, 0), state(iteration))
    publish_checkpoint(folder, state(iteration))


@contextmanager
def full_disk() -> Iterator[None]:
    """No file may grow beyond 50 kB, which the system says as it says that a disk is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_process_killed_at_any_moment_leaves_checkpoints_that_load(tmp_path: Path):
    script = Path(__file__).with_name("kill_saves.py")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), str(KILLS)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "'while writing'" in done.stdout and "'went on'" in done.stdout


def test_a_full_disk_keeps_the_checkpoint_before_and_leaves_no_part_of_the_new_one(tmp_path: Path):
    save(tmp_path, 1)
    save(tmp_path, 2)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with full_disk(), pytest.raises(CheckpointError, match=r"cannot be written: .*MB are free there.*before is kept"):
        save(tmp_path, 3)
    with full_disk(), pytest.raises(CheckpointError, match=r"checkpoint\.previous\.pt cannot be written"):
        publish_checkpoint(tmp_path, state(3))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    save(tmp_path, 3)
    assert [read_state(tmp_path / name)["iteration"] for name in (PREVIOUS_FILE, CHECKPOINT_FILE)] == [2, 3]


def test_a_folder_that_went_away_is_told(tmp_path: Path):
    with pytest.raises(CheckpointError, match=r"checkpoint\.pt cannot be written: No such file or directory"):
        publish_checkpoint(tmp_path / "gone", state(1))


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.999])
def test_part_of_a_checkpoint_is_refused_with_the_one_before_it(share: float, tmp_path: Path):
    save(tmp_path, 1)
    save(tmp_path, 2)
    path = tmp_path / CHECKPOINT_FILE
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(CheckpointError, match=r"checkpoint\.pt cannot be used: .*the one before it is .*previous\.pt"):
        read_state(path)
    save(tmp_path, 3)  # what cannot be read does not become the one before
    assert [read_state(tmp_path / name)["iteration"] for name in (PREVIOUS_FILE, CHECKPOINT_FILE)] == [1, 3]


class Trap:
    """What would create a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return Path.touch, (self.path,)


def test_files_that_are_no_checkpoints_are_refused_and_run_nothing(tmp_path: Path):
    path = tmp_path / CHECKPOINT_FILE
    with pytest.raises(CheckpointError, match=r"checkpoint\.pt does not exist; expected"):
        read_state(path)
    torch.save([1, 2], path)
    with pytest.raises(CheckpointError, match="not a checkpoint of isthmus: it holds a list"):
        read_state(path)
    torch.save({"x": Trap(tmp_path / "sprung")}, path)
    for content in (path.read_bytes(), b"cpathlib\nPath\n(S'sprung'\ntR.", b"text", b"{}"):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match="it is no checkpoint, or holds more than tensors") as refused:
            read_state(path)
        assert "weights_only" not in str(refused.value)
    assert not (tmp_path / "sprung").exists()
    with pytest.raises(CheckpointError, match=r"cannot be used: .*directory"):
        read_state(tmp_path)


def ends_with(code: int, *words: object) -> None:
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    assert (end.value.code or 0) == code


@contextmanager
def interrupted(place: object, name: str, call: int) -> Iterator[None]:
    """Ctrl-C at that call of a function."""
    calls, real = [0], getattr(place, name)

    def press(*arguments: object, **more: object) -> object:
        calls[0] += 1
        if calls[0] == call:
            raise KeyboardInterrupt
        return real(*arguments, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(place, name, press)
        yield
    assert calls[0] >= call


RECIPE, TRAINER = "isthmus.policies.learning.recipe", "isthmus.policies.learning.trainer"


@pytest.mark.parametrize(
    ("place", "name", "call", "kept"),
    [
        (RECIPE, "make_world", 1, None),
        (f"{TRAINER}.Trainer", "_writers", 1, None),
        (ContractEnv, "step", 3, None),
        (f"{TRAINER}.Trainer", "_collect", 2, None),
        (TRAINER, "write_state", 1, 2),
        (TRAINER, "publish_checkpoint", 1, 2),
        (RECIPE, "plot_curve", 1, 2),
        (Run, "evaluate", 1, 2),
        (RECIPE, "evaluate", 1, 2),
    ],
)
def test_ctrl_c_at_any_moment_leaves_a_run_that_can_go_on_or_says_how_to_begin_anew(
    place: object, name: str, call: int, kept: int | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """A second Ctrl-C, that is: the first lets the iteration end."""
    out = tmp_path / "run"
    if isinstance(place, str):
        place = resolve(place)
    with interrupted(place, name, call):
        ends_with(130, *TRAIN, out, "--iterations", 2)
    assert "Traceback" not in capsys.readouterr().err
    if kept is None:
        assert not (out / CHECKPOINT_FILE).exists()
        if (out / "train.json").exists():
            ends_with(2, *GO_ON, out)
            assert "start anew" in capsys.readouterr().err
        return
    assert read_state(out / CHECKPOINT_FILE)["iteration"] == kept
    ends_with(0, *GO_ON, out, "--iterations", 3)
    assert read_state(out / CHECKPOINT_FILE)["iteration"] == 3


def resolve(name: str) -> object:
    module, _, attribute = name.rpartition(".")
    return getattr(sys.modules[module], attribute) if attribute[0].isupper() else sys.modules[name]


def test_checkpoints_of_other_runs_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    own, other = tmp_path / "own", tmp_path / "other"
    ends_with(0, *TRAIN, own, "--iterations", 1)
    ends_with(0, "train", "--task", "quadrotor-hover", "--envs", 8, "--evaluate", 2, "--iterations", 1, "--out", other)
    capsys.readouterr()
    ends_with(2, *TRAIN, tmp_path / "new", "--iterations", 1, "--init", other)
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "checkpoint.pt cannot be used" in said and "size mismatch" in said
    ends_with(2, *TRAIN, tmp_path / "gru", "--iterations", 1, "--network", "gru", "--init", own)
    assert "checkpoint.pt cannot be used: its network is 'mlp', here it is 'gru'" in capsys.readouterr().err
    (own / CHECKPOINT_FILE).write_bytes((other / CHECKPOINT_FILE).read_bytes())
    ends_with(2, *GO_ON, own, "--iterations", 2)
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "checkpoint.pt cannot be used" in said
