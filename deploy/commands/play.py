"""`isthmus play`."""

import csv
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from tyro.conf import Positional, arg

from .checks import OptionError, check_output, check_range, option_for_memory
from .film import check_film, filmed_ticks, write_film

if TYPE_CHECKING:
    from isthmus.policies.learning.evaluate import Evaluation
    from isthmus.policies.learning.players import Player
    from isthmus.policies.learning.recipe import TrainConfig
    from isthmus.sim.world import World

FRAME_SIZE = (320, 240)  # pixels of a robot's picture
OVERVIEW = "overview"  # camera of robots that stay where they are
LONGEST_S = 10.0  # of a film, unless asked for
MOST_SHOWN = 4


@dataclass(frozen=True, kw_only=True)
class Play:
    """Look at a task, a training run or a bundle in simulation: how episodes end, and a picture or a film. Needs no screen."""

    task_or_run: Annotated[str, Positional, arg(metavar="TASK-OR-RUN")]
    """A task, a directory of a training run, or a bundle (.onnx), which runs as it does on a robot."""
    actions: Literal["zero", "random", "trained"] | None = None
    """Who acts; trained if not given, and random for a task."""
    out: Path | None = None
    """Picture of moments with their times (.png) or film (.gif, or .mp4 with ffmpeg) of the first episode."""
    table: Path | None = None
    """Table (.csv) with a row for each episode: how it ended, its metrics, and what was randomised in it."""
    episodes: int = 16
    """Episodes to play, at once."""
    seconds: float | None = None
    """Length of what is shown; the whole episode, up to 10 s, if not given."""
    shown: int = 1
    """Robots in the picture, side by side."""
    camera: str | None = None
    """A camera of the robot's model; its overview, or a view from the side, if not given."""
    seed: int = 0
    """Of everything random; training never sees these episodes."""
    engine: Literal["mujoco", "genesis"] | None = None
    """Physics; that of the training run, else MuJoCo, if not given."""
    randomise: bool = True
    """Let robots differ as in training."""

    def run(self) -> int:
        """Play, say what came of it, write the picture."""
        from isthmus.policies.learning.evaluate import evaluate
        from isthmus.policies.learning.recipe import EVALUATION_SEED, largest_seed, make_world
        from isthmus.policies.learning.run_memory import check_run_memory

        check_range("--episodes", self.episodes, 1)
        check_range("--seed", self.seed, 0, largest_seed())
        check_range("--shown", self.shown, 1, min(MOST_SHOWN, self.episodes))
        if self.out is not None:
            check_film("--out", self.out)
        if self.table is not None:
            check_output("--table", self.table)
        config, make_player = self._cast()
        check_range("--seed", self.seed, 0, largest_seed() - config.seed)
        seed = config.seed + EVALUATION_SEED + self.seed
        with option_for_memory("--episodes", self.episodes):
            check_run_memory(replace(config, num_envs=self.episodes, processes=1), training=False)
            world = make_world(config, self.episodes, seed, randomise=self.randomise)
            check_range("--seconds", self.seconds, world.task.period, world.task.episode_length)
            player, shots = make_player(world), None if self.out is None else _Shots(self, world)
            result = evaluate(world, player, None if shots is None else shots.take)
        print(_summary(world, result))
        if self.table is not None:
            _write_table(self.table, result)
            print(f"each episode in {self.table}")
        if shots is not None and self.out is not None:
            write_film(self.out, shots.frames, shots.times)
            print(f"{shots.times[-1]:.1f} s of it in {self.out}")
        return 0

    def _cast(self) -> "tuple[TrainConfig, Callable[[World], Player]]":
        """What is played, and who plays it."""
        from isthmus.policies.bundle import load_bundle
        from isthmus.policies.contracts import get_contract
        from isthmus.policies.learning.graph import ContractGraph
        from isthmus.policies.learning.players import BundlePlayer, UntrainedPlayer
        from isthmus.policies.learning.recipe import CONFIG_FILE, Run, TrainConfig
        from isthmus.sim.tasks import task_names

        path, engine = Path(self.task_or_run), self.engine or "mujoco"
        actions = self.actions
        if path.suffix == ".onnx":
            bundle = load_bundle(path)
            contract = bundle.manifest.contract
            if contract.task not in task_names():
                raise OptionError(
                    f"{path} is a policy for {contract.task!r}, which is no task that isthmus or an installed package simulates, so there"
                    f" is nothing to play it in; known tasks: {', '.join(task_names())}"
                )
            config = TrainConfig(task=contract.task, seed=0, engine=engine)
            if actions in (None, "trained"):
                return config, lambda world: BundlePlayer(bundle, world)
        elif (path / CONFIG_FILE).is_file():
            run = Run.look_at(path, engine=self.engine)
            if run.privileged and not self.randomise:
                raise OptionError("--no-randomise: this policy sees what is randomised; leave the option out")
            contract, config = run.contract, run.config
            if actions in (None, "trained"):
                return config, lambda world: run.player()
        elif self.task_or_run in task_names():
            if actions == "trained":
                raise OptionError(
                    f"--actions trained: task {self.task_or_run!r} alone has learned nothing; give a training run or a bundle"
                )
            contract, config = get_contract(self.task_or_run), TrainConfig(task=self.task_or_run, seed=0, engine=engine)
        else:
            raise OptionError(
                f"TASK-OR-RUN {self.task_or_run!r} is no task, no directory of a training run and no bundle (.onnx); "
                f"known tasks: {', '.join(task_names())}"
            )
        kind = "zero" if actions == "zero" else "random"
        return config, lambda world: UntrainedPlayer(ContractGraph(contract), kind, self.seed)


