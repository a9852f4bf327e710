"""What sensors make of true states: laws whose errors are arguments, in the unit of what they act on; None for a sensor without."""

from typing import NamedTuple

import torch

from .rotations import rotate_inverse


class Noise(NamedTuple):
    """White noise of one reading."""

    std: torch.Tensor  # in the unit of the value, broadcastable to it
    normal: torch.Tensor  # standard normal, one for each number of the value


def noisy(value: torch.Tensor, noise: Noise | None) -> torch.Tensor:
    """Value plus noise, of any unit and shape."""
    return value if noise is None else torch.addcmul(value, noise.std, noise.normal)


def unit(vector: torch.Tensor) -> torch.Tensor:
    """The vector (..., w) at length 1."""
    return vector / torch.linalg.vector_norm(vector, dim=-1, keepdim=True)


def encoder_reading(
    joint_pos: torch.Tensor, offset: torch.Tensor | None, resolution: torch.Tensor, noise: Noise | None
) -> torch.Tensor:
    """Angle as an encoder reports it: offset, noise, then rounding to whole counts.

    Args:
        joint_pos: (..., n) true position, rad or m.
        offset: (..., n) encoder error, rad or m; a reading is position + offset.
        resolution: (n,) of one count, rad or m.
        noise: in counts.

    Returns:
        (..., n) rad or m.
    """
    counts = (joint_pos if offset is None else joint_pos + offset) / resolution
    return torch.round(noisy(counts, noise)) * resolution


def differenced_velocity(reading: torch.Tensor, earlier: torch.Tensor, interval: float) -> torch.Tensor:
    """Velocity as a servo makes it from two encoder readings: half an interval late, and as coarse as counts over the interval.

    Args:
        reading: (..., n) encoder reading of now, rad or m.
        earlier: (..., n) that of `interval` ago, rad or m.
        interval: s.

    Returns:
        (..., n) rad/s or m/s.
    """
    return (reading - earlier) / interval


def gyro_reading(
    ang_vel_b: torch.Tensor,
    *,
    mount: torch.Tensor | None = None,
    scale: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    noise: Noise | None = None,
    limit: float | None = None,
) -> torch.Tensor:
    """Angular velocity as a gyro reports it: misaligned, scaled, biased, noisy, saturated, in this order.

    Args:
        ang_vel_b: (k, 3) true, rad/s in the body frame.
        mount: (k, 4) quaternion, sensor -> body.
        scale: (k, 3) of each axis of the sensor, 1; 1 is exact.
        bias: (k, 3) of each axis of the sensor, rad/s.
        noise: in rad/s.
        limit: rad/s, the largest reading of an axis, either way.

    Returns:
        (k, 3) rad/s in the sensor's frame, which the robot takes for the body's.
    """
    felt = ang_vel_b if mount is None else rotate_inverse(mount, ang_vel_b)
    felt = felt if scale is None else felt * scale
    felt = noisy(felt if bias is None else felt + bias, noise)
    return felt if limit is None else felt.clamp(-limit, limit)


def gravity_reading(
    gravity_b: torch.Tensor, *, mount: torch.Tensor | None = None, noise: Noise | None = None
) -> torch.Tensor:
    """Direction of gravity as an IMU's filter gives it. Noise changes the length too: `unit` makes it a direction again.

    Args:
        gravity_b: (k, 3) true unit vector in the body frame.
        mount: (k, 4) quaternion, sensor -> body.
        noise: 1, of each component.

    Returns:
        (k, 3) in the sensor's frame, which the robot takes for the body's.
    """
    return noisy(gravity_b if mount is None else rotate_inverse(mount, gravity_b), noise)
