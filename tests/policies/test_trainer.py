# pyright: reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""Training on a toy environment: continuation to the bit, rsl-rl's extensions, interruption, metrics."""

import dataclasses
import os
import signal
import sys
import types

import pytest
import torch
from rsl_rl.algorithms import PPO
from toy_env import PointMassEnv

from isthmus.hardware.structure import structure, unstructure
from isthmus.policies.learning.checkpoint import CHECKPOINT_FILE, PREVIOUS_FILE, CheckpointError
from isthmus.policies.learning.divergence import DivergedError, not_finite
from isthmus.policies.learning.metrics import MetricsError
from isthmus.policies.learning.networks import DeployedGRU
from isthmus.policies.learning.ppo_config import (
    DistillationConfig,
    PPOConfig,
    RNDConfig,
    SymmetryConfig,
    TrainConfigError,
)
from isthmus.policies.learning.symmetry import MirrorSpec, joined, unchanged
from isthmus.policies.learning.trainer import Trainer, read_teacher

SMALL = PPOConfig(hidden_dims=(16,), normalise=True, save_every=2, steps_per_iteration=12)
PLANE = joined([dataclasses.replace(unchanged(2), signs=(1.0, -1.0))])
MIRROR = MirrorSpec(actor=joined([PLANE] * 3), critic=joined([*[PLANE] * 3, unchanged(1)]), action=PLANE)


def trainer(directory, config=SMALL, *, envs=16, seed=3, mirror=None):
    return Trainer(PointMassEnv(envs, seed=seed), config, directory, seed=seed, mirror=mirror)


def everything(trained):
    state = trained.algorithm.save()
    flat = [t for part in state.values() for t in _tensors(part)]
    return torch.cat([t.flatten().double() for t in flat])


def _tensors(part):
    if isinstance(part, torch.Tensor):
        return [part]
    if isinstance(part, dict):
        return [t for value in part.values() for t in _tensors(value)]
    return [t for value in part for t in _tensors(value)] if isinstance(part, list) else []


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    directory = tmp_path_factory.mktemp("teacher")
    trained = trainer(directory, dataclasses.replace(SMALL, actor_group="critic"))
    trained.train(2)
    return directory / CHECKPOINT_FILE


def variant(name, teacher):
    if name == "distillation":
        return dataclasses.replace(SMALL, network="gru", distillation=DistillationConfig(teacher=read_teacher(teacher)))
    return {
        "mlp": SMALL,
        "bf16": dataclasses.replace(SMALL, precision="bf16"),
        "gru": dataclasses.replace(SMALL, network="gru", rnn_hidden_dim=8, rnn_layers=2),
        "rnd": dataclasses.replace(SMALL, rnd=RNDConfig(weight=0.1)),
        "symmetry": dataclasses.replace(SMALL, symmetry=SymmetryConfig(use_mirror_loss=True, mirror_loss_coeff=0.1)),
        "fixed": dataclasses.replace(SMALL, schedule="fixed", clip_value_loss=False, critic_hidden_dims=(24, 8)),
    }[name]


VARIANTS = ["mlp", "bf16", "gru", "rnd", "symmetry", "fixed", "distillation"]


@pytest.mark.parametrize("name", VARIANTS)
def test_a_run_that_was_cut_and_resumed_has_the_bits_of_one_that_was_not(name, teacher, tmp_path):
    config = variant(name, teacher)

    def begin(directory):
        made = trainer(directory, config, mirror=MIRROR)
        if name == "distillation":
            made.load_teacher(teacher)
        return made

    straight = begin(tmp_path / "straight")
    straight.train(5)
    cut = begin(tmp_path / "cut")
    cut.train(3)
    half = everything(cut)
    resumed = trainer(tmp_path / "cut", config, seed=99, mirror=MIRROR)  # whatever it starts with is replaced
    resumed.load(tmp_path / "cut" / CHECKPOINT_FILE, resume=True)
    assert torch.equal(everything(resumed), half) and resumed.iteration == 3
    resumed.train(5)
    assert torch.equal(everything(resumed), everything(straight))
    assert not torch.equal(everything(resumed), half)
    for mine, its in zip(resumed.env.state_dict().values(), straight.env.state_dict().values(), strict=True):
        assert torch.equal(mine, its)


def test_the_checkpoint_before_the_last_one_stays_and_can_be_continued(tmp_path):
    run = trainer(tmp_path)
    run.train(6)
    run.save()  # again at the same iteration: the one before it must not be lost
    names = {path.name for path in tmp_path.glob("*.pt")}
    assert names == {CHECKPOINT_FILE, PREVIOUS_FILE, "resume-6-0.pt", "resume-4-0.pt"}
    older = trainer(tmp_path, seed=50)
    older.load(tmp_path / PREVIOUS_FILE, resume=True)
    assert older.iteration == 4
    older.train(6)
    assert torch.equal(everything(older), everything(run))


