"""From true states to raw signals: encoders, IMU and state estimates, with their errors and their age."""

from typing import TYPE_CHECKING

import torch

from .rotations import from_rotation_vector, multiply, rotate_inverse, world_z_in_body
from .sensors import encoder_reading

if TYPE_CHECKING:
    from .world import World

_VELOCITY_STEPS = 2  # physics steps over which servos difference their counts


class Measurement:
    """What the world's robots measure. Errors are drawn by the world's generator from its randomised parameters."""

    def __init__(self, world: "World") -> None:
        self._world = world
        count, joints = world.num_envs, world.num_joints
        self.signals: dict[str, torch.Tensor] = {}
        self._now: dict[str, torch.Tensor] = {}  # as measured at the last tick, before any delay
        self._encoded = torch.zeros(count, joints)

    @property
    def joint_pos(self) -> torch.Tensor:
        """Encoder angles of now, (num_envs, n)."""
        return self._encoded

    def reset(self, ids: torch.Tensor) -> None:
        """Environments `ids` start anew: what they measure has been so for ever."""
        joint_pos = self._world.engine.joint_pos()
        self._encoded[ids] = self._encoder(joint_pos[ids], ids)
        fresh = self._base_signals()
        if self._world.num_joints:
            fresh |= {"joint_pos": self._encoded.clone(), "joint_vel": self._world.engine.joint_vel()}
        for store in (self._now, self.signals):
            for name, value in fresh.items():
                merged = store.get(name, torch.zeros_like(value)).clone()
                merged[ids] = value[ids]
                store[name] = merged

    def update(self, positions: torch.Tensor) -> None:
        """A tick has passed; joint positions after each of its physics steps, (num_envs, steps, n)."""
        now = self._base_signals()
        if self._world.num_joints:
            now |= self._joint_signals(positions)
        age = self._world.parameters.get("observation_delay_s")
        if age is None:
            self.signals = now
        else:
            fraction = age / self._world.task.period
            self.signals = {name: torch.lerp(value, self._now[name], fraction) for name, value in now.items()}
        self._now = now

    def _joint_signals(self, positions: torch.Tensor) -> dict[str, torch.Tensor]:
        steps = positions.shape[1]
        if steps > _VELOCITY_STEPS:
            earlier = self._encoder(positions[:, -1 - _VELOCITY_STEPS])
            span = _VELOCITY_STEPS * self._world.task.physics_dt
        else:
            earlier, span = self._encoded, self._world.task.period
        self._encoded = self._encoder(positions[:, -1])
        velocity = (self._encoded - earlier) / span
        noise = self._world.parameters.get("joint_vel_noise_rad_s")
        if noise is not None:
            velocity = velocity + noise * self._world.normal(*velocity.shape)
        return {"joint_pos": self._encoded, "joint_vel": velocity}

    def _encoder(self, joint_pos: torch.Tensor, ids: torch.Tensor | None = None) -> torch.Tensor:
        rows = slice(None) if ids is None else ids
        offset = self._world.parameters.get("encoder_offset_rad")
        noise = self._world.parameters.get("encoder_noise_counts")
        zero = torch.zeros(1)
        draw = zero if noise is None else noise[rows] * self._world.normal(*joint_pos.shape)
        return encoder_reading(
            joint_pos, zero if offset is None else offset[rows], self._world.robot.counts_per_turn, draw
        )

    def _base_signals(self) -> dict[str, torch.Tensor]:
        world = self._world
        if not world.robot.floating:
            return {}
        base = world.engine.free_state("base")
        quat = self._tilted(base.quat)
        signals = {
            "gyro": self._noisy(base.ang_vel, "gyro_noise_rad_s", "gyro_bias_rad_s"),
            "gravity": -world_z_in_body(quat),
        }
        for name in world.task.estimates:
            if name == "base_pos":
                signals[name] = self._noisy(base.pos, "base_pos_noise_m")
            elif name == "base_quat":
                signals[name] = quat
            else:
                signals[name] = self._noisy(rotate_inverse(base.quat, base.lin_vel), "base_vel_noise_m_s")
        return signals

    def _noisy(self, value: torch.Tensor, noise: str, bias: str | None = None) -> torch.Tensor:
        """Value plus white noise of a randomised size, plus a randomised constant."""
        size = self._world.parameters.get(noise)
        if size is not None:
            value = value + size * self._world.normal(*value.shape)
        constant = None if bias is None else self._world.parameters.get(bias)
        return value if constant is None else value + constant

    def _tilted(self, quat: torch.Tensor) -> torch.Tensor:
        """Attitude with a small random error of a randomised size."""
        size = self._world.parameters.get("attitude_noise_rad")
        if size is None:
            return quat
        return multiply(quat, from_rotation_vector(size * self._world.normal(quat.shape[0], 3)))
