"""Who acts in an evaluation: a network as it is trained, a bundle as it is deployed, or nobody who has learnt anything."""

from typing import Literal, Protocol

import numpy as np
import torch

from isthmus.sim.truth import Truth
from isthmus.sim.world import World

from ..bundle import Bundle, target_output
from ..fit import fit
from .env import critic_observation, hidden_scale, hidden_values
from .graph import ContractGraph, Signals, network_state_widths, run_network
from .ppo_config import Group

Untrained = Literal["zero", "random"]
_OF_JOINTS = ("joint_pos", "joint_vel", "joint_target", "joint_effort_target")  # signals with one value per joint


class Player(Protocol):
    """Gives a batch of robots their actions."""

    num_actions: int

    def reset(self, world: World) -> None:
        """Episodes begin in all environments of this world."""
        ...

    def act(self, signals: Signals, truth: Truth) -> tuple[torch.Tensor, torch.Tensor]:
        """Action (N, a) and target (N, w) for this tick's signals; only players that no robot can have look at the truth."""
        ...


class NetworkPlayer:
    """A network behind its contract, in torch; group "critic" for one that sees what only a simulator knows."""

    def __init__(self, graph: ContractGraph, network: torch.nn.Module, group: Group = "actor") -> None:
        self._graph, self._network, self._group = graph, network, group
        self.num_actions = graph.num_actions
        self._state: dict[str, torch.Tensor] = {}
        self._sizes: dict[str, float] = {}

    def reset(self, world: World) -> None:
        """See Player."""
        widths = {**self._graph.state_widths, **network_state_widths(self._network)}
        self._state = {name: torch.zeros(world.num_envs, width) for name, width in widths.items()}
        self._hidden_scale = hidden_scale(world)

    def act(self, signals: Signals, truth: Truth) -> tuple[torch.Tensor, torch.Tensor]:
        """See Player."""
        observation, following = self._graph.observe(signals, self._state)
        seen = (
            critic_observation(observation, truth, hidden_values(truth.world, self._hidden_scale))
            if self._group == "critic"
            else observation
        )
        action, memory = run_network(self._network, seen, self._state)
        target, following = self._graph.act(action, signals, following)
        self._state = {**following, **memory}
        return action, target


class UntrainedPlayer:
    """Actions of 0, or uniform in -1 .. 1, through the contract."""

    def __init__(self, graph: ContractGraph, actions: Untrained, seed: int) -> None:
        self._graph, self._actions = graph, actions
        self.num_actions = graph.num_actions
        self._generator = torch.Generator().manual_seed(seed)
        self._state: dict[str, torch.Tensor] = {}

    def reset(self, world: World) -> None:
        """See Player."""
        self._state = {name: torch.zeros(world.num_envs, width) for name, width in self._graph.state_widths.items()}

    def act(self, signals: Signals, truth: Truth) -> tuple[torch.Tensor, torch.Tensor]:
        """See Player."""
        count = truth.world.num_envs
        action = torch.zeros(count, self.num_actions)
        if self._actions == "random":
            action = 2.0 * torch.rand(count, self.num_actions, generator=self._generator) - 1.0
        _, following = self._graph.observe(signals, self._state)
        target, self._state = self._graph.act(action, signals, following)
        return action, target


class BundlePlayer:
    """A bundle in onnxruntime, once for each environment: what is seen is what is deployed."""

    def __init__(self, bundle: Bundle, world: World) -> None:
        """Raises ContractError for a bundle that does not fit the world's robot or task."""
        contract = bundle.manifest.contract
        task = world.task
        order = fit(contract, world.robot, task=task.name, period=task.period, signals=world.read())
        self._order = torch.tensor(order, dtype=torch.long)
        self._inverse = torch.argsort(self._order)
        self._target = target_output(contract)
        self._target_of_joints = contract.action.target in _OF_JOINTS
        self._signals = contract.signals
        self._policies = [bundle.policy() for _ in range(world.num_envs)]
        self.num_actions = len(contract.action.joints)

    def reset(self, world: World) -> None:
        """See Player."""
        for policy in self._policies:
            policy.reset()

    def act(self, signals: Signals, truth: Truth) -> tuple[torch.Tensor, torch.Tensor]:
        """See Player."""
        given = {
            name: (signals[name][:, self._order] if name in _OF_JOINTS else signals[name]).numpy()
            for name in self._signals
        }
        outputs = [
            policy.run({name: rows[env] for name, rows in given.items()}) for env, policy in enumerate(self._policies)
        ]
        action, target = (
            torch.from_numpy(np.stack(rows))
            for rows in (
                [out["base_action"] + out["gate"] * out["residual_action"] for out in outputs],
                [out[self._target] for out in outputs],
            )
        )
        return action, target[:, self._inverse] if self._target_of_joints else target
