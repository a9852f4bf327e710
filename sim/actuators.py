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


def dc_motor_effort(
    wanted: torch.Tensor,
    joint_vel: torch.Tensor,
    *,
    stall_effort: torch.Tensor,
    no_load_speed: torch.Tensor,
    effort_limit: torch.Tensor,
) -> torch.Tensor:
    """What a DC motor gives of a wanted torque.

    Full voltage either way bounds the torque by two parallel lines over speed, +-stall (1 -+ qd / no_load). Where the speed helps, the
    motor brakes with more than its stall torque; beyond the no-load speed it can only brake. The driver's current limit caps both.

    At full voltage the motor is a damper of stall / no_load, which an explicit step bears while dt stall / no_load < 2 J.

    Args:
        wanted: (..., n) N m.
        joint_vel: (..., n) rad/s.
        stall_effort: N m at full voltage and zero speed, broadcast to (..., n).
        no_load_speed: rad/s at full voltage and zero torque, likewise.
        effort_limit: N m at the largest current, likewise.

    Returns:
        (..., n) N m.
    """
    back_emf = joint_vel * (stall_effort / no_load_speed)
    possible = torch.clamp(wanted, -stall_effort - back_emf, stall_effort - back_emf)
    return torch.clamp(possible, -effort_limit, effort_limit)


def dc_motor_voltage_effort(
    voltage: torch.Tensor,
    joint_vel: torch.Tensor,
    *,
    torque_constant: torch.Tensor,
    resistance: torch.Tensor,
    voltage_limit: torch.Tensor,
) -> torch.Tensor:
    """Torque of a DC motor under a voltage: kt (V - kt qd) / R, V clipped.

    It is `dc_motor_effort` with stall torque kt V_limit / R and no-load speed V_limit / kt, where the voltage is the one for the wanted
    torque, V = R wanted / kt + kt qd. A servo that sets voltage in proportion to its position error, V = g (target - q), is a position
    servo with kp = kt g / R and kd = kt^2 / R.

    Args:
        voltage: (..., n) V.
        joint_vel: (..., n) rad/s.
        torque_constant: N m/A at the joint, gears included, and so V s/rad; broadcast to (..., n).
        resistance: ohm, likewise.
        voltage_limit: V, likewise.

    Returns:
        (..., n) N m.
    """
    applied = torch.clamp(voltage, -voltage_limit, voltage_limit)
    return torque_constant * (applied - torque_constant * joint_vel) / resistance