def test_a_broken_checkpoint_is_named_with_the_one_before_it(tmp_path):
    run = trainer(tmp_path)
    run.train(4)
    (tmp_path / CHECKPOINT_FILE).write_bytes(b"junk")
    with pytest.raises(CheckpointError, match=r"checkpoint\.pt cannot be used: .*the one before it is .*previous"):
        trainer(tmp_path).load(tmp_path / CHECKPOINT_FILE, resume=True)
    (tmp_path / "resume-2-0.pt").unlink()
    older = trainer(tmp_path)
    older.load(tmp_path / PREVIOUS_FILE, resume=True)  # enough to evaluate and export
    with pytest.raises(CheckpointError, match=r"resume-2-0\.pt"):
        older.train(4)


def test_a_checkpoint_of_other_networks_is_refused(tmp_path):
    trainer(tmp_path).train(1)
    other = trainer(tmp_path / "other", dataclasses.replace(SMALL, hidden_dims=(8,)))
    with pytest.raises(CheckpointError, match=r"its hidden_dims is \[16\], here it is \[8\]"):
        other.load(tmp_path / CHECKPOINT_FILE, resume=True)


def test_a_checkpoint_from_before_resume_files_goes_on(tmp_path):
    run = trainer(tmp_path, SMALL)
    run.train(2)
    state = torch.load(tmp_path / CHECKPOINT_FILE, weights_only=True)
    del state["processes"]
    for group in state["optimizer_state_dict"]["param_groups"]:
        group["fused"] = None
    torch.save(state | {"rng": torch.get_rng_state()}, tmp_path / "old.pt")
    again = trainer(tmp_path / "again", SMALL)
    again.load(tmp_path / "old.pt", resume=True)
    again.train(3)
    assert again.iteration == 3


def test_configurations_of_earlier_versions_read_as_what_they_did():
    old = {"hidden_dims": [64, 64], "activation": "elu", "init_std": 0.6, "steps_per_iteration": 24, "epochs": 4}
    old |= {"mini_batches": 4, "learning_rate": 1e-3, "desired_kl": 0.012, "gamma": 0.97, "lam": 0.95, "clip": 0.2}
    assert structure(old | {"entropy": 0.002, "save_every": 25}, PPOConfig, source="old") == PPOConfig()
    full = dataclasses.replace(SMALL, rnd=RNDConfig(weight=0.1), symmetry=SymmetryConfig())
    assert structure(unstructure(full), PPOConfig, source="new") == full


@pytest.mark.parametrize("mini_batches", [1, 3])
@pytest.mark.parametrize(
    "config",
    [
        SMALL,
        dataclasses.replace(SMALL, clip_value_loss=False, schedule="fixed"),
        dataclasses.replace(SMALL, symmetry=SymmetryConfig()),
    ],
)
def test_the_shared_update_is_rsl_rls_update(config, mini_batches, tmp_path, monkeypatch):
    monkeypatch.setattr("isthmus.policies.learning.ppo.CHUNK", 50)  # several uneven chunks in a mini-batch
    config = dataclasses.replace(config, mini_batches=mini_batches)
    ours, theirs = (trainer(tmp_path / name, config, mirror=MIRROR) for name in ("ours", "theirs"))
    assert ours.algorithm.shares_rows
    theirs.algorithm.shares_rows = False
    for made in (ours, theirs):
        made.algorithm.train_mode()
    for iteration in range(3):
        losses = []
        for made in (ours, theirs):
            torch.manual_seed(iteration)  # rsl-rl's update draws more numbers
            made._collect()
            torch.manual_seed(100 + iteration)
            losses.append(made.algorithm.update())
        losses[1].pop("symmetry", None)  # of rsl-rl's alone, for logging
        assert losses[0] == pytest.approx(losses[1], rel=1e-4, abs=1e-6)
        torch.testing.assert_close(everything(ours), everything(theirs), atol=2e-5, rtol=1e-4)
        assert ours.algorithm.learning_rate == theirs.algorithm.learning_rate
    assert isinstance(theirs.algorithm, PPO)


def test_the_number_of_cores_does_not_change_a_bit(tmp_path, monkeypatch):
    monkeypatch.setattr("isthmus.policies.learning.ppo.CHUNK", 50)
    results = []
    for cores in (1, 3):
        monkeypatch.setattr("isthmus.policies.learning.threads.available_cores", lambda cores=cores: cores)
        run = trainer(tmp_path / str(cores))
        run.train(3)
        results.append(everything(run))
    assert torch.equal(*results)


