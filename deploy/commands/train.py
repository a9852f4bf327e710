"""`isthmus train`."""

from dataclasses import dataclass
from pathlib import Path

ITERATIONS = 120  # about two minutes on two cores


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train a policy by PPO in parallel, randomised simulation. Interrupt with Ctrl-C; go on with --resume."""

    out: Path
    """Directory of the run: configuration, checkpoint, TensorBoard events, learning curve."""
    task: str = "so101-reach"
    """What to learn."""
    seed: int = 0
    """Of everything random."""
    envs: int = 1024
    """Simulated robots."""
    iterations: int | None = None
    """PPO iterations in all, 24 control ticks of every robot each; 120 if not given, or what --resume finds."""
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

    def run(self) -> int:
        """Train, evaluate, say what came of it."""
        from isthmus.calibration.identified import load_identified
        from isthmus.hardware.errors import IsthmusError
        from isthmus.policies.interval import wilson_interval
        from isthmus.policies.learning.recipe import CONFIG_FILE, Run, TrainConfig

        from ..progress import training_progress
        from .checks import check_folder, check_range
        from .loop import random_terms

        check_range("--seed", self.seed, 0)
        for option, value in (("envs", self.envs), ("evaluate", self.evaluate)):
            check_range(f"--{option}", value, 1)
        check_range("--iterations", self.iterations, 1)
        check_range("--time-limit", self.time_limit, 1)
        if self.resume:
            run = Run.open(self.out)
        elif (self.out / CONFIG_FILE).exists():
            raise IsthmusError(f"{self.out} already holds a run: go on with it by --resume, or give another --out")
        else:
            check_folder("--out", self.out)
            terms = () if self.calibration is None else random_terms(load_identified(self.calibration))
            run = Run(
                self.out,
                TrainConfig(
                    task=self.task,
                    seed=self.seed,
                    num_envs=self.envs,
                    iterations=self.iterations or ITERATIONS,
                    randomization=terms,
                ),
            )
            if self.init is not None:
                run.start_from(self.init)
        with training_progress("training", self.time_limit) as show:
            run.train(iterations=self.iterations, time_limit=self.time_limit, on_progress=show)
        result = run.evaluate(self.evaluate)
        low, high = wilson_interval(int(result.success.sum()), self.evaluate)
        print(
            f"{run.trainer.iteration} iterations in {run.trainer.seconds:.0f} s; {100 * result.rate:.1f} % of {self.evaluate} simulated "
            f"episodes succeed (95 % interval {100 * low:.1f}-{100 * high:.1f} %)\nnext: isthmus export {self.out} --out policy.onnx"
        )
        return 0
