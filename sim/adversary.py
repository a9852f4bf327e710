"""An adversary that pushes the robot while it learns: robust adversarial reinforcement learning (Pinto et al. 2017, arXiv 1703.02702)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

import torch

from isthmus.hardware.errors import IsthmusError

Role = Literal["protagonist", "adversary"]
FORCE_ACTIONS = 3
Observations = TypeVar("Observations")
Seen = TypeVar("Seen", covariant=True)


class AdversaryError(IsthmusError, ValueError):
    """An adversary that cannot act."""


@dataclass(frozen=True, kw_only=True)
class AdversaryConfig:
    """How hard the adversary may push, and who learns when."""

    max_force_n: float  # N, largest length of the force
    protagonist_iterations: int = 10  # iterations that the robot's policy learns, the adversary being fixed
    adversary_iterations: int = 10  # then that the adversary learns, the policy being fixed

    def check(self) -> None:
        """Raise AdversaryError naming the field that cannot be."""
        if not 0 < self.max_force_n < float("inf"):
            raise AdversaryError(f"max_force_n must be positive and finite, got {self.max_force_n}")
        for name in ("protagonist_iterations", "adversary_iterations"):
            if getattr(self, name) < 1:
                raise AdversaryError(f"{name} must be at least 1, got {getattr(self, name)}")

    def role_at(self, iteration: int) -> Role:
        """Who learns in this iteration, counted from 0; the protagonist begins."""
        place = iteration % (self.protagonist_iterations + self.adversary_iterations)
        return "protagonist" if place < self.protagonist_iterations else "adversary"


class VecEnv(Protocol[Seen]):
    """What is used of a vectorised environment, as rsl_rl has it."""

    num_envs: int
    num_actions: int
    max_episode_length: Any
    episode_length_buf: torch.Tensor
    device: Any
    cfg: Any

    def get_observations(self) -> Seen:
        """Observations of now; asking twice gives the same."""
        ...

    def step(self, actions: torch.Tensor) -> tuple[Seen, torch.Tensor, torch.Tensor, dict]:
        """Observations, rewards (num_envs,), dones (num_envs,), extras, after actions (num_envs, num_actions)."""
        ...


def bounded_force(actions: torch.Tensor, max_force_n: float) -> torch.Tensor:
    """Forces (..., 3) N of actions (..., 3): proportional up to length 1, where the force is the largest allowed."""
    return actions * (max_force_n / torch.linalg.vector_norm(actions, dim=-1, keepdim=True).clamp(min=1.0))


class AdversarialEnv(Generic[Observations]):
    """The game as one of the two players sees it: a vectorised environment, with the other player as part of it.

    Both see the same observations and act at the same ticks; what one wins the other loses. Two of these around one
    environment serve two trainers, which take turns as `AdversaryConfig.role_at` says. In the adversary's view actions are
    forces on the base and rewards have the other sign.
    """

    def __init__(
        self,
        env: VecEnv[Observations],
        apply_force: Callable[[torch.Tensor], None],
        opponent: Callable[[Observations], torch.Tensor],
        *,
        role: Role,
        config: AdversaryConfig,
    ) -> None:
        """Begin the game.

        Args:
            env: the robot's environment.
            apply_force: takes forces (num_envs, 3) N, world frame, that act on the base until the next call.
            opponent: the other player: observations -> its actions, (num_envs, 3) or (num_envs, env.num_actions).
            role: the player whose environment this is.
            config: bounds and turns.
        """
        config.check()
        self.env, self.role, self.config = env, role, config
        self._apply_force, self._opponent = apply_force, opponent
        self.num_envs = env.num_envs
        self.num_actions = env.num_actions if role == "protagonist" else FORCE_ACTIONS

    @property
    def max_episode_length(self) -> Any:
        """Of the robot's environment, ticks."""
        return self.env.max_episode_length

    @property
    def episode_length_buf(self) -> torch.Tensor:
        """Of the robot's environment, (num_envs,) ticks."""
        return self.env.episode_length_buf

    @episode_length_buf.setter
    def episode_length_buf(self, value: torch.Tensor) -> None:
        self.env.episode_length_buf = value

    @property
    def device(self) -> Any:
        """Of the robot's environment."""
        return self.env.device

    @property
    def cfg(self) -> Any:
        """Of the robot's environment."""
        return self.env.cfg

    def get_observations(self) -> Observations:
        """What both players see."""
        return self.env.get_observations()

    def step(self, actions: torch.Tensor) -> tuple[Observations, torch.Tensor, torch.Tensor, dict]:
        """One tick under this player's actions (num_envs, num_actions) and the opponent's."""
        with torch.no_grad():
            answer = self._opponent(self.env.get_observations())
        expected = (self.num_envs, FORCE_ACTIONS if self.role == "protagonist" else self.env.num_actions)
        if tuple(answer.shape) != expected:
            raise AdversaryError(f"the opponent's actions must have shape {expected}, got {tuple(answer.shape)}")
        motion, force = (actions, answer) if self.role == "protagonist" else (answer, actions)
        self._apply_force(bounded_force(force, self.config.max_force_n))
        observations, rewards, dones, extras = self.env.step(motion)
        return observations, rewards if self.role == "protagonist" else -rewards, dones, extras
