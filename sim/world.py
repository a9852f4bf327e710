"""Batched robots in a task: reads raw signals and takes targets for joints or rotors, like a robot."""

import torch

from isthmus.hardware.kinematics import KinematicChain, chain_from_mjcf, joint_frames

from .contacts import ContactTimer
from .drive import Drive, make_drive
from .engine import ENGINE_PARAMETERS, Engine, EngineState
from .latency import CommandDelay
from .measure import Measurement
from .randomization import PER_JOINT, RandomizationError, RandomTerm, check_randomization
from .task import Command, Task


class World:
    """N robots at the task. Control is at the task's period; physics, actuators and delays at its physics step.

    Signals as in `hardware/signals.py`, float32, shape (num_envs, width). A reset draws a start, a command and every randomised
    parameter anew. The same seed gives the same bits.
    """

    def __init__(
        self, task: Task, engine: Engine, *, seed: int, randomization: tuple[RandomTerm, ...] | None = None
    ) -> None:
        """Args: randomization: instead of the task's own."""
        self.task, self.engine, self.seed = task, engine, seed
        self.randomization = task.randomization if randomization is None else randomization
        check_randomization(self.randomization)
        self.num_envs, self.robot = engine.num_envs, engine.scene.robot
        self.num_joints = len(self.robot.joints)
        self.generator = torch.Generator().manual_seed(seed)
        self.default_pos = torch.from_numpy(self.robot.array("default_pos")).float()
        self.parameters = {
            term.parameter: torch.zeros(self.num_envs, self._parameter_width(term.parameter))
            for term in self.randomization
        }
        self.drive: Drive = make_drive(self.robot, engine)
        longest = max(
            (t.distribution.support[1] for t in self.randomization if t.parameter == "latency_s"), default=0.0
        )
        self._delay = CommandDelay(
            self.num_envs,
            self.drive.width,
            period=task.period,
            dt=task.physics_dt,
            max_delay=max(longest, task.period),
        )
        self._target = torch.zeros(self.num_envs, self.drive.width)
        self._measurement = Measurement(self)
        self.contacts = ContactTimer(self.num_envs, len(self.robot.contact_bodies), task.period)
        self.last_joint_vel = torch.zeros(self.num_envs, self.num_joints)
        self.failures = 0  # environments reset because physics failed, so far
        self._chain: KinematicChain | None = None
        self.command: Command = task.command(self)
        self.reset(torch.arange(self.num_envs))

    def reset(self, ids: torch.Tensor, command: torch.Tensor | None = None) -> None:
        """Start new episodes in environments `ids` (k,) int64; `command` (k, w) instead of random ones."""
        if ids.numel() == 0:
            return
        self._draw(ids)
        start: EngineState = self.task.start(self, ids)
        self.engine.reset(ids, start)
        self.command.reset(ids)
        if command is not None:
            self.command.value[ids] = command
        rest = self.drive.rest(start.joint_pos)
        self._delay.reset(rest, ids)
        self.drive.reset(ids)
        self.contacts.reset(ids)
        self.last_joint_vel[ids] = start.joint_vel
        self._measurement.reset(ids)
        self._target[ids] = self.drive.reported(rest, self._measurement.joint_pos[ids])

    def read(self) -> dict[str, torch.Tensor]:
        """The raw signals of now."""
        return {**self._measurement.signals, self.drive.signal: self._target, self.command.signal: self.command.value}

    def write(self, target: torch.Tensor) -> None:
        """Command targets (num_envs, width) in the unit of the drive's signal; joint angles as encoders report them."""
        self._target = target
        self._delay.write(self.drive.true_target(target, self.parameters.get("encoder_offset_rad")))

    def step(self) -> None:
        """Let one control period pass."""
        self.last_joint_vel = self.engine.joint_vel()
        targets = torch.stack([self._delay.in_force(k) for k in range(self.task.substeps)], dim=1)
        self._measurement.update(self.drive.step(targets))
        if self.robot.contact_bodies:
            self.contacts.update(self.engine.contact_force())
        self.command.step()

    def effort(self) -> torch.Tensor:
        """Joint efforts at the end of the last tick, (num_envs, n) N m or N."""
        return self.drive.effort()

    def reach_chain(self) -> KinematicChain:
        """The chain to the tip; raises FormatError for a robot that has none."""
        if self._chain is None:
            self._chain = chain_from_mjcf(self.robot.model_path, self.robot.reach_site())
            self._chain_index = [self.robot.joint_names.index(name) for name in self._chain.joint_names]
        return self._chain

    @property
    def chain_index(self) -> list[int]:
        """The chain's joints among the robot's."""
        self.reach_chain()
        return self._chain_index

    def tip_pos(self) -> torch.Tensor:
        """True tip position, (num_envs, 3) m in the base frame."""
        return joint_frames(self.reach_chain(), self.engine.joint_pos()[:, self.chain_index], torch)[2]

    def ground_height(self, points: torch.Tensor) -> torch.Tensor:
        """Height of the ground below points (num_envs, m, 2) m, world frame. Returns (num_envs, m) m."""
        return torch.zeros(points.shape[:-1])

    def reset_failed(self) -> torch.Tensor:
        """Reset environments whose physics failed, count them, and return their mask (num_envs,) bool."""
        failed = self.engine.failed()
        ids = failed.nonzero().flatten()
        self.failures += ids.numel()
        self.reset(ids)
        return failed

    def uniform(self, *shape: int) -> torch.Tensor:
        """Numbers in [0, 1) from the world's own stream."""
        return torch.rand(shape, generator=self.generator)

    def normal(self, *shape: int) -> torch.Tensor:
        """Standard normal numbers from the world's own stream."""
        return torch.randn(shape, generator=self.generator)

    def integers(self, high: int, count: int) -> torch.Tensor:
        """(count,) int64 below `high` from the world's own stream."""
        return torch.randint(high, (count,), generator=self.generator)

    def _parameter_width(self, name: str) -> int:
        if name in PER_JOINT:
            return self.num_joints
        return ENGINE_PARAMETERS[name].width if name in ENGINE_PARAMETERS else 1

    def _draw(self, ids: torch.Tensor) -> None:
        for term in self.randomization:
            store = self.parameters[term.parameter]
            values = term.distribution.sample((ids.numel(), store.shape[1]), self.generator)
            store[ids] = values
            if term.parameter in ENGINE_PARAMETERS:
                self.engine.set_parameter(term.parameter, values, ids)
        if "gain_scale" in self.parameters:
            self.drive.set_gain(self.parameters["gain_scale"])
        latency = self.parameters.get("latency_s")
        self._delay.set_delay(torch.zeros(ids.numel()) if latency is None else latency[ids, 0], ids)


def check_age(task: Task, terms: tuple[RandomTerm, ...]) -> None:
    """Observations may be at most one control period old."""
    for term in terms:
        if term.parameter == "observation_delay_s" and term.distribution.support[1] > task.period:
            raise RandomizationError(
                f"observation_delay_s: up to {term.distribution.support[1]} s, expected at most one period, {task.period} s"
            )
