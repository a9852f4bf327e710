"""How targets move a robot: position servos, plain efforts, or rotors; each steps the engine through one control tick."""

from typing import Protocol

import torch

from isthmus.hardware.robot import RobotSpec

from .actuators import position_servo_effort
from .engine import Engine
from .rotations import rotate


class Drive(Protocol):
    """Takes targets of one kind. `width` values each, in robot order."""

    signal: str  # of hardware/signals.py
    width: int

    def rest(self, joint_pos: torch.Tensor) -> torch.Tensor:
        """The target that keeps a robot as it starts, (k, width), for joint positions (k, n)."""
        ...

    def reported(self, rest: torch.Tensor, reading: torch.Tensor) -> torch.Tensor:
        """What the robot reports as its last target at the start, (k, width); `reading` (k, n) is what encoders say."""
        ...

    def true_target(self, target: torch.Tensor, encoder_offset: torch.Tensor | None) -> torch.Tensor:
        """The target in true joint coordinates."""
        ...

    def step(self, targets: torch.Tensor) -> torch.Tensor:
        """Let `targets.shape[1]` physics steps pass; targets (N, steps, width). Returns joint positions after each, (N, steps, n)."""
        ...

    def effort(self) -> torch.Tensor:
        """Joint efforts now, (N, n)."""
        ...

    def set_gain(self, scale: torch.Tensor) -> None:
        """Gain of each environment, (N, 1), times the robot's own."""
        ...

    def reset(self, ids: torch.Tensor) -> None:
        """Environments `ids` start anew, their engine state already set."""
        ...


def make_drive(robot: RobotSpec, engine: Engine) -> Drive:
    """The drive that a robot's description asks for."""
    if robot.rotors:
        return RotorDrive(robot, engine)
    kinds = {joint.drive for joint in robot.joints}
    return EffortDrive(robot, engine) if "effort" in kinds else PositionDrive(robot, engine)


class PositionDrive:
    """A position servo in every joint, all at the physics rate."""

    signal = "joint_target"

    def __init__(self, robot: RobotSpec, engine: Engine) -> None:
        self.width, self._engine = len(robot.joints), engine
        self._kp, self._kd, self._limit = (
            torch.from_numpy(robot.array(name)).float() for name in ("kp", "kd", "effort_limit")
        )
        self._scaled_kp = self._kp.repeat(engine.num_envs, 1)
        self._last = torch.zeros(engine.num_envs, self.width)

    def rest(self, joint_pos: torch.Tensor) -> torch.Tensor:
        """See Drive."""
        return joint_pos

    def reported(self, rest: torch.Tensor, reading: torch.Tensor) -> torch.Tensor:
        """See Drive. A servo holds what it reads."""
        return reading

    def true_target(self, target: torch.Tensor, encoder_offset: torch.Tensor | None) -> torch.Tensor:
        """See Drive."""
        return target if encoder_offset is None else target - encoder_offset

    def step(self, targets: torch.Tensor) -> torch.Tensor:
        """See Drive."""
        self._last = targets[:, -1]
        return self._engine.step_servo(targets, self._scaled_kp, self._kd, self._limit)

    def effort(self) -> torch.Tensor:
        """See Drive."""
        return position_servo_effort(
            self._last,
            self._engine.joint_pos(),
            self._engine.joint_vel(),
            kp=self._scaled_kp,
            kd=self._kd,
            effort_limit=self._limit,
        )

    def set_gain(self, scale: torch.Tensor) -> None:
        """See Drive."""
        self._scaled_kp = self._kp * scale

    def reset(self, ids: torch.Tensor) -> None:
        """See Drive."""
        self._last[ids] = self._engine.joint_pos()[ids]


