"""A training run as a whole: world, environment, PPO, evaluation and bundle, in one directory."""

import contextlib
import importlib.metadata
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import torch

from isthmus.hardware.structure import FormatError, read_json, write_json
from isthmus.sim.curricula import RangesBySuccess
from isthmus.sim.curriculum import AutomaticConfig
from isthmus.sim.engines import make_engine
from isthmus.sim.randomization import Term, override
from isthmus.sim.tasks import get_task
from isthmus.sim.world import World

from ..bundle import Bundle
from ..contracts import get_contract
from ..curve import Curve, CurvePoint
from ..manifest import Provenance
from .checkpoint import CHECKPOINT_FILE, CheckpointError
from .curve_plot import plot_curve
from .distributed import launch, this_process
from .env import ContractEnv
from .evaluate import Evaluation, evaluate
from .export import export_bundle
from .kept_contract import check_kept_contract, keep_contract
from .mirrors import get_reflection, mirror_spec
from .players import NetworkPlayer
from .ppo_config import PPOConfig, TeacherConfig, TrainConfigError
from .presets import get_preset
from .run_lock import RunLock
from .seen import shown_otherwise
from .threads import available_cores, one_torch_thread
from .trainer import RANK_SEED, OnProgress, Progress, Trainer, read_teacher

CONFIG_FILE, CURVE_FILE, CURVE_PICTURE = "train.json", "curve.json", "curve.png"
EVALUATION_SEED = 10_000  # added to the seed of training, so that no evaluation sees a training world
MET_ENVS = 128  # environments whose episodes show what a policy meets
MOST_SEED = 2**63 - 1  # that a world's state can hold


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """What defines a training run. Two runs with equal configuration on one machine give equal bits."""

    task: str
    seed: int
    num_envs: int = 1024  # of each process
    processes: int = 1  # that train together
    iterations: int = 120
    ppo: PPOConfig = field(default_factory=PPOConfig)
    randomization: tuple[Term, ...] = ()  # put in place of the task's own terms on the same parameters
    adaptive: bool = False  # randomised ranges grow with success, from the neutral values to the whole
    engine: str = "mujoco"  # of ENGINES
    device: str = "cpu"  # of the engine


def task_config(task: str, seed: int, *, engine: str = "mujoco", device: str = "cpu") -> TrainConfig:
    """The settings of a task's preset: those for a GPU where the engine is on one."""
    preset, on_gpu = get_preset(task), device == "cuda"
    return TrainConfig(
        task=task,
        seed=seed,
        num_envs=preset.gpu_num_envs if on_gpu else preset.num_envs,
        iterations=preset.gpu_iterations if on_gpu else preset.iterations,
        ppo=preset.ppo,
        engine=engine,
        device=device,
    )


def make_world(
    config: TrainConfig, num_envs: int, seed: int, *, training: bool = False, randomise: bool = True
) -> World:
    """A world of the run's task and randomisation, over whole ranges unless it is for `training`."""
    task = get_task(config.task)
    engine = make_engine(
        config.engine, task.scene(), num_envs, dt=task.physics_dt, device=config.device, threads=available_cores()
    )
    terms = override(task.randomization, config.randomization) if randomise else ()
    ranges = RangesBySuccess(automatic=AutomaticConfig()) if training and config.adaptive else None
    return World(task, engine, seed=seed, randomization=terms, ranges=ranges)


def largest_seed(processes: int = 1) -> int:
    """Of a run, whose worlds for evaluation and whose processes have seeds beyond its own."""
    return MOST_SEED - max(EVALUATION_SEED, RANK_SEED * (processes - 1))


def read_config(directory: Path) -> TrainConfig:
    """The configuration of a run that was begun before.

    Raises:
        CheckpointError: there is none, or its contract has changed since.
    """
    if not (directory / CONFIG_FILE).is_file():
        raise CheckpointError(
            f"{directory} is not a training run: it has no {CONFIG_FILE}; a run leaves one when its training begins"
        )
    try:
        config = read_json(directory / CONFIG_FILE, TrainConfig)
    except FormatError as error:
        raise CheckpointError(f"{directory} is not a training run: {error}") from None
    check_kept_contract(directory, get_contract(config.task))
    return config


def read_run_teacher(directory: Path, task: str) -> TeacherConfig:
    """What DistillationConfig.teacher must say for the policy of a run; raises CheckpointError for one that cannot teach the task."""
    config = read_config(directory)
    if config.task != task:
        raise CheckpointError(f"teacher {directory} learned {config.task!r}, the student is to learn {task!r}")
    if config.ppo.distillation is not None:
        raise CheckpointError(f"teacher {directory} is a student itself; give the run that it learned from")
    return read_teacher(directory / CHECKPOINT_FILE)


