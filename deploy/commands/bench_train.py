"""`isthmus bench train`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from isthmus.hardware.structure import write_json

from .bench_sim import Machine, this_machine
from .bench_speed import Quartiles, quartiles

if TYPE_CHECKING:
    from isthmus.policies.learning.ppo_config import PPOConfig

    from .bench_contenders import Iteration

HIDDEN_DIMS, TICKS, EPOCHS, MINI_BATCHES = (512, 256, 128), 24, 5, 4  # UniLab's for the Go2
WINDOW = 5  # iterations whose mean must reach the level


@dataclass(frozen=True, kw_only=True)
class TrainSpeed:
    """How fast somebody trains at the same PPO. A step is one control tick of one environment."""

    name: str
    about: str
    steps_per_s: Quartiles  # end to end
    collect_s: Quartiles  # of an iteration
    update_s: Quartiles  # of an iteration
    ours: Quartiles  # our steps/s over its, round by round


@dataclass(frozen=True, kw_only=True)
class LevelPoint:
    """One iteration of training."""

    seconds: float  # of training
    steps: int
    value: float  # mean over environments and ticks


@dataclass(frozen=True, kw_only=True)
class Level:
    """Training until a reward term reached a level."""

    name: str
    about: str
    term: str
    level: float
    seconds: float | None  # of training until then; None where it did not get there
    steps: int | None
    points: tuple[LevelPoint, ...]


@dataclass(frozen=True, kw_only=True)
class TrainTable:
    """The whole bench."""

    machine: Machine
    task: str
    num_envs: int
    hidden_dims: tuple[int, ...]
    ticks: int  # of an iteration
    epochs: int
    mini_batches: int
    speeds: tuple[TrainSpeed, ...]
    levels: tuple[Level, ...]


@dataclass(frozen=True, kw_only=True)
class BenchTrain:
    """Measure training: steps/s of the same PPO by our trainer, rsl-rl's own and UniLab, and the time to walk by own settings."""

    out: Path = Path("runs/bench-train")
    """Directory for train.json and the training run."""
    task: str = "go2-velocity"
    """What to learn."""
    num_envs: int = 1024
    """Simulated robots of the comparison."""
    repeats: int = 7
    """Iterations of each, in turns; 0 leaves the comparison out."""
    unilab_python: Path | None = None
    """The Python of an environment of its own with `pip install 'unilab[mujoco]'`; without it UniLab is left out."""
    term: str = "tracks_velocity"
    """Reward term whose mean tells how good the policy is."""
    level: float = 0.8
    """Where the term's mean counts as reached; 0 leaves this part out."""
    time_limit: float = 1200.0
    """Seconds of training after which the level counts as not reached."""
    seed: int = 0
    """Of everything random."""

    def run(self) -> int:
        """Measure, print the table, write it."""
        from rich.console import Console

        from .checks import check_folder

        self._check()
        check_folder("--out", self.out)
        console = Console()
        speeds = self._compare(console) if self.repeats else ()
        self._write(speeds, ())
        if speeds:
            _print_table(speeds, console)
        levels: list[Level] = []
        for train in (self._train, self._train_unilab) if self.level else ():
            levels += train(console)
            self._write(speeds, tuple(levels))
        for level in levels:
            _print_level(level, levels[0], console)
        console.print(f"wrote {self.out / 'train.json'}")
        return 0

    def _check(self) -> None:
        from isthmus.sim.tasks import get_task

        from .bench_contenders import check_python
        from .checks import OptionError, check_range

        check_range("--num-envs", self.num_envs, 1)
        check_range("--repeats", self.repeats, 0)
        check_range("--level", self.level, 0)
        check_range("--time-limit", self.time_limit, 1)
        check_range("--seed", self.seed, 0)
        terms = [term.name for term in get_task(self.task).rewards]
        if self.level and self.term not in terms:
            raise OptionError(f"--term is {self.term!r}, expected one of {', '.join(terms)}")
        if self.unilab_python is not None:
            check_python("--unilab-python", self.unilab_python)

    def _write(self, speeds: tuple[TrainSpeed, ...], levels: tuple[Level, ...]) -> None:
        table = TrainTable(
            machine=this_machine(),
            task=self.task,
            num_envs=self.num_envs,
            hidden_dims=HIDDEN_DIMS,
            ticks=TICKS,
            epochs=EPOCHS,
            mini_batches=MINI_BATCHES,
            speeds=speeds,
            levels=levels,
        )
        write_json(self.out / "train.json", table)

    def _compare(self, console) -> tuple[TrainSpeed, ...]:  # noqa: ANN001
        """Everybody in turns, the first round as warm-up."""
        from .bench_contenders import contenders
        from .bench_progress import bench_progress

        with contenders(self.task, self.num_envs, same_ppo(), self.seed, self.out, self.unilab_python) as everybody:
            times: list[list[Iteration]] = [[] for _ in everybody]
            with bench_progress("training in turns", (self.repeats + 1) * len(everybody), console) as done:
                for turn in range(self.repeats + 1):
                    for contender, own in zip(everybody, times, strict=True):
                        now = contender.iterate()
                        done(f"{contender.name}: {self._steps() / (now.collect + now.update):,.0f} steps/s")
                        if turn:
                            own.append(now)
            return tuple(
                self._speed(contender.name, contender.about, own, times[0])
                for contender, own in zip(everybody, times, strict=True)
            )

    def _steps(self) -> int:
        return self.num_envs * TICKS

    def _speed(self, name: str, about: str, times: list["Iteration"], ours: list["Iteration"]) -> TrainSpeed:
        whole = [each.collect + each.update for each in times]
        return TrainSpeed(
            name=name,
            about=about,
            steps_per_s=quartiles([self._steps() / seconds for seconds in whole]),
            collect_s=quartiles([each.collect for each in times]),
            update_s=quartiles([each.update for each in times]),
            ours=quartiles([its / (own.collect + own.update) for its, own in zip(whole, ours, strict=True)]),
        )

    def _train(self, console) -> list[Level]:  # noqa: ANN001
        """Train with the task's own settings until the level, or the time limit."""
        from isthmus.policies.learning.recipe import Run, task_config
        from isthmus.sim.tasks import get_task

        task, config = get_task(self.task), task_config(self.task, self.seed)
        unit = next(term.weight for term in task.rewards if term.name == self.term) * task.period
        run, points = Run(self.out / "run", config), []

        def iterate() -> list[LevelPoint]:
            run.train(
                iterations=run.trainer.iteration + WINDOW,
                on_progress=lambda now: points.append(
                    LevelPoint(seconds=now.seconds, steps=now.steps, value=now.metrics[f"reward/{self.term}"] / unit)
                ),
            )
            return points

        about = f"the task's own settings, {config.num_envs} environments"
        return [self._to_level("isthmus", about, iterate, console)]

    def _train_unilab(self, console) -> list[Level]:  # noqa: ANN001
        """The same for UniLab with its own task and settings, where it can be run and says how well it tracks."""
        from .bench_contenders import UniLab

        if self.unilab_python is None or self.term != "tracks_velocity":
            return []
        unilab, points = UniLab(self.unilab_python, self.num_envs, self.out / "unilab"), []

        def iterate() -> list[LevelPoint]:
            now = unilab.iterate()
            assert now.tracking is not None
            seconds = now.collect + now.update + (points[-1].seconds if points else 0.0)
            points.append(LevelPoint(seconds=seconds, steps=(len(points) + 1) * self._steps(), value=now.tracking))
            return points

        try:
            return [self._to_level(unilab.name, unilab.about, iterate, console)]
        finally:
            unilab.close()

    def _to_level(self, name: str, about: str, iterate: Callable[[], list[LevelPoint]], console) -> Level:  # noqa: ANN001
        from .bench_progress import level_progress

        title = f"{name}: {self.term} to {self.level:g}"
        with level_progress(title, self.level, self.time_limit, console) as show:
            points = iterate()
            while not (reached := _mean(points) >= self.level) and points[-1].seconds < self.time_limit:
                points = iterate()
                show(points[-1].seconds, _mean(points))
        return Level(
            name=name,
            about=about,
            term=self.term,
            level=self.level,
            seconds=points[-1].seconds if reached else None,
            steps=points[-1].steps if reached else None,
            points=tuple(points),
        )


