"""What rewards, terminations and critics may look at: the truth of one control tick, computed when first asked for."""

from functools import cached_property
from typing import TYPE_CHECKING

import torch

from .engine import FreeState
from .rotations import heading, rotate_inverse, world_z_in_body

if TYPE_CHECKING:
    from .world import World


class Truth:
    """Batched, float32, shapes start with num_envs. Suffix _w: world frame, _b: frame of the base body."""

    def __init__(self, world: "World", *, action: torch.Tensor, last_action: torch.Tensor) -> None:
        """Args: action, last_action: (N, a) as the network gave them, this tick's and the one before."""
        self.world, self.engine = world, world.engine
        self.action, self.last_action = action, last_action

    @cached_property
    def joint_pos(self) -> torch.Tensor:
        """(N, n) rad or m."""
        return self.engine.joint_pos()

    @cached_property
    def joint_vel(self) -> torch.Tensor:
        """(N, n) rad/s or m/s."""
        return self.engine.joint_vel()

    @cached_property
    def joint_acc(self) -> torch.Tensor:
        """Mean joint acceleration over the tick, (N, n) rad/s^2."""
        return (self.joint_vel - self.world.last_joint_vel) / self.world.task.period

    @cached_property
    def joint_offset(self) -> torch.Tensor:
        """joint_pos - default_pos, (N, n) rad or m."""
        return self.joint_pos - self.world.default_pos

    @property
    def effort(self) -> torch.Tensor:
        """Joint efforts at the end of the tick, (N, n) N m or N."""
        return self.world.effort()

    @cached_property
    def base(self) -> FreeState:
        """State of the floating base."""
        return self.engine.free_state("base")

    @cached_property
    def base_lin_vel_b(self) -> torch.Tensor:
        """(N, 3) m/s."""
        return rotate_inverse(self.base.quat, self.base.lin_vel)

    @property
    def base_ang_vel_b(self) -> torch.Tensor:
        """(N, 3) rad/s."""
        return self.base.ang_vel

    @cached_property
    def gravity_b(self) -> torch.Tensor:
        """Direction of gravity, (N, 3) unit vector."""
        return -world_z_in_body(self.base.quat)

    @cached_property
    def heading(self) -> torch.Tensor:
        """The base's forward axis on the horizontal plane, (N, 2) unit vector, world frame."""
        return heading(self.base.quat)

    @cached_property
    def base_height(self) -> torch.Tensor:
        """Height of the base above the ground below it, (N,) m."""
        return self.base.pos[:, 2] - self.world.ground_height(self.base.pos[:, None, :2])[:, 0]

    @cached_property
    def contact_force_w(self) -> torch.Tensor:
        """(N, c, 3) N."""
        return self.engine.contact_force()

    @cached_property
    def contact_pos_w(self) -> torch.Tensor:
        """(N, c, 3) m."""
        return self.engine.contact_pos()

    @cached_property
    def touching(self) -> torch.Tensor:
        """Which contact bodies press on something with more than 1 N, (N, c) bool."""
        return self.world.contacts.touching

    @property
    def air_time(self) -> torch.Tensor:
        """How long each contact body had been in the air at its touchdown in this tick, (N, c) s; 0 where none touched down."""
        return self.world.contacts.air_time_at_touchdown

    @cached_property
    def tip_frame(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Tip position (N, 3) m and rotation of the chain's last link -> base frame, (N, 3, 3)."""
        return self.world.tip_frame()

    @cached_property
    def tip_pos(self) -> torch.Tensor:
        """(N, 3) m, base frame."""
        return self.world.tip_position()

    @property
    def command(self) -> torch.Tensor:
        """(N, w) in the command's unit."""
        return self.world.command.value

    @cached_property
    def distance(self) -> torch.Tensor:
        """Tip to commanded point, (N,) m."""
        # As it is laid out, torch's own norm takes ten times as long.
        return (self.tip_pos - self.command).square().sum(-1).sqrt()

    def object(self, name: str) -> FreeState:
        """State of a free object."""
        return self.engine.free_state(name)
