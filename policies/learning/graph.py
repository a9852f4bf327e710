"""A contract compiled to torch: the same module trains, and is exported to ONNX with the network."""

from collections.abc import Mapping

import torch
from torch import nn

from isthmus.hardware.kinematics import joint_frames, tip_error
from isthmus.sim.columns import columns
from isthmus.sim.rotations import rotation_matrix

from ..bundle import target_output
from ..contract import (
    Contract,
    JointEffort,
    JointIncrement,
    JointPosition,
    ObservationTerm,
    RotorSpeed,
    check_contract,
    observation_width,
    term_width,
)

Signals = Mapping[str, torch.Tensor]
State = dict[str, torch.Tensor]

LAST_ACTION = "last_action"


class ContractGraph(nn.Module):
    """Signals -> observation, and action -> targets. Tensors are float32 of shape (batch, width)."""

    default_pos: torch.Tensor
    lower: torch.Tensor
    upper: torch.Tensor
    all_default_pos: torch.Tensor
    scale: torch.Tensor
    _scatter: torch.Tensor

    def __init__(self, contract: Contract) -> None:
        super().__init__()
        check_contract(contract)
        self.contract = contract
        names = contract.joint_names
        rotors = isinstance(contract.action, RotorSpeed)
        places = [] if rotors else [names.index(name) for name in contract.action.joints]
        chain = () if contract.chain is None else contract.chain.joint_names
        self._driven, self._chain = columns(places), columns([names.index(name) for name in chain])
        self._drives_all = places == list(range(len(names)))
        driven = [contract.joints[i] for i in places]
        for key in ("default_pos", "lower", "upper"):
            self.register_buffer(key, torch.tensor([getattr(joint, key) for joint in driven]), persistent=False)
        every = torch.tensor([joint.default_pos for joint in contract.joints])
        self.register_buffer("all_default_pos", every, persistent=False)
        mask = torch.zeros(len(driven), len(names))
        mask[torch.arange(len(driven)), places] = 1.0
        self.register_buffer("_scatter", mask, persistent=False)
        scales = [term.scale for term in contract.observation for _ in range(term_width(term, contract))]
        self.register_buffer("scale", torch.tensor(scales), persistent=False)
        self._terms = {term.name for term in contract.observation}
        self._histories = history_names(contract.observation)
        self._state_names = tuple(self.state_widths)

    @property
    def num_actions(self) -> int:
        """Width of the network's action."""
        return len(self.contract.action.joints)

    @property
    def state_widths(self) -> dict[str, int]:
        """Width of each state tensor; all are zero at reset."""
        widths = {}
        for term, name in zip(self.contract.observation, self._histories, strict=True):
            if name is not None:
                widths[name] = term_width(term, self.contract) // term.history * (term.history - 1)
        started = {"started": 1} if widths else {}
        last = {LAST_ACTION: self.num_actions} if LAST_ACTION in self._terms else {}
        return {**started, **widths, **last}

    def observe(self, signals: Signals, state: State) -> tuple[torch.Tensor, State]:
        """Observation (batch, observation_width) and the next state; `remember` completes it with the action."""
        raw = self._raw_terms(signals, state)
        blocks, following = [], {}
        for term, key in zip(self.contract.observation, self._histories, strict=True):
            value = raw[term.name]
            if term.clip is not None:
                value = torch.clamp(value, -term.clip, term.clip)
            if key is not None:
                value = torch.cat([self._past(state, key, value, term.history - 1), value], dim=-1)
                following[key] = value[:, value.shape[1] // term.history :]
            blocks.append(value)
        if following:
            following["started"] = torch.ones_like(state["started"])
        return torch.cat(blocks, dim=-1) * self.scale, {
            name: following[name] for name in self._state_names if name in following
        }

    def _past(self, state: State, key: str, value: torch.Tensor, count: int) -> torch.Tensor:
        """The `count` values before this one; those from before an episode were the same as its first."""
        started = state["started"] > 0.5
        traced = torch.jit.is_tracing()  # pyright: ignore[reportPrivateImportUsage]
        if not traced and bool(started.all()):  # as nearly always, and several times as fast
            return state[key]
        before = state[key].unflatten(-1, (count, value.shape[1]))
        return torch.where(started[:, None], before, value[:, None]).flatten(1)

    def remember(self, following: State, action: torch.Tensor) -> State:
        """The next state in full, once the network's action (batch, a) is known."""
        return {**following, LAST_ACTION: self._clipped(action)} if LAST_ACTION in self._terms else following

    def act(self, action: torch.Tensor, signals: Signals) -> torch.Tensor:
        """Targets (batch, n) in the unit of the action's signal, for an action (batch, a); see the actions of contract.py."""
        rule = self.contract.action
        clipped = self._clipped(action)
        if isinstance(rule, JointIncrement):
            previous, measured = signals["joint_target"][:, self._driven], signals["joint_pos"][:, self._driven]
            target = previous + rule.scale * clipped
            target = torch.minimum(torch.maximum(target, measured - rule.max_lead), measured + rule.max_lead)
            return self._onto_all(torch.minimum(torch.maximum(target, self.lower), self.upper), signals, previous)
        if isinstance(rule, JointPosition):
            target = self.default_pos + rule.scale * clipped
            previous = signals["joint_target"][:, self._driven]
            return self._onto_all(torch.minimum(torch.maximum(target, self.lower), self.upper), signals, previous)
        if isinstance(rule, JointEffort):
            return (rule.scale * clipped) @ self._scatter
        return torch.clamp(rule.hover + rule.scale * clipped, 0.0, rule.max_speed)

    def _onto_all(self, target: torch.Tensor, signals: Signals, previous: torch.Tensor) -> torch.Tensor:
        """Targets of all joints: those not driven keep their executed target."""
        if self._drives_all:
            return target
        return signals["joint_target"] + (target - previous) @ self._scatter

    def _clipped(self, action: torch.Tensor) -> torch.Tensor:
        rule = self.contract.action
        bound = rule.clip if isinstance(rule, JointPosition) else 1.0
        return torch.clamp(action, -bound, bound)

    def _raw_terms(self, signals: Signals, state: State) -> dict[str, torch.Tensor]:
        """The terms that the contract uses, before history, scale and clip."""
        used, raw = self._terms, {}
        if self.contract.joints:
            joint_pos, joint_vel = signals["joint_pos"], signals["joint_vel"]
            raw["joint_pos"] = self._pick(joint_pos) - self.default_pos
            raw["joint_vel"] = self._pick(joint_vel)
            if "all_joint_pos" in used:
                raw["all_joint_pos"] = joint_pos - self.all_default_pos
            raw["all_joint_vel"] = joint_vel
            if "joint_lead" in used:
                raw["joint_lead"] = self._pick(signals["joint_target"] - joint_pos)
            if used & {"tip_error", "tip_rotation"}:
                raw |= self._tip_terms(signals)
        for name in used & {"gyro", "gravity", "base_lin_vel"}:
            raw[name] = signals[name]
        if "base_rotation" in used:
            raw["base_rotation"] = rotation_matrix(signals["base_quat"])
        command = signals[self.contract.command.signal]
        if "base_pos_error" in used:
            raw["base_pos_error"] = command - signals["base_pos"]
        raw["target"] = raw["command"] = command
        if LAST_ACTION in used:
            raw[LAST_ACTION] = state[LAST_ACTION]
        return raw

    def _pick(self, values: torch.Tensor) -> torch.Tensor:
        """The driven joints' values."""
        return values[:, self._driven]

    def _tip_terms(self, signals: Signals) -> dict[str, torch.Tensor]:
        assert self.contract.chain is not None
        chain, joint_pos, terms = self.contract.chain, signals["joint_pos"][:, self._chain], {}
        if "tip_error" in self._terms:
            terms["tip_error"] = tip_error(chain, joint_pos, signals["command.target"], torch)
        if "tip_rotation" in self._terms:
            terms["tip_rotation"] = joint_frames(chain, joint_pos, torch)[0][-1].reshape(-1, 9)
        return terms


def history_names(terms: tuple[ObservationTerm, ...]) -> list[str | None]:
    """The state in which each term keeps its earlier samples, None without any; a term given again has its own, "history.<name>.2"."""
    names: list[str | None] = []
    for term in terms:
        before = sum(name is not None and name.split(".")[1] == term.name for name in names)
        again = f".{before + 1}" if before else ""
        names.append(f"history.{term.name}{again}" if term.history > 1 else None)
    return names


def network_state_widths(network: nn.Module) -> dict[str, int]:
    """Width of each state tensor that a network itself keeps, as `network.<name>`; all are zero at reset."""
    return {f"network.{name}": width for name, width in getattr(network, "state_widths", {}).items()}


def run_network(network: nn.Module, observation: torch.Tensor, state: State) -> tuple[torch.Tensor, State]:
    """Action (batch, a), and the network's own next state.

    A network with memory has `state_widths` and takes its states after the observation, in that order, and returns them after the action.
    """
    names = tuple(network_state_widths(network))
    if not names:
        return network(observation), {}
    action, *memory = network(observation, *(state[name] for name in names))
    return action, dict(zip(names, memory, strict=True))


class PolicyGraph(nn.Module):
    """Contract and network in one module with flat inputs and outputs, as it is exported."""

    def __init__(self, contract: Contract, network: nn.Module) -> None:
        """Args: network: observation (batch, d) -> action (batch, a), normaliser included; see `run_network` for one with memory."""
        super().__init__()
        self.contract_graph = ContractGraph(contract)
        self.network = network
        self.signal_names = contract.signals
        self.state_widths = {**self.contract_graph.state_widths, **network_state_widths(network)}
        self.state_names = tuple(self.state_widths)
        self.observation_width = observation_width(contract)

    @property
    def input_names(self) -> list[str]:
        """Graph inputs, in the order of `forward`."""
        return [*self.signal_names, *(f"state.{name}" for name in self.state_names)]

    @property
    def output_names(self) -> list[str]:
        """Graph outputs, in the order of `forward`."""
        parts = ["observation", "base_action", "residual_action", "gate_prob", "gate"]
        return [target_output(self.contract_graph.contract), *parts, *(f"next.{name}" for name in self.state_names)]

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Inputs as `input_names`; outputs as `output_names`."""
        signals = dict(zip(self.signal_names, inputs, strict=False))
        state = dict(zip(self.state_names, inputs[len(self.signal_names) :], strict=True))
        observation, following = self.contract_graph.observe(signals, state)
        action, memory = run_network(self.network, observation, state)
        following = {**self.contract_graph.remember(following, action), **memory}
        target = self.contract_graph.act(action, signals)
        none = torch.zeros_like(action[:, :1])
        parts = (observation, action, torch.zeros_like(action), none, none + 0.0)
        return (target, *parts, *(following[name] for name in self.state_names))
