"""A quadruped that walks as it is told: forwards, sideways, turning."""

import torch

from isthmus.hardware.robot import load_robot

from ..commands import VelocityCommand
from ..engine import EngineState, FreeState
from ..randomization import RandomTerm, Uniform
from ..scene import Scene
from ..task import MetricTerm, RewardTerm, Task, TerminationTerm
from ..truth import Truth
from ..world import World
from .terms import action_change, alive

FEET = slice(0, 4)  # among the robot's contact bodies
STAND_HEIGHT = 0.31  # m, of the base above the ground
MOVES = 0.1  # m/s and rad/s; smaller commands mean standing


def flat_scene() -> Scene:
    """The robot on a plane."""
    return Scene(robot=load_robot("go2"), ground="plane", ground_friction=0.8)


def standing(world: World, ids: torch.Tensor) -> EngineState:
    """Standing in the default pose, a little above the ground."""
    count = ids.numel()
    pose = world.default_pos.repeat(count, 1)
    zero = torch.zeros(count, 3)
    up = torch.tensor([1.0, 0.0, 0.0, 0.0]).repeat(count, 1)
    base = FreeState(pos=torch.tensor([0.0, 0.0, 0.325]).repeat(count, 1), quat=up, lin_vel=zero, ang_vel=zero)
    return EngineState(joint_pos=pose, joint_vel=torch.zeros_like(pose), free={"base": base})


def tracks_velocity(truth: Truth) -> torch.Tensor:
    """exp(-(horizontal velocity error / 0.5 m/s)^2), 1."""
    return torch.exp(-(truth.command[:, :2] - truth.base_lin_vel_b[:, :2]).square().sum(-1) / 0.25)


def tracks_velocity_closely(truth: Truth) -> torch.Tensor:
    """exp(-(horizontal velocity error / 0.2 m/s)^2), 1."""
    return torch.exp(-(truth.command[:, :2] - truth.base_lin_vel_b[:, :2]).square().sum(-1) / 0.04)


def tracks_turning(truth: Truth) -> torch.Tensor:
    """exp(-(yaw rate error / 0.5 rad/s)^2), 1."""
    return torch.exp(-(truth.command[:, 2] - truth.base_ang_vel_b[:, 2]).square() / 0.25)


def bounce(truth: Truth) -> torch.Tensor:
    """Squared vertical velocity, (m/s)^2."""
    return truth.base_lin_vel_b[:, 2].square()


def roll_pitch_rate(truth: Truth) -> torch.Tensor:
    """Squared roll and pitch rates, (rad/s)^2."""
    return truth.base_ang_vel_b[:, :2].square().sum(-1)


def lean(truth: Truth) -> torch.Tensor:
    """Squared horizontal part of gravity's direction in the body frame, 1."""
    return truth.gravity_b[:, :2].square().sum(-1)


def torque(truth: Truth) -> torch.Tensor:
    """Sum of squared joint torques, (N m)^2."""
    return truth.effort.square().sum(-1)


def acceleration(truth: Truth) -> torch.Tensor:
    """Sum of squared joint accelerations, (rad/s^2)^2."""
    return truth.joint_acc.square().sum(-1)


def height_error(truth: Truth) -> torch.Tensor:
    """Squared error of the base's height above the ground, m^2."""
    return (truth.base_height - STAND_HEIGHT).square()


def pose_error(truth: Truth) -> torch.Tensor:
    """Sum of squared distances from the default pose, rad^2."""
    return truth.joint_offset.square().sum(-1)


def steps(truth: Truth) -> torch.Tensor:
    """Time in the air, up to 0.4 s, beyond 0.1 s, in the tick of each foot's touchdown, of robots that are told to move, s."""
    moving = torch.linalg.vector_norm(truth.command, dim=-1) > MOVES
    air = truth.air_time[:, FEET]
    return ((air.clamp(max=0.4) - 0.1) * (air > 0)).sum(-1) * moving


def restless(truth: Truth) -> torch.Tensor:
    """Sum of squared joint speeds of robots that are told to stand, (rad/s)^2."""
    standing = torch.linalg.vector_norm(truth.command, dim=-1) <= MOVES
    return truth.joint_vel.square().sum(-1) * standing


def knocks(truth: Truth) -> torch.Tensor:
    """Number of thighs that touch something, 1."""
    return truth.touching[:, 5:].sum(-1).float()


def fallen(truth: Truth) -> torch.Tensor:
    """The trunk touches the ground, or leans by more than 60 degrees."""
    return truth.touching[:, 4] | (truth.gravity_b[:, 2] > -0.5)


