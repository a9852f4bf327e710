"""`isthmus train`."""

import functools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
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
    engine: Literal["mujoco", "genesis"] = "mujoco"
    """Physics: MuJoCo on the CPU, or Genesis (pip install 'isthmus[genesis]')."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where Genesis and the networks run; on cuda the task's settings for a GPU are used."""
    nproc: int = 1
    """Processes that train together, their gradients averaged; a resumed run keeps its number."""
    wandb: bool = False
    """Send the metrics to Weights & Biases as well (needs the package wandb)."""

    def run(self) -> int:
        """Train, evaluate, say what came of it."""
        from isthmus.policies.interval import wilson_interval
        from isthmus.policies.learning.recipe import Run, Session, read_config

        from ..progress import training_progress
        from .checks import check_range

        check_range("--seed", self.seed, 0)
        for option, value in (("envs", self.envs), ("evaluate", self.evaluate), ("nproc", self.nproc)):
            check_range(f"--{option}", value, 1)
        check_range("--iterations", self.iterations, 1)
        check_range("--time-limit", self.time_limit, 1)
        config = None if self.resume else self._config()
        session = Session(
            directory=self.out,
            config=config,
            init=None if self.resume else self.init,
            iterations=self.iterations,
            time_limit=self.time_limit,
            wandb=self.wandb,
        )
        known = read_config(self.out) if config is None else config
        progress = functools.partial(training_progress, "training", self.time_limit)
        if known.processes > 1:
            session.train_together(known.processes, progress)
            run = Run.open(self.out)
        else:
            with progress() as show:
                run = session.train(show)
        result = run.evaluate(self.evaluate)
        low, high = wilson_interval(int(result.success.sum()), self.evaluate)
        print(
            f"{run.trainer.iteration} iterations in {run.trainer.seconds:.0f} s; {100 * result.rate:.1f} % of {self.evaluate} simulated "
            f"episodes succeed (95 % interval {100 * low:.1f}-{100 * high:.1f} %)\nnext: isthmus export {self.out} --out policy.onnx"
        )
        return 0

    def _config(self) -> "TrainConfig":
        from isthmus.calibration.identified import load_identified
        from isthmus.hardware.errors import IsthmusError
        from isthmus.policies.learning.presets import get_preset
        from isthmus.policies.learning.recipe import CONFIG_FILE, TrainConfig
        from isthmus.sim.tasks import get_task

        from .checks import check_folder
        from .loop import random_terms

        if (self.out / CONFIG_FILE).exists():
            raise IsthmusError(f"{self.out} already holds a run: go on with it by --resume, or give another --out")
        check_folder("--out", self.out)
        preset, on_gpu = get_preset(get_task(self.task).name), self.device == "cuda"
        return TrainConfig(
            task=self.task,
            seed=self.seed,
            num_envs=self.envs or (preset.gpu_num_envs if on_gpu else preset.num_envs),
            processes=self.nproc,
            iterations=self.iterations or (preset.gpu_iterations if on_gpu else preset.iterations),
            ppo=replace(preset.ppo, network=self.network),
            engine=self.engine,
            device=self.device,
            randomization=() if self.calibration is None else random_terms(load_identified(self.calibration)),
        )
