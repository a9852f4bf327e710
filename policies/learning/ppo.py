"""rsl-rl's PPO with an update that shares its rows among the cores; the same mathematics."""

from typing import Any, NamedTuple

import torch
from rsl_rl.algorithms import PPO
from rsl_rl.models import MLPModel
from rsl_rl.modules.distribution import GaussianDistribution
from tensordict import TensorDict
from torch import nn
from torch.distributions import Normal, kl_divergence

from .shared_rows import CHUNK, INFERENCE_CHUNK, each_chunk, mlp_forward
from .threads import bfloat16_is_fast, row_workers


class Rows(NamedTuple):
    """Transitions as rows; widths in brackets."""

    actor: torch.Tensor  # (d) normalised observation
    critic: torch.Tensor  # (c) normalised observation
    actions: torch.Tensor  # (a)
    values: torch.Tensor  # (1)
    returns: torch.Tensor  # (1)
    advantages: torch.Tensor  # (1)
    log_prob: torch.Tensor  # (1) of the action when it was taken
    mean: torch.Tensor  # (a) of the distribution then
    std: torch.Tensor  # (a)

    def part(self, index: slice | torch.Tensor) -> "Rows":
        """Some of the rows."""
        return Rows(*(tensor[index] for tensor in self))


class Sums(NamedTuple):
    """What a chunk of a mini-batch contributes: gradients, and figures [kl, surrogate, value, entropy]."""

    gradients: tuple[torch.Tensor, ...]
    figures: torch.Tensor


