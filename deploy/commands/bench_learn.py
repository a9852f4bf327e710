"""`isthmus bench learn`."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from isthmus.hardware.structure import read_json, write_json

from .bench_sim import Machine, this_machine

if TYPE_CHECKING:
    from isthmus.policies.curve import Curve
    from isthmus.policies.learning.recipe import Run, TrainConfig

RESULT_FILE, PICTURE = "learn.json", "learn.png"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Evaluation on one engine: one episode in each of `episodes` fresh worlds, mean action, whole randomisation."""

    engine: str
    episodes: int
    success: float
    interval: tuple[float, float]  # 95 %, Wilson
    mean_return: float
    metrics: dict[str, float] = field(default_factory=dict)  # means, in the task's units


@dataclass(frozen=True, kw_only=True)
class Learned:
    """One seed."""

    seed: int
    seconds: float  # of training
    steps: int
    outcomes: tuple[Outcome, ...]  # the engine that it was trained on first


@dataclass(frozen=True, kw_only=True)
class LearnTable:
    """The whole bench."""

    machine: Machine
    task: str
    iterations: int
    num_envs: int
    seeds: tuple[Learned, ...]


@dataclass(frozen=True, kw_only=True)
class BenchLearn:
    """Measure learning: train a task with its own settings for some seeds, evaluate each on one engine or both, and draw the curves.

    Interrupt with Ctrl-C; called again with the same --out it goes on where it was.
    """

    out: Path = Path("runs/bench-learn")
    """Directory for the runs, learn.json and learn.png."""
    task: str = "cartpole-balance"
    """What to learn."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds, one after the other."""
    iterations: int | None = None
    """PPO iterations; the task's own number if not given."""
    time_limit: float | None = None
    """Stop each seed after so many seconds of training."""
    episodes: int = 512
    """Episodes of each evaluation."""
    engine: Literal["mujoco", "genesis"] = "mujoco"
    """Engine to train on."""
    also_on: Literal["mujoco", "genesis"] | None = None
    """Another engine to evaluate on, with the same seeds."""

    def run(self) -> int:
        """Train, evaluate, print the table, write it."""
        from rich.console import Console

        from isthmus.policies.learning.curve_plot import plot_curves
        from isthmus.policies.learning.recipe import largest_seed
        from isthmus.sim.tasks import get_task

        from .checks import OptionError, check_folder, check_range

        for option, value in (("episodes", self.episodes), ("iterations", self.iterations)):
            check_range(f"--{option}", value, 1)
        check_range("--time-limit", self.time_limit, 1)
        if not self.seeds:
            raise OptionError("--seeds is empty: give at least one")
        for seed in self.seeds:
            check_range("--seeds", seed, 0, largest_seed())
        task = get_task(self.task)
        check_folder("--out", self.out)
        console, rows, curves = Console(), [], {}
        for seed in self.seeds:
            learned, curves[f"seed {seed}"] = self._one(seed)
            rows.append(learned)
            _print(learned, task.verdict, console)
            write_json(self.out / RESULT_FILE, self._table(tuple(rows)))
            plot_curves(curves, task, self.out / PICTURE)
        console.print(f"wrote {self.out / RESULT_FILE} and {self.out / PICTURE}")
        return 0

    def _table(self, rows: tuple[Learned, ...]) -> LearnTable:
        config = self._config(0)
        return LearnTable(
            machine=this_machine(),
            task=self.task,
            iterations=config.iterations,
            num_envs=config.num_envs,
            seeds=rows,
        )

    def _config(self, seed: int) -> "TrainConfig":
        from isthmus.policies.learning.recipe import task_config

        config = task_config(self.task, seed, engine=self.engine)
        return config if self.iterations is None else replace(config, iterations=self.iterations)

    def _one(self, seed: int) -> tuple[Learned, "Curve"]:
        """Train a seed to the end, or take what an earlier call made of it."""
        from isthmus.policies.curve import Curve
        from isthmus.policies.learning.checkpoint import CHECKPOINT_FILE
        from isthmus.policies.learning.recipe import CURVE_FILE, Run
        from isthmus.policies.learning.run_lock import RunLock

        from ..progress import training_progress
        from .checks import OptionError

        directory, config = self.out / f"seed-{seed}", self._config(seed)
        with RunLock(directory) as lock:
            run = Run.open(directory) if (directory / CHECKPOINT_FILE).is_file() else Run(directory, config)
            if run.config != config:
                raise OptionError(f"{directory} holds a run with other settings: give another --out")
            run.lock = lock
            with training_progress(f"{self.task}, seed {seed}", self.time_limit) as show:
                run.train(time_limit=self.time_limit, on_progress=show)
        engines = (self.engine,) if self.also_on in (None, self.engine) else (self.engine, self.also_on)
        learned = Learned(
            seed=seed,
            seconds=run.trainer.seconds,
            steps=run.trainer.steps,
            outcomes=tuple(self._outcome(run, engine) for engine in engines),
        )
        return learned, read_json(directory / CURVE_FILE, Curve)

    def _outcome(self, run: "Run", engine: str) -> Outcome:
        from isthmus.policies.learning.evaluate import evaluate
        from isthmus.policies.learning.recipe import EVALUATION_SEED, make_world

        world = make_world(replace(run.config, engine=engine), self.episodes, run.config.seed + EVALUATION_SEED)
        result = evaluate(world, run.player())
        return Outcome(
            engine=engine,
            episodes=self.episodes,
            success=result.rate,
            interval=result.interval,
            mean_return=float(result.returns.mean()),
            metrics={name: float(value.mean()) for name, value in result.metrics.items()},
        )


def _print(learned: Learned, verdict: str, console) -> None:  # noqa: ANN001
    first = learned.outcomes[0]
    for outcome in learned.outcomes:
        low, high = outcome.interval
        figures = "".join(f"; {name} {value:.3g}" for name, value in outcome.metrics.items())
        kept = (
            "" if outcome is first else f", {100 * outcome.mean_return / first.mean_return:.1f} % of {first.engine}'s"
        )
        console.print(
            f"seed {learned.seed}: {learned.seconds:.0f} s, {learned.steps:,} steps; on {outcome.engine} "
            f"{100 * outcome.success:.1f} % ({100 * low:.1f}-{100 * high:.1f}) of {outcome.episodes} {verdict}, "
            f"return {outcome.mean_return:.2f}{kept}{figures}",
            soft_wrap=True,
        )
