"""Training by rsl-rl on a vectorised environment: iterations, checkpoints with exact continuation, metrics, clean interruption."""

import contextlib
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from rsl_rl.algorithms import Distillation
from rsl_rl.env import VecEnv
from rsl_rl.models import MLPModel

from isthmus.hardware.structure import FormatError, structure, unstructure

from .algorithms import construct, load_transient_state, transient_state
from .checkpoint import (
    CHECKPOINT_FILE,
    CheckpointError,
    Resumable,
    publish_checkpoint,
    read_state,
    resume_file,
    write_state,
)
from .distributed import this_process
from .divergence import DivergedError, not_finite
from .episodes import staggered_ages
from .metrics import MetricsWriter, TensorBoardWriter, WandbWriter
from .networks import DeployedActor, deployed_actor
from .ppo_config import PPOConfig, TeacherConfig, TrainConfigError, teacher_config
from .symmetry import MirrorSpec
from .threads import one_torch_thread

RANK_SEED = 7919  # between the seeds of processes that train together


@dataclass(kw_only=True)
class Progress:
    """What one iteration of training showed."""

    iteration: int
    iterations: int
    steps: int  # environment steps so far, of all processes
    seconds: float  # since training began
    steps_per_second: float
    metrics: dict[str, float] = field(default_factory=dict)


OnProgress = Callable[[Progress], None]


