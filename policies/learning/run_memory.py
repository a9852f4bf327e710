"""What environments need in memory, counted from below: a world and its rollout, in training and without."""

from dataclasses import replace

import torch

from isthmus.sim.memory import check_memory

from ..contracts import get_contract
from .env import ContractEnv
from .recipe import TrainConfig, make_world

_FEW, _MORE = 1, 9  # environments of two small worlds, whose difference is what each one takes
_FLOAT = 4  # bytes


def check_run_memory(config: TrainConfig, *, training: bool = True) -> None:
    """Refuse more environments than memory holds, before anything large is allocated.

    A GPU's memory is the engine's own affair; here it is what stays on the CPU.

    Args:
        config: of the run; its processes are on this computer.
        training: whether their rollouts are kept as well.

    Raises:
        MemoryShortageError: says what is needed and what there is.
    """
    check_memory(config.processes * config.num_envs, lambda: bytes_each(config, training=training))


def bytes_each(config: TrainConfig, *, training: bool) -> float:
    """Least that an environment takes: what its future depends on and, in training, its share of a rollout; bytes."""
    few, more = (_environment(config, count) for count in (_FEW, _MORE))
    state = (_state_bytes(more, config.engine) - _state_bytes(few, config.engine)) / (_MORE - _FEW)
    return state + (_rollout_bytes(config, few) if training else 0.0)


def _environment(config: TrainConfig, count: int) -> ContractEnv:
    world = make_world(replace(config, device="cpu", engine="mujoco"), count, config.seed, training=True)
    return ContractEnv(world, get_contract(config.task))


def _state_bytes(env: ContractEnv, engine: str) -> int:
    """Of other engines than the one at hand nobody knows; they may hold less."""
    tensors = {name: value for name, value in env.state_dict().items() if isinstance(value, torch.Tensor)}
    return sum(value.nbytes for name, value in tensors.items() if engine == "mujoco" or ".engine." not in f".{name}")


def _rollout_bytes(config: TrainConfig, env: ContractEnv) -> int:
    """Observations and actions of an iteration; of PPO also means, deviations and four values of each step."""
    seen = sum(int(block.shape[1]) for block in env.get_observations().values())
    others = 1 + env.num_actions if config.ppo.distillation is not None else 5 + 2 * env.num_actions
    return _FLOAT * config.ppo.steps_per_iteration * (seen + env.num_actions + others)
