"""How targets move a robot: position servos, plain efforts, or rotors; each steps the engine through one control tick."""

from collections.abc import Collection
from dataclasses import replace
from typing import Protocol

import torch

from isthmus.hardware.actuator_spec import PlaySpec
from isthmus.hardware.robot import RobotSpec

from .actuator_model import ActuatorModel
from .actuators import position_servo_effort
from .engine import Engine
from .rotations import rotate
from .state import Stateful, TensorState


class Drive(Stateful, Protocol):
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

    def set_parameter(self, name: str, values: torch.Tensor, ids: torch.Tensor) -> None:
        """Take a randomised parameter of WORLD_PARAMETERS for environments `ids`, if it is one of the drive's."""
        ...

    def push(self, force: torch.Tensor) -> None:
        """Force (N, 3) N from outside on the floating base's centre of mass, world frame, until the next call or the reset."""
        ...

    def reset(self, ids: torch.Tensor) -> None:
        """Environments `ids` start anew, their engine state already set."""
        ...


def make_drive(robot: RobotSpec, engine: Engine, parameters: Collection[str]) -> Drive:
    """The drive that a robot's description asks for; `parameters` are those that will be randomised."""
    return RotorDrive(robot, engine) if robot.rotors else JointDrive(robot, engine, parameters)


# Randomised parameters of the joints' actuators, and the actuator model's name for each.
_SCALES = {
    "gain_scale": "kp_scale",
    "damping_gain_scale": "kd_scale",
    "effort_limit_scale": "effort_limit_scale",
    "motor_strength_scale": "strength_scale",
}
_CROSSING_SPEED = 5.0  # rad/s; a servo's free speed, for play that a robot's own file does not describe


class JointDrive(TensorState):
    """Actuators in the joints, at the physics rate: inside the engine where they are plain servos, else by `ActuatorModel`."""

    _changing = ("actuators", "_last_target", "_last_effort")

    def __init__(self, robot: RobotSpec, engine: Engine, parameters: Collection[str]) -> None:
        self.width, self._engine = len(robot.joints), engine
        by_effort = any(joint.drive == "effort" for joint in robot.joints)
        self.signal = "joint_effort_target" if by_effort else "joint_target"
        spec = robot.actuator
        if "backlash_rad" in parameters and spec.play is None:
            spec = replace(spec, play=PlaySpec(width=(0.0,), crossing_speed=(_CROSSING_SPEED,)))
        kp, kd, limit = (torch.from_numpy(robot.array(name)).float() for name in ("kp", "kd", "effort_limit"))
        self.actuators = ActuatorModel(
            spec,
            engine.num_envs,
            dt=engine.dt,
            kp=kp,
            kd=kd,
            effort_limit=limit,
            commands="effort" if by_effort else "position",
            device=engine.device,
        )
        self._last_target = torch.zeros(engine.num_envs, self.width, device=engine.device)
        self._last_effort = torch.zeros_like(self._last_target)

    @property
    def _moves_by_effort(self) -> bool:
        return self.actuators.commands == "effort"

    def rest(self, joint_pos: torch.Tensor) -> torch.Tensor:
        """See Drive."""
        return torch.zeros_like(joint_pos) if self._moves_by_effort else joint_pos

    def reported(self, rest: torch.Tensor, reading: torch.Tensor) -> torch.Tensor:
        """See Drive. A servo holds what it reads."""
        return rest if self._moves_by_effort else reading

    def true_target(self, target: torch.Tensor, encoder_offset: torch.Tensor | None) -> torch.Tensor:
        """See Drive."""
        return target if encoder_offset is None or self._moves_by_effort else target - encoder_offset

    def step(self, targets: torch.Tensor) -> torch.Tensor:
        """See Drive."""
        if self.actuators.is_linear_servo:
            self._last_target = targets[:, -1].clone()
            model = self.actuators
            return self._engine.step_servo(targets, model.kp, model.kd, model.effort_limit)
        positions, joint_pos = [], self._engine.joint_pos()
        for index in range(targets.shape[1]):
            self._last_effort = self.actuators.effort(targets[:, index], joint_pos, self._engine.joint_vel())
            self._engine.step(self._last_effort)
            joint_pos = self._engine.joint_pos()
            positions.append(joint_pos)
        return torch.stack(positions, dim=1)

    def effort(self) -> torch.Tensor:
        """See Drive."""
        if not self.actuators.is_linear_servo:
            return self._last_effort
        model = self.actuators
        joint_pos, joint_vel = self._engine.joint_pos(), self._engine.joint_vel()
        return position_servo_effort(
            self._last_target, joint_pos, joint_vel, kp=model.kp, kd=model.kd, effort_limit=model.effort_limit
        )

    def set_parameter(self, name: str, values: torch.Tensor, ids: torch.Tensor) -> None:
        """See Drive."""
        if name == "backlash_rad":
            self.actuators.set_play(values, ids)
        elif name in _SCALES:
            self.actuators.set_scale(_SCALES[name], values, ids)

    def push(self, force: torch.Tensor) -> None:
        """See Drive."""
        self._engine.set_wrench("base", force, torch.zeros_like(force))

    def reset(self, ids: torch.Tensor) -> None:
        """See Drive."""
        self._last_target[ids] = self._engine.joint_pos()[ids]
        self._last_effort[ids] = 0.0
        self.actuators.reset(ids)


class RotorDrive(TensorState):
    """Propellers on the floating base: thrust and drag follow the square of a speed that follows its command."""

    signal = "rotor_speed_target"
    _changing = ("speed", "_gain", "_outside")

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
        self._outside = torch.zeros(engine.num_envs, 3)  # N, world frame

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

    def set_parameter(self, name: str, values: torch.Tensor, ids: torch.Tensor) -> None:
        """See Drive: the gain is thrust for a given speed."""
        if name == "gain_scale":
            self._gain[ids] = values

    def push(self, force: torch.Tensor) -> None:
        """See Drive. It adds to the rotors' thrust at every physics step."""
        self._outside = force.clone()

    def reset(self, ids: torch.Tensor) -> None:
        """See Drive."""
        self.speed[ids] = self.hover
        self._outside[ids] = 0.0

    def _wrench(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Force, the outside one included, and torque about the centre of mass, world frame, (N, 3) each.

        Thrust k_f w^2 along each rotor's axis; drag k_m w^2 against its spin (Mahony, Kumar, Corke 2012, equations 6 and 7).
        """
        square = self.speed.square()
        thrust = (self._gain * self._thrust * square)[..., None] * self._axis  # (N, r, 3) body
        drag = (self._drag * -self._spin * square)[..., None] * self._axis
        torque = torch.linalg.cross(self._arm.expand_as(thrust), thrust) + drag
        quat = self._engine.free_state("base").quat
        return rotate(quat, thrust.sum(1)) + self._outside, rotate(quat, torque.sum(1))
