"""A contract's plan in torch: what trains follows it, and golden rows come from it."""

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import nn

from isthmus.hardware.kinematics import joint_frames, tip_error
from isthmus.sim.columns import Columns, columns, runs
from isthmus.sim.rotations import roll_pitch_yaw, rotation_matrix

from .. import plan
from ..bundle import target_output
from ..contract import Contract, ContractError, JointIncrement, JointIntegral, observation_width
from ..plan import Block, action_plan, clock_cycle, observation_plan, state_widths

Signals = Mapping[str, torch.Tensor]
State = dict[str, torch.Tensor]

_PHASE = "phase"  # of now; no state


class ContractGraph(nn.Module):
    """Signals -> observation, and action -> targets. Tensors are float32 of shape (batch, width)."""

    offset: torch.Tensor
    scale: torch.Tensor
    _lower: torch.Tensor
    _upper: torch.Tensor
    _zero_filled: torch.Tensor
    action_scale: torch.Tensor
    action_offset: torch.Tensor
    lower: torch.Tensor
    upper: torch.Tensor
    _clip_low: torch.Tensor
    _clip_high: torch.Tensor
    _others: torch.Tensor

    def __init__(self, contract: Contract) -> None:
        super().__init__()
        self.contract = contract
        self.state_widths = state_widths(contract)
        self._seen, self._done = seen, done = observation_plan(contract), action_plan(contract)
        reference = [block.source for block in seen.blocks if block.source.startswith("reference.")]
        if reference:
            raise ContractError(f"contract: {reference} are computed by an imported graph, which torch does not have")
        for name, numbers in (
            ("offset", seen.offset), ("scale", seen.scale), ("_lower", seen.lower), ("_upper", seen.upper),
            ("action_scale", done.scale), ("action_offset", done.offset), ("lower", done.lower), ("upper", done.upper),
            ("_clip_low", done.clip_low), ("_clip_high", done.clip_high),
            ("_others", np.zeros(0) if done.others is None else done.others),
        ):  # fmt: skip
            self.register_buffer(name, torch.tensor(numbers, dtype=torch.float32), persistent=False)
        self.register_buffer("_zero_filled", torch.tensor(seen.zero_filled), persistent=False)
        self._bounded = bool(np.isfinite([done.clip_low, done.clip_high]).any())
        self._limited = bool(np.isfinite([done.lower, done.upper]).any())
        self._shifts, self._clips = bool(seen.offset.any()), bool(np.isfinite([seen.lower, seen.upper]).any())
        self._columns = [columns(list(block.columns)) for block in seen.blocks]
        self._kept, self._pick = columns(seen.kept.tolist()), runs(seen.pick.tolist())
        self._driven, self._scatter = columns(list(done.driven)), runs(done.scatter.tolist())
        if contract.chain is not None:
            self._chain = columns([contract.joint_names.index(name) for name in contract.chain.joint_names])

    @property
    def num_actions(self) -> int:
        """Width of what the network gives: its action, or a whole chunk of them."""
        return len(self.contract.action.joints) * self.contract.action.chunk

    def observe(self, signals: Signals, state: State) -> tuple[torch.Tensor, State]:
        """Observation (batch, observation_width), and the state with what was seen; `act` completes it."""
        following = {**state, **self._clock(signals, state)}
        blocks = zip(self._seen.blocks, self._columns, strict=True)
        sample = torch.cat([self._raw(block, places, signals, following) for block, places in blocks], dim=-1)
        if self._shifts:
            sample = sample - self.offset
        if self._clips:
            sample = torch.clamp(sample, self._lower, self._upper)
        sample = sample * self.scale
        if plan.TICKS in self.state_widths:
            following[plan.TICKS] = state[plan.TICKS] + 1.0
        following.pop(_PHASE, None)
        if self._seen.frames == 1:
            return self._picked(sample), following
        past, kept = self._past(sample, state), sample[:, self._kept]
        following[plan.HISTORY] = torch.cat([past[:, kept.shape[1] :], kept], dim=-1)
        if plan.STARTED in self.state_widths:
            following[plan.STARTED] = torch.ones_like(state[plan.STARTED])
        return self._picked(torch.cat([past, sample], dim=-1)), following

    def act(self, action: torch.Tensor, signals: Signals, state: State) -> tuple[torch.Tensor, State]:
        """Targets in the unit of the action's signal, and the next state.

        Args:
            action: what the network gave, (batch, num_actions).
            signals: those of the observation.
            state: as `observe` returned it.
        """
        rule, following = self.contract.action, dict(state)
        action = self._from_chunk(action, following)
        clipped = torch.clamp(action, self._clip_low, self._clip_high) if self._bounded else action
        for name, value in ((plan.LAST_ACTION, clipped), (plan.LAST_ACTION_RAW, action)):
            if name in self.state_widths:
                following[name] = value
        if rule.smoothing < 1.0:
            clipped = following[plan.SMOOTHED] = torch.lerp(state[plan.SMOOTHED], clipped, rule.smoothing)
        change = clipped * self.action_scale
        if isinstance(rule, JointIncrement):
            measured = signals["joint_pos"][:, self._driven]
            target = signals["joint_target"][:, self._driven] + change
            target = torch.minimum(torch.maximum(target, measured - rule.max_lead), measured + rule.max_lead)
        elif isinstance(rule, JointIntegral):
            total = state[plan.INTEGRAL] + change
            total = torch.clamp(total, self.lower - self.action_offset, self.upper - self.action_offset)
            target, following[plan.INTEGRAL] = self.action_offset + total, total
        else:
            target = self.action_offset + change
        if self._limited:
            target = torch.clamp(target, self.lower, self.upper)
        return self._onto_all(target, signals), following

    def first(self, action: torch.Tensor, state: State) -> torch.Tensor:
        """This tick's action (batch, a) of what the network gives (batch, num_actions)."""
        return self._from_chunk(action, dict(state))

    def _from_chunk(self, action: torch.Tensor, following: State) -> torch.Tensor:
        """This tick's action of a chunk; a new chunk begins when the one before is used up."""
        count, chunk = len(self.contract.action.joints), self.contract.action.chunk
        if chunk == 1:
            return action
        left = following[plan.CHUNK_LEFT]
        waiting = torch.nn.functional.pad(following[plan.CHUNK], (0, count))
        current = torch.where(left > 0.5, waiting, action)
        following[plan.CHUNK] = current[:, count:]
        following[plan.CHUNK_LEFT] = torch.where(left > 0.5, left - 1.0, torch.full_like(left, chunk - 1.0))
        return current[:, :count]

    def _onto_all(self, target: torch.Tensor, signals: Signals) -> torch.Tensor:
        """Targets of all joints, those that are not driven included."""
        if self._done.drives_all:
            return target
        if self._done.others is None:
            others = signals["joint_target"]
        else:
            others = self._others.expand(target.shape[0], -1)
        both = torch.cat([target, others], dim=-1)
        return torch.cat([both[:, run] for run in self._scatter], dim=-1)

    def _picked(self, both: torch.Tensor) -> torch.Tensor:
        return both if self._seen.in_order else torch.cat([both[:, run] for run in self._pick], dim=-1)

    def _past(self, sample: torch.Tensor, state: State) -> torch.Tensor:
        """The samples before this one, (batch, history_width); those from before an episode are as its first, or 0."""
        past = state[plan.HISTORY]
        if plan.STARTED not in self.state_widths:
            return past
        started = state[plan.STARTED] > 0.5
        if bool(started.all()):  # as nearly always, and several times as fast
            return past
        first = torch.where(self._zero_filled, 0.0, sample[:, self._kept]).repeat(1, self._seen.frames - 1)
        return torch.where(started, past, first)

    def _clock(self, signals: Signals, state: State) -> State:
        """Phases of now, (batch, phases) cycles, and the clock's next state."""
        clock = self.contract.clock
        if clock is None or plan.CLOCK not in self.state_widths:
            return {}
        count, cycle = state[plan.CLOCK], clock_cycle(self.contract)
        begin, following, small = _row(clock.start, count), {}, None
        if clock.still_below is not None:
            small = self._small(signals)
            left = (state[plan.STANDING] > 0.5) & ~small
            restarted = (state[plan.RESTARTED] > 0.5) | left
            count = torch.where(left, 0.0, count)
            begin = torch.where(restarted, _row(clock.restart, count), begin)
            following = {plan.STANDING: small.float(), plan.RESTARTED: restarted.float()}
        passed = count if cycle is None else torch.remainder(count * cycle[1], cycle[0]) / cycle[0]
        phase = torch.frac(begin + passed)
        if small is not None:
            phase = torch.where(small, _row(clock.still, count), phase)
        step = clock.frequency * self.contract.period_ns * 1e-9
        after = torch.frac(count + step) if cycle is None else torch.remainder(count + 1.0, cycle[0])
        return {**following, plan.CLOCK: after, _PHASE: phase}

    def _small(self, signals: Signals) -> torch.Tensor:
        """Whether the clock stands: every part of the command is small, (batch, 1) bool."""
        clock, command = self.contract.clock, signals[self.contract.need_command().signal]
        assert clock is not None and clock.still_below is not None
        sizes = [command[:, list(part)].square().sum(-1, keepdim=True).sqrt() for part in clock.still_parts]
        return (torch.cat(sizes, dim=-1) < clock.still_below).all(-1, keepdim=True)

    def _raw(self, block: Block, places: Columns, signals: Signals, state: State) -> torch.Tensor:
        """A term's values before offset, clip and scale, (batch, w)."""
        if block.constant:
            return _row(block.constant, next(iter(signals.values())))
        if block.source in signals:
            return signals[block.source][:, places]
        if block.source.startswith("state."):
            return state[block.source.removeprefix("state.")][:, places]
        if block.source == "joint_lead":
            return signals["joint_target"][:, places] - signals["joint_pos"][:, places]
        return self._computed(block.source, signals, state)

    def _computed(self, term: str, signals: Signals, state: State) -> torch.Tensor:
        if term == "base_rotation":
            return rotation_matrix(signals["base_quat"])
        if term == "base_rpy":
            return roll_pitch_yaw(signals["base_quat"])
        if term == "base_pos_error":
            return signals["command.position"] - signals["base_pos"]
        if term == "time":
            return state[plan.TICKS] * (self.contract.period_ns * 1e-9)
        if term == "phase":
            return state[_PHASE]
        if term in ("phase_sin", "phase_cos"):
            angle = 2.0 * math.pi * state[_PHASE]
            return torch.sin(angle) if term == "phase_sin" else torch.cos(angle)
        chain, joint_pos = self.contract.reach_chain(), signals["joint_pos"][:, self._chain]
        if term == "tip_error":
            return tip_error(chain, joint_pos, signals["command.target"], torch)
        return joint_frames(chain, joint_pos, torch)[0][-1].reshape(-1, 9)


def _row(numbers: tuple[float, ...], like: torch.Tensor) -> torch.Tensor:
    """(batch, w) of the same numbers."""
    return torch.tensor(numbers, dtype=torch.float32, device=like.device).expand(like.shape[0], -1)


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
    """Contract and network in one module with the inputs and outputs of a bundle's graph."""

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
        target, following = self.contract_graph.act(action, signals, following)
        following = {**following, **memory}
        action = self.contract_graph.first(action, state)
        none = torch.zeros_like(action[:, :1])
        parts = (observation, action, torch.zeros_like(action), none, none)
        return (target, *parts, *(following[name] for name in self.state_names))
