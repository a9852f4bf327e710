"""Runs in simulation that cannot begin or go on: too many environments, unknown names, directories that hold half a run."""

from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest
from command_line import Refuse

from isthmus.deploy.cli import main
from isthmus.hardware.structure import write_json
from isthmus.policies.learning.recipe import TrainConfig

TRAIN = ("train", "--envs", 8, "--iterations", 1, "--evaluate", 4)


CARTPOLES = ("--task", "cartpole-balance")


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("train", *CARTPOLES, "--out", "run", "--envs", 10**12), "--envs"),
        (("train", *CARTPOLES, "--out", "run", "--envs", 10**11, "--nproc", 10), "--envs"),
        (("play", "cartpole-balance", "--episodes", 10**12), "--episodes"),
        (("bench", "sim", "--tasks", "cartpole-balance", "--num-envs", 10**12), "--num-envs"),
        (("bench", "sim", "--tasks", "cartpole-balance", "--sizes", 16, 10**12), "--sizes"),
    ],
)
def test_more_environments_than_memory_holds_are_refused_before_the_work(
    arguments: tuple[object, ...], option: str, refuse: Refuse, tmp_path: Path
):
    refuse(*arguments, says=(f"{option}: num_envs = 1000000000000", "need at least", "GB", "available", "fewer than"))
    assert not (tmp_path / "run" / "train.json").exists() and not (tmp_path / "runs").exists()


def test_a_process_of_the_bench_that_is_killed_is_told_with_its_size(refuse: Refuse, monkeypatch: pytest.MonkeyPatch):
    def killed(*_: object) -> object:
        raise BrokenProcessPool

    monkeypatch.setattr("isthmus.deploy.commands.bench_sim.in_turn", killed)
    bench = ("bench", "sim", "--tasks", "cartpole-balance", "--num-envs", 8, "--sizes", 8)
    refuse(*bench, says=("--sizes", "cartpole-balance x 8 was killed", "give smaller numbers"))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("train", "--out", "run", "--engine", "bullet"), "--engine"),
        (("train", "--out", "run", "--network", "cnn"), "--network"),
        (("train", "--out", "run", "--device", "tpu"), "--device"),
        (("play", "cartpole-balance", "--engine", "bullet"), "--engine"),
    ],
)
def test_a_word_that_is_none_of_the_choices_is_refused_by_the_parser(
    arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as end:
        main([*arguments])
    printed = capsys.readouterr()
    assert end.value.code == 2 and says in printed.out + printed.err and arguments[-1] in printed.out + printed.err


def test_names_that_are_not_known_are_told_with_those_that_are(refuse: Refuse):
    for command in (("tasks", "juggle"), ("play", "juggle"), ("bench", "sim", "--tasks", "juggle")):
        refuse(*command, says=("juggle", "known", "so101-reach", "go2-velocity"))
    refuse("bench", "sim", "--engine", "bullet", says=("--engine", "bullet", "mujoco, genesis"))
    refuse(*TRAIN, "--out", "run", "--device", "cuda", says=("mujoco", "cuda", "genesis"))


def test_a_run_that_was_left_before_its_first_checkpoint_says_how_to_begin_anew(refuse: Refuse, tmp_path: Path):
    (tmp_path / "run").mkdir()
    write_json(tmp_path / "run" / "train.json", TrainConfig(task="cartpole-balance", seed=0))
    refuse("train", "--out", "run", "--resume", says=("run has no checkpoint.pt", "remove run", "start anew"))
    refuse(*TRAIN, "--out", "run", says=("run already holds a run", "before its first checkpoint", "remove it"))


def test_a_run_cannot_go_on_in_a_folder_that_cannot_be_written(
    refuse: Refuse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "run").mkdir()
    write_json(tmp_path / "run" / "train.json", TrainConfig(task="cartpole-balance", seed=0))
    (tmp_path / "run" / "checkpoint.pt").write_bytes(b"")

    def read_only(dir: Path) -> object:
        raise PermissionError(30, "Read-only file system", str(dir))

    monkeypatch.setattr("isthmus.deploy.commands.checks.tempfile.TemporaryFile", read_only)
    refuse("train", "--out", "run", "--resume", says=("--out", "cannot write in run", "Read-only"))
    refuse(*TRAIN, "--out", "other", says=("--out", "cannot write in other", "Read-only"))