REWARDS = (
    RewardTerm(name="tracks_velocity", function=tracks_velocity, weight=2.5),
    RewardTerm(name="tracks_velocity_closely", function=tracks_velocity_closely, weight=1.0),
    RewardTerm(name="tracks_turning", function=tracks_turning, weight=1.0),
    RewardTerm(name="bounce", function=bounce, weight=-2.0),
    RewardTerm(name="roll_pitch_rate", function=roll_pitch_rate, weight=-0.05),
    RewardTerm(name="lean", function=lean, weight=-2.5),
    RewardTerm(name="torque", function=torque, weight=-2e-4),
    RewardTerm(name="acceleration", function=acceleration, weight=-2.5e-7),
    RewardTerm(name="action_change", function=action_change, weight=-0.01),
    RewardTerm(name="steps", function=steps, weight=20.0),
    RewardTerm(name="alive", function=alive, weight=0.3),
    RewardTerm(name="height_error", function=height_error, weight=-10.0),
    RewardTerm(name="pose_error", function=pose_error, weight=-0.05),
    RewardTerm(name="restless", function=restless, weight=-0.01),
    RewardTerm(name="knocks", function=knocks, weight=-0.5),
)

RANDOMIZATION = (
    RandomTerm(parameter="contact_friction_scale", distribution=Uniform(low=0.5, high=1.5)),
    RandomTerm(parameter="mass_scale", distribution=Uniform(low=0.9, high=1.1)),
    RandomTerm(parameter="payload_kg", distribution=Uniform(low=0.0, high=2.0)),
    RandomTerm(parameter="com_offset_m", distribution=Uniform(low=-0.02, high=0.02)),
    RandomTerm(parameter="friction_scale", distribution=Uniform(low=0.5, high=2.0)),
    RandomTerm(parameter="armature_scale", distribution=Uniform(low=0.8, high=1.2)),
    RandomTerm(parameter="gain_scale", distribution=Uniform(low=0.9, high=1.1)),
    RandomTerm(parameter="damping_gain_scale", distribution=Uniform(low=0.9, high=1.1)),
    RandomTerm(parameter="encoder_offset_rad", distribution=Uniform(low=-0.02, high=0.02)),
    RandomTerm(parameter="latency_s", distribution=Uniform(low=0.0, high=0.02)),
    RandomTerm(parameter="observation_delay_s", distribution=Uniform(low=0.0, high=0.01)),
    RandomTerm(parameter="joint_vel_noise_rad_s", distribution=Uniform(low=0.0, high=0.5)),
    RandomTerm(parameter="gyro_noise_rad_s", distribution=Uniform(low=0.0, high=0.2)),
    RandomTerm(parameter="gravity_noise", distribution=Uniform(low=0.0, high=0.05)),
    RandomTerm(parameter="initial_joint_pos_rad", distribution=Uniform(low=-0.1, high=0.1)),
    RandomTerm(parameter="initial_yaw_rad", distribution=Uniform(low=-3.1416, high=3.1416)),
    RandomTerm(parameter="initial_base_lin_vel_m_s", distribution=Uniform(low=-0.3, high=0.3)),
    RandomTerm(parameter="push_velocity_m_s", distribution=Uniform(low=0.0, high=0.7), when="interval", interval_s=8.0),
)

PRIVILEGED = (
    lambda truth: truth.base_lin_vel_b,
    lambda truth: 10.0 * (truth.base_height[:, None] - STAND_HEIGHT),
    lambda truth: truth.touching[:, FEET].float(),
    lambda truth: 0.2 * truth.base_ang_vel_b,
)


def go2_velocity() -> Task:
    """Flat ground: 50 Hz position targets, pushes, delays, noise."""
    return Task(
        name="go2-velocity",
        description="walk a Unitree Go2 at a commanded velocity on flat ground, for 20 s without a fall",
        scene=flat_scene,
        period=0.02,
        physics_dt=0.005,
        episode_length=20.0,
        start=standing,
        command=lambda world: VelocityCommand(world, limit=(1.0, 0.5, 1.0), resample_s=(3.0, 8.0), standing=0.1),
        rewards=REWARDS,
        terminations=(TerminationTerm(name="fallen", function=fallen),),
        randomization=RANDOMIZATION,
        success=None,
        metrics=(
            MetricTerm(name="tracks_velocity", unit="1", function=tracks_velocity),
            MetricTerm(name="tracks_turning", unit="1", function=tracks_turning),
        ),
        privileged=PRIVILEGED,
    )
