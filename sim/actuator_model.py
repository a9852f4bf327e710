"""The actuators of all environments: from targets to joint torques, once per physics step."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import torch

from isthmus.hardware.actuator_spec import ActuatorSpec, check_actuator, per_joint
from isthmus.hardware.errors import IsthmusError

from .actuator_net import ActuatorNet
from .actuators import dc_motor_effort, position_servo_effort
from .backlash import Backlash
from .friction import HeldFriction, friction_params
from .state import TensorState

# What may differ between environments, times what the robot's file says.
ACTUATOR_SCALES: dict[str, str] = {
    "kp_scale": "stiffness of the position loop",
    "kd_scale": "damping of the position loop",
    "effort_limit_scale": "largest torque",
    "voltage_scale": "supply voltage of law dc_motor: stall torque and no-load speed",
    "friction_scale": "every term of the actuator's friction",
    "play_scale": "gear play",
    "strength_scale": "torque of the motor, times what its loop asks for",
}


class ActuatorError(IsthmusError, ValueError):
    """An actuator model is used for what it is not made for."""


class ActuatorModel(TensorState):
    """Control law, then gear play, then friction at the joint.

    Law "pd" is `position_servo_effort`; "dc_motor" bounds it by the motor's torque-speed line; "net" is a network, of which only the
    effort limit remains. With commands of "effort" the target is a torque in N m instead, without a network.
    """

    _changing = ("_scales", "_strong", "_net", "_play", "_friction")

    def __init__(
        self,
        spec: ActuatorSpec,
        num_envs: int,
        *,
        dt: float,
        kp: torch.Tensor,
        kd: torch.Tensor,
        effort_limit: torch.Tensor,
        commands: Literal["position", "effort"] = "position",
        device: torch.device | None = None,
    ) -> None:
        """All environments get the same numbers until `set_scale`.

        Args:
            spec: law, motor, friction, play; net.file a path that can be opened.
            num_envs: environments.
            dt: physics step, s.
            kp: (n,) N m/rad, of the robot's joints.
            kd: (n,) N m s/rad.
            effort_limit: (n,) N m; zero for passive joints.
            commands: what a target is.
            device: of all tensors.
        """
        n = len(kp)
        check_actuator(spec, n, "actuator")
        if commands == "effort" and spec.law == "net":
            raise ActuatorError(
                'law "net" follows position targets; joints that are driven by effort need "pd" or "dc_motor"'
            )
        self.spec, self.num_envs, self.dt, self.commands, self.device = spec, num_envs, dt, commands, device
        self._nominal = {"kp": kp, "kd": kd, "effort_limit": effort_limit}
        self._scales = {name: torch.ones(num_envs, n, device=device) for name in ACTUATOR_SCALES}
        self._net, self._play, self._friction = None, None, None
        full = effort_limit
        if spec.motor is not None:
            self._nominal["stall_effort"] = full = torch.tensor(per_joint(spec.motor.stall_effort, n))
            self._nominal["no_load_speed"] = torch.tensor(per_joint(spec.motor.no_load_speed, n))
        self._nominal = {name: value.float().to(device) for name, value in self._nominal.items()}
        if spec.net is not None:
            self._net = ActuatorNet(Path(spec.net.file), num_envs, n, interval=spec.net.interval, dt=dt)
        if spec.play is not None:
            self._width = torch.tensor(per_joint(spec.play.width, n), device=device)
            speed = torch.tensor(per_joint(spec.play.crossing_speed, n))
            self._play = Backlash(
                num_envs, width=self._width, crossing_speed=speed, full_effort=full.float(), dt=dt, device=device
            )
        if spec.friction is not None:
            self._friction = HeldFriction(friction_params(spec.friction, n, device), num_envs, dt)
        self._strong = False  # whether any motor's strength differs
        self._apply_scales()

    @property
    def is_linear_servo(self) -> bool:
        """Whether `effort` is `position_servo_effort` of kp, kd and effort_limit and no more: an engine may compute it itself."""
        plain = self._play is None and self._friction is None and not self._strong
        return self.commands == "position" and self.spec.law == "pd" and plain

    def set_scale(self, name: str, values: torch.Tensor, ids: torch.Tensor) -> None:
        """Set one of ACTUATOR_SCALES for environments `ids`, values (k, 1) or (k, n)."""
        if name not in ACTUATOR_SCALES:
            raise ActuatorError(f"unknown scale {name!r}; known: {', '.join(ACTUATOR_SCALES)}")
        if not bool((torch.isfinite(values) & (values >= 0)).all()) or (
            name == "voltage_scale" and bool((values == 0).any())
        ):
            raise ActuatorError(
                f"{name} must be finite and not negative (voltage_scale: positive), got {values.min():.4g} .. {values.max():.4g}"
            )
        self._scales[name][ids] = values
        if name == "play_scale" and self._play is not None:
            self.set_play(self._width * self._scales[name][ids], ids)
        if name == "strength_scale":
            self._strong = bool((self._scales[name] != 1.0).any())
        self._apply_scales()

    def set_play(self, width: torch.Tensor, ids: torch.Tensor) -> None:
        """Give environments `ids` their gear play (k, n) rad from one flank to the other."""
        if self._play is None:
            raise ActuatorError("these actuators have no play; give their spec a PlaySpec, of width zero if need be")
        self._play.set_width(width, ids)

    def reset(self, ids: torch.Tensor) -> None:
        """Forget what environments `ids` did: history, gap, loads."""
        for part in (self._net, self._play, self._friction):
            if part is not None:
                part.reset(ids)

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """See Stateful."""
        super().load_state_dict(state)
        self._apply_scales()

    def effort(self, target: torch.Tensor, joint_pos: torch.Tensor, joint_vel: torch.Tensor) -> torch.Tensor:
        """Torque at the joints for the next physics step; call it once per step.

        Args:
            target: (num_envs, n) rad, or N m with commands of "effort".
            joint_pos: (num_envs, n) rad.
            joint_vel: (num_envs, n) rad/s.

        Returns:
            (num_envs, n) N m.
        """
        effort = self._law(target, joint_pos, joint_vel)
        if self._strong:
            effort = effort * self._scales["strength_scale"]
        if self._play is not None:
            effort = self._play.transmit(effort)
        if self._friction is not None:
            effort = self._friction.added_to(effort, joint_vel)
        return effort

    def _law(self, target: torch.Tensor, joint_pos: torch.Tensor, joint_vel: torch.Tensor) -> torch.Tensor:
        if self._net is not None:
            wanted = self._net.effort((target - joint_pos).cpu(), joint_vel.cpu()).to(target.device)
            return torch.clamp(wanted, -self.effort_limit, self.effort_limit)
        if self.commands == "effort":
            wanted = torch.clamp(target, -self.effort_limit, self.effort_limit)
        else:
            wanted = position_servo_effort(
                target, joint_pos, joint_vel, kp=self.kp, kd=self.kd, effort_limit=self.effort_limit
            )
        if self.spec.motor is None:
            return wanted
        return dc_motor_effort(
            wanted,
            joint_vel,
            stall_effort=self._stall_effort,
            no_load_speed=self._no_load_speed,
            effort_limit=self.effort_limit,
        )

    def _apply_scales(self) -> None:
        scales, nominal = self._scales, self._nominal
        self.kp = nominal["kp"] * scales["kp_scale"]  # N m/rad, (num_envs, n)
        self.kd = nominal["kd"] * scales["kd_scale"]  # N m s/rad, likewise
        self.effort_limit = nominal["effort_limit"] * scales["effort_limit_scale"]  # N m, likewise
        if self.spec.motor is not None:
            self._stall_effort = nominal["stall_effort"] * scales["voltage_scale"]
            self._no_load_speed = nominal["no_load_speed"] * scales["voltage_scale"]
        if self._friction is not None:
            self._friction.scale(scales["friction_scale"])
