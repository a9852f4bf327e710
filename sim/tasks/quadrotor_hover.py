"""Hold a quadrotor of the Crazyflie's size at a point, by the speeds of its four motors."""

import torch

from isthmus.hardware.robot import load_robot

from ..commands import PointCommand
from ..engine import EngineState, FreeState
from ..randomization import RandomTerm, Uniform
from ..rotations import from_rotation_vector
from ..scene import Scene
from ..task import Function, MetricTerm, RewardTerm, Success, Task, TerminationTerm
from ..truth import Truth
from ..world import World
from .terms import action_change, action_size, alive

LOW, HIGH = (-0.5, -0.5, 0.6), (0.5, 0.5, 1.4)  # m, where it may be sent


def scene() -> Scene:
    """The quadrotor above the floor."""
    return Scene(robot=load_robot("crazyflie"), ground="plane")


def start(world: World, ids: torch.Tensor) -> EngineState:
    """Anywhere in the box, tilted by up to 0.5 rad about each axis, drifting and turning."""
    count = ids.numel()

    def spread(size: float) -> torch.Tensor:
        return size * (2.0 * world.uniform(count, 3) - 1.0)

    low, high = torch.tensor(LOW), torch.tensor(HIGH)
    base = FreeState(
        pos=low + (high - low) * world.uniform(count, 3),
        quat=from_rotation_vector(spread(0.5)),
        lin_vel=spread(0.5),
        ang_vel=spread(2.0),
    )
    none = torch.zeros(count, 0)
    return EngineState(joint_pos=none, joint_vel=none, free={"base": base})


def error(truth: Truth) -> torch.Tensor:
    """Distance from the commanded point, (N,) m."""
    return torch.linalg.vector_norm(truth.base.pos - truth.command, dim=-1)


def near(scale: float) -> Function:
    """exp(-error / scale), scale in m."""
    return lambda truth: torch.exp(-error(truth) / scale)


def spin(truth: Truth) -> torch.Tensor:
    """Squared angular velocity, (rad/s)^2."""
    return truth.base_ang_vel_b.square().sum(-1)


def speed(truth: Truth) -> torch.Tensor:
    """Squared linear velocity, (m/s)^2."""
    return truth.base.lin_vel.square().sum(-1)


def tilt(truth: Truth) -> torch.Tensor:
    """1 - cos of the angle between the body's and the world's z axis, 1."""
    return 1.0 + truth.gravity_b[:, 2]


def crashed(truth: Truth) -> torch.Tensor:
    """On the floor, or upside down."""
    return (truth.base.pos[:, 2] < 0.05) | (truth.gravity_b[:, 2] > 0.2)


def lost(truth: Truth) -> torch.Tensor:
    """More than 2.5 m from the commanded point."""
    return error(truth) > 2.5


def at_target(truth: Truth) -> torch.Tensor:
    """Within 0.1 m of the target."""
    return error(truth) < 0.1


def quadrotor_hover() -> Task:
    """The task: 100 Hz control of motor speeds that follow with a lag, thrust and masses randomised, commands delayed."""
    return Task(
        name="quadrotor-hover",
        description="fly a Crazyflie-class quadrotor to a point by motor speeds: within 0.1 m for 1 s",
        scene=scene,
        period=0.01,
        physics_dt=0.005,
        episode_length=5.0,
        start=start,
        command=lambda world: PointCommand(world, low=LOW, high=HIGH, resample_s=10.0),
        rewards=(
            RewardTerm(name="alive", function=alive, weight=1.0),
            RewardTerm(name="far", function=near(1.0), weight=1.0),
            RewardTerm(name="near", function=near(0.2), weight=2.0),
            RewardTerm(name="spin", function=spin, weight=-0.02),
            RewardTerm(name="speed", function=speed, weight=-0.05),
            RewardTerm(name="tilt", function=tilt, weight=-0.5),
            RewardTerm(name="action_size", function=action_size, weight=-0.02),
            RewardTerm(name="action_change", function=action_change, weight=-0.1),
        ),
        terminations=(
            TerminationTerm(name="crashed", function=crashed),
            TerminationTerm(name="lost", function=lost),
        ),
        randomization=(
            RandomTerm(parameter="mass_scale", distribution=Uniform(low=0.9, high=1.1)),
            RandomTerm(parameter="inertia_scale", distribution=Uniform(low=0.8, high=1.2)),
            RandomTerm(parameter="payload_kg", distribution=Uniform(low=0.0, high=0.003)),
            RandomTerm(parameter="gain_scale", distribution=Uniform(low=0.9, high=1.1)),
            RandomTerm(parameter="com_offset_m", distribution=Uniform(low=-0.001, high=0.001)),
            RandomTerm(parameter="latency_s", distribution=Uniform(low=0.0, high=0.008)),
            RandomTerm(parameter="gyro_noise_rad_s", distribution=Uniform(low=0.0, high=0.05)),
            RandomTerm(parameter="gyro_bias_rad_s", distribution=Uniform(low=-0.02, high=0.02)),
            RandomTerm(parameter="base_pos_noise_m", distribution=Uniform(low=0.0, high=0.005)),
            RandomTerm(parameter="base_lin_vel_noise_m_s", distribution=Uniform(low=0.0, high=0.05)),
            RandomTerm(
                parameter="push_velocity_m_s",
                distribution=Uniform(low=0.0, high=0.4),
                when="interval",
                interval_s=4.0,
            ),
        ),
        success=Success(function=at_target, hold=1.0),
        metrics=(MetricTerm(name="final_distance", unit="m", function=error, last=True),),
        privileged=(
            lambda truth: truth.base.pos - truth.command,
            lambda truth: truth.base_lin_vel_b,
            lambda truth: 0.2 * truth.base_ang_vel_b,
        ),
        estimates=("base_pos", "base_quat", "base_lin_vel"),
    )
