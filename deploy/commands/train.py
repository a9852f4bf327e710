"""`isthmus train`."""

import functools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from isthmus.policies.learning.evaluate import Evaluation
    from isthmus.policies.learning.ppo_config import PPOConfig
    from isthmus.policies.learning.recipe import TrainConfig


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train a policy by PPO in parallel, randomised simulation. Interrupt with Ctrl-C; go on with --resume."""

    out: Path
    """Directory of the run: configuration, checkpoint, TensorBoard events, learning curve."""
    task: str = "so101-reach"
    """What to learn."""
    seed: int = 0
    """Of everything random."""
    envs: int | None = None
    """Simulated robots, of each process; the task's own number if not given."""
    iterations: int | None = None
    """PPO iterations in all; the task's own number if not given, or what --resume finds."""
    time_limit: float | None = None
    """Stop after so many seconds of training."""
    calibration: Path | None = None
    """Identified parameters (`isthmus calibrate`): randomise around them instead of over the task's whole ranges."""
    init: Path | None = None
    """Start from the networks of this run or checkpoint."""
    resume: bool = False
    """Go on with the run in --out from its last checkpoint."""
    evaluate: int = 400
    """Episodes of the evaluation at the end."""
    network: Literal["mlp", "gru"] = "mlp"
    """Policy and critic: a multilayer perceptron, or one behind a GRU that remembers."""
    precision: Literal["fp32", "bf16", "auto"] | None = None
    """Of the hidden layers while training; auto: bfloat16 where the processor is quick at it. The task's own if not given."""
    symmetry: Literal["on", "off"] | None = None
    """Learn from the mirror image of every sample too, for tasks that have one. The task's own if not given."""
    rnd: float | None = None
    """Weight of a reward for states that were seldom seen (random network distillation)."""
    privileged: bool = False
    """Train a teacher, which sees all that the simulator knows; no robot can run it, but students learn from it (--teacher)."""
    teacher: Path | None = None
    """Learn from the policy of this run instead of from rewards."""
    adaptive: bool = False
    """Begin without randomisation and widen each range while the policy succeeds at its ends."""
    engine: Literal["mujoco", "genesis"] = "mujoco"
    """Physics: MuJoCo on the CPU, or Genesis (pip install 'isthmus[genesis]')."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where Genesis runs; on cuda the task's settings for a GPU are used. The rest stays on the CPU."""
    nproc: int = 1
    """Processes that train together, their gradients averaged; a resumed run keeps its number."""
    wandb: bool = False
    """Send the metrics to Weights & Biases as well (needs the package wandb)."""

    def run(self) -> int:
        """Train, evaluate, say what came of it."""
        from isthmus.policies.interval import wilson_interval
        from isthmus.policies.learning.recipe import CURVE_PICTURE, Run, Session
        from isthmus.policies.learning.run_memory import check_run_memory

        from ..progress import training_progress
        from .checks import check_range, option_for_memory

        check_range("--seed", self.seed, 0)
        for option, value in (("envs", self.envs), ("evaluate", self.evaluate), ("nproc", self.nproc)):
            check_range(f"--{option}", value, 1)
        check_range("--iterations", self.iterations, 1)
        check_range("--time-limit", self.time_limit, 1)
        check_range("--rnd", self.rnd, 0)
        self._check_together()
        config = None if self.resume else self._config()
        session = Session(
            directory=self.out,
            config=config,
            init=None if self.resume else self.init,
            teacher=None if self.resume else self.teacher,
            iterations=self.iterations,
            time_limit=self.time_limit,
            wandb=self.wandb,
        )
        known = self._going_on() if config is None else config
        progress = functools.partial(training_progress, "training", self.time_limit)
        with option_for_memory("--envs", known.num_envs):
            check_run_memory(known)
            if known.processes > 1:
                session.train_together(known.processes, progress)
                run = Run.open(self.out)
            else:
                with progress() as show:
                    run = session.train(show)
        with option_for_memory("--evaluate", self.evaluate):
            result = run.evaluate(self.evaluate)
        low, high = wilson_interval(int(result.success.sum()), self.evaluate)
        following = f"isthmus export {self.out} --out policy.onnx, or see it: isthmus play {self.out} --out film.gif"
        if run.privileged:
            following = f"isthmus train --task {run.config.task} --teacher {self.out} --out student"
        print(
            f"{run.trainer.iteration} iterations in {run.trainer.seconds:.0f} s; {100 * result.rate:.1f} % of {self.evaluate} simulated "
            f"episodes succeed (95 % interval {100 * low:.1f}-{100 * high:.1f} %){_means(result)}\n"
            f"learning curve: {self.out / CURVE_PICTURE}\nnext: {following}"
        )
        return 0

    def _config(self) -> "TrainConfig":
        from isthmus.calibration.identified import load_identified
        from isthmus.hardware.errors import IsthmusError
        from isthmus.policies.learning.checkpoint import CHECKPOINT_FILE
        from isthmus.policies.learning.recipe import CONFIG_FILE, task_config
        from isthmus.sim.tasks import get_task

        from .checks import check_folder
        from .loop import random_terms

        if (self.out / CONFIG_FILE).exists():
            rest = "go on with it by --resume, or give another --out"
            if not (self.out / CHECKPOINT_FILE).exists():
                rest = (
                    "left before its first checkpoint, so that --resume cannot go on: remove it, or give another --out"
                )
            raise IsthmusError(f"{self.out} already holds a run: {rest}")
        own = task_config(get_task(self.task).name, self.seed, engine=self.engine, device=self.device)
        ppo = self._ppo(own.ppo)
        check_folder("--out", self.out)
        return replace(
            own,
            num_envs=self.envs or own.num_envs,
            processes=self.nproc,
            iterations=self.iterations or own.iterations,
            ppo=ppo,
            adaptive=self.adaptive,
            randomization=() if self.calibration is None else random_terms(load_identified(self.calibration)),
        )

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

        given = {
            "--precision": self.precision is not None,
            "--symmetry": self.symmetry is not None,
            "--rnd": self.rnd is not None,
            "--privileged": self.privileged,
            "--teacher": self.teacher is not None,
            "--adaptive": self.adaptive,
        }
        with_resume = [name for name, is_given in given.items() if is_given]
        if self.resume and with_resume:
            raise OptionError(f"{', '.join(with_resume)}: a resumed run keeps what it began with; leave out")
        with_teacher = [name for name in ("--precision", "--symmetry", "--rnd", "--privileged") if given[name]]
        if self.teacher is not None and with_teacher:
            raise OptionError(f"--teacher goes without {', '.join(with_teacher)}: a student learns by imitation alone")

    def _ppo(self, own: "PPOConfig") -> "PPOConfig":
        """The task's settings with what was asked for."""
        from isthmus.policies.learning.mirrors import get_reflection
        from isthmus.policies.learning.ppo_config import DistillationConfig, RNDConfig, SymmetryConfig
        from isthmus.policies.learning.recipe import read_run_teacher

        distillation = None
        if self.teacher is not None:
            distillation = DistillationConfig(teacher=read_run_teacher(self.teacher, self.task))
        symmetry = SymmetryConfig() if self.symmetry == "on" else None
        if self.symmetry == "on":
            get_reflection(self.task)  # says so where there is none
        if self.symmetry is None and self.network == "mlp" and distillation is None:  # what symmetry does not go with
            symmetry = own.symmetry
        return replace(
            own,
            network=self.network,
            precision=own.precision if self.precision is None else self.precision,
            symmetry=symmetry,
            rnd=None if self.rnd is None else RNDConfig(weight=self.rnd),
            actor_group="critic" if self.privileged else "actor",
            distillation=distillation,
        )


def _means(result: "Evaluation") -> str:
    return "".join(f"; {name} {float(value.mean()):.3g}" for name, value in result.metrics.items())
