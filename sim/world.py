"""Batched robots in a task: reads raw signals and takes joint targets, like a robot."""

import math

import numpy as np
import torch

from isthmus.hardware.kinematics import KinematicChain, chain_from_mjcf, joint_frames
from isthmus.hardware.workspace import sample_reachable

from .actuators import position_servo_effort
from .engine import ENGINE_PARAMETERS, Engine
from .latency import CommandDelay
from .randomization import PER_JOINT, RandomTerm, check_randomization
from .sensors import encoder_reading
from .task import Task

POOL_SIZE = 20_000  # reachable targets that resets draw from


class World:
    """N robots at the task. Control is at the task's period; physics, actuators and delays at its physics step.

    Signals as in `hardware/signals.py`, float32, shape (num_envs, width). A reset draws a target, a start pose and every
    randomised parameter anew. The same seed gives the same bits.
    """

    def __init__(
        self, task: Task, engine: Engine, *, seed: int, randomization: tuple[RandomTerm, ...] | None = None
    ) -> None:
        """Args: randomization: instead of the task's own."""
        self.task, self.engine = task, engine
        self.randomization = task.randomization if randomization is None else randomization
        check_randomization(self.randomization)
        self.num_envs, robot = engine.num_envs, engine.robot
        self.num_joints = len(robot.joints)
        self.chain: KinematicChain = chain_from_mjcf(robot.model_path, robot.tip_site)
        self._chain_index = [robot.joint_names.index(name) for name in self.chain.joint_names]
        self._generator = torch.Generator().manual_seed(seed)
        poses, points = sample_reachable(robot, self.chain, np.random.default_rng(seed), POOL_SIZE)
        self._pool_poses, self._pool_points = torch.from_numpy(poses).float(), torch.from_numpy(points).float()
        self._kp, self._kd, self._limit, self._default = (
            torch.from_numpy(robot.array(name)).float() for name in ("kp", "kd", "effort_limit", "default_pos")
        )
        n, joints = self.num_envs, self.num_joints
        self.parameters = {
            term.parameter: torch.zeros(n, joints if term.parameter in PER_JOINT else 1) for term in self.randomization
        }
        latest = max((t.distribution.support[1] for t in self.randomization if t.parameter == "latency_s"), default=0.0)
        self._delay = CommandDelay(
            n, joints, period=task.period, dt=task.physics_dt, max_delay=max(latest, task.period)
        )
        self._gain = torch.ones(n, 1)
        self._target = torch.zeros(n, 3)
        self._joint_target = torch.zeros(n, joints)
        self._reading = torch.zeros(n, joints)
        self._encoded = torch.zeros(n, joints)  # encoder angles at the last tick, before the observation delay
        self._velocity = torch.zeros(n, joints)
        self.failures = 0  # environments reset because physics failed, so far
        self.reset(torch.arange(n))

    def reset(self, ids: torch.Tensor, target: torch.Tensor | None = None) -> None:
        """Start new episodes in environments `ids` (k,) int64; `target` (k, 3) m instead of random ones."""
        count = ids.numel()
        if count == 0:
            return
        self._draw(ids)
        start = torch.randint(POOL_SIZE, (count,), generator=self._generator)
        goal = torch.randint(POOL_SIZE, (count,), generator=self._generator)
        pose = self._default.repeat(count, 1)
        pose[:, self._chain_index] = self._pool_poses[start]
        self._target[ids] = self._pool_points[goal] if target is None else target
        self.engine.reset(ids, pose, torch.zeros_like(pose))
        self._delay.reset(pose, ids)
        reading = self._encoder(pose, ids)
        self._reading[ids] = reading
        self._encoded[ids] = reading
        self._joint_target[ids] = reading  # a servo holds what it reads
        self._velocity[ids] = 0.0

    def read(self) -> dict[str, torch.Tensor]:
        """The raw signals of now."""
        return {
            "joint_pos": self._reading,
            "joint_vel": self._velocity,
            "joint_target": self._joint_target,
            "command.target": self._target,
        }

    def write(self, joint_target: torch.Tensor) -> None:
        """Command joint targets (num_envs, n) rad, in encoder angles as on the robot."""
        self._joint_target = joint_target
        offset = self.parameters.get("encoder_offset_rad")
        self._delay.write(joint_target if offset is None else joint_target - offset)

    def step(self) -> None:
        """Let one control period pass."""
        kp = self._kp * self._gain
        earlier = self._encoded
        for substep in range(self.task.substeps):
            if substep == self.task.substeps - 2:
                earlier = self._encoder(self.engine.joint_pos())
            effort = position_servo_effort(
                self._delay.in_force(substep),
                self.engine.joint_pos(),
                self.engine.joint_vel(),
                kp=kp,
                kd=self._kd,
                effort_limit=self._limit,
            )
            self.engine.step(effort)
        now = self._encoder(self.engine.joint_pos())
        self._velocity = (now - earlier) / (2 * self.task.physics_dt)  # servos difference their counts
        age = self.parameters.get("observation_delay_s")
        fraction = 0.0 if age is None else age / self.task.period
        self._reading = now + fraction * (self._encoded - now)
        self._encoded = now

    def tip_pos(self) -> torch.Tensor:
        """True tip position, (num_envs, 3) m in the base frame."""
        return joint_frames(self.chain, self.engine.joint_pos()[:, self._chain_index], torch)[2]

    @property
    def target(self) -> torch.Tensor:
        """The commanded tip position, (num_envs, 3) m."""
        return self._target

    def reset_failed(self) -> torch.Tensor:
        """Reset environments whose physics failed, count them, and return their mask (num_envs,) bool."""
        failed = self.engine.failed()
        ids = failed.nonzero().flatten()
        self.failures += ids.numel()
        self.reset(ids)
        return failed

    def _draw(self, ids: torch.Tensor) -> None:
        for term in self.randomization:
            store = self.parameters[term.parameter]
            values = term.distribution.sample((ids.numel(), store.shape[1]), self._generator)
            store[ids] = values
            if term.parameter in ENGINE_PARAMETERS:
                self.engine.set_parameter(term.parameter, values[:, 0], ids)
        if "gain_scale" in self.parameters:
            self._gain = self.parameters["gain_scale"]
        latency = self.parameters.get("latency_s")
        self._delay.set_delay(torch.zeros(ids.numel()) if latency is None else latency[ids, 0], ids)

    def _encoder(self, joint_pos: torch.Tensor, ids: torch.Tensor | None = None) -> torch.Tensor:
        rows = slice(None) if ids is None else ids
        offset = self.parameters.get("encoder_offset_rad")
        noise = self.parameters.get("encoder_noise_counts")
        zero = torch.zeros(1)
        draw = zero if noise is None else noise[rows] * torch.randn(joint_pos.shape, generator=self._generator)
        return encoder_reading(
            joint_pos, zero if offset is None else offset[rows], self.engine.robot.counts_per_turn, draw
        )


def success_ticks(task: Task) -> int:
    """Consecutive control ticks within success_distance that make a success."""
    return math.ceil(task.success_time / task.period)
