"""The protocol that every physics engine implements: N copies of one robot under joint torques."""

from typing import Protocol

import torch

from isthmus.hardware.robot import RobotSpec

# Physical parameters that may differ between environments. Scales are relative to model.xml.
ENGINE_PARAMETERS: dict[str, str] = {
    "friction_scale": "Coulomb and viscous joint friction, 1",
    "armature_scale": "reflected rotor inertia, 1",
    "mass_scale": "mass and inertia of every link, 1",
    "payload_kg": "point mass at the tip site, kg",
}


class Engine(Protocol):
    """Batched physics. Tensors are float32 on `device`; joints in robot order; SI and rad.

    Actuators, sensors and delays are not the engine's business: it gets torques and gives true states.
    """

    robot: RobotSpec
    num_envs: int
    dt: float  # s, one physics step
    device: torch.device

    def joint_pos(self) -> torch.Tensor:
        """True joint angles, (num_envs, n) rad."""
        ...

    def joint_vel(self) -> torch.Tensor:
        """True joint velocities, (num_envs, n) rad/s."""
        ...

    def step(self, effort: torch.Tensor) -> None:
        """Advance one physics step under joint torques (num_envs, n) N m."""
        ...

    def reset(self, ids: torch.Tensor, joint_pos: torch.Tensor, joint_vel: torch.Tensor) -> None:
        """Put environments `ids` (k,) int64 into the given states (k, n)."""
        ...

    def set_parameter(self, name: str, values: torch.Tensor, ids: torch.Tensor) -> None:
        """Set one of ENGINE_PARAMETERS for environments `ids`, values (k,). Raises KeyError naming the known ones."""
        ...

    def failed(self) -> torch.Tensor:
        """Environments whose state is not finite or which raised a physics warning since their reset. (num_envs,) bool."""
        ...