def mean_distance(directory, config):
    seen = []
    run = trainer(directory, config, envs=128)
    run.train(60, on_progress=lambda progress: seen.append(progress.metrics["episode/distance"]))
    return sum(seen[:3]) / 3, sum(seen[-3:]) / 3


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_ppo_learns_to_reach_in_either_precision(precision, tmp_path):
    config = dataclasses.replace(SMALL, hidden_dims=(32, 32), precision=precision)
    first, last = mean_distance(tmp_path, config)
    assert last < 0.7 * first


def test_a_gru_learns_and_deploys_its_state(tmp_path):
    config = dataclasses.replace(SMALL, network="gru", rnn_hidden_dim=16)
    first, last = mean_distance(tmp_path, config)
    assert last < 0.8 * first
    assert isinstance(trainer(tmp_path / "other", config).actor, DeployedGRU)


def test_a_student_comes_to_do_what_its_teacher_does(teacher, tmp_path):
    config = dataclasses.replace(SMALL, distillation=DistillationConfig(teacher=read_teacher(teacher), epochs=4))
    run = trainer(tmp_path, config, envs=64)
    with pytest.raises(TrainConfigError, match="has no teacher"):
        run.train(1)
    run.load_teacher(teacher)
    losses = []
    run.train(40, on_progress=lambda progress: losses.append(progress.metrics["loss/behavior"]))
    assert losses[-1] < 0.2 * losses[0]
    finer = trainer(tmp_path / "finer", SMALL)  # PPO goes on from a student
    finer.load(tmp_path / CHECKPOINT_FILE, resume=False)
    x = torch.randn(4, 6)
    assert torch.equal(finer.actor(x), run.actor(x)) and finer.iteration == 0


def test_symmetry_makes_a_policy_more_symmetric(tmp_path):
    def asymmetry(name, symmetry):
        config = dataclasses.replace(SMALL, symmetry=symmetry, normalise=False)
        run = trainer(tmp_path / name, config, envs=64, mirror=MIRROR)
        run.train(25)
        x = torch.randn(500, 6, generator=torch.Generator().manual_seed(0))
        flip = torch.tensor([1.0, -1.0])
        with torch.no_grad():
            return float((run.actor(x * flip.repeat(3)) - run.actor(x) * flip).square().mean())

    with_mirror = asymmetry("with", SymmetryConfig(use_mirror_loss=True, mirror_loss_coeff=1.0))
    assert with_mirror < 0.5 * asymmetry("without", None)


def test_rnd_rewards_what_is_new_by_the_configured_weight(tmp_path):
    run = trainer(tmp_path, dataclasses.replace(SMALL, rnd=RNDConfig(weight=0.25, reward_normalization=False)))
    run.train(1)
    rnd = run.algorithm.rnd
    assert rnd.weight == 0.25 and rnd.num_states == 7  # the critic's group
    obs = run.env.get_observations()
    error = torch.linalg.vector_norm(
        rnd.target(rnd.state_normalizer(obs["critic"])) - rnd.predictor(rnd.state_normalizer(obs["critic"])), dim=1
    )
    torch.testing.assert_close(rnd.get_intrinsic_reward(obs), 0.25 * error)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"symmetry": SymmetryConfig()}, "give the trainer a MirrorSpec"),
        ({"symmetry": SymmetryConfig(), "network": "gru"}, "symmetry does not work with network 'gru'"),
        ({"precision": "bf16", "network": "gru"}, "precision 'bf16' is for network 'mlp'"),
    ],
)
def test_what_cannot_be_is_refused(change, message, tmp_path):
    with pytest.raises(TrainConfigError, match=message):
        trainer(tmp_path, dataclasses.replace(SMALL, **change))


def test_distillation_refuses_what_would_be_lost_or_ignored(teacher, tmp_path):
    learn = DistillationConfig(teacher=read_teacher(teacher), gradient_length=7)
    with pytest.raises(TrainConfigError, match="gradient_length 7 does not divide 12"):
        trainer(tmp_path, dataclasses.replace(SMALL, distillation=learn))
    with pytest.raises(TrainConfigError, match="distillation goes without rnd"):
        trainer(tmp_path, dataclasses.replace(SMALL, distillation=learn, rnd=RNDConfig(weight=0.1)))
    with pytest.raises(TrainConfigError, match="no use for a teacher"):
        trainer(tmp_path).load_teacher(teacher)