def critic_saw_otherwise(other: Path, config: TrainConfig) -> str:
    """What the critic of a run or checkpoint was shown otherwise than one of `config` is, in words; empty where nothing differs."""
    directory = other if other.is_dir() else other.parent
    if not (directory / CONFIG_FILE).is_file():
        return "there is no run around it that says what it saw"
    its = read_config(directory)
    worlds = [make_world(replace(each, engine="mujoco", device="cpu"), 1, 0) for each in (its, config)]
    return shown_otherwise(worlds[0], get_contract(its.task), worlds[1], get_contract(config.task))


class Run:
    """A training run in a directory: `train`, `evaluate`, `export`."""

    def __init__(self, directory: Path, config: TrainConfig, *, num_envs: int | None = None) -> None:
        """Args: num_envs: of the environment, where it is not to train as many as it was trained with."""
        self.directory, self.config = directory, config
        self.lock = RunLock(directory)  # `train` is in it
        one_torch_thread()  # before the engine starts its own
        self.contract = get_contract(config.task)
        world_seed = config.seed + RANK_SEED * this_process().rank
        world = make_world(config, num_envs or config.num_envs, world_seed, training=True)
        self.env = ContractEnv(world, self.contract)
        mirror = None if config.ppo.symmetry is None else mirror_spec(self.env, get_reflection(config.task))
        self.curve: list[CurvePoint] = []
        self.trainer = Trainer(
            self.env,
            config.ppo,
            directory,
            seed=config.seed,
            mirror=mirror,
            figures=self._figures,
            before_save=self._write_curve,
        )

    def _figures(self) -> dict[str, float]:
        return {"train/physics_failures": float(self.env.world.failures)}

    def _write_curve(self) -> None:
        write_json(self.directory / CURVE_FILE, Curve(points=tuple(self.curve)))

    @property
    def steps(self) -> int:
        """Environment steps of the run so far, of all its processes."""
        each = self.config.num_envs * self.config.ppo.steps_per_iteration
        return self.config.processes * each * self.trainer.iteration

    @classmethod
    def open(cls, directory: Path) -> "Run":
        """A run that was begun before, at its last checkpoint; raises CheckpointError when there is none."""
        run = cls(directory, read_config(directory))
        run.trainer.load(directory / CHECKPOINT_FILE, resume=True)
        if (directory / CURVE_FILE).is_file():
            run.curve = list(read_json(directory / CURVE_FILE, Curve).until(run.steps).points)
        return run

    @classmethod
    def look_at(cls, directory: Path, *, engine: str | None = None) -> "Run":
        """The trained networks of a run on the CPU, on another engine if asked for, to evaluate; to train on, `open` it."""
        config = read_config(directory)
        run = cls(directory, replace(config, adaptive=False, engine=engine or config.engine, device="cpu"), num_envs=1)
        run.trainer.load(directory / CHECKPOINT_FILE, resume=True)
        return run

    def learn_from(self, teacher: Path) -> None:
        """Take the policy of a run as the teacher of a distillation.

        Raises:
            CheckpointError: a policy of another task, or one that sees other values.
        """
        found = read_run_teacher(teacher, self.config.task)
        if found.group == "critic" and (other := critic_saw_otherwise(teacher, self.config)):
            raise CheckpointError(
                f"teacher {teacher} cannot teach here: {other}; train the student with the randomisation of its teacher"
            )
        try:
            self.trainer.load_teacher(teacher / CHECKPOINT_FILE)
        except RuntimeError as error:
            raise CheckpointError(
                f"teacher {teacher} sees other values than there are here, such as other randomised parameters: {error}"
            ) from None

    def start_from(self, other: Path) -> None:
        """Take the networks of another run or checkpoint as the starting point; not the critic, where it was shown something else.

        Raises:
            CheckpointError: networks that do not fit, or a policy that sees everything and was shown something else.
        """
        path = other / CHECKPOINT_FILE if other.is_dir() else other
        difference = critic_saw_otherwise(other, self.config) if path.is_file() else ""
        if difference and self.privileged:
            raise CheckpointError(f"{path} cannot be used for a policy that sees everything: {difference}")
        self.trainer.load(path, resume=False, critic=not difference)

    def train(
        self,
        *,
        iterations: int | None = None,
        time_limit: float | None = None,
        on_progress: OnProgress | None = None,
        wandb: bool = False,
    ) -> None:
        """Train to the configured iterations in all, or to `iterations`, or until it had `time_limit` s in all.

        May be interrupted and called again.

        Raises:
            RunLockError: another process trains in this directory.
        """
        first = self.trainer.process.rank == 0  # of the processes that train together it alone writes
        with self.lock if first else contextlib.nullcontext():
            self._train(iterations or self.config.iterations, time_limit, on_progress, first=first, wandb=wandb)

    def _train(
        self, iterations: int, time_limit: float | None, on_progress: OnProgress | None, *, first: bool, wandb: bool
    ) -> None:
        if first:
            keep_contract(self.directory, self.contract)
            write_json(self.directory / CONFIG_FILE, self.config)

        names = [metric.name for metric in self.env.world.task.metrics]

        def record(progress: Progress) -> None:
            metrics = progress.metrics
            self.curve.append(
                CurvePoint(
                    steps=progress.steps,
                    seconds=progress.seconds,
                    reward=metrics["reward/total"],
                    success=metrics.get("episode/success"),
                    metrics={name: metrics[f"episode/{name}"] for name in names if f"episode/{name}" in metrics},
                )
            )
            if on_progress is not None:
                on_progress(progress)

        try:
            self.trainer.train(
                iterations,
                time_limit=time_limit,
                on_progress=record if first else None,
                wandb=wandb,
            )
        finally:
            if first:
                self._write_curve()
                plot_curve(Curve(points=tuple(self.curve)), self.env.world.task, self.directory / CURVE_PICTURE)

    def evaluate(self, episodes: int) -> Evaluation:
        """Success in fresh worlds of the same randomisation."""
        world = make_world(self.config, episodes, self.config.seed + EVALUATION_SEED)
        return evaluate(world, self.player())

    def player(self) -> NetworkPlayer:
        """The policy as it is trained, to be evaluated or watched."""
        return NetworkPlayer(self.env.graph, self.trainer.actor, self.config.ppo.actor_group)

    def check_deployable(self) -> None:
        """Raises TrainConfigError for a policy that no robot can run."""
        if self.privileged:
            raise TrainConfigError(
                f"the policy in {self.directory} sees what only a simulator knows, so no robot can run it: "
                f"let a student learn from it (isthmus train --task {self.config.task} --teacher {self.directory} --out ...)"
            )

    @property
    def privileged(self) -> bool:
        """Whether the policy sees what only a simulator knows, so that no robot can run it."""
        return self.config.ppo.actor_group == "critic"

    def export(self, path: Path, *, simulated_success: float | None) -> Bundle:
        """Write the policy as a bundle and verify it; raises TrainConfigError for one that no robot can run."""
        self.check_deployable()
        world = make_world(self.config, MET_ENVS, self.config.seed + EVALUATION_SEED)
        return export_bundle(
            path, self.contract, self.trainer.actor, world, provenance(self.config.seed, self.steps, simulated_success)
        )


