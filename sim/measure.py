"""From true states to raw signals: encoders, IMU and state estimates, with their errors and their age."""

import math
from typing import TYPE_CHECKING

import torch

from .latency import ObservationDelay
from .rotations import from_rotation_vector, rotate_inverse, world_z_in_body
from .sensors import differenced_velocity, encoder_reading
from .state import TensorState

if TYPE_CHECKING:
    from .world import World

_VELOCITY_STEPS = 2  # physics steps over which servos difference their counts


class Measurement(TensorState):
    """What the world's robots measure. Errors are drawn by the world's generator from its randomised parameters."""

    _changing = ("_encoded", "signals", "delay")

    def __init__(self, world: "World", *, longest_delay: float) -> None:
        """Args: longest_delay: of a reading, s; 0 for readings that are never old."""
        self._world = world
        count, joints = world.num_envs, world.num_joints
        per_unit = [2.0 * math.pi if joint.kind == "hinge" else 1.0 for joint in world.robot.joints]
        self._resolution = torch.tensor(per_unit) / world.robot.counts_per_turn  # rad or m of one count
        self._encoded = torch.zeros(count, joints)
        self.signals = self._base_signals()
        if joints:
            self.signals |= {"joint_pos": self._encoded, "joint_vel": torch.zeros(count, joints)}
        self._widths = {name: value.shape[1] for name, value in self.signals.items()}
        self.delay = None
        if longest_delay > 0:
            self.delay = ObservationDelay(
                count,
                sum(self._widths.values()),
                interval=world.task.period,
                max_delay=longest_delay,
                generator=world.generator,
            )

    @property
    def joint_pos(self) -> torch.Tensor:
        """Encoder angles of now, (num_envs, n)."""
        return self._encoded

    def reset(self, ids: torch.Tensor) -> None:
        """Environments `ids` start anew: what they measure has been so for ever."""
        engine = self._world.engine
        self._encoded = self._encoded.clone()
        self._encoded[ids] = self._encoder(engine.joint_pos()[ids], ids)
        fresh = self._base_signals()
        if self._world.num_joints:
            fresh |= {"joint_pos": self._encoded, "joint_vel": engine.joint_vel()}
        for name, value in fresh.items():
            self.signals[name] = self.signals[name].clone()  # what was handed out before stays as it was
            self.signals[name][ids] = value[ids]
        if self.delay is not None:
            self.delay.reset(torch.cat([fresh[name][ids] for name in self._widths], dim=-1), ids)

    def update(self, positions: torch.Tensor) -> None:
        """A tick has passed; joint positions after each of its physics steps, (num_envs, steps, n)."""
        now = self._base_signals()
        if self._world.num_joints:
            now |= self._joint_signals(positions)
        self.signals = now
        if self.delay is not None:
            self.delay.push(torch.cat(list(now.values()), dim=-1))
            self.signals = dict(zip(now, self.delay.read().split(list(self._widths.values()), dim=-1), strict=True))

    def _joint_signals(self, positions: torch.Tensor) -> dict[str, torch.Tensor]:
        if positions.shape[1] > _VELOCITY_STEPS:
            earlier = self._encoder(positions[:, -1 - _VELOCITY_STEPS])
            span = _VELOCITY_STEPS * self._world.task.physics_dt
        else:
            earlier, span = self._encoded, self._world.task.period
        self._encoded = self._encoder(positions[:, -1])
        velocity = differenced_velocity(self._encoded, earlier, span)
        velocity = self._noisy(velocity, "joint_vel_noise_rad_s")
        return {"joint_pos": self._encoded, "joint_vel": velocity}

    def _encoder(self, joint_pos: torch.Tensor, ids: torch.Tensor | None = None) -> torch.Tensor:
        rows = slice(None) if ids is None else ids
        offset = self._world.parameters.get("encoder_offset_rad")
        noise = self._world.parameters.get("encoder_noise_counts")
        draw = None if noise is None else noise[rows] * self._world.normal(*joint_pos.shape)
        return encoder_reading(joint_pos, None if offset is None else offset[rows], self._resolution, draw)

    def _base_signals(self) -> dict[str, torch.Tensor]:
        world = self._world
        if not world.robot.floating:
            return {}
        base = world.engine.free_state("base")
        gyro, gravity = base.ang_vel, -world_z_in_body(base.quat)
        turned = world.parameters.get("imu_misalignment_rad")
        if turned is not None:
            mount = from_rotation_vector(turned)
            gyro, gravity = rotate_inverse(mount, gyro), rotate_inverse(mount, gravity)
        gravity = self._noisy(gravity, "gravity_noise")
        signals = {
            "gyro": self._noisy(gyro, "gyro_noise_rad_s", "gyro_bias_rad_s"),
            "gravity": gravity / torch.linalg.vector_norm(gravity, dim=-1, keepdim=True),
        }
        for name in world.task.estimates:
            if name == "base_pos":
                signals[name] = self._noisy(base.pos, "base_pos_noise_m")
            elif name == "base_quat":
                signals[name] = base.quat
            else:
                signals[name] = self._noisy(rotate_inverse(base.quat, base.lin_vel), "base_lin_vel_noise_m_s")
        return signals

    def _noisy(self, value: torch.Tensor, noise: str, bias: str | None = None) -> torch.Tensor:
        """Value plus white noise of a randomised size, plus a randomised constant."""
        size = self._world.parameters.get(noise)
        if size is not None:
            value = value + size * self._world.normal(*value.shape)
        constant = None if bias is None else self._world.parameters.get(bias)
        return value if constant is None else value + constant
