"""What sensors make of true states: raw signals, with errors where they arise."""

import math
from dataclasses import dataclass

import torch


@dataclass(frozen=True, kw_only=True)
class InertialSpec:
    """Errors of a gyro (unit rad/s) or an accelerometer (unit m/s^2). Biases and so on are drawn once, noise at each reading."""

    noise_std: float  # unit, white, of one reading
    bias_std: float  # unit
    misalignment_std: float  # rad, rotation of the sensor about each axis of the body
    scale_std: float  # 1, of each axis
    saturation: float  # unit, largest reading
    resolution: float  # unit, of one count; 0: none


@dataclass(frozen=True, kw_only=True)
class InertialErrors:
    """The constant errors of k sensors."""

    bias: torch.Tensor  # (k, 3) unit
    frame: torch.Tensor  # (k, 3, 3) rotation and scale, body -> sensor


def encoder_reading(
    joint_pos: torch.Tensor, offset: torch.Tensor, counts_per_turn: int, noise_counts: torch.Tensor
) -> torch.Tensor:
    """Angle as an encoder reports it: offset, noise, then rounding to whole counts.

    Args:
        joint_pos: (..., n) true angle, rad.
        offset: (..., n) encoder error, rad; a reading is angle + offset.
        counts_per_turn: resolution.
        noise_counts: (..., n) additive noise, counts.

    Returns:
        (..., n) rad.
    """
    resolution = 2.0 * math.pi / counts_per_turn
    return torch.round((joint_pos + offset) / resolution + noise_counts) * resolution


def differenced_velocity(
    reading: torch.Tensor, earlier: torch.Tensor, interval: float, resolution: float = 0.0
) -> torch.Tensor:
    """Velocity as a servo makes it from two encoder readings: half an interval late, and as coarse as counts over the interval.

    Args:
        reading: (..., n) encoder reading of now, rad.
        earlier: (..., n) that of `interval` ago, rad.
        interval: s.
        resolution: of the reported velocity, rad/s; 0: none.

    Returns:
        (..., n) rad/s.
    """
    return quantised((reading - earlier) / interval, resolution)


def quantised(value: torch.Tensor, resolution: float) -> torch.Tensor:
    """The nearest whole multiple of `resolution`; 0: the value itself."""
    return torch.round(value / resolution) * resolution if resolution > 0 else value


def draw_inertial_errors(spec: InertialSpec, count: int, generator: torch.Generator) -> InertialErrors:
    """Constant errors of `count` sensors, each value from a normal distribution."""
    bias, turn, scale = torch.randn(3, count, 3, generator=generator, device=generator.device)
    frame = (1.0 + spec.scale_std * scale)[:, :, None] * rotation_matrix(spec.misalignment_std * turn)
    return InertialErrors(bias=spec.bias_std * bias, frame=frame)


def inertial_reading(
    true_b: torch.Tensor, errors: InertialErrors, spec: InertialSpec, noise: torch.Tensor
) -> torch.Tensor:
    """What a gyro or an accelerometer reports: misaligned, scaled, biased, noisy, saturated, in whole counts.

    Args:
        true_b: (k, 3) rad/s or m/s^2 (specific force: +g upwards at rest) in the body frame.
        errors: of these sensors.
        spec: noise, saturation, resolution.
        noise: (k, 3) standard normal.

    Returns:
        (k, 3) in the same unit.
    """
    # Row times matrix by hand: for tiny matrices torch.bmm takes many times longer.
    felt = (errors.frame * true_b[:, None, :]).sum(-1) + errors.bias + spec.noise_std * noise
    return quantised(felt.clamp(-spec.saturation, spec.saturation), spec.resolution)


def gravity_reading(gravity_b: torch.Tensor, tilt_error: torch.Tensor) -> torch.Tensor:
    """Gravity's direction from an estimated attitude that is off by a small rotation.

    Args:
        gravity_b: (k, 3) true unit vector in the body frame.
        tilt_error: (k, 3) rotation vector in the body frame, rad; what turns about gravity itself has no effect.

    Returns:
        (k, 3) unit vector.
    """
    return (rotation_matrix(tilt_error) * gravity_b[:, None, :]).sum(-1)


def velocity_estimate(
    lin_vel_b: torch.Tensor, *, scale_error: torch.Tensor, bias: torch.Tensor, noise: torch.Tensor
) -> torch.Tensor:
    """Base velocity as an estimator gives it: legs that slip shorten it, drift shifts it.

    Args:
        lin_vel_b: (k, 3) true, m/s in the body frame.
        scale_error: (k, 1) or (k, 3), 1; -0.1 is a tenth too slow.
        bias: (k, 3) m/s.
        noise: (k, 3) m/s of this reading.

    Returns:
        (k, 3) m/s.
    """
    return lin_vel_b * (1.0 + scale_error) + bias + noise


def rotation_matrix(rotation: torch.Tensor) -> torch.Tensor:
    """Rotation matrices of rotation vectors (Rodrigues).

    Args:
        rotation: (k, 3) rad.

    Returns:
        (k, 3, 3).
    """
    angle = rotation.norm(dim=-1)[:, None, None]
    x, y, z = rotation.unbind(-1)
    zero = torch.zeros_like(x)
    cross = torch.stack([zero, -z, y, z, zero, -x, -y, x, zero], dim=-1).view(-1, 3, 3)
    identity = torch.eye(3, dtype=rotation.dtype, device=rotation.device)
    # sin(a)/a and (1 - cos(a))/a^2, without trouble at zero
    return (
        identity + torch.sinc(angle / math.pi) * cross + 0.5 * torch.sinc(angle / (2 * math.pi)) ** 2 * (cross @ cross)
    )
