# pyright: reportArgumentType=false, reportReturnType=false
"""What a run keeps beside its checkpoint, so that nothing else is taken for it: lock, contract, curve, what its critic saw."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from isthmus.hardware.structure import read_json, write_json
from isthmus.policies.contracts import get_contract
from isthmus.policies.curve import Curve
from isthmus.policies.learning.checkpoint import CHECKPOINT_FILE, CheckpointError
from isthmus.policies.learning.env import ContractEnv
from isthmus.policies.learning.kept_contract import CONTRACT_FILE, contract_differences
from isthmus.policies.learning.ppo_config import DistillationConfig, PPOConfig
from isthmus.policies.learning.recipe import (
    CONFIG_FILE,
    CURVE_FILE,
    Run,
    TrainConfig,
    critic_saw_otherwise,
    read_run_teacher,
)
from isthmus.policies.learning.run_lock import RunLock, RunLockError
from isthmus.sim.randomization import RandomTerm, Uniform

PPO = PPOConfig(hidden_dims=(8,), steps_per_iteration=4, epochs=1, mini_batches=1, save_every=2)
CONFIG = TrainConfig(task="cartpole-balance", seed=1, num_envs=2, iterations=2, ppo=PPO)
RECIPE = "isthmus.policies.learning.recipe"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = Run(tmp_path_factory.mktemp("run"), CONFIG)
    run.train()
    return run


def points(directory: Path) -> list[int]:
    """Iterations that the curve in a run has points of."""
    return [point.steps // 8 for point in read_json(directory / CURVE_FILE, Curve).points]


def test_one_process_at_a_time_trains_in_a_directory(run: Run):
    with RunLock(run.directory) as lock:
        with lock:  # as often as it likes
            pass
        with pytest.raises(RunLockError, match=f"another process is training in {run.directory}"):
            run.train()
    with RunLock(run.directory):
        pass


HOLDER = """
import sys, time
from pathlib import Path
from isthmus.policies.learning.run_lock import RunLock
with RunLock(Path(sys.argv[1])):
    print("in", flush=True)
    time.sleep(600)
