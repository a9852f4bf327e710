"""Options of `isthmus train` that contradict a run, each other, or what numbers can be."""

from pathlib import Path

import pytest
from command_line import Refuse

from isthmus.calibration.identified import Estimate, Identified
from isthmus.deploy.cli import main
from isthmus.deploy.commands.bench_learn import BenchLearn
from isthmus.deploy.commands.checks import OptionError, check_range
from isthmus.policies.learning.recipe import EVALUATION_SEED, RANK_SEED, largest_seed
from isthmus.policies.learning.run_lock import RunLock
from isthmus.sim.randomization import RandomTerm

SMALL = ("--task", "cartpole-balance", "--envs", 8, "--iterations", 1, "--evaluate", 2)


def call(*arguments: object) -> int:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return int(end.value.code or 0)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("options") / "run"
    assert call("train", "--out", out, *SMALL) == 0
    return out


@pytest.mark.parametrize(
    "given",
    [
        ("--task", "cartpole-balance"),
        ("--seed", 0),
        ("--envs", 8),
        ("--network", "mlp"),
        ("--engine", "mujoco"),
        ("--device", "cpu"),
        ("--calibration", "x.json"),
        ("--init", "x"),
        ("--nproc", 1),
        ("--symmetry", "off"),
        ("--privileged",),
        ("--adaptive",),
    ],
)
def test_what_a_resumed_run_cannot_take_is_refused_even_where_it_would_change_nothing(
    given: tuple[object, ...], refuse: Refuse
):
    refuse("train", "--out", "run", "--resume", *given, says=(f"{given[0]}: a resumed run keeps what it began with",))


def test_a_resumed_run_with_nothing_left_to_do_says_why(run: Path, capsys: pytest.CaptureFixture[str]):
    assert call("train", "--out", run, "--resume", "--evaluate", 2) == 0
    assert (
        "nothing was left to train: the run has had 1 iterations, --iterations is 1 in all" in capsys.readouterr().out
    )
    assert call("train", "--out", run, "--resume", "--iterations", 2, "--evaluate", 2) == 0
    assert "nothing was left" not in capsys.readouterr().out


def test_a_second_training_in_a_directory_is_refused_before_anything_is_built(
    run: Path, refuse: Refuse, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("isthmus.policies.learning.recipe.make_world", None)
    with RunLock(run):
        for words in (("--resume",), SMALL):
            refuse("train", "--out", run, *words, says=("another process is training in", str(run)))


def identified(robot: str) -> Identified:
    value = Estimate(value=1.0, lower=0.9, upper=1.1, std=0.1, identifiable=True)
    payload = Estimate(value=0.02, lower=0.01, upper=0.03, std=0.01, identifiable=True)
    return Identified(
        robot=robot,
        log_id="0",
        physics_dt_s=0.005,
        friction_scale=value,
        gain_scale=value,
        payload_kg=payload,
        latency_s=payload,
        payload_per_gain=None,
        heldout=(),
        train_rmse_rad=0.0,
        heldout_before_rad=0.0,
        heldout_after_rad=0.0,
    )


def test_a_calibration_of_another_robot_is_refused_with_both_names(refuse: Refuse, tmp_path: Path):
    identified("so101").save(tmp_path / "arm.json")
    refuse("train", "--out", "x", *SMALL, "--calibration", "arm.json", says=("robot 'so101', got 'cartpole'",))
    assert not (tmp_path / "x").exists()


def test_a_start_from_a_critic_that_saw_something_else_is_told(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    from isthmus.sim.distributions import Uniform

    term = RandomTerm(parameter="joint_vel_noise_rad_s", distribution=Uniform(low=0.0, high=0.1))
    monkeypatch.setattr("isthmus.deploy.commands.train.Train._randomization", lambda self, task: (term,))
    assert call("train", "--out", tmp_path / "next", *SMALL, "--init", run) == 0
    assert f"--init {run}: the critic starts anew, since it saw " in capsys.readouterr().out


def test_seeds_are_numbers_that_every_generator_takes(refuse: Refuse, run: Path):
    most = 2**63 - 1 - EVALUATION_SEED
    assert largest_seed() == most and largest_seed(3) == 2**63 - 1 - 2 * RANK_SEED
    for seed in (most + 1, 2**63, 2**64, 10**30):
        refuse("train", "--out", "x", "--seed", seed, says=(f"--seed is {seed}, expected 0 to {most}",))
        refuse("play", "cartpole-balance", "--seed", seed, says=(f"--seed is {seed}, expected 0 to {most}",))
        with pytest.raises(OptionError, match=f"--seeds is {seed}, expected 0 to {most}"):
            BenchLearn(seeds=(0, seed)).run()
    assert call("play", run, "--seed", most, "--episodes", 1) == 0  # the run's own seed is 0
    assert call("train", "--out", "x", *SMALL, "--seed", most) == 0
    refuse("play", "x", "--seed", 1, says=("--seed is 1, expected 0 to 0",))


@pytest.mark.parametrize("value", ["inf", "nan", "-1"])
def test_a_weight_of_rnd_that_is_no_weight_is_refused(value: str, refuse: Refuse):
    refuse("train", "--out", "x", "--rnd", value, says=(f"--rnd is {value}, expected at least 0",))


def test_infinity_is_refused_where_there_is_no_upper_bound():
    check_range("--x", 1e308, 0)
    with pytest.raises(OptionError, match="--x is inf, expected at least 0 and finite"):
        check_range("--x", float("inf"), 0)
