"""Bring the gripper tip of an SO-101 to a point and keep it there."""

import torch

from ..randomization import LogUniform, RandomTerm, Uniform
from ..task import RewardTerm, Task, TaskState


def near(scale: float):  # noqa: ANN201
    """exp(-distance / scale), scale in m."""

    def reward(state: TaskState) -> torch.Tensor:
        return torch.exp(-state.distance / scale)

    return reward


def action_size(state: TaskState) -> torch.Tensor:
    """Sum of squared actions."""
    return state.action.square().sum(-1)


def action_change(state: TaskState) -> torch.Tensor:
    """Sum of squared changes of the action."""
    return (state.action - state.last_action).square().sum(-1)


def speed_near_target(state: TaskState) -> torch.Tensor:
    """Sum of squared joint speeds, counted where the tip is within a few centimetres of the target, (rad/s)^2."""
    return state.joint_vel.square().sum(-1) * torch.exp(-state.distance / 0.02)


def so101_reach() -> Task:
    """The task. Ranges cover what differs between arms off one bench; encoder offsets are left to calibration."""
    return Task(
        name="so101-reach",
        robot="so101",
        description="gripper tip to a random reachable point: within 10 mm for 0.5 s",
        period=0.02,
        physics_dt=0.005,
        episode_length=3.0,
        rewards=(
            RewardTerm(name="far", function=near(0.2), weight=0.5),
            RewardTerm(name="near", function=near(0.05), weight=1.0),
            RewardTerm(name="close", function=near(0.01), weight=1.5),
            RewardTerm(name="action_size", function=action_size, weight=-0.01),
            RewardTerm(name="action_change", function=action_change, weight=-0.04),
            RewardTerm(name="speed_near_target", function=speed_near_target, weight=-0.02),
        ),
        randomization=(
            RandomTerm(parameter="friction_scale", distribution=LogUniform(low=0.45, high=2.2)),
            RandomTerm(parameter="gain_scale", distribution=Uniform(low=0.6, high=1.45)),
            RandomTerm(parameter="payload_kg", distribution=Uniform(low=0.0, high=0.15)),
            RandomTerm(parameter="armature_scale", distribution=Uniform(low=0.9, high=1.1)),
            RandomTerm(parameter="mass_scale", distribution=Uniform(low=0.95, high=1.05)),
            RandomTerm(parameter="latency_s", distribution=Uniform(low=0.003, high=0.045)),
            RandomTerm(parameter="observation_delay_s", distribution=Uniform(low=0.0, high=0.004)),
            RandomTerm(parameter="encoder_noise_counts", distribution=Uniform(low=0.0, high=0.5)),
        ),
        success_distance=0.010,
        success_time=0.5,
    )
