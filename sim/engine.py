"""The protocol that every physics engine implements: N copies of one scene under joint torques."""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch

from isthmus.hardware.errors import IsthmusError

from .parameter_needs import FLOATING, FREE_OBJECT, JOINTS, PAYLOAD, Need
from .scene import Scene


class ParameterError(IsthmusError, ValueError):
    """Values of a physical parameter that cannot be, or that this robot has no place for."""


class UnknownNameError(IsthmusError, KeyError):
    """A parameter, body or camera that an engine does not have."""

    __str__ = Exception.__str__  # a KeyError shows its text in quotes


@dataclass(frozen=True, kw_only=True)
class EngineParameter:
    """A physical parameter that may differ between environments."""

    width: int  # values per environment
    unit: str
    neutral: tuple[float, ...]  # what model.xml says
    low: float  # smallest value that is physically possible
    description: str
    needs: Need | None = None  # without which it does nothing; None: it acts on every robot


def _scale(description: str, needs: Need | None = None) -> EngineParameter:
    return EngineParameter(width=1, unit="1", neutral=(1.0,), low=0.0, description=description, needs=needs)


ENGINE_PARAMETERS: dict[str, EngineParameter] = {
    "friction_scale": _scale("Coulomb and viscous friction of the robot's joints, times model.xml", JOINTS),
    "damping_scale": _scale("viscous friction of the robot's joints, times model.xml and friction_scale", JOINTS),
    "armature_scale": _scale("reflected rotor inertia, times model.xml", JOINTS),
    "mass_scale": _scale("mass and inertia of every link of the robot, times model.xml"),
    "inertia_scale": _scale("rotational inertia of every link of the robot, times model.xml and mass_scale"),
    "contact_friction_scale": _scale("sliding friction of every geom in the scene, times model.xml"),
    "object_mass_scale": _scale("mass and inertia of the scene's free objects, times their model", FREE_OBJECT),
    "payload_kg": EngineParameter(
        width=1,
        unit="kg",
        neutral=(0.0,),
        low=0.0,
        description="point mass at the robot's payload site",
        needs=PAYLOAD,
    ),
    "com_offset_m": EngineParameter(
        width=3,
        unit="m",
        neutral=(0.0, 0.0, 0.0),
        low=-1.0,
        description="shift of the base link's centre of mass, link frame",
        needs=FLOATING,
    ),
    "gravity_m_s2": EngineParameter(
        width=3, unit="m/s^2", neutral=(0.0, 0.0, -9.81), low=-30.0, description="gravity, world frame"
    ),
}


def unknown(what: str, name: str, known: tuple[str, ...]) -> UnknownNameError:
    """The error for a name that an engine does not have."""
    return UnknownNameError(f"unknown {what} {name!r}; known: {', '.join(known) or 'none'}")


def check_parameter(name: str, values: torch.Tensor | None = None, ids: torch.Tensor | None = None) -> None:
    """Refuse an unknown parameter (UnknownNameError), and values of a wrong shape or that cannot be (ParameterError)."""
    if name not in ENGINE_PARAMETERS:
        raise unknown("engine parameter", name, tuple(ENGINE_PARAMETERS))
    if values is None or ids is None:
        return
    item = ENGINE_PARAMETERS[name]
    if values.shape != (ids.numel(), item.width):
        raise ParameterError(f"{name}: values have shape {tuple(values.shape)}, expected {(ids.numel(), item.width)}")
    if not bool((values >= item.low).all()):
        raise ParameterError(
            f"{name}: got {float(values.min()):.4g} {item.unit}, expected at least {item.low} and finite"
        )


@dataclass(frozen=True, kw_only=True)
class FreeState:
    """Pose and velocity of bodies that move freely: a floating base or an object. Shapes start with k."""

    pos: torch.Tensor  # (k, 3) m, world
    quat: torch.Tensor  # (k, 4) wxyz, body -> world
    lin_vel: torch.Tensor  # (k, 3) m/s of the body frame's origin, world frame
    ang_vel: torch.Tensor  # (k, 3) rad/s, body frame


@dataclass(frozen=True, kw_only=True)
class EngineState:
    """The mechanical state of k environments."""

    joint_pos: torch.Tensor  # (k, n) rad or m
    joint_vel: torch.Tensor  # (k, n) rad/s or m/s
    free: dict[str, FreeState] = field(default_factory=dict)  # by name; must hold every one of the scene's free bodies
    fixed_pos: dict[str, torch.Tensor] = field(default_factory=dict)  # (k, 3) m by fixed object; those left out stay


