"""Who trains at the same PPO, for comparison: an iteration each on demand, with its times."""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from isthmus.hardware.errors import IsthmusError

if TYPE_CHECKING:
    from isthmus.policies.learning.ppo_config import PPOConfig
    from isthmus.policies.learning.trainer import Progress

DRIVER = Path(__file__).with_name("bench_unilab_driver.py")
UNILAB_LOG = "unilab.log"


class BenchError(IsthmusError):
    """A measurement that could not be made."""


@dataclass(frozen=True, kw_only=True)
class Iteration:
    """What one iteration of PPO took, and gave."""

    collect: float  # s
    update: float  # s
    tracking: float | None = None  # mean of the velocity-tracking term, where the contender tells it


class Contender(Protocol):
    """Something that trains."""

    name: str
    about: str  # versions, threads, precision: what its figure depends on

    def iterate(self) -> Iteration:
        """One iteration."""
        ...


class OwnTrainer:
    """Our trainer on our environment."""

    def __init__(self, name: str, task: str, num_envs: int, config: "PPOConfig", seed: int, folder: Path) -> None:
        from isthmus.policies.learning.threads import available_cores
        from isthmus.policies.learning.trainer import Trainer

        self.name, self.about = name, f"{available_cores()} cores, {config.precision}"
        self._trainer = Trainer(_env(task, num_envs, seed), config, folder, seed=seed)

    def iterate(self) -> Iteration:
        """See Contender."""
        seen: list[Progress] = []
        self._trainer.train(self._trainer.iteration + 1, on_progress=seen.append)
        metrics = seen[0].metrics
        return Iteration(collect=metrics["time/collect"], update=metrics["time/update"])


class StockPPO:
    """rsl-rl's PPO as it comes, on our environment, with one torch thread."""

    def __init__(self, task: str, num_envs: int, config: "PPOConfig", seed: int) -> None:
        import importlib.metadata

        import torch
        from rsl_rl.algorithms import PPO

        from isthmus.policies.learning.algorithms import ppo_dict
        from isthmus.policies.learning.threads import one_torch_thread

        one_torch_thread()
        self.name, self.about = "rsl-rl", f"rsl-rl-lib {importlib.metadata.version('rsl-rl-lib')}, 1 torch thread, fp32"
        self._env, self._ticks = _env(task, num_envs, seed), config.steps_per_iteration
        settings = ppo_dict(config, None, None)
        settings["algorithm"] = {**settings["algorithm"], "class_name": PPO}
        del settings["algorithm"]["precision"]
        torch.manual_seed(seed)
        env: Any = self._env
        with contextlib.redirect_stdout(io.StringIO()):  # rsl-rl prints its models
            self._algorithm = PPO.construct_algorithm(env.get_observations(), env, settings, "cpu")
        self._algorithm.train_mode()

    def iterate(self) -> Iteration:
        """See Contender. The loop is that of rsl-rl's runner without its logging."""
        import time

        import torch

        algorithm, start = self._algorithm, time.perf_counter()
        observations = self._env.get_observations()
        with torch.inference_mode():
            for _ in range(self._ticks):
                observations, rewards, dones, extras = self._env.step(algorithm.act(observations))
                algorithm.process_env_step(observations, rewards, dones, extras)
            algorithm.compute_returns(observations)
        collected = time.perf_counter()
        algorithm.update()
        return Iteration(collect=collected - start, update=time.perf_counter() - collected)


class UniLab:
    """UniLab in its own Python and process, with its own settings; it waits while others are measured."""

    name = "UniLab"

    def __init__(self, python: Path, num_envs: int, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._log = folder / UNILAB_LOG
        read, write = os.pipe()
        words = (f"algo.num_envs={num_envs}", "algo.max_iterations=1000000", "training.no_play=true")
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [str(python.absolute()), str(DRIVER), str(write), *words, "training.device=cpu"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=(write,),
                cwd=folder,
                text=True,
            )
        os.close(write)
        self._answers = os.fdopen(read)
        ready = self._answer()
        self.about = f"unilab {ready['version']}, {ready['threads']} torch threads, its own environment and settings"

    def iterate(self) -> Iteration:
        """See Contender."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # said by the missing answer
            self._process.stdin.write("go\n")
            self._process.stdin.flush()
        answer = self._answer()
        return Iteration(**{name: float(answer[name]) for name in ("collect", "update", "tracking")})

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._answers.close()

    def _answer(self) -> dict[str, Any]:
        line = self._answers.readline()
        if not line:
            said = self._log.read_text().strip().splitlines()
            raise BenchError(f"UniLab ended before it answered: {said[-1] if said else 'no output'}; see {self._log}")
        return json.loads(line)


@contextlib.contextmanager
def contenders(
    task: str, num_envs: int, config: "PPOConfig", seed: int, out: Path, unilab_python: Path | None
) -> Iterator[list[Contender]]:
    """All that can run here: our trainer, also in bfloat16 where that is fast, rsl-rl alone, and UniLab where its Python is given."""
    from isthmus.policies.learning.threads import bfloat16_is_fast

    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        found: list[Contender] = []
        if unilab_python is not None:  # first, so that its mistakes are said early
            unilab = UniLab(unilab_python, num_envs, out / "unilab")
            stack.callback(unilab.close)
            found.append(unilab)
        found.append(StockPPO(task, num_envs, config, seed))
        if bfloat16_is_fast():
            low = replace(config, precision="bf16")
            found.append(OwnTrainer("isthmus, bfloat16", task, num_envs, low, seed, folder / "bf16"))
        found.append(OwnTrainer("isthmus", task, num_envs, config, seed, folder / "fp32"))
        yield found[::-1]


def _env(task: str, num_envs: int, seed: int) -> Any:
    from .bench_speed import Setting, make_env

    return make_env(Setting(task=task, engine="mujoco", num_envs=num_envs, repeats=1, ticks=1, seed=seed))


def check_python(option: str, python: Path) -> None:
    """Refuse a Python that has no UniLab."""
    command = [str(python.absolute()), "-c", "import importlib.util as u, sys; sys.exit(u.find_spec('unilab') is None)"]
    try:
        done = subprocess.run(command, check=False, capture_output=True, timeout=60)
    except OSError as error:
        raise BenchError(
            f"{option} {python} does not run: {error.strerror}; give a Python, not {sys.executable}"
        ) from None
    if done.returncode:
        raise BenchError(f"{option} {python} has no UniLab; install it there with: pip install 'unilab[mujoco]'")