class _Shots:
    """Frames of the first environments of a world, taken while it is played."""

    def __init__(self, play: Play, world: "World") -> None:
        assert play.out is not None
        self._world, self._play, self._period = world, play, world.task.period
        seconds = min(LONGEST_S, world.task.episode_length) if play.seconds is None else play.seconds
        self._camera = OVERVIEW if play.camera is None and not world.robot.floating else play.camera
        self._last = round(seconds / self._period)
        self._ticks = frozenset(filmed_ticks(play.out, self._last, self._period))
        self.frames: list[np.ndarray] = []
        self.times: list[float] = []

    def take(self, tick: int) -> bool:
        """A tick has passed; whether another one is to be seen."""
        if tick in self._ticks:
            self.frames.append(np.concatenate([self._picture(env) for env in range(self._play.shown)], axis=1))
            self.times.append(tick * self._period)
        return tick < self._last

    def _picture(self, env: int) -> np.ndarray:
        width, height = FRAME_SIZE
        try:
            return self._world.engine.render(env, width=width, height=height, camera=self._camera)
        except KeyError as error:
            if self._play.camera is not None:
                raise OptionError(f"--camera: {error.args[0]}") from None
            self._camera = None  # a model without an overview
            return self._picture(env)


def _write_table(path: Path, result: "Evaluation") -> None:
    from isthmus.policies.learning.evaluate import episode_table

    names, rows = episode_table(result)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows([f"{value:.6g}" for value in row] for row in rows.tolist())


def _summary(world: "World", result: "Evaluation") -> str:
    """What people want to know, in lines; +- is the standard deviation over episodes."""
    task, count = world.task, world.num_envs
    low, high = result.interval
    lines = [
        f"{task.name}: {100 * result.rate:.1f} % of {count} episodes {task.verdict} "
        f"(95 % interval {100 * low:.1f}-{100 * high:.1f} %)"
    ]
    values = {"return": (result.returns, ""), "seconds until the end": (result.seconds, "s")}
    units = {metric.name: "" if metric.unit == "1" else metric.unit for metric in task.metrics}
    values |= {name: (metric, units[name]) for name, metric in result.metrics.items()}
    for name, (value, unit) in values.items():
        spread = f" +- {float(value.std()):.3g}" if count > 1 else ""
        lines.append(f"  {name} {float(value.mean()):.3g}{spread} {unit}".rstrip())
    if failed := int(world.engine.failed().sum()):
        lines.append(f"  physics failed in {failed} of them")
    return "\n".join(lines)
