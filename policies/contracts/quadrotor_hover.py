"""Quadrotor: estimated position error, attitude and velocity and the gyro in, four motor speeds out."""

import math

from isthmus.hardware.robot import load_robot

from ..contract import SCHEMA, CommandSpec, Contract, ObservationTerm, RotorSpeed

MASS = 0.027  # kg, of model.xml
GRAVITY = 9.81  # m/s^2


def quadrotor_hover() -> Contract:
    """The contract. Action 0 is the speed at which four rotors carry the robot; one unit changes thrust by about 60 %."""
    robot = load_robot("crazyflie")
    hover = math.sqrt(MASS * GRAVITY / sum(rotor.thrust_coefficient for rotor in robot.rotors))
    return Contract(
        schema=SCHEMA,
        task="quadrotor-hover",
        robot=robot.name,
        joints=(),
        period_ns=10_000_000,
        observation=(
            ObservationTerm(name="base_pos_error", scale=1.0, clip=1.0),
            ObservationTerm(name="base_pos_error", scale=5.0, clip=0.2),
            ObservationTerm(name="base_rotation", scale=1.0),
            ObservationTerm(name="base_lin_vel", scale=0.5),
            ObservationTerm(name="gyro", scale=0.2),
            ObservationTerm(name="last_action", scale=1.0),
        ),
        action=RotorSpeed(
            clip=1.0,
            rotors=tuple(rotor.name for rotor in robot.rotors),
            hover=hover,
            scale=0.3 * hover,
            max_speed=min(rotor.max_speed for rotor in robot.rotors),
        ),
        command=CommandSpec(signal="command.position", workspace=None, low=(-0.5, -0.5, 0.6), high=(0.5, 0.5, 1.4)),
        chain=None,
        latency_s=(0.0, 0.008),
    )