class Engine(Protocol):
    """Batched physics. Tensors are float32 on `device`; joints in robot order; SI and rad; quaternions wxyz.

    Sensors and delays are not the engine's business: it gets torques, or position-servo targets, and gives true states.
    Free bodies are the robot's base, named "base", when it floats, and the scene's free objects by name.
    """

    scene: Scene
    num_envs: int
    dt: float  # s, one physics step
    device: torch.device

    def joint_pos(self) -> torch.Tensor:
        """True joint positions, (num_envs, n) rad or m."""
        ...

    def joint_vel(self) -> torch.Tensor:
        """True joint velocities, (num_envs, n) rad/s or m/s."""
        ...

    def free_state(self, name: str) -> FreeState:
        """State of a free body, num_envs rows; raises KeyError naming the known ones."""
        ...

    def fixed_pos(self, name: str) -> torch.Tensor:
        """World position of a fixed object of the scene, (num_envs, 3) m."""
        ...

    def contact_force(self) -> torch.Tensor:
        """Net contact force on each of the robot's contact bodies in the last physics step, (num_envs, c, 3) N, world frame."""
        ...

    def contact_pos(self) -> torch.Tensor:
        """Origins of the contact bodies' frames, (num_envs, c, 3) m, world frame; at most one physics step old."""
        ...

    def specific_force(self) -> torch.Tensor:
        """What an ideal accelerometer at the base frame's origin feels in the last physics step, (num_envs, 3) m/s^2, body frame.

        Zero in free fall, +g upwards at rest; for a floating base only.
        """
        ...

    def robot_mass(self) -> float:
        """Mass of the robot as in model.xml, kg."""
        ...

    def rotor_frames(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Where the robot's rotors sit: position relative to the base link's centre of mass (r, 3) m, and axis (r, 3), base frame."""
        ...

    def set_wrench(self, body: str, force: torch.Tensor, torque: torch.Tensor) -> None:
        """Force (num_envs, 3) N at the body's centre of mass and torque (num_envs, 3) N m, world frame, acting until set again.

        `body` is a free body; raises KeyError naming the known ones.
        """
        ...

    def add_velocity(self, body: str, change: torch.Tensor, ids: torch.Tensor) -> None:
        """Change the linear velocity of a free body at once, in environments `ids`; change (k, 3) m/s, world frame."""
        ...

    def step(self, effort: torch.Tensor) -> None:
        """Advance one physics step under joint torques or forces (num_envs, n) N m or N."""
        ...

    def step_servo(
        self, targets: torch.Tensor, kp: torch.Tensor, kd: torch.Tensor, effort_limit: torch.Tensor
    ) -> torch.Tensor:
        """Advance `steps` physics steps under the law of `actuators.position_servo_effort`, evaluated at every physics step.

        Args:
            targets: (num_envs, steps, n) rad, one row per physics step.
            kp: N m/rad, broadcastable to (num_envs, n).
            kd: N m s/rad, likewise.
            effort_limit: N m, likewise.

        Returns:
            Joint positions after each step, (num_envs, steps, n) rad.
        """
        ...

    def state(self) -> EngineState:
        """The mechanical state of all environments; `reset` takes it back."""
        ...

    def reset(self, ids: torch.Tensor, state: EngineState) -> None:
        """Put environments `ids` (k,) int64 into `state` (k rows), without memory of what was before. Wrenches on them end."""
        ...

    def save(self) -> dict[str, torch.Tensor]:
        """Everything that the future depends on, parameters included, as tensors by name."""
        ...

    def restore(self, saved: dict[str, torch.Tensor]) -> None:
        """Take back what `save` gave, of an engine with the same scene and number of environments."""
        ...

    def set_parameter(self, name: str, values: torch.Tensor, ids: torch.Tensor) -> None:
        """Set one of ENGINE_PARAMETERS for environments `ids`, values (k, width). Raises KeyError naming the known ones."""
        ...

    def parameter(self, name: str) -> torch.Tensor:
        """The parameter as the engine's own model has it, (num_envs, width): read back, not remembered."""
        ...

    def failed(self) -> torch.Tensor:
        """Environments whose state is not finite or which raised a physics warning since their reset. (num_envs,) bool."""
        ...

    def render(self, env: int, *, width: int = 640, height: int = 480, camera: str | None = None) -> np.ndarray:
        """Picture of one environment, (height, width, 3) uint8; `camera` is one of the model's or None for a view of the base."""
        ...