@dataclass(frozen=True, kw_only=True)
class Session:
    """One call of training: in this process, or in several that train together."""

    directory: Path
    config: TrainConfig | None  # None: go on with the run in the directory
    init: Path | None = None  # run or checkpoint to take the networks of
    teacher: Path | None = None  # run whose policy a student learns from
    iterations: int | None = None  # in all
    time_limit: float | None = None  # s
    wandb: bool = False

    def prepare(self) -> Run:
        """The run as it stands before training."""
        if self.config is None:
            return Run.open(self.directory)
        run = Run(self.directory, self.config)
        if self.init is not None:
            run.start_from(self.init)
        if self.teacher is not None:
            run.learn_from(self.teacher)
        return run

    def train(self, on_progress: OnProgress | None = None, lock: RunLock | None = None) -> Run:
        """Train in this process, which may be one of several; the first is in `lock` from before anything is built."""
        lock = RunLock(self.directory) if lock is None else lock
        with lock if this_process().rank == 0 else contextlib.nullcontext():
            run = self.prepare()
            run.lock = lock
            run.train(iterations=self.iterations, time_limit=self.time_limit, on_progress=on_progress, wandb=self.wandb)
        return run

    def train_together(self, processes: int, on_progress: Callable[[], AbstractContextManager[OnProgress]]) -> None:
        """Train in several processes; the first one shows progress. `Run.open` gives the result.

        Raises:
            DistributedError: one of them failed.
        """
        launch(_train_one, (self, on_progress), processes)


def _train_one(session: Session, on_progress: Callable[[], AbstractContextManager[OnProgress]]) -> None:
    if this_process().rank > 0:
        session.train()
        return
    with on_progress() as show:
        session.train(show)


def provenance(seed: int, environment_steps: int, simulated_success: float | None) -> Provenance:
    """Where a bundle made now comes from."""
    return Provenance(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        isthmus=importlib.metadata.version("isthmus"),
        trainer=f"rsl-rl-lib {importlib.metadata.version('rsl-rl-lib')}, torch {torch.__version__}",
        seed=seed,
        environment_steps=environment_steps,
        simulated_success=simulated_success,
    )
