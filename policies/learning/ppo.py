"""PPO by rsl-rl-lib on a ContractEnv: checkpoints, exact configuration, TensorBoard, progress with ETA, clean interruption."""

import contextlib
import io
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from rsl_rl.algorithms import PPO
from torch.utils.tensorboard import SummaryWriter

from isthmus.hardware.errors import IsthmusError
from isthmus.hardware.structure import unstructure

from .env import ContractEnv


class CheckpointError(IsthmusError, ValueError):
    """A checkpoint is not one of ours or does not fit the configuration."""


@dataclass(frozen=True, kw_only=True)
class PPOConfig:
    """PPO and its networks; names as in rsl-rl."""

    hidden_dims: tuple[int, ...] = (64, 64)
    activation: str = "elu"
    init_std: float = 0.6
    steps_per_iteration: int = 24
    epochs: int = 4
    mini_batches: int = 4
    learning_rate: float = 1e-3
    desired_kl: float = 0.012
    gamma: float = 0.97
    lam: float = 0.95
    clip: float = 0.2
    entropy: float = 0.002
    save_every: int = 25  # iterations


@dataclass(kw_only=True)
class Progress:
    """What one iteration of training showed."""

    iteration: int
    iterations: int
    steps: int  # environment steps so far
    seconds: float  # since training began
    steps_per_second: float
    metrics: dict[str, float] = field(default_factory=dict)


def rsl_rl_config(config: PPOConfig) -> dict:
    """The dict that rsl-rl takes."""
    network = {"class_name": "MLPModel", "hidden_dims": list(config.hidden_dims), "activation": config.activation}
    noise = {"class_name": "GaussianDistribution", "init_std": config.init_std, "std_type": "log"}
    return {
        "num_steps_per_env": config.steps_per_iteration,
        "obs_groups": {"actor": ["actor"], "critic": ["critic"]},
        "multi_gpu": None,
        "actor": {**network, "distribution_cfg": noise},
        "critic": dict(network),
        "algorithm": {
            "class_name": "PPO",
            "num_learning_epochs": config.epochs,
            "num_mini_batches": config.mini_batches,
            "clip_param": config.clip,
            "gamma": config.gamma,
            "lam": config.lam,
            "value_loss_coef": 1.0,
            "entropy_coef": config.entropy,
            "learning_rate": config.learning_rate,
            "max_grad_norm": 1.0,
            "use_clipped_value_loss": True,
            "schedule": "adaptive",
            "desired_kl": config.desired_kl,
        },
    }


class Trainer:
    """Owns the algorithm and the run directory; `train` may be interrupted and resumed."""

    def __init__(self, env: ContractEnv, config: PPOConfig, run_dir: Path, *, seed: int) -> None:
        torch.manual_seed(seed)
        self.env, self.config, self.run_dir = env, config, run_dir
        run_dir.mkdir(parents=True, exist_ok=True)
        with contextlib.redirect_stdout(io.StringIO()):  # rsl-rl prints its models
            self.algorithm: PPO = PPO.construct_algorithm(env.get_observations(), env, rsl_rl_config(config), "cpu")
        # Episodes that all begin together would show each iteration another part of the task.
        env.episode_length_buf = torch.randint_like(env.episode_length_buf, high=env.max_episode_length)
        self.iteration = 0
        self.seconds = 0.0

    @property
    def actor(self) -> torch.nn.Module:
        """Observation (batch, d) -> mean action (batch, a)."""
        return self.algorithm.get_policy().mlp  # pyright: ignore[reportReturnType]

    def train(
        self, iterations: int, *, time_limit: float | None = None, on_progress: Callable[[Progress], None] | None = None
    ) -> None:
        """Run until `iterations` in all, or until `time_limit` s of training have passed; saves at the end and on interruption."""
        writer = SummaryWriter(str(self.run_dir / "tensorboard"))
        self.algorithm.train_mode()
        try:
            while self.iteration < iterations and (time_limit is None or self.seconds < time_limit):
                progress = self._iterate(iterations)
                for name, value in progress.metrics.items():
                    writer.add_scalar(name, value, progress.steps)
                if on_progress is not None:
                    on_progress(progress)
                if self.iteration % self.config.save_every == 0:
                    self.save()
        finally:
            self.save()
            writer.close()

    def _iterate(self, iterations: int) -> Progress:
        start = time.perf_counter()
        metrics: dict[str, list[float]] = {}
        observations = self.env.get_observations()
        rewards_seen = 0.0
        with torch.no_grad():
            for _ in range(self.config.steps_per_iteration):
                actions = self.algorithm.act(observations)
                observations, rewards, dones, extras = self.env.step(actions)
                rewards_seen += float(rewards.mean())
                self.algorithm.process_env_step(observations, rewards, dones, extras)
                for name, value in extras["log"].items():
                    metrics.setdefault(name.lstrip("/"), []).append(float(value))
            self.algorithm.compute_returns(observations)
        losses = self.algorithm.update()
        elapsed = time.perf_counter() - start
        self.iteration += 1
        self.seconds += elapsed
        per_iteration = self.config.steps_per_iteration * self.env.num_envs
        values = {name: sum(v) / len(v) for name, v in metrics.items()}
        values |= {f"loss/{name}": float(value) for name, value in losses.items()}
        values["reward/total"] = rewards_seen / self.config.steps_per_iteration
        values["train/action_std"] = float(self.algorithm.get_policy().output_std.detach().mean())
        values["train/learning_rate"] = self.algorithm.learning_rate
        values["train/physics_failures"] = float(self.env.world.failures)
        return Progress(
            iteration=self.iteration,
            iterations=iterations,
            steps=self.iteration * per_iteration,
            seconds=self.seconds,
            steps_per_second=per_iteration / elapsed,
            metrics=values,
        )

    def save(self) -> Path:
        """Write `checkpoint.pt` (tensors and numbers only, so that it loads without unpickling code), whole or not at all."""
        path = self.run_dir / "checkpoint.pt"
        state = {
            **self.algorithm.save(),
            "iteration": self.iteration,
            "seconds": self.seconds,
            "config": json.dumps(unstructure(self.config)),
            "rng": torch.get_rng_state(),
        }
        torch.save(state, path.with_suffix(".tmp"))
        path.with_suffix(".tmp").replace(path)
        return path

    def load(self, path: Path, *, resume: bool) -> None:
        """Take the networks of a checkpoint; with `resume` also optimiser, counters and random state.

        The simulated worlds start anew.

        Raises:
            CheckpointError: the file cannot be read or was made with other networks.
        """
        try:
            state = torch.load(path, weights_only=True, map_location="cpu")
            parts = {"actor": True, "critic": True, "optimizer": resume}
            self.algorithm.load(state, parts, strict=True)
        except (OSError, RuntimeError, KeyError, ValueError, EOFError) as error:
            raise CheckpointError(f"{path} cannot be used: {error}") from None
        except Exception as error:  # torch raises pickle.UnpicklingError for files that are no checkpoints
            raise CheckpointError(f"{path} is not a checkpoint of isthmus: {error}") from None
        if resume:
            self.iteration, self.seconds = int(state["iteration"]), float(state["seconds"])
            torch.set_rng_state(state["rng"])
