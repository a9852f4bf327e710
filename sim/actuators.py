"""Laws of actuators, shared by all engines and computed at the physics rate: engines differ where a built-in loop saturates."""

import torch


def position_servo_effort(
    target: torch.Tensor,
    joint_pos: torch.Tensor,
    joint_vel: torch.Tensor,
    *,
    kp: torch.Tensor,
    kd: torch.Tensor,
    effort_limit: torch.Tensor,
) -> torch.Tensor:
    """Torque of a position servo: clip(kp (target - q) - kd qd, +-limit).

    Args:
        target: (..., n) rad.
        joint_pos: (..., n) rad.
        joint_vel: (..., n) rad/s.
        kp: N m/rad, broadcast to (..., n).
        kd: N m s/rad, likewise.
        effort_limit: N m, likewise.

    Returns:
        (..., n) N m. Back-EMF of the motor is in the model's joint damping.
    """
    effort = kp * (target - joint_pos) - kd * joint_vel
    return torch.clamp(effort, -effort_limit, effort_limit)
