"""Trained networks as they are deployed: normaliser included, no distribution, hidden state in the open."""

from typing import cast

import torch
from rsl_rl.models import MLPModel, RNNModel
from torch import nn

from .ppo_config import TrainConfigError


class DeployedMLP(nn.Module):
    """Observation (batch, d) -> mean action (batch, a). Shares its weights with the model it was made of."""

    def __init__(self, model: MLPModel) -> None:
        super().__init__()
        self.normaliser, self.mlp = model.obs_normalizer, model.mlp

    @property
    def state_widths(self) -> dict[str, int]:
        """Width of each state tensor: none."""
        return {}

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        """The action."""
        return self.mlp(self.normaliser(observation))


class DeployedGRU(nn.Module):
    """Observation (batch, d) and hidden state (batch, layers * h), zero at reset -> mean action (batch, a) and next hidden state."""

    def __init__(self, model: RNNModel) -> None:
        super().__init__()
        self.normaliser, self.mlp, self.gru = model.obs_normalizer, model.mlp, cast(nn.GRU, model.rnn.rnn)

    @property
    def state_widths(self) -> dict[str, int]:
        """Width of each state tensor."""
        return {"hidden": self.gru.num_layers * self.gru.hidden_size}

    def forward(self, observation: torch.Tensor, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The action and the hidden state to give next time."""
        layers = hidden.reshape(-1, self.gru.num_layers, self.gru.hidden_size).transpose(0, 1).contiguous()
        output, layers = self.gru(self.normaliser(observation).unsqueeze(0), layers)
        return self.mlp(output.squeeze(0)), layers.transpose(0, 1).reshape(
            -1, self.gru.num_layers * self.gru.hidden_size
        )


DeployedActor = DeployedMLP | DeployedGRU


def deployed_actor(model: MLPModel) -> DeployedActor:
    """The part of a trained model that goes onto a robot.

    Raises:
        TrainConfigError: a recurrent model that is no GRU.
    """
    if not isinstance(model, RNNModel):
        return DeployedMLP(model)
    if not isinstance(model.rnn.rnn, nn.GRU):
        raise TrainConfigError(f"cannot deploy a {type(model.rnn.rnn).__name__}: the recurrent network must be a GRU")
    return DeployedGRU(model)
