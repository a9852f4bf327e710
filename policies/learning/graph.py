"""A contract compiled to torch: the same module trains, and is exported to ONNX with the network."""

from collections.abc import Mapping

import torch
from torch import nn

from isthmus.hardware.kinematics import joint_frames

from ..contract import Contract, check_contract, observation_width, term_width

Signals = Mapping[str, torch.Tensor]
State = dict[str, torch.Tensor]


class ContractGraph(nn.Module):
    """Signals -> observation, and action -> joint targets. Tensors are float32 of shape (batch, width)."""

    default_pos: torch.Tensor
    lower: torch.Tensor
    upper: torch.Tensor
    _scatter: torch.Tensor

    def __init__(self, contract: Contract) -> None:
        super().__init__()
        check_contract(contract)
        self.contract = contract
        names = contract.joint_names
        self._driven = [names.index(name) for name in contract.action.joints]
        self._chain = [names.index(name) for name in contract.chain.joint_names]
        driven = [contract.joints[i] for i in self._driven]
        for key in ("default_pos", "lower", "upper"):
            self.register_buffer(key, torch.tensor([getattr(joint, key) for joint in driven]), persistent=False)
        mask = torch.zeros(len(driven), len(names))
        mask[torch.arange(len(driven)), self._driven] = 1.0
        self.register_buffer("_scatter", mask, persistent=False)

    @property
    def state_widths(self) -> dict[str, int]:
        """Width of each state tensor; all are zero at reset."""
        widths = {}
        for term in self.contract.observation:
            if term.history > 1:
                widths[f"history.{term.name}"] = term_width(term, self.contract) // term.history * (term.history - 1)
        return {"started": 1, **widths} if widths else {}

    def observe(self, signals: Signals, state: State) -> tuple[torch.Tensor, State]:
        """Observation (batch, observation_width) and the next state."""
        raw = self._raw_terms(signals)
        blocks, following = [], {}
        for term in self.contract.observation:
            value = raw[term.name]
            if term.clip is not None:
                value = torch.clamp(value, -term.clip, term.clip)
            value = value * term.scale
            if term.history > 1:
                key = f"history.{term.name}"
                past = state["started"] * state[key] + (1.0 - state["started"]) * value.repeat(1, term.history - 1)
                value = torch.cat([past, value], dim=-1)
                following[key] = value[:, value.shape[1] // term.history :]
            blocks.append(value)
        if following:
            following["started"] = torch.ones_like(state["started"])
        return torch.cat(blocks, dim=-1), following

    def act(self, action: torch.Tensor, signals: Signals) -> torch.Tensor:
        """Joint targets (batch, n) rad for an action (batch, a); see contract.JointIncrement."""
        rule = self.contract.action
        previous, measured = signals["joint_target"][:, self._driven], signals["joint_pos"][:, self._driven]
        target = previous + rule.scale * torch.clamp(action, -1.0, 1.0)
        target = torch.minimum(torch.maximum(target, measured - rule.max_lead), measured + rule.max_lead)
        target = torch.minimum(torch.maximum(target, self.lower), self.upper)
        return signals["joint_target"] + (target - previous) @ self._scatter

    def _raw_terms(self, signals: Signals) -> dict[str, torch.Tensor]:
        joint_pos = signals["joint_pos"]
        rotations, _, tip = joint_frames(self.contract.chain, joint_pos[:, self._chain], torch)
        error = signals["command.target"] - tip
        return {
            "joint_pos": joint_pos[:, self._driven] - self.default_pos,
            "joint_vel": signals["joint_vel"][:, self._driven],
            "joint_lead": (signals["joint_target"] - joint_pos)[:, self._driven],
            "tip_error": (error[:, None, :] @ rotations[0])[:, 0],
            "target": signals["command.target"],
        }


class PolicyGraph(nn.Module):
    """Contract and network in one module with flat inputs and outputs, as it is exported."""

    def __init__(self, contract: Contract, network: nn.Module) -> None:
        """Args: network: observation (batch, d) -> action (batch, a), normaliser included."""
        super().__init__()
        self.contract_graph = ContractGraph(contract)
        self.network = network
        self.signal_names = ("joint_pos", "joint_vel", "joint_target", contract.command.signal)
        self.state_names = tuple(self.contract_graph.state_widths)
        self.observation_width = observation_width(contract)

    @property
    def input_names(self) -> list[str]:
        """Graph inputs, in the order of `forward`."""
        return [*self.signal_names, *(f"state.{name}" for name in self.state_names)]

    @property
    def output_names(self) -> list[str]:
        """Graph outputs, in the order of `forward`."""
        parts = ["observation", "base_action", "residual_action", "gate_prob", "gate"]
        return ["joint_target_next", *parts, *(f"next.{name}" for name in self.state_names)]

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Inputs as `input_names`; outputs as `output_names`."""
        signals = dict(zip(self.signal_names, inputs, strict=False))
        state = dict(zip(self.state_names, inputs[len(self.signal_names) :], strict=True))
        observation, following = self.contract_graph.observe(signals, state)
        action = self.network(observation)
        target = self.contract_graph.act(action, signals)
        none = torch.zeros_like(action[:, :1])
        parts = (observation, action, torch.zeros_like(action), none, none + 0.0)
        return (target, *parts, *(following[name] for name in self.state_names))
