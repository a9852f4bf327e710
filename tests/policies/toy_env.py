"""A vectorised environment that needs no simulator: point masses in the plane, pushed towards a target."""

from collections.abc import Mapping

import torch
from rsl_rl.env import VecEnv
from tensordict import TensorDict

PERIOD = 0.1  # s


class PointMassEnv(VecEnv):
    """`actor` sees position, velocity and target (6), `critic` the mass as well (7). Resumable."""

    def __init__(self, num_envs: int, *, seed: int = 0, episode_length: int = 20) -> None:
        self.num_envs, self.num_actions = num_envs, 2
        self.max_episode_length = episode_length
        self.device, self.cfg = "cpu", {}
        self._generator = torch.Generator().manual_seed(seed)
        self.episode_length_buf = torch.zeros(num_envs, dtype=torch.long)
        self.position, self.velocity, self.target = (torch.zeros(num_envs, 2) for _ in range(3))
        self.mass = torch.ones(num_envs, 1)
        self._reset(torch.arange(num_envs))

    def _draw(self, count: int, width: int) -> torch.Tensor:
        return 2.0 * torch.rand(count, width, generator=self._generator) - 1.0

    def _reset(self, ids: torch.Tensor) -> None:
        count = ids.numel()
        self.position[ids], self.target[ids] = self._draw(count, 2), self._draw(count, 2)
        self.velocity[ids] = 0.0
        self.mass[ids] = 1.0 + 0.5 * self._draw(count, 1)
        self.episode_length_buf[ids] = 0

    def get_observations(self) -> TensorDict:
        actor = torch.cat([self.position, self.velocity, self.target], dim=-1)
        return TensorDict({"actor": actor, "critic": torch.cat([actor, self.mass], dim=-1)}, batch_size=[self.num_envs])

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict]:
        self.velocity = 0.9 * self.velocity + PERIOD * actions.clamp(-3.0, 3.0) / self.mass
        self.position = self.position + PERIOD * self.velocity
        self.episode_length_buf += 1
        distance = torch.linalg.vector_norm(self.position - self.target, dim=-1)
        time_outs = self.episode_length_buf >= self.max_episode_length
        fallen = distance > 3.0
        done = time_outs | fallen
        self._reset(done.nonzero().flatten())
        log = {"/episode/distance": distance.mean()}
        return self.get_observations(), -distance, done, {"time_outs": time_outs & ~fallen, "log": log}

    def state_dict(self) -> dict[str, object]:
        tensors = {name: getattr(self, name).clone() for name in _TENSORS}
        return {**tensors, "generator": self._generator.get_state()}

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        for name in _TENSORS:
            setattr(self, name, state[name])
        self._generator.set_state(state["generator"])  # pyright: ignore[reportArgumentType]


_TENSORS = ("position", "velocity", "target", "mass", "episode_length_buf")