class Trainer:
    """Owns the algorithm and the run directory; `train` may be interrupted and resumed."""

    def __init__(
        self,
        env: VecEnv,
        config: PPOConfig,
        run_dir: Path,
        *,
        seed: int,
        mirror: MirrorSpec | None = None,
        figures: Callable[[], dict[str, float]] = dict,
        before_save: Callable[[], None] | None = None,
    ) -> None:
        """Args: mirror: how the robot is mirrored, for config.symmetry; figures: asked after each iteration, for the metrics.

        before_save: called by the first process before each checkpoint, to write what shall be there with it.
        """
        one_torch_thread()
        self._figures, self._before_save = figures, before_save
        self.process = this_process()
        torch.manual_seed(seed + RANK_SEED * self.process.rank)
        self.env, self.config, self.run_dir = env, config, run_dir
        run_dir.mkdir(parents=True, exist_ok=True)
        self.algorithm = construct(env, config, mirror, self.process.multi_gpu)
        if self.process.count > 1:
            self.algorithm.broadcast_parameters()
        env.episode_length_buf = staggered_ages(env.num_envs, int(env.max_episode_length)).to(env.episode_length_buf)
        self.iteration = 0
        self.seconds = 0.0
        self._resume_from: Path | None = None  # checkpoint whose worlds and random state training goes on with
        self._whole = True  # between iterations: what there is can be continued

    @property
    def policy(self) -> MLPModel:
        """rsl-rl's model of the policy (a student's, when it learns from a teacher)."""
        return self.algorithm.get_policy()

    @property
    def actor(self) -> DeployedActor:
        """The policy as it is deployed: observation -> mean action, normaliser included; with a GRU, hidden state in and out."""
        return deployed_actor(self.policy)

    @property
    def steps(self) -> int:
        """Environment steps so far, of all processes."""
        return self.iteration * self._steps_per_iteration

    @property
    def _steps_per_iteration(self) -> int:
        return self.config.steps_per_iteration * self.env.num_envs * self.process.count

    def train(
        self,
        iterations: int,
        *,
        time_limit: float | None = None,
        on_progress: OnProgress | None = None,
        wandb: bool = False,
    ) -> None:
        """Run until `iterations` in all, or until `time_limit` s of training have passed.

        Ctrl-C lets the iteration end, saves and then raises KeyboardInterrupt; a second one raises at once and leaves the last checkpoint.
        """
        if isinstance(self.algorithm, Distillation) and not self.algorithm.teacher_loaded:
            raise TrainConfigError(
                "distillation has no teacher: call load_teacher with a trained run's checkpoint first"
            )
        self._go_on()
        writers = self._writers(wandb)
        self.algorithm.train_mode()
        with _deferred_interrupt(insist=self.process.count == 1) as interrupted:
            try:
                while not self.process.any(self._done(iterations, time_limit) or interrupted.is_set()):
                    progress = self._iterate(iterations)
                    for writer in writers:
                        writer.write(progress.steps, progress.metrics)
                    if on_progress is not None:  # before saving: what it records belongs to the checkpoint
                        on_progress(progress)
                    if self.iteration % self.config.save_every == 0:
                        self.save()
                self.save()
            except BaseException:
                if self._whole and self.process.count == 1:  # several processes would wait for the one that failed
                    self.save()
                raise
            finally:
                for writer in writers:
                    writer.close()
        if interrupted.is_set():
            raise KeyboardInterrupt

    def _writers(self, wandb: bool) -> list[MetricsWriter]:
        if self.process.rank > 0:
            return []
        writers: list[MetricsWriter] = [TensorBoardWriter(self.run_dir / "tensorboard", first_step=self.steps)]
        if wandb:
            writers.append(WandbWriter(self.run_dir, unstructure(self.config)))
        return writers

    def _done(self, iterations: int, time_limit: float | None) -> bool:
        return self.iteration >= iterations or (time_limit is not None and self.seconds >= time_limit)

    def _iterate(self, iterations: int) -> Progress:
        self._whole = False
        start = time.perf_counter()
        values, collected = self._learn()
        elapsed = time.perf_counter() - start
        self.iteration += 1
        self.seconds += elapsed
        self._whole = True
        values |= self._figures()
        values["train/learning_rate"] = self.algorithm.learning_rate
        values["time/collect"], values["time/update"] = collected - start, elapsed - (collected - start)
        return Progress(
            iteration=self.iteration,
            iterations=iterations,
            steps=self.steps,
            seconds=self.seconds,
            steps_per_second=self._steps_per_iteration / elapsed,
            metrics=values,
        )

    def _learn(self) -> tuple[dict[str, float], float]:
        """A rollout and an update on it: what was logged, and when the rollout was there; raises DivergedError for NaN."""
        try:
            values = self._collect()
            collected = time.perf_counter()
            losses = self.algorithm.update()
        except (
            ValueError,
            RuntimeError,
        ):  # what came of NaN, where it was met first: torch's distributions, a robot's physics
            self._check_finite({})
            raise
        values |= {f"loss/{name}": float(value) for name, value in losses.items()}
        values["train/action_std"] = float(self.policy.output_std.detach().mean())
        self._check_finite({name: value for name, value in values.items() if name.startswith(("loss/", "train/"))})
        return values, collected

    def _check_finite(self, figures: dict[str, float]) -> None:
        if bad := not_finite(self.algorithm.save(), figures):
            path = self.run_dir / CHECKPOINT_FILE
            kept = f"the last checkpoint, {path}, is from before" if path.is_file() else "there is no checkpoint yet"
            raise DivergedError(
                f"training diverged at iteration {self.iteration + 1}: not finite are {bad}; {kept}; "
                "train anew with a lower learning rate or smaller reward weights"
            )

    @torch.no_grad()
    def _collect(self) -> dict[str, float]:
        """One rollout into the algorithm's storage; mean of what the environment logged."""
        logged: dict[str, list[float]] = {}
        observations = self.env.get_observations()
        for _ in range(self.config.steps_per_iteration):
            actions = self.algorithm.act(observations)
            observations, rewards, dones, extras = self.env.step(actions)
            self.algorithm.process_env_step(observations, rewards, dones, extras)
            logged.setdefault("reward/total", []).append(float(rewards.mean()))
            for name, value in extras["log"].items():
                logged.setdefault(name.lstrip("/"), []).append(float(value))
        self.algorithm.compute_returns(observations)
        return {name: sum(values) / len(values) for name, values in logged.items()}

    def save(self) -> None:
        """Write the checkpoint and what an exact continuation needs; all processes together."""
        resume = {
            "iteration": self.iteration,
            "rng": torch.get_rng_state(),
            "algorithm": transient_state(self.algorithm),
            "env": self.env.state_dict() if isinstance(self.env, Resumable) else None,
        }
        write_state(resume_file(self.run_dir, self.iteration, self.process.rank), resume)
        self.process.wait()
        if self.process.rank == 0:
            if self._before_save is not None:
                self._before_save()
            state = {
                **self.algorithm.save(),
                "iteration": self.iteration,
                "seconds": self.seconds,
                "processes": self.process.count,
                "config": json.dumps(unstructure(self.config)),
            }
            publish_checkpoint(self.run_dir, state)
        self.process.wait()

    def load(self, path: Path, *, resume: bool, critic: bool = True) -> None:
        """Take the networks of a checkpoint; with `resume` also optimiser and counters, and let `train` go on exactly where it was written.

        Worlds that cannot be resumed start anew. Without `resume` the critic may be left as it is.

        Raises:
            CheckpointError: a file cannot be read, was made with other networks or holds values that are not finite.
        """
        state: dict[str, Any] = read_state(path)
        if bad := not_finite(state):
            raise CheckpointError(f"{path} cannot be used: training had diverged, not finite are {bad}")
        try:
            if resume:
                self.algorithm.load(state, _ALL_PARTS, strict=True)
                self.iteration, self.seconds = int(state["iteration"]), float(state["seconds"])
                self._resume_from = path
            else:
                self._take_networks(state, critic=critic)
        except (RuntimeError, KeyError, ValueError, TypeError) as error:
            other = _other_networks(state, self.config)
            raise CheckpointError(f"{path} cannot be used: {other or f'{type(error).__name__} {error}'}") from None

    def _take_networks(self, state: Mapping[str, Any], *, critic: bool) -> None:
        """Policy of a trained run or of a student; the critic too where both have one."""
        policy = "actor_state_dict" if "actor_state_dict" in state else "student_state_dict"
        self.policy.load_state_dict(state[policy])
        if critic and not isinstance(self.algorithm, Distillation) and "critic_state_dict" in state:
            self.algorithm.critic.load_state_dict(state["critic_state_dict"])

    def _go_on(self) -> None:
        """Worlds, hidden states and random state as they were at the checkpoint that was loaded."""
        path, self._resume_from = self._resume_from, None
        if path is None:
            return
        state: dict[str, Any] = read_state(path)
        if "processes" not in state:  # written before there were resume files
            torch.set_rng_state(state["rng"])
            return
        if state["processes"] != self.process.count:
            raise CheckpointError(
                f"{path} is of {state['processes']} processes, not of {self.process.count}: give as many"
            )
        try:
            rest: dict[str, Any] = read_state(resume_file(path.parent, self.iteration, self.process.rank))
        except CheckpointError as error:
            raise CheckpointError(
                f"{error}; without it the run cannot go on, but --init {path.parent} starts a new one from its networks"
            ) from None
        load_transient_state(self.algorithm, rest["algorithm"])
        if rest["env"] is not None and isinstance(self.env, Resumable):
            self.env.load_state_dict(rest["env"])
        torch.set_rng_state(rest["rng"])  # last: building worlds may draw

    def load_teacher(self, path: Path) -> None:
        """The policy to learn from: checkpoint of a run whose networks are as in config.distillation."""
        if not isinstance(self.algorithm, Distillation):
            raise TrainConfigError("this run learns by PPO and has no use for a teacher: give PPOConfig.distillation")
        self.algorithm.load(read_state(path), {"teacher": True}, strict=True)


