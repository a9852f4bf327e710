"""Networks as a bundle takes them, and the kinds of bundles that are tried."""

import torch
from torch import nn

from isthmus.policies.contracts import contracts

TASKS = tuple(contract.task for contract in contracts())
WITH_MEMORY = {"so101-reach": nn.GRU, "go2-velocity": nn.GRU, "cartpole-balance": nn.LSTM}
KINDS = (*TASKS, *(f"{task} with memory" for task in WITH_MEMORY), "so101-reach with residual")


def network(width: int, actions: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 32), nn.ELU(), nn.Linear(32, 24), nn.Tanh(), nn.Linear(24, actions))


class WithMemory(nn.Module):
    """A small GRU or LSTM of two layers in the form that deployed networks have."""

    SIZE, LAYERS = 8, 2

    def __init__(self, width: int, actions: int, kind: type[nn.GRU] | type[nn.LSTM]) -> None:
        super().__init__()
        self.parts = 2 if kind is nn.LSTM else 1
        self.state_widths = {"hidden": self.parts * self.LAYERS * self.SIZE}
        self.memory, self.out = kind(width, self.SIZE, num_layers=self.LAYERS), nn.Linear(self.SIZE, actions)

    def forward(self, observation: torch.Tensor, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        states = hidden.reshape(-1, self.parts * self.LAYERS, self.SIZE).transpose(0, 1)
        if self.parts == 2:
            output, (h, c) = self.memory(
                observation.unsqueeze(0), (states[: self.LAYERS].contiguous(), states[self.LAYERS :].contiguous())
            )
            following = torch.cat([h, c])
        else:
            output, following = self.memory(observation.unsqueeze(0), states.contiguous())
        return self.out(output.squeeze(0)), following.transpose(0, 1).reshape(-1, self.state_widths["hidden"])
