"""Bring the gripper tip of an SO-101 to a point and keep it there."""

import torch

from isthmus.hardware.robot import load_robot

from ..commands import POOL_SIZE, ReachCommand
from ..engine import EngineState
from ..randomization import LogUniform, RandomTerm, Uniform
from ..scene import Scene
from ..task import Function, MetricTerm, RewardTerm, Success, Task
from ..truth import Truth
from ..world import World
from .terms import action_change, action_size


def near(scale: float) -> Function:
    """exp(-distance / scale), scale in m."""

    def reward(truth: Truth) -> torch.Tensor:
        return torch.exp(-truth.distance / scale)

    reward.__doc__ = f"exp(-distance / {scale:g} m), 1."
    return reward


def speed_near_target(truth: Truth) -> torch.Tensor:
    """Sum of squared joint speeds, counted where the tip is within a few centimetres of the target, (rad/s)^2."""
    return truth.joint_vel.square().sum(-1) * torch.exp(-truth.distance / 0.02)


def within(limit: float) -> Function:
    """Whether the tip is closer to its target than `limit` m."""

    def near_enough(truth: Truth) -> torch.Tensor:
        return truth.distance < limit

    near_enough.__doc__ = f"Tip within {1000 * limit:g} mm of its target."
    return near_enough


def scene() -> Scene:
    """The arm on its table."""
    return Scene(robot=load_robot("so101"))


def start(world: World, ids: torch.Tensor) -> EngineState:
    """At rest in a pose that reaches a random point; the gripper in its default pose."""
    command = world.command
    assert isinstance(command, ReachCommand)
    pose = world.default_pos.repeat(ids.numel(), 1)
    pose[:, world.chain_index] = command.poses[world.integers(POOL_SIZE, ids.numel())]
    return EngineState(joint_pos=pose, joint_vel=torch.zeros_like(pose))


def so101_reach() -> Task:
    """The task. Ranges cover what differs between arms off one bench; encoder offsets are left to calibration."""
    return Task(
        name="so101-reach",
        description="gripper tip to a random reachable point: within 10 mm for 0.5 s",
        scene=scene,
        period=0.02,
        physics_dt=0.005,
        episode_length=3.0,
        start=start,
        command=ReachCommand,
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
        success=Success(function=within(0.010), hold=0.5),
        metrics=(MetricTerm(name="final_distance", unit="m", function=lambda truth: truth.distance, last=True),),
        privileged=(
            lambda truth: 10.0 * (truth.command - truth.tip_pos),
            lambda truth: 0.3 * truth.joint_vel,
            lambda truth: truth.joint_pos,
        ),
    )
