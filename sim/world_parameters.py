"""What may differ between environments and is applied by shared code, beside the engine's own parameters."""

import math
from dataclasses import dataclass
from typing import Literal

from .engine import EngineParameter
from .parameter_needs import DAMPING, FLOATING, JOINTS, MOTORS, STIFFNESS, Need, estimate

EACH_JOINT = -1  # a width: one value per joint of the robot, in robot order
When = Literal["build", "reset", "interval"]
LONGEST_DELAY = 1.0  # s; no loop of control is slower, and a delay line takes memory for all of it
ANY_TIME: tuple[When, ...] = ("build", "reset", "interval")


@dataclass(frozen=True, kw_only=True)
class WorldParameter(EngineParameter):
    """A parameter that the world applies. A width of EACH_JOINT has one neutral value, which holds for every joint."""

    high: float = math.inf  # largest value that is possible
    direction: bool = (
        False  # the distribution gives the length of a vector; its direction is random, all equally likely
    )
    when: tuple[When, ...] = ANY_TIME  # the times at which drawing it makes sense


def _parameter(
    unit: str,
    description: str,
    *,
    width: int = 1,
    neutral: float = 0.0,
    low: float = 0.0,
    high: float = math.inf,
    direction: bool = False,
    when: tuple[When, ...] = ANY_TIME,
    needs: Need | None = None,
) -> WorldParameter:
    return WorldParameter(
        width=width,
        unit=unit,
        neutral=(neutral,) * max(width, 1),
        low=low,
        high=high,
        direction=direction,
        when=when,
        description=description,
        needs=needs,
    )


_ACTUATION = {
    "gain_scale": _parameter("1", "position-loop gain kp, times robot.toml", neutral=1.0, needs=STIFFNESS),
    "damping_gain_scale": _parameter("1", "velocity-loop gain kd, times robot.toml", neutral=1.0, needs=DAMPING),
    "effort_limit_scale": _parameter("1", "largest effort of every joint, times robot.toml", neutral=1.0, needs=MOTORS),
    "motor_strength_scale": _parameter(
        "1",
        "effort that a joint's motor gives, times what its loop asks for",
        width=EACH_JOINT,
        neutral=1.0,
        needs=MOTORS,
    ),
    "backlash_rad": _parameter("rad", "free play of a joint's gear, from end to end", width=EACH_JOINT, needs=MOTORS),
}

_TIMING = {
    "latency_s": _parameter("s", "delay from writing a target to the servo acting on it", high=LONGEST_DELAY),
    "latency_jitter_s": _parameter(
        "s", "longest extra delay of a single target; each target's is uniform between 0 and this", high=LONGEST_DELAY
    ),
    "packet_loss_probability": _parameter(
        "1", "probability that a written target is lost and the one before stays in force", high=1.0
    ),
    "observation_delay_s": _parameter("s", "age of a joint reading", high=LONGEST_DELAY),
}

SENSOR_PARAMETERS = {
    "encoder_offset_rad": _parameter(
        "rad",
        "constant encoder error of a joint: reading = angle + offset",
        width=EACH_JOINT,
        low=-math.pi,
        needs=JOINTS,
    ),
    "encoder_noise_counts": _parameter("counts", "standard deviation of encoder noise", needs=JOINTS),
    "joint_vel_noise_rad_s": _parameter("rad/s", "standard deviation of noise on joint velocities", needs=JOINTS),
    "gyro_noise_rad_s": _parameter("rad/s", "standard deviation of noise on each axis of the gyro", needs=FLOATING),
    "gyro_bias_rad_s": _parameter(
        "rad/s", "constant error of each axis of the gyro", width=3, low=-math.inf, needs=FLOATING
    ),
    "gyro_scale": _parameter(
        "1", "what each axis of the gyro reads, times the truth", width=3, neutral=1.0, needs=FLOATING
    ),
    "gravity_noise": _parameter(
        "1", "standard deviation of noise on each component of the unit gravity vector", needs=FLOATING
    ),
    "imu_misalignment_rad": _parameter(
        "rad",
        "rotation vector from the body to the IMU as mounted, body frame",
        width=3,
        high=math.pi,
        direction=True,
        needs=FLOATING,
    ),
    "base_pos_noise_m": _parameter(
        "m", "standard deviation of noise on each component of the estimated base position", needs=estimate("base_pos")
    ),
    "base_lin_vel_noise_m_s": _parameter(
        "m/s", "standard deviation of noise on each component of the base velocity", needs=estimate("base_lin_vel")
    ),
}

_DISTURBANCES = {
    "push_velocity_m_s": _parameter(
        "m/s",
        "sudden change of the floating base's velocity, x and y, world",
        width=2,
        direction=True,
        when=("interval",),
        needs=FLOATING,
    ),
}

_START = {
    "initial_joint_pos_rad": _parameter(
        "rad", "added to a joint's start position", width=EACH_JOINT, low=-math.inf, when=("reset",), needs=JOINTS
    ),
    "initial_base_lin_vel_m_s": _parameter(
        "m/s",
        "velocity of the floating base at the start, world",
        width=3,
        low=-math.inf,
        when=("reset",),
        needs=FLOATING,
    ),
    "initial_base_ang_vel_rad_s": _parameter(
        "rad/s",
        "angular velocity of the floating base at the start, body frame",
        width=3,
        low=-math.inf,
        when=("reset",),
        needs=FLOATING,
    ),
    "initial_yaw_rad": _parameter(
        "rad",
        "heading of the floating base at the start, about world z",
        low=-math.inf,
        when=("reset",),
        needs=FLOATING,
    ),
    "initial_height_m": _parameter(
        "m", "added to the floating base's start height", low=-math.inf, when=("reset",), needs=FLOATING
    ),
}

WORLD_PARAMETERS: dict[str, WorldParameter] = {**_ACTUATION, **_TIMING, **SENSOR_PARAMETERS, **_DISTURBANCES, **_START}