def _other_networks(state: Mapping[str, Any], config: PPOConfig) -> str:
    """What differs between the networks of a checkpoint and those of a configuration; empty where it does not say, or nothing does."""
    if "config" not in state:
        return ""
    saved = unstructure(teacher_config(structure(json.loads(str(state["config"])), PPOConfig, source="checkpoint")))
    here = unstructure(teacher_config(config))
    return ", ".join(
        f"its {name} is {saved[name]!r}, here it is {value!r}" for name, value in here.items() if saved[name] != value
    )


_ALL_PARTS = {"actor": True, "critic": True, "optimizer": True, "rnd": True, "student": True, "teacher": True}


def read_teacher(path: Path) -> TeacherConfig:
    """What DistillationConfig.teacher must say for the policy in this checkpoint.

    Raises:
        CheckpointError: not a checkpoint of a PPO run.
    """
    state = read_state(path)
    try:
        return teacher_config(structure(json.loads(str(state["config"])), PPOConfig, source=str(path)))
    except (KeyError, ValueError, FormatError) as error:
        raise CheckpointError(f"{path} does not say what its networks are: {error}") from None


@contextlib.contextmanager
def _deferred_interrupt(*, insist: bool) -> Iterator[threading.Event]:
    """The first Ctrl-C sets the event; with `insist` the next one does what it did before.

    One of several processes gets each Ctrl-C twice, from the terminal and from the launcher, which ends it after a while by itself.
    """
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = signal.getsignal(signal.SIGINT)

    def ask(*_: object) -> None:
        asked.set()
        if insist:
            signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, ask)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)
