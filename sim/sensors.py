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
    axes: torch.Tensor  # (3, k, 3) what the sensor makes of a unit along the body's x, y and z: rotation and scale


def encoder_reading(
    joint_pos: torch.Tensor,
    offset: torch.Tensor | None,
    resolution: torch.Tensor,
    noise_counts: torch.Tensor | None,
) -> torch.Tensor:
    """Angle as an encoder reports it: offset, noise, then rounding to whole counts.

    Args:
        joint_pos: (..., n) true position, rad or m.
        offset: (..., n) encoder error, rad; a reading is angle + offset; None for none.
        resolution: (n,) of one count, rad or m.
        noise_counts: (..., n) additive noise, counts; None for none.

    Returns:
        (..., n) rad or m.
    """
    counts = (joint_pos if offset is None else joint_pos + offset) / resolution
    return torch.round(counts if noise_counts is None else counts + noise_counts) * resolution


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
    unit = torch.eye(3, device=generator.device)[:, None].expand(3, count, 3)
    axes = (1.0 + spec.scale_std * scale) * rotated(unit, spec.misalignment_std * turn)
    return InertialErrors(bias=spec.bias_std * bias, axes=axes)


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
    felt = errors.bias + spec.noise_std * noise
    for axis, value in zip(errors.axes, true_b.unsqueeze(-1).unbind(1), strict=True):
        felt = torch.addcmul(felt, axis, value)  # for tiny matrices torch.bmm takes many times longer
    return quantised(felt.clamp(-spec.saturation, spec.saturation), spec.resolution)


def gravity_reading(gravity_b: torch.Tensor, tilt_error: torch.Tensor) -> torch.Tensor:
    """Gravity's direction from an estimated attitude that is off by a small rotation.

    Args:
        gravity_b: (k, 3) true unit vector in the body frame.
        tilt_error: (k, 3) rotation vector in the body frame, rad; what turns about gravity itself has no effect.

    Returns:
        (k, 3) unit vector.
    """
    return rotated(gravity_b, tilt_error)


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


def rotated(vector: torch.Tensor, rotation: torch.Tensor) -> torch.Tensor:
    """Turn vectors by rotation vectors (Rodrigues), at any angle.

    Args:
        vector: (..., 3).
        rotation: (..., 3) rad, axis times angle.

    Returns:
        (..., 3).
    """
    half = 0.5 * rotation.norm(dim=-1, keepdim=True)
    # sin(a)/a and (1 - cos(a))/a^2, without trouble at zero
    first, second = torch.sinc(2.0 / math.pi * half), 0.5 * torch.sinc(half / math.pi) ** 2
    once = torch.linalg.cross(*torch.broadcast_tensors(rotation, vector))
    twice = torch.linalg.cross(*torch.broadcast_tensors(rotation, once))
    return vector + first * once + second * twice
