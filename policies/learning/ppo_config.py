"""Configuration of training as data, and the dicts that rsl-rl takes."""

from dataclasses import dataclass
from typing import Any, Literal

from isthmus.hardware.errors import IsthmusError

Network = Literal["mlp", "gru"]
Group = Literal[
    "actor", "critic"
]  # observation groups of an environment: the contract's, and with what only a simulator knows


class TrainConfigError(IsthmusError, ValueError):
    """A training configuration asks for what cannot be."""


@dataclass(frozen=True, kw_only=True)
class RNDConfig:
    """Random network distillation: a reward for states that were seldom seen."""

    weight: float  # of the intrinsic reward, added at each control tick
    group: Group = "critic"  # whose novelty is rewarded
    num_outputs: int = 8
    predictor_hidden_dims: tuple[int, ...] = (64, 64)
    target_hidden_dims: tuple[int, ...] = (64, 64)
    learning_rate: float = 1e-3
    state_normalization: bool = True
    reward_normalization: bool = True


@dataclass(frozen=True, kw_only=True)
class SymmetryConfig:
    """Learning from mirrored samples; how to mirror is a symmetry.MirrorSpec, which the robot gives."""

    use_data_augmentation: bool = True
    use_mirror_loss: bool = False
    mirror_loss_coeff: float = 0.0


@dataclass(frozen=True, kw_only=True)
class TeacherConfig:
    """The network of a trained policy that a student learns from; distillation.read_teacher gives it."""

    network: Network
    hidden_dims: tuple[int, ...]
    activation: str
    normalise: bool
    group: Group
    rnn_hidden_dim: int
    rnn_layers: int


@dataclass(frozen=True, kw_only=True)
class DistillationConfig:
    """A student that sees `actor_group` learns a teacher's actions by behaviour cloning on its own states."""

    teacher: TeacherConfig
    epochs: int = 1
    gradient_length: int = 12  # control ticks between gradient steps; divides epochs * steps_per_iteration
    learning_rate: float = 1e-3
    loss_type: Literal["mse", "huber"] = "mse"
    max_grad_norm: float = 1.0


@dataclass(frozen=True, kw_only=True)
class PPOConfig:
    """PPO and its networks; names as in rsl-rl."""

    network: Network = "mlp"
    hidden_dims: tuple[int, ...] = (64, 64)
    critic_hidden_dims: tuple[int, ...] | None = None  # None: as the actor's
    activation: str = "elu"
    normalise: bool = False  # running mean and deviation of the observation, inside actor and critic
    rnn_hidden_dim: int = 64  # of a GRU before the hidden layers
    rnn_layers: int = 1
    actor_group: Group = "actor"  # "critic" for a teacher, which no robot can run
    init_std: float = 0.6
    steps_per_iteration: int = 24
    epochs: int = 4
    mini_batches: int = 4
    learning_rate: float = 1e-3
    schedule: Literal["adaptive", "fixed"] = "adaptive"
    desired_kl: float = 0.012
    gamma: float = 0.97
    lam: float = 0.95
    clip: float = 0.2
    clip_value_loss: bool = True
    value_loss: float = 1.0
    max_grad_norm: float = 1.0
    entropy: float = 0.002
    # "bf16": hidden layers in bfloat16 while training, about twice as fast where the CPU has instructions for it; "auto": where it has.
    precision: Literal["fp32", "bf16", "auto"] = "fp32"
    rnd: RNDConfig | None = None
    symmetry: SymmetryConfig | None = None
    distillation: DistillationConfig | None = None
    save_every: int = 25  # iterations


def teacher_config(config: PPOConfig) -> TeacherConfig:
    """The part of a policy's configuration that a student's run needs."""
    return TeacherConfig(
        network=config.network,
        hidden_dims=config.hidden_dims,
        activation=config.activation,
        normalise=config.normalise,
        group=config.actor_group,
        rnn_hidden_dim=config.rnn_hidden_dim,
        rnn_layers=config.rnn_layers,
    )


def check_config(config: PPOConfig) -> None:
    """Raises TrainConfigError for combinations that rsl-rl does not do, and for pieces of a rollout that would be thrown away."""
    extras = [name for name in ("rnd", "symmetry") if getattr(config, name) is not None]
    if config.distillation is not None and extras:
        raise TrainConfigError(f"distillation goes without {' and '.join(extras)}: leave one of them out")
    if config.network == "gru" and config.symmetry is not None:
        raise TrainConfigError(
            "symmetry does not work with network 'gru' (hidden states have no mirror image): take 'mlp'"
        )
    if config.network == "gru" and config.precision == "bf16":
        raise TrainConfigError("precision 'bf16' is for network 'mlp': take 'fp32' or 'auto' with 'gru'")
    if config.distillation is not None:
        ticks = config.distillation.epochs * config.steps_per_iteration
        if ticks % config.distillation.gradient_length:
            raise TrainConfigError(
                f"distillation.gradient_length {config.distillation.gradient_length} does not divide {ticks} "
                "(epochs * steps_per_iteration): the remaining ticks would teach nothing"
            )


def network_dict(config: PPOConfig | TeacherConfig, hidden_dims: tuple[int, ...]) -> dict[str, Any]:
    """What rsl-rl calls a model's configuration."""
    shared = {
        "hidden_dims": list(hidden_dims),
        "activation": config.activation,
        "obs_normalization": config.normalise,
    }
    if config.network == "mlp":
        return {"class_name": "MLPModel", **shared}
    recurrent = {"rnn_type": "gru", "rnn_hidden_dim": config.rnn_hidden_dim, "rnn_num_layers": config.rnn_layers}
    return {"class_name": "RNNModel", **shared, **recurrent}


def gaussian_dict(config: PPOConfig) -> dict[str, Any]:
    """The action's distribution."""
    return {"class_name": "GaussianDistribution", "init_std": config.init_std, "std_type": "log"}
