"""Training against an adversary that pushes the robot's base: two trainers that take turns in one environment.

Robust adversarial reinforcement learning (Pinto et al. 2017, arXiv 1703.02702).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from rsl_rl.env import VecEnv
from tensordict import TensorDict

from isthmus.hardware.structure import read_json, write_json
from isthmus.sim.adversary import AdversarialEnv, AdversaryConfig, AdversaryError, Role

from .checkpoint import CHECKPOINT_FILE
from .env import ContractEnv
from .ppo_config import PPOConfig
from .trainer import OnProgress, Trainer

GAME_FILE = "game.json"
ROLES: tuple[Role, Role] = ("protagonist", "adversary")


class GameEnv(AdversarialEnv[TensorDict]):
    """A ContractEnv as one of the players sees it, with all that trainers ask of a VecEnv; both share its state."""

    def state_dict(self) -> dict[str, torch.Tensor]:
        """See checkpoint.Resumable."""
        return self._shared.state_dict()

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """See checkpoint.Resumable."""
        self._shared.load_state_dict(state)

    @property
    def _shared(self) -> ContractEnv:
        assert isinstance(self.env, ContractEnv)
        return self.env


@dataclass(frozen=True, kw_only=True)
class Game:
    """What defines a training against an adversary, beside the environment."""

    adversary: AdversaryConfig
    protagonist_ppo: PPOConfig
    adversary_ppo: PPOConfig


@dataclass(frozen=True, kw_only=True)
class _Turn:
    """Whose turn it is, as a file."""

    iteration: int
    role: Role  # who learned last


class AdversarialTraining:
    """`protagonist` is the trainer of the robot's policy, which is what is evaluated and exported; `adversary` of its opponent.

    Each plays against the mean action of the other as it is at that moment. Each has a directory of its own in `run_dir`.
    """

    def __init__(self, env: ContractEnv, game: Game, run_dir: Path, *, seed: int) -> None:
        """Raises AdversaryError for what cannot be played: a robot without a floating base, networks with a memory."""
        if not env.world.robot.floating:
            raise AdversaryError(
                f"robot {env.world.robot.name!r} is fixed to the world: an adversary pushes floating bases only"
            )
        for name, ppo in (("protagonist_ppo", game.protagonist_ppo), ("adversary_ppo", game.adversary_ppo)):
            if ppo.network != "mlp":
                raise AdversaryError(f"{name}: the players have no memory, expected network 'mlp', got {ppo.network!r}")
        self.env, self.game, self.run_dir = env, game, run_dir
        self.protagonist = self._trainer("protagonist", game.protagonist_ppo, seed)
        self.adversary = self._trainer("adversary", game.adversary_ppo, seed + 1)

    @property
    def iteration(self) -> int:
        """Iterations of both so far."""
        return self.protagonist.iteration + self.adversary.iteration

    def train(self, iterations: int, *, on_progress: OnProgress | None = None) -> None:
        """Run until `iterations` in all, the two taking turns; Ctrl-C as in Trainer.train."""
        while self.iteration < iterations:
            role = self.game.adversary.role_at(self.iteration)
            trainer = self._of(role)
            trainer.train(trainer.iteration + self._left_of_turn(iterations), on_progress=on_progress)
            write_json(self.run_dir / GAME_FILE, _Turn(iteration=self.iteration, role=role))

    def resume(self) -> None:
        """Go on exactly where the last turn in `run_dir` ended; raises FormatError or CheckpointError where there is none."""
        turn = read_json(self.run_dir / GAME_FILE, _Turn)
        # Both saved the shared environment and the random numbers; those of the last to learn hold, so it is loaded last.
        for role in sorted(ROLES, key=lambda role: role == turn.role):
            trainer, checkpoint = self._of(role), self.run_dir / role / CHECKPOINT_FILE
            if checkpoint.is_file():  # the adversary's first turn may be to come
                trainer.load(checkpoint, resume=True)
                trainer.train(
                    trainer.iteration
                )  # no iteration, but the environment and random numbers are taken up now

    def _left_of_turn(self, iterations: int) -> int:
        """Iterations until the other's turn or the end."""
        role, count = self.game.adversary.role_at(self.iteration), 1
        while self.iteration + count < iterations and self.game.adversary.role_at(self.iteration + count) == role:
            count += 1
        return count

    def _of(self, role: Role) -> Trainer:
        return self.protagonist if role == "protagonist" else self.adversary

    def _trainer(self, role: Role, ppo: PPOConfig, seed: int) -> Trainer:
        view = GameEnv(
            self.env,
            self.env.world.apply_force,
            self._adversary_acts if role == "protagonist" else self._protagonist_acts,
            role=role,
            config=self.game.adversary,
        )
        return Trainer(cast(VecEnv, view), ppo, self.run_dir / role, seed=seed)

    def _protagonist_acts(self, observations: TensorDict) -> torch.Tensor:
        return self.protagonist.policy(observations)

    def _adversary_acts(self, observations: TensorDict) -> torch.Tensor:
        return self.adversary.policy(observations)


__all__ = ["AdversarialTraining", "Game", "GameEnv"]
