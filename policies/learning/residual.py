"""The networks that corrections train: a bounded residual that sees the base action, and a gate with hysteresis.

Both are small ensembles, whose members never saw the same episodes: with few corrections, the mean of k networks that each held
out another part is steadier than any one of them. All members are computed together, as a leading dimension k.
"""

import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import onnx
import torch
from torch import Tensor, nn

OPSET = 18
MIN_STD = 0.05  # a feature that hardly moved in a few episodes must not become a large input when it does move
MAX_DEVIATION = 3.0  # standard deviations; beyond the data the networks see its edge


class FeatureNormalizer(nn.Module):
    """[observation, clip(base action, -1, 1)], standardised and clipped to +-MAX_DEVIATION."""

    mean: Tensor
    std: Tensor

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(num_features))
        self.register_buffer("std", torch.ones(num_features))

    def fit(self, observation: Tensor, base_action: Tensor) -> None:
        """Take mean and standard deviation from rows: observation (r, d), base_action (r, a)."""
        features = torch.cat([observation, base_action.clamp(-1.0, 1.0)], dim=-1)
        self.mean.copy_(features.mean(dim=0))
        self.std.copy_(features.std(dim=0, correction=0).clamp(min=MIN_STD))

    def forward(self, observation: Tensor, base_action: Tensor) -> Tensor:
        """Observation (..., r, d), base_action (..., r, a) -> features (..., r, d + a)."""
        features = torch.cat([observation, base_action.clamp(-1.0, 1.0)], dim=-1)
        return ((features - self.mean) / self.std).clamp(-MAX_DEVIATION, MAX_DEVIATION)


class EnsembleMlp(nn.Module):
    """k multilayer perceptrons with ELU: inputs (k, r, in) -> outputs (k, r, out). Every parameter has the leading dimension k."""

    def __init__(self, members: int, sizes: Sequence[int]) -> None:
        super().__init__()
        self.members = members
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()
        for inputs, outputs in pairwise(sizes):
            bound = inputs**-0.5
            self.weights.append(nn.Parameter(torch.empty(members, inputs, outputs).uniform_(-bound, bound)))
            self.biases.append(nn.Parameter(torch.empty(members, 1, outputs).uniform_(-bound, bound)))

    def forward(self, values: Tensor) -> Tensor:
        """Inputs (k, r, in), or (r, in) for all members alike -> (k, r, out)."""
        last = len(self.weights) - 1
        for index, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            values = values @ weight + bias
            if index < last:
                values = nn.functional.elu(values)
        return values


class ResidualNet(nn.Module):
    """What to add to the base action, in action units, within +-alpha; exactly 0 before training."""

    alpha: Tensor

    def __init__(
        self,
        num_observations: int,
        num_actions: int,
        *,
        alpha: float,
        hidden: Sequence[int] = (64, 64),
        members: int = 1,
    ) -> None:
        super().__init__()
        self.register_buffer("alpha", torch.tensor(float(alpha)))
        self.normalizer = FeatureNormalizer(num_observations + num_actions)
        self.net = EnsembleMlp(members, (num_observations + num_actions, *hidden, num_actions))
        nn.init.zeros_(self.net.weights[-1])
        nn.init.zeros_(self.net.biases[-1])

    def each(self, observation: Tensor, base_action: Tensor) -> Tensor:
        """Every member's residual: observation (k, r, d), base_action (k, r, a) -> (k, r, a)."""
        return self.alpha * torch.tanh(self.net(self.normalizer(observation, base_action)))

    def forward(self, observation: Tensor, base_action: Tensor) -> Tensor:
        """Observation (r, d), base_action (r, a) -> residual action (r, a)."""
        return self.each(observation, base_action).mean(dim=0)


class GateNet(nn.Module):
    """Probability that a person would be correcting here."""

    def __init__(
        self, num_observations: int, num_actions: int, *, hidden: Sequence[int] = (64, 64), members: int = 1
    ) -> None:
        super().__init__()
        self.normalizer = FeatureNormalizer(num_observations + num_actions)
        self.net = EnsembleMlp(members, (num_observations + num_actions, *hidden, 1))

    def each(self, observation: Tensor, base_action: Tensor) -> Tensor:
        """Every member's log odds: observation (k, r, d), base_action (k, r, a) -> (k, r, 1)."""
        return self.net(self.normalizer(observation, base_action))

    def forward(self, observation: Tensor, base_action: Tensor) -> Tensor:
        """Observation (r, d), base_action (r, a) -> probability (r, 1)."""
        return torch.sigmoid(self.each(observation, base_action)).mean(dim=0)


def hysteresis(probability: Tensor, previous: Tensor, *, on: float, off: float) -> Tensor:
    """Gate in {0, 1}: opens at `on`, closes below `off`, else stays. Float arithmetic, because runtimes lack boolean Where."""
    opens = (probability >= on).to(probability.dtype)
    stays = (probability >= off).to(probability.dtype)
    return opens + (1.0 - opens) * stays * previous


class GatedResidual(nn.Module):
    """Residual and gate as they are deployed, one step at a time."""

    def __init__(self, residual: ResidualNet, gate: GateNet, *, on: float = 0.5, off: float = 0.3) -> None:
        super().__init__()
        if not 0.0 < off <= on < 1.0:
            raise ValueError(f"gate thresholds need 0 < off <= on < 1, got off = {off} and on = {on}")
        self.residual, self.gate = residual, gate
        self.on, self.off = on, off

    def forward(self, observation: Tensor, base_action: Tensor, gate_state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """One step.

        Args:
            observation: (1, d).
            base_action: (1, a), unclipped.
            gate_state: (1, 1), the gate of the previous step, 0 at the start.

        Returns:
            residual_action (1, a), gate_prob (1, 1), gate (1, 1) which is also the next state.
        """
        probability = self.gate(observation, base_action)
        gate = hysteresis(probability, gate_state, on=self.on, off=self.off)
        return self.residual(observation, base_action), probability, gate


def export_residual(module: GatedResidual, num_observations: int, num_actions: int) -> onnx.ModelProto:
    """ONNX graph of one step for `compose`: observation, base_action, state.gate -> residual_action, gate_prob, gate."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "residual.onnx"
        torch.onnx.export(
            module.eval(),
            (torch.zeros(1, num_observations), torch.zeros(1, num_actions), torch.zeros(1, 1)),
            str(path),
            input_names=["observation", "base_action", "state.gate"],
            output_names=["residual_action", "gate_prob", "gate"],
            opset_version=OPSET,
            dynamo=False,  # the other exporter takes seconds for this
        )
        model = onnx.load(str(path))
    onnx.checker.check_model(model)
    return model
