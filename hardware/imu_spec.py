"""What a robot.toml says of its IMU: constants of the device. Errors that differ from one device to the next are randomised instead."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ImuSpec:
    """The IMU in the base body, its axes those of the body."""

    gyro_range: float  # rad/s, the largest reading of each axis, either way
