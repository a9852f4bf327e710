"""How to train each task: the settings that worked, on a processor with few cores and on a GPU."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from isthmus.hardware.plugins import plugins

from .ppo_config import PPOConfig, SymmetryConfig


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Settings of a task's training."""

    num_envs: int
    iterations: int
    ppo: PPOConfig
    gpu_num_envs: int  # of the genesis engine on a GPU, with the same PPO
    gpu_iterations: int


def _preset(
    iterations: int,
    ppo: PPOConfig,
    *,
    num_envs: int = 1024,
    gpu_num_envs: int = 4096,
    gpu_iterations: int | None = None,
) -> Preset:
    return Preset(
        num_envs=num_envs,
        iterations=iterations,
        ppo=ppo,
        gpu_num_envs=gpu_num_envs,
        gpu_iterations=iterations if gpu_iterations is None else gpu_iterations,
    )


def cartpole_balance() -> Preset:
    """About half a minute. Without mirror images one seed in three learns one side only."""
    ppo = PPOConfig(
        hidden_dims=(64, 64),
        normalise=True,
        precision="auto",
        init_std=1.0,
        gamma=0.98,
        epochs=3,
        learning_rate=3e-3,
        symmetry=SymmetryConfig(),
    )
    return _preset(55, ppo)


def so101_reach() -> Preset:
    """About two minutes."""
    return _preset(120, PPOConfig())


def so101_insert() -> Preset:
    """About three minutes."""
    ppo = PPOConfig(
        hidden_dims=(128, 128), normalise=True, precision="auto", init_std=0.8, gamma=0.98, entropy=0.002, epochs=5
    )
    return _preset(150, ppo)


def go2_velocity() -> Preset:
    """About twelve minutes; it walks after six."""
    return _preset(400, _walking(), gpu_iterations=1000)


def go2_velocity_rough() -> Preset:
    """Half an hour begins it; a GPU finishes it."""
    return _preset(900, _walking(), gpu_iterations=3000)


def quadrotor_hover() -> Preset:
    """About a minute."""
    ppo = PPOConfig(
        hidden_dims=(64, 64), normalise=True, precision="auto", init_std=1.0, gamma=0.99, entropy=0.002, epochs=5
    )
    return _preset(90, ppo)


def hand_rotate() -> Preset:
    """Half an hour begins it; a GPU finishes it."""
    ppo = PPOConfig(
        hidden_dims=(256, 128), normalise=True, precision="auto", init_std=0.8, gamma=0.99, entropy=0.002, epochs=5
    )
    return _preset(900, ppo, gpu_num_envs=8192, gpu_iterations=3000)


def _walking() -> PPOConfig:
    return PPOConfig(
        hidden_dims=(128, 128, 128),
        normalise=True,
        precision="auto",
        init_std=1.0,
        gamma=0.99,
        entropy=0.0,
        epochs=3,  # of twice the samples
        desired_kl=0.01,
        symmetry=SymmetryConfig(),
    )


OWN: dict[str, Callable[[], Preset]] = {
    "cartpole-balance": cartpole_balance,
    "so101-reach": so101_reach,
    "so101-insert": so101_insert,
    "go2-velocity": go2_velocity,
    "go2-velocity-rough": go2_velocity_rough,
    "quadrotor-hover": quadrotor_hover,
    "hand-rotate": hand_rotate,
}


def get_preset(task: str) -> Preset:
    """The settings for a task; a task without its own gets rsl-rl's usual ones. Packages add theirs as `isthmus.presets`."""
    known = plugins("isthmus.presets", Preset, OWN)
    return known[task]() if task in known else _preset(300, replace(_walking(), symmetry=None, entropy=0.002, epochs=5))
