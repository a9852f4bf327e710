"""Gear play: torque reaches the joint only while a flank is in contact."""

import torch

from .state import TensorState


class Backlash(TensorState):
    """Where the motor's side stands in the gap of each joint.

    A motor that pushes the other way leaves its flank and first crosses the gap, without any torque on the joint. Its rotor is light
    and soon at the speed at which back-EMF takes up the torque, so it crosses at `crossing_speed` times the share of the full torque with
    which it pushes. Gap and torque are exact within an explicit physics step whose effort is constant: the joint gets the share of the step
    that is left after the crossing.
    """

    _changing = ("_half", "gap")

    def __init__(
        self,
        num_envs: int,
        *,
        width: torch.Tensor,
        crossing_speed: torch.Tensor,
        full_effort: torch.Tensor,
        dt: float,
        device: torch.device | None = None,
    ) -> None:
        """The motor's side stands in the middle of each gap.

        Args:
            num_envs: environments.
            width: (n,) rad; zero is no play.
            crossing_speed: (n,) rad/s at full effort.
            full_effort: (n,) N m, stall torque or effort limit; zero where there is no motor.
            dt: physics step, s.
            device: of all tensors.
        """
        self._half = (0.5 * width).to(device).repeat(num_envs, 1)
        travel = torch.where(full_effort > 0, dt * crossing_speed / full_effort, torch.zeros_like(full_effort))
        self._gap_per_effort = travel.to(device)  # rad/(N m) in a step
        self.gap = torch.zeros_like(self._half)  # rad, motor minus joint angle, within +-width/2

    def set_width(self, width: torch.Tensor, ids: torch.Tensor) -> None:
        """Give environments `ids` their play, (k, n) rad; the motor's side stands in the middle then."""
        self._half[ids] = 0.5 * width
        self.reset(ids)

    def reset(self, ids: torch.Tensor) -> None:
        """Put the motor's side into the middle of the gap."""
        self.gap[ids] = 0.0

    def transmit(self, effort: torch.Tensor) -> torch.Tensor:
        """Move the motor's side for one physics step and return the joint's mean torque in it.

        Args:
            effort: (num_envs, n) N m at the motor's side.

        Returns:
            (num_envs, n) N m at the joint; without play the same numbers.
        """
        travel = effort.abs() * self._gap_per_effort
        room = self._half - torch.sign(effort) * self.gap  # to the flank that it pushes towards
        self.gap = torch.clamp(self.gap + effort * self._gap_per_effort, -self._half, self._half)
        share = ((travel - room) / travel).clamp_min_(0.0)  # 0/0 only where room is zero, and it does not count there
        return torch.where(room > 0, effort * share, effort)