class EffortDrive:
    """Efforts of the driven joints, limited; passive joints get none."""

    signal = "joint_effort_target"

    def __init__(self, robot: RobotSpec, engine: Engine) -> None:
        self.width, self._engine = len(robot.joints), engine
        self._limit = torch.from_numpy(robot.array("effort_limit")).float()
        self._gain = torch.ones(engine.num_envs, 1)
        self._last = torch.zeros(engine.num_envs, self.width)

    def rest(self, joint_pos: torch.Tensor) -> torch.Tensor:
        """See Drive."""
        return torch.zeros_like(joint_pos)

    def reported(self, rest: torch.Tensor, reading: torch.Tensor) -> torch.Tensor:
        """See Drive."""
        return rest

    def true_target(self, target: torch.Tensor, encoder_offset: torch.Tensor | None) -> torch.Tensor:
        """See Drive."""
        return target

    def step(self, targets: torch.Tensor) -> torch.Tensor:
        """See Drive."""
        positions = []
        for index in range(targets.shape[1]):
            self._last = torch.clamp(targets[:, index] * self._gain, -self._limit, self._limit)
            self._engine.step(self._last)
            positions.append(self._engine.joint_pos())
        return torch.stack(positions, dim=1)

    def effort(self) -> torch.Tensor:
        """See Drive."""
        return self._last

    def set_gain(self, scale: torch.Tensor) -> None:
        """See Drive."""
        self._gain = scale

    def reset(self, ids: torch.Tensor) -> None:
        """See Drive."""
        self._last[ids] = 0.0


class RotorDrive:
    """Propellers on the floating base: thrust and drag follow the square of a speed that follows its command."""

    signal = "rotor_speed_target"

    def __init__(self, robot: RobotSpec, engine: Engine) -> None:
        self.width, self._engine = len(robot.rotors), engine
        self._thrust, self._drag, self._max, spin = (
            torch.tensor([getattr(rotor, key) for rotor in robot.rotors])
            for key in ("thrust_coefficient", "drag_coefficient", "max_speed", "spin")
        )
        self._spin = spin.float()
        lag = torch.tensor([rotor.time_constant for rotor in robot.rotors])
        self._follow = torch.where(lag > 0, 1.0 - torch.exp(-engine.dt / lag.clamp_min(1e-9)), torch.ones_like(lag))
        self._arm, self._axis = engine.rotor_frames()
        weight = engine.robot_mass() * 9.81
        self.hover = float(torch.sqrt(weight / self._thrust.sum()))
        self._gain = torch.ones(engine.num_envs, 1)
        self.speed = torch.full((engine.num_envs, self.width), self.hover)

    def rest(self, joint_pos: torch.Tensor) -> torch.Tensor:
        """See Drive."""
        return torch.full((joint_pos.shape[0], self.width), self.hover)

    def reported(self, rest: torch.Tensor, reading: torch.Tensor) -> torch.Tensor:
        """See Drive."""
        return rest

    def true_target(self, target: torch.Tensor, encoder_offset: torch.Tensor | None) -> torch.Tensor:
        """See Drive."""
        return target

    def step(self, targets: torch.Tensor) -> torch.Tensor:
        """See Drive."""
        none = torch.zeros(self._engine.num_envs, 0)
        for index in range(targets.shape[1]):
            command = torch.minimum(targets[:, index].clamp_min(0.0), self._max)
            self.speed = self.speed + self._follow * (command - self.speed)
            self._engine.set_wrench("base", *self._wrench())
            self._engine.step(none)
        return torch.zeros(self._engine.num_envs, targets.shape[1], 0)

    def effort(self) -> torch.Tensor:
        """See Drive: there are no joints."""
        return torch.zeros(self._engine.num_envs, 0)

    def set_gain(self, scale: torch.Tensor) -> None:
        """See Drive: thrust for a given speed."""
        self._gain = scale

    def reset(self, ids: torch.Tensor) -> None:
        """See Drive."""
        self.speed[ids] = self.hover

    def _wrench(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Force and torque about the centre of mass, world frame, (N, 3) each.

        Thrust k_f w^2 along each rotor's axis; drag k_m w^2 against its spin (Mahony, Kumar, Corke 2012, equations 6 and 7).
        """
        square = self.speed.square()
        thrust = (self._gain * self._thrust * square)[..., None] * self._axis  # (N, r, 3) body
        drag = (self._drag * -self._spin * square)[..., None] * self._axis
        torque = torch.linalg.cross(self._arm.expand_as(thrust), thrust) + drag
        quat = self._engine.free_state("base").quat
        return rotate(quat, thrust.sum(1)), rotate(quat, torque.sum(1))
