"""A residual and a gate from corrected episodes, in TRANSIC's two steps: first the residual, then, with it frozen, the gate."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from ..contract import Contract
from ..episode import Episode
from .correction_rows import CorrectionError, CorrectionRows, correction_rows
from .residual import GatedResidual, GateNet, ResidualNet, export_residual

HELD_OUT_ROWS = 1024  # drawn once per member for its validation loss
SMOOTH_L1_BETA = 0.2  # action units


@dataclass(frozen=True, kw_only=True)
class CorrectionConfig:
    """How to learn from few episodes."""

    seed: int = 0
    hidden: tuple[int, ...] = (64, 64)
    members: int = 5  # at most; each holds out its own share of the episodes
    max_alpha: float = 2.0  # action units; 2 can replace the base altogether
    alpha_margin: float = 1.1  # alpha = margin * 99 % quantile of what people added
    shifted_replays: int = 8  # see correction_rows
    shift_std: float = 0.1  # rad
    lead_in_s: float = 1.0
    learning_rate: float = 1e-3
    weight_decay: float = 1e-3
    batch_size: int = 256
    max_steps: int = 4000
    evaluate_every: int = 50  # steps
    patience: int = 10  # evaluations in which no member improved
    gate_on: float = 0.5
    gate_off: float = 0.3


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Validation loss on held-out episodes during training; each member keeps its best step's weights."""

    steps: tuple[int, ...]
    validation_loss: tuple[float, ...]  # mean over members
    best_steps: tuple[int, ...]  # of each member
    best_loss: float  # mean over members


@dataclass(frozen=True, kw_only=True)
class LearnedResidual:
    """Networks and the figures of their training."""

    module: GatedResidual
    num_observations: int
    num_actions: int
    alpha: float  # bound of the residual, action units
    residual_curve: Curve  # smooth L1 over what people added, action units
    gate_curve: Curve  # cross-entropy, nats
    zero_loss: float  # the residual's loss if nothing were added
    gate_accuracy: float  # balanced over both classes, on held-out episodes
    folds: tuple[tuple[int, ...], ...]  # episodes (indices into those given) that each member held out
    corrected_episodes: int
    correcting_rows: int  # shifted replays included
    autonomous_rows: int

    def export(self) -> onnx.ModelProto:
        """The graph that `policies.compose.compose` takes."""
        return export_residual(self.module, self.num_observations, self.num_actions)


def learn_residual(
    base_path: Path, contract: Contract, episodes: Sequence[Episode], config: CorrectionConfig
) -> LearnedResidual:
    """Learn what people added to the base, and where they did.

    For a further round give all episodes, old and new: those that were recorded with an earlier residual running are as good,
    because every target is relative to the base at `base_path`.

    Raises:
        CorrectionError: fewer than two corrected successful episodes, or episodes that do not fit the base.
    """
    rows = correction_rows(
        base_path,
        contract,
        episodes,
        shifted_replays=config.shifted_replays,
        shift_std=config.shift_std,
        lead_in_s=config.lead_in_s,
        seed=config.seed,
    )
    folds = split_episodes(rows, config)
    with _reproducible(config.seed):
        return _learn(rows, folds, config)


def split_episodes(rows: CorrectionRows, config: CorrectionConfig) -> tuple[tuple[int, ...], ...]:
    """Episodes that each member holds out; corrected and uncorrected ones are dealt out separately."""
    rng = np.random.default_rng(config.seed)
    corrected = np.unique(rows.episode[rows.correcting])
    members = min(config.members, len(corrected))
    if members < 2:
        raise CorrectionError(
            f"learning needs at least 2 corrected successful episodes (one to validate with) and 2 members, got {len(corrected)} "
            f"episodes and members = {config.members}; correct more"
        )
    uncorrected = np.setdiff1d(np.unique(rows.episode), corrected)
    shuffled = rng.permutation(corrected), rng.permutation(uncorrected)
    return tuple(tuple(sorted(int(i) for group in shuffled for i in group[k::members])) for k in range(members))


