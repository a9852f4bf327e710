"""From true states to raw signals: encoders, IMU and state estimates, with their errors and their age."""

import math
from typing import TYPE_CHECKING

import torch

from isthmus.hardware.signals import signal_width

from .engine import FreeState
from .latency import ObservationDelay
from .rotations import from_rotation_vector, rotate_inverse, world_z_in_body
from .sensors import Noise, differenced_velocity, encoder_reading, gravity_reading, gyro_reading, noisy, unit
from .state import TensorState

if TYPE_CHECKING:
    from .world import World

_VELOCITY_STEPS = 2  # physics steps over which servos difference their counts


class Measurement(TensorState):
    """What the world's robots measure. Errors are drawn by the world's generator from its randomised parameters."""

    _changing = ("_encoded", "signals", "delay")

    def __init__(self, world: "World", *, longest_delay: float) -> None:
        """All zero until the first reset. Args: longest_delay: of a reading, s; 0 for readings that are never old."""
        self._world = world
        count, joints, robot = world.num_envs, world.num_joints, world.robot
        per_unit = [2.0 * math.pi if joint.kind == "hinge" else 1.0 for joint in robot.joints]
        self._resolution = torch.tensor(per_unit) / robot.counts_per_turn  # rad or m of one count
        self._gyro_range = None if robot.imu is None else robot.imu.gyro_range
        names = ("gyro", "gravity", *world.task.estimates) if robot.floating else ()
        names += ("joint_pos", "joint_vel") if joints else ()
        self._widths = {name: signal_width(name, joints) for name in names}
        self._encoded = torch.zeros(count, joints)
        self.signals = {name: torch.zeros(count, width) for name, width in self._widths.items()}
        self.delay = None
        if longest_delay > 0:
            self.delay = ObservationDelay(
                count,
                sum(self._widths.values()),
                interval=world.task.period,
                max_delay=longest_delay,
                generator=world.generator,
            )
        # Attitudes whose length noise, or the interpolation of delays, changes.
        noisy_or_old = {
            "gravity": "gravity_noise" in world.parameters or longest_delay > 0,
            "base_quat": longest_delay > 0,
        }
        self._stretched = tuple(name for name, changes in noisy_or_old.items() if name in names and changes)

    @property
    def joint_pos(self) -> torch.Tensor:
        """Encoder angles of now, (num_envs, n)."""
        return self._encoded

    def reset(self, ids: torch.Tensor) -> None:
        """Environments `ids` start anew: what they measure has been so for ever."""
        fresh = self._base_signals(ids)
        if self._world.num_joints:
            engine = self._world.engine
            encoded, velocity = self._encoder(engine.joint_pos()[ids], ids), engine.joint_vel()[ids]
            self._encoded = self._encoded.index_copy(0, ids, encoded)
            fresh |= {"joint_pos": encoded, "joint_vel": self._noisy(velocity, "joint_vel_noise_rad_s", ids)}
        if self.delay is not None:
            self.delay.reset(torch.cat([fresh[name] for name in self._widths], dim=-1), ids)
        for name, value in self._with_attitudes(fresh).items():
            # A new tensor: what was handed out before stays as it was.
            self.signals[name] = self.signals[name].index_copy(0, ids, value)

    def update(self, positions: torch.Tensor) -> None:
        """A tick has passed; joint positions after each of its physics steps, (num_envs, steps, n)."""
        now = self._base_signals()
        if self._world.num_joints:
            now |= self._joint_signals(positions)
        if self.delay is not None:
            self.delay.push(torch.cat([now[name] for name in self._widths], dim=-1))
            read = self.delay.read().split(list(self._widths.values()), dim=-1)
            now = dict(zip(self._widths, read, strict=True))
        self.signals = self._with_attitudes(now)

    def _joint_signals(self, positions: torch.Tensor) -> dict[str, torch.Tensor]:
        if positions.shape[1] > _VELOCITY_STEPS:
            two = positions[:, -1 - _VELOCITY_STEPS :: _VELOCITY_STEPS].transpose(0, 1)
            earlier, self._encoded = self._encoder(two).unbind()
            span = _VELOCITY_STEPS * self._world.task.physics_dt
        else:
            earlier, span = self._encoded, self._world.task.period
            self._encoded = self._encoder(positions[:, -1])
        velocity = differenced_velocity(self._encoded, earlier, span)
        return {"joint_pos": self._encoded, "joint_vel": self._noisy(velocity, "joint_vel_noise_rad_s")}

    def _encoder(self, joint_pos: torch.Tensor, ids: torch.Tensor | None = None) -> torch.Tensor:
        noise = self._noise("encoder_noise_counts", joint_pos, ids)
        return encoder_reading(joint_pos, self._error("encoder_offset_rad", ids), self._resolution, noise)

    def _base_signals(self, ids: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        """IMU and state estimates of environments `ids` or of all, attitudes not yet of unit length."""
        world = self._world
        if not world.robot.floating:
            return {}
        base = world.engine.free_state("base")
        if ids is not None:
            base = FreeState(
                pos=base.pos[ids], quat=base.quat[ids], lin_vel=base.lin_vel[ids], ang_vel=base.ang_vel[ids]
            )
        turned = self._error("imu_misalignment_rad", ids)
        mount = None if turned is None else from_rotation_vector(turned)
        down = -world_z_in_body(base.quat)
        signals = {
            "gyro": gyro_reading(
                base.ang_vel,
                mount=mount,
                scale=self._error("gyro_scale", ids),
                bias=self._error("gyro_bias_rad_s", ids),
                noise=self._noise("gyro_noise_rad_s", base.ang_vel, ids),
                limit=self._gyro_range,
            ),
            "gravity": gravity_reading(down, mount=mount, noise=self._noise("gravity_noise", down, ids)),
        }
        return signals | {name: self._estimate(name, base, ids) for name in world.task.estimates}

    def _estimate(self, name: str, base: FreeState, ids: torch.Tensor | None) -> torch.Tensor:
        if name == "base_pos":
            return self._noisy(base.pos, "base_pos_noise_m", ids)
        if name == "base_quat":
            return base.quat
        return self._noisy(rotate_inverse(base.quat, base.lin_vel), "base_lin_vel_noise_m_s", ids)

    def _with_attitudes(self, signals: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The same signals, attitudes at unit length again."""
        return signals | {name: unit(signals[name]) for name in self._stretched}

    def _error(self, parameter: str, ids: torch.Tensor | None) -> torch.Tensor | None:
        """The randomised parameter of environments `ids` or of all; None where it is not randomised."""
        value = self._world.parameters.get(parameter)
        return value if value is None or ids is None else value[ids]

    def _noise(self, parameter: str, value: torch.Tensor, ids: torch.Tensor | None = None) -> Noise | None:
        """Noise of a randomised size for a value (k, ...)."""
        std = self._error(parameter, ids)
        return None if std is None else Noise(std=std, normal=self._world.normal(*value.shape))

    def _noisy(self, value: torch.Tensor, parameter: str, ids: torch.Tensor | None = None) -> torch.Tensor:
        return noisy(value, self._noise(parameter, value, ids))
