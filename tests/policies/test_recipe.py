"""A training run is one directory that can be left and taken up again."""

import dataclasses

import pytest
import torch

from isthmus.hardware.structure import read_json, write_json
from isthmus.policies.bundle import load_bundle
from isthmus.policies.learning.checkpoint import CheckpointError
from isthmus.policies.learning.ppo_config import PPOConfig
from isthmus.policies.learning.recipe import CONFIG_FILE, Run, TrainConfig
from isthmus.sim.randomization import LogUniform, RandomTerm, Uniform

CONFIG = TrainConfig(
    task="so101-reach",
    seed=4,
    num_envs=32,
    iterations=3,
    ppo=PPOConfig(hidden_dims=(16,), save_every=1),
    randomization=(
        RandomTerm(parameter="latency_s", distribution=Uniform(low=0.01, high=0.02)),
        RandomTerm(parameter="friction_scale", distribution=LogUniform(low=0.5, high=2.0)),
    ),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    run = Run(tmp_path_factory.mktemp("run"), CONFIG)
    run.train()
    return run


def weights(run):
    return torch.cat([p.flatten() for p in run.trainer.actor.parameters()]).detach()


def test_configuration_survives_the_file(tmp_path):
    write_json(tmp_path / "c.json", CONFIG)
    assert read_json(tmp_path / "c.json", TrainConfig) == CONFIG


def test_a_run_leaves_configuration_checkpoint_curve_and_tensorboard(run):
    names = {path.name for path in run.directory.iterdir()}
    assert {"train.json", "checkpoint.pt", "curve.json", "tensorboard"} <= names
    assert list((run.directory / "tensorboard").iterdir()) and len(run.curve) == 3


def test_opening_a_run_gives_the_same_policy_and_counters(run):
    again = Run.open(run.directory)
    assert torch.equal(weights(again), weights(run))
    assert again.trainer.iteration == 3 and again.curve == run.curve


def test_same_seed_same_weights_and_a_resumed_run_goes_on(run, tmp_path):
    twin = Run(tmp_path / "twin", CONFIG)
    twin.train()
    assert torch.equal(weights(twin), weights(run))
    longer = Run.open(tmp_path / "twin")
    longer.config = dataclasses.replace(longer.config, iterations=5)
    longer.train()
    assert longer.trainer.iteration == 5 and len(longer.curve) == 5
    assert not torch.equal(weights(longer), weights(run))


def test_a_run_that_was_left_and_opened_again_has_the_bits_of_one_that_was_not(run, tmp_path):
    Run(tmp_path / "cut", CONFIG).train(iterations=1)
    again = Run.open(tmp_path / "cut")
    again.train()
    assert torch.equal(weights(again), weights(run)) and again.curve[-1].reward == run.curve[-1].reward


def test_an_interrupted_run_keeps_what_it_had(tmp_path):
    run = Run(tmp_path / "cut", CONFIG)

    def stop(progress):
        if progress.iteration == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.train(on_progress=stop)
    assert Run.open(tmp_path / "cut").trainer.iteration == 2


def test_a_run_exports_a_verified_bundle_with_its_provenance(run, tmp_path):
    result = run.evaluate(16)
    assert result.success.shape == (16,) and 0.0 <= result.rate <= 1.0
    run.export(tmp_path / "policy.onnx", simulated_success=result.rate)
    provenance = load_bundle(tmp_path / "policy.onnx").manifest.provenance
    assert provenance.seed == 4 and provenance.environment_steps == 3 * 24 * 32
    assert provenance.simulated_success == result.rate


def test_directories_and_files_that_are_no_runs_are_refused(run, tmp_path):
    with pytest.raises(CheckpointError, match="not a training run"):
        Run.open(tmp_path)
    (tmp_path / CONFIG_FILE).write_text((run.directory / CONFIG_FILE).read_text())
    with pytest.raises(CheckpointError, match=r"checkpoint\.pt"):
        Run.open(tmp_path)
    for junk in (b"", b"junk", b"\x80\x04cos\nsystem\n."):
        (tmp_path / "checkpoint.pt").write_bytes(junk)
        with pytest.raises(CheckpointError, match=r"checkpoint\.pt"):
            Run.open(tmp_path)