def _learn(rows: CorrectionRows, folds: Sequence[Sequence[int]], config: CorrectionConfig) -> LearnedResidual:
    observation, base_action = torch.from_numpy(rows.observation), torch.from_numpy(rows.base_action)
    target = torch.from_numpy(rows.target)
    correcting, autonomous = torch.from_numpy(rows.correcting), torch.from_numpy(rows.autonomous)
    held_out = torch.from_numpy(np.stack([np.isin(rows.episode, fold) for fold in folds]))  # (k, r)
    shape = {"num_observations": rows.observation.shape[1], "num_actions": rows.base_action.shape[1]}

    alpha = min(config.max_alpha, config.alpha_margin * float(np.quantile(np.abs(rows.target[rows.correcting]), 0.99)))
    residual = ResidualNet(**shape, alpha=alpha, hidden=config.hidden, members=len(folds))
    residual.normalizer.fit(observation, base_action)

    def residual_loss(index: Tensor) -> Tensor:
        return _smooth_l1(residual.each(observation[index], base_action[index]), target[index])

    residual_curve = _fit(residual, residual_loss, correcting, held_out, config)

    gate = GateNet(**shape, hidden=config.hidden, members=len(folds))
    gate.normalizer.fit(observation, base_action)
    wanted = correcting | torch.from_numpy(rows.assisted)  # where a residual ran and nobody objected, it is wanted
    labelled = wanted | autonomous
    # As TRANSIC: autonomous ticks, the usual majority, count at most as much as the others together.
    share = (wanted.sum() / autonomous.sum().clamp(min=1)).clamp(max=1.0)
    weight = torch.where(wanted, 1.0, share)

    def gate_loss(index: Tensor) -> Tensor:
        logit = gate.each(observation[index], base_action[index])[..., 0]
        label = wanted[index].float()
        entropy = nn.functional.binary_cross_entropy_with_logits(logit, label, weight[index], reduction="none")
        return entropy.mean(dim=1)

    gate_curve = _fit(gate, gate_loss, labelled, held_out, config)
    return LearnedResidual(
        module=GatedResidual(residual, gate, on=config.gate_on, off=config.gate_off).eval(),
        **shape,
        alpha=alpha,
        residual_curve=residual_curve,
        gate_curve=gate_curve,
        zero_loss=float(_smooth_l1(torch.zeros_like(target[correcting]), target[correcting]).mean()),
        gate_accuracy=_balanced_accuracy(gate, observation, base_action, (wanted, autonomous), held_out),
        folds=tuple(tuple(fold) for fold in folds),
        corrected_episodes=len(np.unique(rows.episode[rows.correcting])),
        correcting_rows=int(correcting.sum()),
        autonomous_rows=int(autonomous.sum()),
    )


def _smooth_l1(prediction: Tensor, target: Tensor) -> Tensor:
    """Mean over all but the first dimension."""
    return (
        nn.functional.smooth_l1_loss(prediction, target, beta=SMOOTH_L1_BETA, reduction="none").flatten(1).mean(dim=1)
    )


def _fit(
    net: ResidualNet | GateNet,
    loss: Callable[[Tensor], Tensor],
    usable: Tensor,
    held_out: Tensor,
    config: CorrectionConfig,
) -> Curve:
    """Train all members at once until none improves on its held-out episodes; each keeps its best weights.

    Args:
        net: what `loss` computes with.
        loss: row indices (k, b) -> losses (k,).
        usable: (r,) rows that may be trained on.
        held_out: (k, r) rows of the episodes that each member does not see.
        config: learning rate, steps, patience.
    """
    seen = [(usable & ~rows).nonzero()[:, 0] for rows in held_out]
    unseen = _draw([(usable & rows).nonzero()[:, 0] for rows in held_out], HELD_OUT_ROWS)
    optimizer = torch.optim.AdamW(net.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)
    parameters = list(net.net.parameters())
    best = [parameter.detach().clone() for parameter in parameters]
    losses: list[Tensor] = []
    for step in range(config.max_steps + 1):
        if step % config.evaluate_every == 0:
            with torch.no_grad():
                losses.append(loss(unseen))
            history = torch.stack(losses)
            improved = history[-1] <= history.min(dim=0).values
            for kept, parameter in zip(best, parameters, strict=True):
                kept[improved] = parameter.detach()[improved]
            if len(losses) - 1 - int(history.argmin(dim=0).max()) >= config.patience:
                break
        optimizer.zero_grad()
        loss(_draw(seen, config.batch_size)).sum().backward()
        optimizer.step()
    with torch.no_grad():
        for kept, parameter in zip(best, parameters, strict=True):
            parameter.copy_(kept)
    net.requires_grad_(False)
    return _curve(torch.stack(losses), config.evaluate_every)


def _draw(rows: Sequence[Tensor], count: int) -> Tensor:
    """Random rows with replacement for each member, (k, count)."""
    return torch.stack([indices[torch.randint(len(indices), (count,))] for indices in rows])


def _curve(losses: Tensor, every: int) -> Curve:
    best = losses.min(dim=0)
    return Curve(
        steps=tuple(every * index for index in range(len(losses))),
        validation_loss=tuple(losses.mean(dim=1).tolist()),
        best_steps=tuple(every * index for index in best.indices.tolist()),
        best_loss=float(best.values.mean()),
    )


@torch.no_grad()
def _balanced_accuracy(
    gate: GateNet, observation: Tensor, base_action: Tensor, classes: tuple[Tensor, Tensor], held_out: Tensor
) -> float:
    """Mean share of correct labels over (wanted, autonomous) rows; each member judges the episodes it held out."""
    rates = []
    for rows, wanted in zip(classes, (True, False), strict=True):
        right = []
        for member, unseen in enumerate(held_out):
            chosen = rows & unseen
            right.append((gate.each(observation[chosen], base_action[chosen])[member, :, 0] > 0.0) == wanted)
        if rows.any():
            rates.append(float(torch.cat(right).float().mean()))
    return float(np.mean(rates))


@contextmanager
def _reproducible(seed: int) -> Iterator[None]:
    """A seed of its own and one thread: small networks are slower on several."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(threads)
