"""`isthmus play`: what it says and draws of tasks, runs and bundles, and what it refuses."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from isthmus.deploy.cli import main
from isthmus.deploy.commands import film
from isthmus.deploy.commands.checks import OptionError
from isthmus.policies.bundle import load_bundle
from isthmus.policies.contract import ContractError
from isthmus.policies.contracts import get_contract
from isthmus.policies.learning.evaluate import evaluate
from isthmus.policies.learning.graph import ContractGraph
from isthmus.policies.learning.players import BundlePlayer, UntrainedPlayer
from isthmus.policies.learning.ppo_config import TrainConfigError
from isthmus.policies.learning.recipe import EVALUATION_SEED, Run, TrainConfig, make_world

SMALL = ("--iterations", 1, "--envs", 8, "--evaluate", 4)


def call(*arguments: object) -> int:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return int(end.value.code or 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("play")


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    """A training run of a few steps."""
    assert call("train", "--task", "cartpole-balance", "--out", folder / "run", *SMALL) == 0
    return folder / "run"


@pytest.fixture(scope="module")
def teacher(folder: Path) -> Path:
    """A run whose policy sees everything."""
    assert call("train", "--task", "cartpole-balance", "--out", folder / "teacher", "--privileged", *SMALL) == 0
    return folder / "teacher"


@pytest.fixture(scope="module")
def bundle(run: Path, folder: Path) -> Path:
    assert call("export", run, "--out", folder / "policy.onnx", "--evaluate", 4) == 0
    return folder / "policy.onnx"


def test_a_task_with_random_actions_is_told_in_numbers_and_drawn_as_a_sheet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out = tmp_path / "new" / "sheet.png"
    assert call("play", "cartpole-balance", "--episodes", 3, "--seconds", 2, "--shown", 2, "--out", out) == 0
    said = capsys.readouterr().out
    assert "cartpole-balance: 0.0 % of 3 episodes succeed (95 % interval 0.0-56.1 %)" in said
    assert re.search(r"cart_error [\d.]+ \+- [\d.]+ m\n", said) and f"2.0 s of it in {out}" in said
    with Image.open(out) as picture:  # twelve frames in rows of four, each of two robots
        assert picture.size == (4 * 2 * 320, 3 * 240)
        pixels = np.asarray(picture)
    first, last = pixels[:240, 80:640], pixels[-240:, -560:]  # without the time in the corner
    assert np.abs(first.astype(int) - last).mean() > 0.5, "nothing moves"
    assert [path.name for path in out.parent.iterdir()] == ["sheet.png"]


def test_a_run_is_played_with_its_own_policy_and_filmed(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "film.gif"
    assert call("play", run, "--episodes", 2, "--seconds", 0.4, "--out", out, "--camera", "overview") == 0
    with Image.open(out) as picture:
        assert picture.size == (320, 240) and getattr(picture, "n_frames", 1) == 11  # every 40 ms of 400
        assert picture.info["duration"] == 40
    trained = capsys.readouterr().out.split("\n")[1]
    assert call("play", run, "--episodes", 2, "--actions", "zero") == 0
    assert capsys.readouterr().out.split("\n")[1] != trained


def test_a_bundle_plays_as_the_network_that_it_was_exported_from(run: Path, bundle: Path):
    found = Run.look_at(run)
    results = []
    for make in (lambda world: found.player(), lambda world: BundlePlayer(load_bundle(bundle), world)):
        world = make_world(found.config, 3, 77)
        results.append(evaluate(world, make(world)))
    torch.testing.assert_close(results[0].returns, results[1].returns, atol=1e-3, rtol=1e-3)
    assert torch.equal(results[0].seconds, results[1].seconds)
    assert float(results[0].returns.std()) > 0


@pytest.mark.parametrize("task", ["quadrotor-hover", "so101-reach"])
def test_the_same_seed_gives_the_same_numbers_and_another_one_others(task: str):
    returns = []
    for seed in (1, 1, 2):
        world = make_world(TrainConfig(task=task, seed=0), 2, 5)
        player = UntrainedPlayer(ContractGraph(get_contract(task)), "random", seed)
        returns.append(evaluate(world, player).returns)
    assert torch.equal(returns[0], returns[1]) and not torch.equal(returns[0], returns[2])


def test_play_without_randomisation_gives_robots_of_the_model(monkeypatch: pytest.MonkeyPatch):
    seen = []

    def keep(world: object, *_: object) -> object:
        seen.append(world)
        raise OptionError("enough")

    monkeypatch.setattr("isthmus.policies.learning.evaluate.evaluate", keep)
    for option in ("--randomise", "--no-randomise"):
        assert call("play", "cartpole-balance", option, "--episodes", 2) == 2
    assert "mass_scale" in seen[0].parameters and not seen[1].parameters


def test_a_privileged_policy_is_evaluated_and_played_but_not_exported(teacher: Path, refuse, capsys):
    assert Run.look_at(teacher).evaluate(3).returns.shape == (3,)
    assert call("play", teacher, "--episodes", 2) == 0
    refuse("play", teacher, "--no-randomise", says=("--no-randomise", "sees what is randomised"))
    refuse("export", teacher, "--out", "x.onnx", says=("no robot can run it", "--teacher"))
    assert not Path("x.onnx").exists()
    with pytest.raises(TrainConfigError, match="only a simulator knows"):
        Run.look_at(teacher).export(Path("x.onnx"), simulated_success=None)


def test_a_privileged_policy_sees_in_evaluation_what_it_saw_in_training(teacher: Path):
    found = Run.look_at(teacher)
    env, player = found.env, found.player()
    player.reset(env.world)
    action, _ = player.act(env.world.read(), env._truth)
    torch.testing.assert_close(action, found.trainer.actor(env.get_observations()["critic"]))


def test_a_student_learns_from_a_teacher_goes_on_and_is_exported(teacher: Path, run: Path, tmp_path: Path, refuse):
    train = ("train", "--task", "cartpole-balance", "--out")
    assert call(*train, tmp_path / "student", "--teacher", teacher, *SMALL) == 0
    again = ("--resume", "--iterations", 2, "--evaluate", 4)
    assert call("train", "--out", tmp_path / "student", *again) == 0
    assert call("export", tmp_path / "student", "--out", tmp_path / "s.onnx", "--evaluate", 2) == 0
    refuse(*train, "x", "--teacher", tmp_path / "student", says=("is a student itself",))
    refuse(*train, "x", "--teacher", tmp_path, says=("is not a training run",))
    refuse(*train, "x", "--teacher", teacher, "--symmetry", "on", says=("--teacher goes without --symmetry",))
    refuse("train", "--out", "x", "--teacher", teacher, says=("learned 'cartpole-balance'", "'so101-reach'"))
    assert not Path("x").exists()


def test_train_takes_what_the_library_has(tmp_path: Path, refuse):
    out = tmp_path / "run"
    options = ("--symmetry", "on", "--rnd", 0.1, "--precision", "fp32", "--adaptive")
    assert call("train", "--task", "cartpole-balance", "--out", out, *options, *SMALL) == 0
    run = Run.open(out)
    ppo = run.config.ppo
    assert ppo.symmetry is not None and ppo.rnd is not None and ppo.rnd.weight == 0.1 and ppo.precision == "fp32"
    assert run.env.world.ranges is not None and make_world(run.config, 1, 0).ranges is None
    refuse("train", "--out", out, "--resume", "--rnd", 1, says=("--rnd: a resumed run keeps",))
    refuse("train", "--out", "x", "--rnd", -1, says=("--rnd is -1", "at least 0"))
    refuse("train", "--out", "x", "--symmetry", "on", says=("'so101-reach' has no mirror image",))


def test_training_leaves_a_picture_of_its_curve_with_the_tasks_metrics(run: Path):
    with Image.open(run / "curve.png") as picture:
        assert picture.size == (900, round(100 * (1.9 * 3 + 0.9)))  # reward, success, cart_error


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("walking",), ("TASK-OR-RUN 'walking'", "known tasks:", "go2-velocity")),
        (("nothing.onnx",), ("nothing.onnx", "no such bundle")),
        (("cartpole-balance", "--actions", "trained"), ("--actions trained", "has learned nothing")),
        (("cartpole-balance", "--out", "film.avi"), ("--out film.avi", ".png, .gif, .mp4")),
        (("cartpole-balance", "--out", "a.png", "--camera", "front"), ("--camera", "'front'", "overview")),
        (("cartpole-balance", "--episodes", 0), ("--episodes is 0", "at least 1")),
        (("cartpole-balance", "--shown", 3, "--episodes", 2), ("--shown is 3", "1 to 2")),
        (("cartpole-balance", "--seconds", 100), ("--seconds is 100", "0.02 to 8")),
        (("cartpole-balance", "--seed", -1), ("--seed is -1", "expected 0 to")),
    ],
)
def test_what_cannot_be_played_is_refused_with_the_option_that_is_wrong(
    arguments: tuple[object, ...], says: tuple[str, ...], refuse
):
    refuse("play", *arguments, says=says)


def test_files_that_are_no_bundles_and_no_runs_are_refused(tmp_path: Path, refuse):
    (tmp_path / "a.onnx").write_bytes(b"junk")
    refuse("play", tmp_path / "a.onnx", says=("a.onnx", "not an ONNX model"))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "train.json").write_text("{}")
    refuse("play", tmp_path / "run", says=("run is not a training run",))


def test_a_bundle_plays_only_where_it_fits(bundle: Path):
    world = make_world(TrainConfig(task="so101-reach", seed=0), 1, 0)
    with pytest.raises(ContractError, match="a policy for 'cartpole' at 20000000 ns does not fit task 'so101-reach'"):
        BundlePlayer(load_bundle(bundle), world)


def test_a_film_in_mp4_needs_ffmpeg_and_gets_every_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuse):
    monkeypatch.setenv("PATH", str(tmp_path))
    refuse("play", "cartpole-balance", "--out", "film.mp4", says=("--out film.mp4", "ffmpeg", ".gif"))
    program = tmp_path / "ffmpeg"  # what arrives at the program, instead of a film
    program.write_text('#!/bin/sh\nfor last; do :; done\nexec /bin/cat > "$last"\n')
    program.chmod(0o755)
    film.check_film("--out", tmp_path / "film.mp4")
    frames = [np.full((240, 320, 3), value, dtype=np.uint8) for value in (0, 100, 200)]
    film.write_film(tmp_path / "film.mp4", frames, [0.0, 0.04, 0.08])
    written = np.frombuffer((tmp_path / "film.mp4").read_bytes(), dtype=np.uint8).reshape(3, 240, 320, 3)
    assert [int(frame[-1, -1, 0]) for frame in written] == [0, 100, 200]
    program.write_text("#!/bin/sh\necho no such codec >&2\nexit 1\n")
    with pytest.raises(film.FilmError, match=r"no such codec; write a \.gif"):
        film.write_film(tmp_path / "other.mp4", frames, [0.0, 0.04, 0.08])


def test_frames_are_taken_at_whole_ticks_of_any_control_period():
    assert film.filmed_ticks(Path("a.gif"), 10, 0.02) == [0, 2, 4, 6, 8, 10]
    assert film.filmed_ticks(Path("a.gif"), 3, 0.05) == [0, 1, 2, 3]
    assert film.filmed_ticks(Path("a.mp4"), 8, 0.01) == [0, 4, 8]
    assert film.filmed_ticks(Path("a.png"), 110, 0.02) == list(range(0, 111, 10))
    assert film.filmed_ticks(Path("a.png"), 2, 0.02) == [0, 1, 2]


def test_a_table_has_each_episode_with_what_was_randomised_in_it(tmp_path: Path):
    table = tmp_path / "episodes.csv"
    assert call("play", "cartpole-balance", "--actions", "zero", "--episodes", 6, "--table", table) == 0
    with table.open() as file:
        rows = list(csv.DictReader(file))
    world = make_world(TrainConfig(task="cartpole-balance", seed=0), 6, EVALUATION_SEED)
    assert len(rows) == 6 and {"success", "seconds", "return", "cart_error"} <= set(rows[0])
    world.reset(torch.arange(6))  # as an evaluation begins
    for name, values in world.parameters.items():
        assert values.shape[1] == 1
        assert [float(row[name]) for row in rows] == pytest.approx(values[:, 0].tolist(), rel=1e-5)


def test_a_bundle_of_another_robot_is_not_run_on_the_arm(bundle: Path, refuse):
    refuse("run", bundle, "--arm", "soft", says=("is a policy for robot 'cartpole'", "drives 'so101'", "isthmus play"))
