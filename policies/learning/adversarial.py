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
from .run_lock import RunLock
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


class AdversarialTraining:
    """`protagonist` is the trainer of the robot's policy, which is what is evaluated and exported; `adversary` of its opponent.

    Each plays against the mean action of the other as it is at that moment. Each has a directory of its own in `run_dir`, which
    keeps the rules beside them. Whose turn it is follows from these and from how far both have come.
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
        self._lock = RunLock(run_dir)
        self.protagonist = self._trainer("protagonist", game.protagonist_ppo, seed)
        self.adversary = self._trainer("adversary", game.adversary_ppo, seed + 1)

    @property
    def iteration(self) -> int:
        """Iterations of both so far."""
        return self.protagonist.iteration + self.adversary.iteration

    def train(self, iterations: int, *, on_progress: OnProgress | None = None) -> None:
        """Run until `iterations` in all, the two taking turns; Ctrl-C as in Trainer.train."""
        with self._lock:
            write_json(self.run_dir / GAME_FILE, self.game.adversary)
            while self.iteration < iterations:
                trainer = self._of(self.game.adversary.role_at(self.iteration))
                trainer.train(trainer.iteration + self._left_of_turn(iterations), on_progress=on_progress)

    def resume(self) -> None:
        """Go on exactly where the game in `run_dir` was left, also within a turn.

        Raises:
            FormatError, CheckpointError: there is none.
            AdversaryError: it has other rules, or its checkpoints do not belong together.
        """
        rules = read_json(self.run_dir / GAME_FILE, AdversaryConfig)
        if rules != self.game.adversary:
            raise AdversaryError(f"the game in {self.run_dir} has the rules {rules}, got {self.game.adversary}")
        with self._lock:
            for role in ROLES:
                if (
                    role == "protagonist" or self._checkpoint(role).is_file()
                ):  # the adversary's first turn may be to come
                    self._of(role).load(self._checkpoint(role), resume=True)
            self._check_turns()
            # Both saved the shared environment and the random numbers; those of the last to learn hold, so it takes them up last.
            last = rules.role_at(self.iteration - 1)
            for role in sorted(ROLES, key=lambda role: role == last):
                trainer = self._of(role)
                if trainer.iteration > 0:
                    trainer.train(trainer.iteration)  # no iteration, but the environment is taken up now

    def _check_turns(self) -> None:
        """That both have come as far as the turns say, so that the last to learn is known."""
        roles = [self.game.adversary.role_at(index) for index in range(self.iteration)]
        for role in ROLES:
            if self._of(role).iteration != roles.count(role):
                raise AdversaryError(
                    f"{self._checkpoint(role)} is of iteration {self._of(role).iteration}; with {self.iteration} iterations "
                    f"of both it should be of {roles.count(role)}: take checkpoints of one moment"
                )

    def _checkpoint(self, role: Role) -> Path:
        return self.run_dir / role / CHECKPOINT_FILE

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