"""


def test_the_lock_of_a_process_that_was_killed_is_free(tmp_path: Path):
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None and holder.stdout.readline() == "in\n"
    with pytest.raises(RunLockError, match=str(tmp_path)), RunLock(tmp_path):
        pass
    holder.kill()
    holder.communicate()
    with RunLock(tmp_path):
        pass


def test_the_curve_is_there_with_every_checkpoint_and_has_no_point_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    run, seen = Run(tmp_path, CONFIG), []
    publish, calls, step = "isthmus.policies.learning.trainer.publish_checkpoint", [0], ContractEnv.step

    def look(directory: Path, state: dict) -> None:
        seen.append((state["iteration"], points(directory)))
        real(directory, state)

    from isthmus.policies.learning.checkpoint import publish_checkpoint as real

    monkeypatch.setattr(publish, look)

    def stop_within_the_fourth(env: ContractEnv, actions: torch.Tensor) -> tuple:
        calls[0] += 1
        if calls[0] == 3 * 4 + 2:
            raise KeyboardInterrupt
        return step(env, actions)

    monkeypatch.setattr(ContractEnv, "step", stop_within_the_fourth)
    with pytest.raises(KeyboardInterrupt):
        run.train(iterations=10)
    assert seen == [(2, [1, 2])] and points(tmp_path) == [1, 2, 3]
    again = Run.open(tmp_path)
    again.train(iterations=4)
    assert points(tmp_path) == [1, 2, 3, 4]


def test_a_run_is_not_opened_with_another_contract_than_its_own(run: Run, monkeypatch: pytest.MonkeyPatch):
    assert (run.directory / CONTRACT_FILE).is_file()
    contract = get_contract(CONFIG.task)
    action = replace(contract.action, scale=2 * contract.action.scale)
    edited = replace(contract, observation=contract.observation[::-1], action=action)
    monkeypatch.setattr(f"{RECIPE}.get_contract", lambda task: edited)
    for look in (Run.open, Run.look_at, lambda directory: read_run_teacher(directory, CONFIG.task)):
        with pytest.raises(
            CheckpointError, match=r"another contract for 'cartpole-balance'.*observation\[0\]\.name was"
        ):
            look(run.directory)
    scale = contract.action.scale
    assert contract_differences(contract, replace(contract, action=action)) == [
        f"action.scale was {scale}, is {2 * scale}"
    ]


def test_a_run_from_before_contracts_were_kept_opens(run: Run, tmp_path: Path):
    for name in (CONFIG_FILE, CHECKPOINT_FILE):
        (tmp_path / name).write_bytes((run.directory / name).read_bytes())
    assert Run.look_at(tmp_path).trainer.iteration == 2


def test_a_run_of_a_gpu_is_looked_at_and_exported_without_one(run: Run, tmp_path: Path):
    (tmp_path / CHECKPOINT_FILE).write_bytes((run.directory / CHECKPOINT_FILE).read_bytes())
    write_json(tmp_path / CONFIG_FILE, replace(CONFIG, device="cuda", processes=3))
    found = Run.look_at(tmp_path)
    bundle = found.export(tmp_path / "policy.onnx", simulated_success=0.5)
    assert bundle.manifest.provenance.environment_steps == 2 * 4 * 2 * 3
    assert torch.equal(found.trainer.policy.mlp[0].weight, run.trainer.policy.mlp[0].weight)


def narrowed(parameter: str) -> TrainConfig:
    """The same run with other randomisation of a parameter that the task randomises first."""
    term = RandomTerm(parameter=parameter, distribution=Uniform(low=0.9, high=1.1))
    return replace(CONFIG, randomization=(term,))


NOISE = RandomTerm(parameter="joint_vel_noise_rad_s", distribution=Uniform(low=0.0, high=0.1))


def with_noise() -> TrainConfig:
    """The same run with something randomised that the task does not randomise."""
    return replace(CONFIG, randomization=(NOISE,))


def weight(run: Run) -> torch.Tensor:
    return run.trainer.algorithm.critic.mlp[0].weight  # pyright: ignore[reportAttributeAccessIssue]


def test_a_critic_that_was_shown_something_else_is_not_taken_over(run: Run, tmp_path: Path):
    names = list(run.env.world.parameters)
    other = with_noise()
    difference = critic_saw_otherwise(run.directory, other)
    assert (
        difference == f"it saw the parameters {', '.join(names)}; here they are {', '.join([*names, NOISE.parameter])}"
    )
    assert critic_saw_otherwise(run.directory, narrowed(names[0])) == ""  # places and scales are the task's
    assert critic_saw_otherwise(run.directory, CONFIG) == ""
    same, changed = Run(tmp_path / "same", replace(CONFIG, seed=2)), Run(tmp_path / "changed", other)
    fresh = weight(changed).clone()
    for begun in (same, changed):
        begun.start_from(run.directory)
        assert torch.equal(begun.trainer.policy.mlp[0].weight, run.trainer.policy.mlp[0].weight)
    assert torch.equal(weight(same), weight(run))
    assert torch.equal(weight(changed), fresh) and not torch.equal(weight(changed), weight(run))


def test_a_privileged_policy_neither_teaches_nor_begins_where_it_is_shown_something_else(tmp_path: Path):
    config = replace(CONFIG, ppo=replace(PPO, actor_group="critic"), iterations=1)
    teacher = Run(tmp_path / "teacher", config)
    teacher.train()
    other = with_noise().randomization
    student = replace(
        PPO,
        distillation=DistillationConfig(teacher=read_run_teacher(tmp_path / "teacher", CONFIG.task), gradient_length=4),
    )
    Run(tmp_path / "a", replace(CONFIG, ppo=student)).learn_from(tmp_path / "teacher")
    with pytest.raises(CheckpointError, match=r"cannot teach here: it saw the parameters .*; here they are"):
        Run(tmp_path / "b", replace(CONFIG, ppo=student, randomization=other)).learn_from(tmp_path / "teacher")
    with pytest.raises(CheckpointError, match="for a policy that sees everything: it saw the parameters"):
        Run(tmp_path / "c", replace(config, randomization=other)).start_from(tmp_path / "teacher")
