"""How fast an environment steps, and the bare engine below it, measured in turns in a process of its own."""

# mujoco builds its classes at run time and ships no type stubs for them.
# pyright: reportAttributeAccessIssue=false

import multiprocessing
import resource
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from isthmus.sim.bare import Bare

WARM_UP_TICKS = 25


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One measurement."""

    task: str
    engine: str
    num_envs: int
    repeats: int  # blocks of each kind
    ticks: int  # of a block
    seed: int


@dataclass(frozen=True, kw_only=True)
class Quartiles:
    """A figure over the blocks."""

    median: float
    low: float  # a quarter lies below
    high: float  # a quarter lies above


@dataclass(frozen=True, kw_only=True)
class Speed:
    """What a measurement gave. A step is one control tick of one environment."""

    task: str
    engine: str
    num_envs: int
    substeps: int  # physics steps of a control tick
    ticks: int  # measured in all, of each kind
    bare: Quartiles  # steps/s of the engine alone
    env: Quartiles  # steps/s of the environment
    ratio: Quartiles  # env / bare, block by block
    memory_bytes: int  # of the process with the world, before it measures
    peak_bytes: int  # of the process until then
    state_bytes: float | None  # of the engine, per environment; None where the engine does not tell
    model_bytes: float | None  # of model values that each environment has for itself


def quartiles(values: Sequence[float]) -> Quartiles:
    """Median and quartiles."""
    low, median, high = np.quantile(np.asarray(values, dtype=float), (0.25, 0.5, 0.75))
    return Quartiles(median=float(median), low=float(low), high=float(high))


def growth(rows: Sequence[Speed]) -> list[float | None]:
    """Bytes that each environment more costs, from the row before of the same task; None for a task's first."""
    result: list[float | None] = []
    for before, row in zip([None, *rows], rows, strict=False):
        if before is None or before.task != row.task:
            result.append(None)
        else:
            result.append((row.memory_bytes - before.memory_bytes) / (row.num_envs - before.num_envs))
    return result


def in_turn(settings: Sequence[Setting], console: Any) -> Iterator[Speed]:
    """Each measurement in a fresh process, so that memory is its own; shows progress."""
    from .bench_progress import bench_progress

    spawn = multiprocessing.get_context("spawn")
    with (
        bench_progress("measuring", len(settings), console) as done,
        ProcessPoolExecutor(1, mp_context=spawn, max_tasks_per_child=1) as pool,
    ):
        for setting in settings:
            speed = pool.submit(measure, setting).result()
            done(f"{speed.task} x {speed.num_envs}: ratio {speed.ratio.median:.3f}")
            yield speed


def measure(setting: Setting) -> Speed:
    """Build the world and time its blocks: environment, engine alone, environment ..."""
    from isthmus.policies.learning.threads import one_torch_thread
    from isthmus.sim.bare import engine_bytes, make_bare

    one_torch_thread()
    env = make_env(setting)
    for action in _actions(env, WARM_UP_TICKS):
        env.step(action)
    memory, peak = _resident_bytes(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    bare, steps = make_bare(env.world), setting.num_envs * setting.ticks
    pairs = []
    for index in range(setting.repeats):
        bare.record(lambda: _run(env, setting.ticks), setting.ticks)
        if index % 2:  # neither is always the first after the recording
            alone = _time_bare(bare)
            pairs.append((_run(env, setting.ticks), alone))
        else:
            whole = _run(env, setting.ticks)
            pairs.append((whole, _time_bare(bare)))
    state, model = engine_bytes(env.world)
    return Speed(
        task=setting.task,
        engine=setting.engine,
        num_envs=setting.num_envs,
        substeps=bare.substeps,
        ticks=setting.repeats * setting.ticks,
        bare=quartiles([steps / alone for _, alone in pairs]),
        env=quartiles([steps / whole for whole, _ in pairs]),
        ratio=quartiles([alone / whole for whole, alone in pairs]),
        memory_bytes=memory,
        peak_bytes=peak,
        state_bytes=state,
        model_bytes=model,
    )


def make_env(setting: Setting) -> Any:
    """The environment as it trains, its episodes at random ages so that resets are spread."""
    import torch

    from isthmus.policies.contracts import get_contract
    from isthmus.policies.learning.env import ContractEnv
    from isthmus.policies.learning.episodes import staggered_ages
    from isthmus.sim.engines import make_engine
    from isthmus.sim.tasks import get_task
    from isthmus.sim.world import World

    task = get_task(setting.task)
    engine = make_engine(setting.engine, task.scene(), setting.num_envs, dt=task.physics_dt)
    env = ContractEnv(World(task, engine, seed=setting.seed), get_contract(setting.task))
    torch.manual_seed(setting.seed)
    env.episode_length_buf = staggered_ages(env.num_envs, int(env.max_episode_length))
    return env


def _actions(env: Any, ticks: int) -> Any:
    """Uniform in [-1, 1], (ticks, num_envs, a)."""
    import torch

    return torch.empty(ticks, env.num_envs, env.num_actions).uniform_(-1.0, 1.0)


def _run(env: Any, ticks: int) -> float:
    """Step the environment under random actions; s."""
    actions = _actions(env, ticks)
    start = time.perf_counter()
    for action in actions:
        env.step(action)
    return time.perf_counter() - start


def _time_bare(bare: "Bare") -> float:
    """The recorded ticks by the engine alone; s. Putting it into the recorded states does not count."""
    total = 0.0
    with bare.replay() as ticks:
        for prepare in ticks:
            prepare()
            start = time.perf_counter()
            bare.step()
            total += time.perf_counter() - start
    return total


def _resident_bytes() -> int:
    """Memory that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()