def same_ppo() -> "PPOConfig":
    """UniLab's settings for the Go2, so that the same work is compared."""
    from isthmus.policies.learning.ppo_config import PPOConfig

    return PPOConfig(
        hidden_dims=HIDDEN_DIMS,
        normalise=True,
        init_std=0.5,
        steps_per_iteration=TICKS,
        epochs=EPOCHS,
        mini_batches=MINI_BATCHES,
        learning_rate=3e-4,
        desired_kl=0.01,
        gamma=0.99,
        entropy=1e-3,
        save_every=10**9,
    )


def _mean(points: list[LevelPoint]) -> float:
    """Over the last WINDOW iterations; minus infinity before there are so many."""
    last = points[-WINDOW:]
    return sum(point.value for point in last) / WINDOW if len(last) == WINDOW else float("-inf")


def _print_table(speeds: tuple[TrainSpeed, ...], console) -> None:  # noqa: ANN001
    from rich.console import Console
    from rich.table import Table

    network = "-".join(map(str, HIDDEN_DIMS))
    table = Table(
        "who", "steps/s", "collection s", "update s", "ours over it", "with",
        title=f"PPO, {network}, {TICKS} ticks, {EPOCHS} x {MINI_BATCHES} mini-batches: median (quartiles)",
    )  # fmt: skip
    for row in speeds:
        end_to_end, seconds = row.steps_per_s, (row.collect_s, row.update_s)
        table.add_row(
            row.name,
            f"{end_to_end.median:,.0f} ({end_to_end.low:,.0f}-{end_to_end.high:,.0f})",
            *(f"{q.median:.2f} ({q.low:.2f}-{q.high:.2f})" for q in seconds),
            f"{row.ours.median:.2f} ({row.ours.low:.2f}-{row.ours.high:.2f})",
            row.about,
        )
    Console(width=max(console.width, 150)).print(table)


def _print_level(level: Level, ours: Level, console) -> None:  # noqa: ANN001
    last = level.points[-1]
    if level.seconds is None:
        console.print(
            f"{level.name}: {level.term} did not reach {level.level:g}: {last.value:.3f} after {last.seconds:.0f} s of training"
        )
        return
    share = "" if level is ours or ours.seconds is None else f"; ours took {ours.seconds / level.seconds:.2f} of that"
    console.print(
        f"{level.name}: {level.term} reached {level.level:g} after {level.seconds:.0f} s of training, "
        f"{level.steps:,} steps{share}"
    )