class FastPPO(PPO):
    """PPO; plain multilayer perceptrons take the shared update, everything else rsl-rl's own.

    Results do not depend on the number of cores. In bfloat16 actions are drawn from the same bfloat16 network that is then updated,
    so that probability ratios start at one; deployment runs the float32 weights, which never leave float32.
    """

    def __init__(self, *args: Any, precision: str = "fp32", **kwargs: Any) -> None:
        """Args: precision: as in PPOConfig; the rest as rsl_rl.algorithms.PPO."""
        super().__init__(*args, **kwargs)
        low = precision == "bf16" or (precision == "auto" and bfloat16_is_fast())
        self._dtype = torch.bfloat16 if low else torch.float32
        models = (self.actor, self.critic)
        plain = (
            all(type(model) is MLPModel for model in models) and type(self.actor.distribution) is GaussianDistribution
        )
        augments = self.symmetry is None or (self.symmetry.use_data_augmentation and not self.symmetry.use_mirror_loss)
        self.shares_rows = plain and self.rnd is None and augments
        self.use_mixed_precision = low and not self.actor.is_recurrent
        self._parameters = [*self.actor.parameters(), *self.critic.parameters()]
        if self.shares_rows:
            self._workers = row_workers()
            self.optimizer = torch.optim.Adam(self._parameters, lr=self.learning_rate, fused=True)

    def load(self, loaded_dict: dict, load_cfg: dict | None, strict: bool) -> bool:
        """See rsl-rl; an optimiser that was saved by the unfused Adam goes on as the fused one."""
        result = super().load(loaded_dict, load_cfg, strict)
        if self.shares_rows:
            for group in self.optimizer.param_groups:
                group["fused"] = True
        return result

    def act(self, obs: TensorDict) -> torch.Tensor:
        """Sample actions (num_envs, a) and remember the transition."""
        if not self.shares_rows:
            return super().act(obs)
        mean, values = self._infer(self.actor, obs), self._infer(self.critic, obs)
        distribution, now = _gaussian(self.actor), self.transition
        distribution.update(mean)
        now.actions = distribution.sample()
        now.values = values
        now.actions_log_prob = distribution.log_prob(now.actions).detach()
        now.distribution_params = tuple(p.detach() for p in distribution.params)
        now.observations = obs
        return now.actions

    def _infer(self, model: MLPModel, obs: TensorDict) -> torch.Tensor:
        latent = model.get_latent(obs)

        @torch.no_grad()  # holds for one thread only
        def outputs(rows: slice) -> torch.Tensor:
            return mlp_forward(model.mlp, latent[rows], self._dtype)

        return torch.cat(
            list(each_chunk(self._workers, outputs, range(0, latent.shape[0], INFERENCE_CHUNK), latent.shape[0]))
        )

    def update(self) -> dict[str, float]:
        """Optimise over the stored rollout; mean losses by name."""
        if not self.shares_rows:
            return super().update()
        size = self.storage.num_envs * self.storage.num_transitions_per_env // self.num_mini_batches
        # rsl-rl shuffles once an update, so that each mini-batch can be laid out once for all epochs.
        order = torch.randperm(self.num_mini_batches * size)
        images = [image.part(order) for image in self._images()]
        totals = torch.zeros(4)
        for _ in range(self.num_learning_epochs):
            for start in range(0, self.num_mini_batches * size, size):
                totals += self._step(images, start, start + size)
        observations = self.storage.observations.flatten(0, 1)
        self.actor.update_normalization(observations)
        self.critic.update_normalization(observations)
        self.storage.clear()
        _, surrogate, value, entropy = (totals / (self.num_learning_epochs * self.num_mini_batches)).tolist()
        return {"value": value, "surrogate": surrogate, "entropy": entropy}

    @torch.no_grad()
    def _images(self) -> list[Rows]:
        """The rollout, and with symmetry its mirror image, whose rows keep the probabilities, values and returns of what happened."""
        stored = self.storage
        observations = stored.observations.flatten(0, 1)
        assert stored.distribution_params is not None  # filled by the rollout
        mean, std = stored.distribution_params
        columns = (stored.actions, stored.values, stored.returns, stored.advantages, stored.actions_log_prob, mean, std)
        flat = [column.flatten(0, 1) for column in columns]
        rows = Rows(self.actor.get_latent(observations), self.critic.get_latent(observations), *flat)
        if self.symmetry is None:
            return [rows]
        both, actions = self.symmetry.data_augmentation_func(self.symmetry.env, observations, rows.actions)
        count = rows.actions.shape[0]
        actor, critic = (model.get_latent(both[count:]) for model in (self.actor, self.critic))
        return [rows, rows._replace(actor=actor, critic=critic, actions=actions[count:])]

    def _step(self, images: list[Rows], start: int, stop: int) -> torch.Tensor:
        """One gradient step on rows [start, stop); gives its figures."""
        total: list[torch.Tensor] = []
        figures = torch.zeros(4)
        pieces = range(start, stop, CHUNK // len(images))

        def chunk(piece: slice) -> Sums:
            return self._chunk([image.part(piece) for image in images], stop - start)

        for part in each_chunk(self._workers, chunk, pieces, stop):
            figures += part.figures
            if total:
                torch._foreach_add_(total, part.gradients)  # pyright: ignore[reportPrivateImportUsage]
            else:
                total = list(part.gradients)
        for parameter, gradient in zip(self._parameters, total, strict=True):
            parameter.grad = gradient
        if self.desired_kl is not None and self.schedule == "adaptive":
            self._adapt_learning_rate(figures[0].clone())
        if self.is_multi_gpu:
            self.reduce_parameters()
        nn.utils.clip_grad_norm_(self.actor.parameters(), self.max_grad_norm)
        nn.utils.clip_grad_norm_(self.critic.parameters(), self.max_grad_norm)
        self.optimizer.step()
        return figures

    def _chunk(self, images: list[Rows], count: int) -> Sums:
        """Gradients and figures of some rows of a mini-batch of `count`; only what happened counts for the divergence."""
        distribution, happened, count = _gaussian(self.actor), images[0], count * len(images)
        rows = images[0] if len(images) == 1 else Rows(*(torch.cat(columns) for columns in zip(*images, strict=True)))
        mean = mlp_forward(self.actor.mlp, rows.actor, self._dtype)
        std = distribution.log_std_param.clamp(*distribution.log_std_range).exp()
        now = Normal(mean, std.expand_as(mean))
        values = mlp_forward(self.critic.mlp, rows.critic, self._dtype)
        ratio = torch.exp(now.log_prob(rows.actions).sum(-1, keepdim=True) - rows.log_prob)
        clipped = ratio.clamp(1.0 - self.clip_param, 1.0 + self.clip_param)
        surrogate = torch.max(-rows.advantages * ratio, -rows.advantages * clipped).sum() / count
        value = self._value_errors(values, rows).sum() / count
        entropy = now.entropy().sum() / count
        loss = surrogate + self.value_loss_coef * value - self.entropy_coef * entropy
        gradients = torch.autograd.grad(loss, self._parameters)
        with torch.no_grad():
            size = happened.mean.shape[0]
            now = Normal(mean[:size], std.expand_as(happened.mean))
            kl = kl_divergence(Normal(happened.mean, happened.std), now).sum() * len(images) / count
            return Sums(gradients, torch.stack([kl, surrogate, value, entropy]))

    def _value_errors(self, values: torch.Tensor, rows: Rows) -> torch.Tensor:
        errors = (values - rows.returns).square()
        if not self.use_clipped_value_loss:
            return errors
        near = rows.values + (values - rows.values).clamp(-self.clip_param, self.clip_param)
        return torch.max(errors, (near - rows.returns).square())

    def _adapt_learning_rate(self, kl: torch.Tensor) -> None:
        """Follow the mean divergence of the policy from the one that acted; the same in all processes."""
        if self.is_multi_gpu:
            torch.distributed.all_reduce(kl)
            torch.distributed.broadcast(kl, src=0)
            kl /= self.gpu_world_size
        if kl > 2.0 * self.desired_kl:
            self.learning_rate = max(1e-5, self.learning_rate / 1.5)
        elif 0.0 < kl < 0.5 * self.desired_kl:
            self.learning_rate = min(1e-2, self.learning_rate * 1.5)
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate


def _gaussian(model: MLPModel) -> GaussianDistribution:
    assert isinstance(model.distribution, GaussianDistribution)  # what shares_rows asks for
    return model.distribution
