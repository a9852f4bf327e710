"""`isthmus train`."""

import contextlib
import functools
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import FlagCreatePairsOff

if TYPE_CHECKING:
    from isthmus.policies.learning.evaluate import Evaluation
    from isthmus.policies.learning.ppo_config import PPOConfig
    from isthmus.policies.learning.recipe import Run, TrainConfig
    from isthmus.sim.randomization import Term

TASK = "so101-reach"  # unless another one is asked for
GOING_ON = ("out", "resume", "iterations", "time_limit", "evaluate", "wandb")  # all that goes with --resume


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train a policy by PPO in parallel, randomised simulation. Interrupt with Ctrl-C; go on with --resume."""

    out: Path
    """Directory of the run: configuration, checkpoint, TensorBoard events, learning curve."""
    task: str | None = None
    """What to learn; so101-reach if not given."""
    seed: int | None = None
    """Of everything random; 0 if not given."""
    envs: int | None = None
    """Simulated robots, of each process; the task's own number if not given."""
    iterations: int | None = None
    """PPO iterations in all; the task's own number if not given, or what --resume finds."""
    time_limit: float | None = None
    """Stop after so many seconds of training, those before --resume included."""
    calibration: Path | None = None
    """Identified parameters (`isthmus calibrate`): randomise around them instead of over the task's whole ranges."""
    init: Path | None = None
    """Start from the networks of this run or checkpoint."""
    resume: bool = False
    """Go on with the run in --out from its last checkpoint."""
    evaluate: int = 400
    """Episodes of the evaluation at the end."""
    network: Literal["mlp", "gru"] | None = None
    """Policy and critic: a multilayer perceptron (mlp, if not given), or one behind a GRU that remembers."""
    precision: Literal["fp32", "bf16", "auto"] | None = None
    """Of the hidden layers while training; auto: bfloat16 where the processor is quick at it. The task's own if not given."""
    symmetry: Literal["on", "off"] | None = None
    """Learn from the mirror image of every sample too, for tasks that have one. The task's own if not given."""
    rnd: float | None = None
    """Weight of a reward for states that were seldom seen (random network distillation)."""
    privileged: Annotated[bool, FlagCreatePairsOff] = False
    """Train a teacher, which sees all that the simulator knows; no robot can run it, but students learn from it (--teacher)."""
    teacher: Path | None = None
    """Learn from the policy of this run instead of from rewards."""
    adaptive: Annotated[bool, FlagCreatePairsOff] = False
    """Begin without randomisation and widen each range while the policy succeeds at its ends."""
    engine: Literal["mujoco", "genesis"] | None = None
    """Physics: MuJoCo on the CPU, if not given, or Genesis (pip install 'isthmus[genesis]')."""
    device: Literal["cpu", "cuda"] | None = None
    """Where Genesis runs, cpu if not given; on cuda the task's settings for a GPU are used. The rest stays on the CPU."""
    nproc: int | None = None
    """Processes that train together, their gradients averaged; 1 if not given."""
    wandb: bool = False
    """Send the metrics to Weights & Biases as well (needs the package wandb)."""

    def run(self) -> int:
        """Train, evaluate, say what came of it."""
        from isthmus.policies.learning.recipe import Run, Session
        from isthmus.policies.learning.run_lock import RunLock
        from isthmus.policies.learning.run_memory import check_run_memory

        from ..progress import training_progress
        from .checks import option_for_memory

        self._check_numbers()
        self._check_together()
        lock, progress = RunLock(self.out), functools.partial(training_progress, "training", self.time_limit)
        with contextlib.ExitStack() as alone:
            if self.out.is_dir():
                alone.enter_context(lock)
            config = None if self.resume else self._config()
            known = self._going_on() if config is None else config
            alone.enter_context(lock)
            session = Session(
                directory=self.out,
                config=config,
                init=self.init,
                teacher=self.teacher,
                iterations=self.iterations,
                time_limit=self.time_limit,
                wandb=self.wandb,
            )
            before = self._iterations_so_far()
            with option_for_memory("--envs", known.num_envs):
                check_run_memory(known)
                if known.processes > 1:
                    alone.close()  # the first of them takes the lock
                    session.train_together(known.processes, progress)
                    run = Run.open(self.out)
                else:
                    with progress() as show:
                        run = session.train(show, lock)
        if run.trainer.iteration == before:
            print(_nothing_left(run, self.iterations, self.time_limit))
        return self._evaluated(run)

    def _evaluated(self, run: "Run") -> int:
        from isthmus.policies.interval import wilson_interval
        from isthmus.policies.learning.recipe import CURVE_PICTURE

        from .checks import option_for_memory

        print(f"evaluating {self.evaluate} episodes with the mean action", flush=True)
        with option_for_memory("--evaluate", self.evaluate):
            result = run.evaluate(self.evaluate)
        low, high = wilson_interval(int(result.success.sum()), self.evaluate)
        following = f"isthmus export {self.out} --out policy.onnx, or see it: isthmus play {self.out} --out film.gif"
        if run.privileged:
            following = f"isthmus train --task {run.config.task} --teacher {self.out} --out student"
        print(
            f"{run.trainer.iteration} iterations in {run.trainer.seconds:.0f} s; {100 * result.rate:.1f} % of {self.evaluate} simulated "
            f"episodes {run.env.world.task.verdict} (95 % interval {100 * low:.1f}-{100 * high:.1f} %){_means(result)}\n"
            f"learning curve: {self.out / CURVE_PICTURE}\nnext: {following}"
        )
        return 0

    def _check_numbers(self) -> None:
        from isthmus.policies.learning.recipe import largest_seed

        from .checks import check_range

        for option, value in (("envs", self.envs), ("evaluate", self.evaluate), ("nproc", self.nproc)):
            check_range(f"--{option}", value, 1)
        check_range("--seed", self.seed, 0, largest_seed(self.nproc or 1))
        check_range("--iterations", self.iterations, 1)
        check_range("--time-limit", self.time_limit, 1)
        check_range("--rnd", self.rnd, 0)

    def _config(self) -> "TrainConfig":
        from isthmus.hardware.errors import IsthmusError
        from isthmus.policies.learning.checkpoint import CHECKPOINT_FILE
        from isthmus.policies.learning.recipe import CONFIG_FILE, task_config
        from isthmus.sim.tasks import get_task

        from .checks import check_folder

        if (self.out / CONFIG_FILE).exists():
            rest = "go on with it by --resume, or give another --out"
            if not (self.out / CHECKPOINT_FILE).exists():
                rest = (
                    "left before its first checkpoint, so that --resume cannot go on: remove it, or give another --out"
                )
            raise IsthmusError(f"{self.out} already holds a run: {rest}")
        task = get_task(self.task or TASK).name
        own = task_config(task, self.seed or 0, engine=self.engine or "mujoco", device=self.device or "cpu")
        ppo, randomization = self._ppo(own.ppo, task), self._randomization(task)
        check_folder("--out", self.out)
        config = replace(
            own,
            num_envs=self.envs or own.num_envs,
            processes=self.nproc or 1,
            iterations=self.iterations or own.iterations,
            ppo=ppo,
            adaptive=self.adaptive,
            randomization=randomization,
        )
        self._say_what_init_leaves_out(config)
        return config

    def _say_what_init_leaves_out(self, config: "TrainConfig") -> None:
        from isthmus.policies.learning.recipe import critic_saw_otherwise

        if self.init is None or not self.init.exists() or self.privileged or self.teacher is not None:
            return
        if other := critic_saw_otherwise(self.init, config):
            print(f"--init {self.init}: the critic starts anew, since {other}")

    def _randomization(self, task: str) -> "tuple[Term, ...]":
        from isthmus.calibration.identified import load_identified
        from isthmus.sim.tasks import get_task

        from .loop import random_terms

        if self.calibration is None:
            return ()
        identified = load_identified(self.calibration)
        identified.check_robot(get_task(task).scene().robot.name)
        return random_terms(identified)

    def _iterations_so_far(self) -> int:
        from isthmus.policies.learning.checkpoint import CHECKPOINT_FILE, read_state

        return int(str(read_state(self.out / CHECKPOINT_FILE)["iteration"])) if self.resume else 0

    def _going_on(self) -> "TrainConfig":
        """What the run that --resume goes on with began with; it must have come to a checkpoint and be writable."""
        from isthmus.hardware.errors import IsthmusError
        from isthmus.policies.learning.checkpoint import CHECKPOINT_FILE
        from isthmus.policies.learning.recipe import read_config

        from .checks import check_folder

        config = read_config(self.out)
        if not (self.out / CHECKPOINT_FILE).exists():
            raise IsthmusError(
                f"{self.out} has no {CHECKPOINT_FILE}: it was left before its first one, so that --resume has nothing to go on"
                f" with; remove {self.out} and start anew"
            )
        check_folder("--out", self.out)
        return config

    def _check_together(self) -> None:
        """Refuse options that exclude each other, before anything is built."""
        from .checks import OptionError

        given = [field.name for field in fields(self) if getattr(self, field.name) != field.default]
        with_resume = [_option(name) for name in given if name not in GOING_ON]
        if self.resume and with_resume:
            raise OptionError(f"{', '.join(with_resume)}: a resumed run keeps what it began with; leave out")
        with_teacher = [_option(name) for name in ("precision", "symmetry", "rnd", "privileged") if name in given]
        if self.teacher is not None and with_teacher:
            raise OptionError(f"--teacher goes without {', '.join(with_teacher)}: a student learns by imitation alone")

    def _ppo(self, own: "PPOConfig", task: str) -> "PPOConfig":
        """The task's settings with what was asked for."""
        from isthmus.policies.learning.mirrors import get_reflection
        from isthmus.policies.learning.ppo_config import DistillationConfig, RNDConfig, SymmetryConfig
        from isthmus.policies.learning.recipe import read_run_teacher

        distillation, network = None, self.network or "mlp"
        if self.teacher is not None:
            distillation = DistillationConfig(teacher=read_run_teacher(self.teacher, task))
        symmetry = SymmetryConfig() if self.symmetry == "on" else None
        if self.symmetry == "on":
            get_reflection(task)  # says so where there is none
        if self.symmetry is None and network == "mlp" and distillation is None:  # what symmetry does not go with
            symmetry = own.symmetry
        return replace(
            own,
            network=network,
            precision=own.precision if self.precision is None else self.precision,
            symmetry=symmetry,
            rnd=None if self.rnd is None else RNDConfig(weight=self.rnd),
            actor_group="critic" if self.privileged else "actor",
            distillation=distillation,
        )


def _means(result: "Evaluation") -> str:
    return "".join(f"; {name} {float(value.mean()):.3g}" for name, value in result.metrics.items())


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _nothing_left(run: "Run", iterations: int | None, time_limit: float | None) -> str:
    total, trained = iterations or run.config.iterations, run.trainer
    if trained.iteration >= total:
        return (
            f"nothing was left to train: the run has had {trained.iteration} iterations, --iterations is {total} in all"
        )
    return (
        f"nothing was left to train: the run has had {trained.seconds:.0f} s, --time-limit is {time_limit:g} s in all"
    )