def test_ctrl_c_lets_the_iteration_end_and_saves_it(tmp_path):
    run = trainer(tmp_path, dataclasses.replace(SMALL, save_every=100))
    step, count = run.env.step, []

    def step_and_interrupt(actions):
        count.append(1)
        if len(count) == 12 + 5:  # in the middle of the second iteration
            os.kill(os.getpid(), signal.SIGINT)
        return step(actions)

    run.env.step = step_and_interrupt
    with pytest.raises(KeyboardInterrupt):
        run.train(100)
    assert len(count) == 24
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    straight = trainer(tmp_path / "straight")
    straight.train(3)
    again = trainer(tmp_path, seed=8)
    again.load(tmp_path / CHECKPOINT_FILE, resume=True)
    assert again.iteration == 2
    again.train(3)
    assert torch.equal(everything(again), everything(straight))


def test_a_second_ctrl_c_ends_at_once_and_leaves_the_last_whole_checkpoint(tmp_path):
    run = trainer(tmp_path, dataclasses.replace(SMALL, save_every=1))
    step, count = run.env.step, []

    def step_and_insist(actions):
        count.append(1)
        if len(count) in (24 + 5, 24 + 6):
            os.kill(os.getpid(), signal.SIGINT)
        return step(actions)

    run.env.step = step_and_insist
    with pytest.raises(KeyboardInterrupt):
        run.train(100)
    assert len(count) == 30
    again = trainer(tmp_path, seed=8)
    again.load(tmp_path / CHECKPOINT_FILE, resume=True)
    assert again.iteration == 2


@pytest.mark.parametrize("network", ["mlp", "gru"])
def test_training_that_diverges_stops_with_a_reason_and_keeps_the_checkpoint_before(network, tmp_path):
    run = trainer(tmp_path, dataclasses.replace(SMALL, network=network, schedule="fixed", save_every=1), envs=4)
    run.train(1)
    kept = (tmp_path / CHECKPOINT_FILE).read_bytes()
    step = run.env.step

    def step_with_rewards_beyond_numbers(actions):
        observations, rewards, dones, extras = step(actions)
        return observations, 1e38 * rewards, dones, extras

    run.env.step = step_with_rewards_beyond_numbers
    with pytest.raises(
        DivergedError, match=r"diverged at iteration 2: not finite are .*checkpoint\.pt, is from before"
    ):
        run.train(5)
    assert (tmp_path / CHECKPOINT_FILE).read_bytes() == kept and run.iteration == 1


def test_weights_that_are_lost_are_told_where_they_are_met_first_and_checkpoints_of_them_refused(tmp_path):
    run = trainer(tmp_path, envs=4)
    with torch.no_grad():
        run.policy.state_dict()["mlp.0.weight"][0, 0] = float("nan")

    def refuse(actions):
        raise ValueError("physics takes numbers only")

    run.env.step = refuse
    with pytest.raises(
        DivergedError, match=r"iteration 1: not finite are .*mlp\.0\.weight; there is no checkpoint yet;.*lower"
    ):
        run.train(1)
    assert not (tmp_path / CHECKPOINT_FILE).exists()
    run.save()
    with pytest.raises(CheckpointError, match="training had diverged, not finite are"):
        trainer(tmp_path / "other", envs=4).load(tmp_path / CHECKPOINT_FILE, resume=False)


def test_what_is_not_finite_is_named_and_large_sums_of_finite_values_are_not():
    assert not_finite({"a": [torch.full((4,), 3e38)], "n": torch.tensor(3)}, {"loss": 1.0}) == ""
    assert not_finite({"a": {"b": torch.tensor([1.0, float("inf")])}}, {"loss": float("nan")}) == "loss, a.b"


def test_a_run_without_its_resume_file_says_what_can_be_done(tmp_path):
    trainer(tmp_path, envs=4).train(1)
    (tmp_path / "resume-1-0.pt").unlink()
    again = trainer(tmp_path, envs=4)
    again.load(tmp_path / CHECKPOINT_FILE, resume=True)
    with pytest.raises(CheckpointError, match=rf"resume-1-0\.pt does not exist.*--init {tmp_path} starts a new one"):
        again.train(2)


def test_wandb_is_asked_only_on_request_and_gets_every_iteration(tmp_path, monkeypatch):
    rows, closed = [], []
    run = types.SimpleNamespace(log=lambda values, step: rows.append((step, values)), finish=lambda: closed.append(1))
    fake = types.ModuleType("wandb")
    fake.init = lambda **options: run
    monkeypatch.setitem(sys.modules, "wandb", None)  # as if it were not installed
    trainer(tmp_path / "without").train(1)
    with pytest.raises(MetricsError, match="pip install wandb"):
        trainer(tmp_path / "missing").train(1, wandb=True)
    monkeypatch.setitem(sys.modules, "wandb", fake)
    trainer(tmp_path / "with").train(2, wandb=True)
    assert [step for step, _ in rows] == [12 * 16, 2 * 12 * 16] and "reward/total" in rows[0][1] and closed == [1]
