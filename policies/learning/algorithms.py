"""rsl-rl's algorithms from a PPOConfig, and the part of their state that rsl-rl's own saving leaves out."""

import contextlib
import dataclasses
import io
from collections.abc import Mapping
from typing import Any

import torch
from rsl_rl.algorithms import PPO, Distillation
from rsl_rl.env import VecEnv
from rsl_rl.models import MLPModel, RNNModel
from rsl_rl.modules import EmpiricalDiscountedVariationNormalization

from .ppo import FastPPO
from .ppo_config import PPOConfig, TrainConfigError, check_config, gaussian_dict, network_dict
from .symmetry import MirrorSpec, augmentation

MultiGPU = dict[str, int] | None
Algorithm = PPO | Distillation


@dataclasses.dataclass(kw_only=True)
class _Shape:
    """What rsl-rl's constructors ask an environment for; a step of 1 leaves the weight of RND as configured, per control tick."""

    num_envs: int
    num_actions: int
    step_dt: float = 1.0

    @property
    def unwrapped(self) -> "_Shape":
        return self


def construct(env: VecEnv, config: PPOConfig, mirror: MirrorSpec | None, multi_gpu: MultiGPU) -> Algorithm:
    """The algorithm with fresh networks.

    Raises:
        TrainConfigError: the configuration asks for what cannot be.
    """
    check_config(config)
    shape: Any = _Shape(num_envs=env.num_envs, num_actions=env.num_actions)
    with contextlib.redirect_stdout(io.StringIO()):  # rsl-rl prints its models
        if config.distillation is not None:
            return Distillation.construct_algorithm(
                env.get_observations(), shape, distillation_dict(config, multi_gpu), "cpu"
            )
        return PPO.construct_algorithm(env.get_observations(), shape, ppo_dict(config, mirror, multi_gpu), "cpu")


def transient_state(algorithm: Algorithm) -> dict[str, object]:
    """What an exact continuation needs beyond `algorithm.save()`; tensors, numbers and None."""
    state: dict[str, object] = {"hidden": [_hidden(model) for model in _models(algorithm)]}
    if isinstance(algorithm, Distillation):
        state["last_hidden"] = list(algorithm.last_hidden_states)
    elif algorithm.rnd is not None:
        state["rnd_steps"] = algorithm.rnd.update_counter
        reward = algorithm.rnd.reward_normalizer
        if isinstance(reward, EmpiricalDiscountedVariationNormalization):
            state["rnd_average"] = reward.disc_avg.avg
    return state


def load_transient_state(algorithm: Algorithm, state: Mapping[str, Any]) -> None:
    """Counterpart of `transient_state`."""
    for model, hidden in zip(_models(algorithm), state["hidden"], strict=True):
        model.reset(hidden_state=hidden)
    if isinstance(algorithm, Distillation):
        algorithm.last_hidden_states = tuple(state["last_hidden"])
    elif algorithm.rnd is not None:
        algorithm.rnd.update_counter = state["rnd_steps"]
        reward = algorithm.rnd.reward_normalizer
        if isinstance(reward, EmpiricalDiscountedVariationNormalization):
            reward.disc_avg.avg = state["rnd_average"]


def _models(algorithm: Algorithm) -> tuple[MLPModel, MLPModel]:
    if isinstance(algorithm, Distillation):
        return algorithm.student, algorithm.teacher
    return algorithm.actor, algorithm.critic


def _hidden(model: MLPModel) -> torch.Tensor | None:
    if not isinstance(model, RNNModel):
        return None
    state = model.get_hidden_state()
    assert not isinstance(state, tuple)  # a GRU has one
    return None if state is None else state.detach()


def ppo_dict(config: PPOConfig, mirror: MirrorSpec | None, multi_gpu: MultiGPU) -> dict[str, Any]:
    """For PPO.construct_algorithm."""
    critic_dims = config.hidden_dims if config.critic_hidden_dims is None else config.critic_hidden_dims
    groups = {"actor": [config.actor_group], "critic": ["critic"]}
    algorithm = {
        "class_name": FastPPO,
        "num_learning_epochs": config.epochs,
        "num_mini_batches": config.mini_batches,
        "clip_param": config.clip,
        "gamma": config.gamma,
        "lam": config.lam,
        "value_loss_coef": config.value_loss,
        "entropy_coef": config.entropy,
        "learning_rate": config.learning_rate,
        "max_grad_norm": config.max_grad_norm,
        "use_clipped_value_loss": config.clip_value_loss,
        "schedule": config.schedule,
        "desired_kl": config.desired_kl,
        "precision": config.precision,
    }
    if config.rnd is not None:
        rnd = {key: value for key, value in dataclasses.asdict(config.rnd).items() if key != "group"}
        algorithm["rnd_cfg"], groups["rnd_state"] = rnd, [config.rnd.group]
    if config.symmetry is not None:
        algorithm["symmetry_cfg"] = _symmetry_dict(config, mirror)
    return {
        "num_steps_per_env": config.steps_per_iteration,
        "obs_groups": groups,
        "multi_gpu": multi_gpu,
        "actor": {**network_dict(config, config.hidden_dims), "distribution_cfg": gaussian_dict(config)},
        "critic": network_dict(config, critic_dims),
        "algorithm": algorithm,
    }


def _symmetry_dict(config: PPOConfig, mirror: MirrorSpec | None) -> dict[str, Any]:
    if config.symmetry is None or mirror is None:
        raise TrainConfigError("symmetry needs to know how the robot is mirrored: give the trainer a MirrorSpec")
    return {**dataclasses.asdict(config.symmetry), "data_augmentation_func": augmentation(mirror)}


def distillation_dict(config: PPOConfig, multi_gpu: MultiGPU) -> dict[str, Any]:
    """For Distillation.construct_algorithm."""
    if config.distillation is None:
        raise TrainConfigError("no distillation configured: give PPOConfig.distillation")
    teacher, d = config.distillation.teacher, config.distillation
    return {
        "num_steps_per_env": config.steps_per_iteration,
        "obs_groups": {"student": [config.actor_group], "teacher": [teacher.group]},
        "multi_gpu": multi_gpu,
        "student": {**network_dict(config, config.hidden_dims), "distribution_cfg": gaussian_dict(config)},
        # A trained actor has a distribution; its deviation comes with the weights.
        "teacher": {**network_dict(teacher, teacher.hidden_dims), "distribution_cfg": gaussian_dict(config)},
        "algorithm": {
            "class_name": "Distillation",
            "num_learning_epochs": d.epochs,
            "gradient_length": d.gradient_length,
            "learning_rate": d.learning_rate,
            "max_grad_norm": d.max_grad_norm,
            "loss_type": d.loss_type,
        },
    }
