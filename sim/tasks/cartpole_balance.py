"""Keep a pole upright on a cart that goes where it is told."""

import torch

from isthmus.hardware.robot import load_robot

from ..commands import UniformCommand
from ..engine import EngineState
from ..randomization import RandomTerm, Uniform
from ..scene import Scene
from ..task import MetricTerm, RewardTerm, Success, Task, TerminationTerm
from ..truth import Truth
from ..world import World
from .terms import action_change, alive

CART, POLE = 0, 1  # joints in robot order


def scene() -> Scene:
    """The cart on its rail."""
    return Scene(robot=load_robot("cartpole"))


def start(world: World, ids: torch.Tensor) -> EngineState:
    """Anywhere on the middle of the rail, the pole within 0.3 rad of upright, both moving a little."""
    spread = torch.tensor([1.0, 0.3])
    count = ids.numel()
    return EngineState(
        joint_pos=spread * (2.0 * world.uniform(count, 2) - 1.0),
        joint_vel=0.5 * (2.0 * world.uniform(count, 2) - 1.0),
    )


def cart_error(truth: Truth) -> torch.Tensor:
    """Distance of the cart from where it should be, (N,) m."""
    return (truth.joint_pos[:, CART] - truth.command[:, 0]).abs()


def upright(truth: Truth) -> torch.Tensor:
    """Cosine of the pole's angle, 1."""
    return torch.cos(truth.joint_pos[:, POLE])


def at_place(truth: Truth) -> torch.Tensor:
    """exp(-(error / 0.3 m)^2), 1."""
    return torch.exp(-(cart_error(truth) / 0.3).square())


def pole_speed(truth: Truth) -> torch.Tensor:
    """Squared speed of the pole, (rad/s)^2."""
    return truth.joint_vel[:, POLE].square()


def balanced(truth: Truth) -> torch.Tensor:
    """Pole within 0.1 rad of upright and cart within 0.1 m of its place."""
    return (truth.joint_pos[:, POLE].abs() < 0.1) & (cart_error(truth) < 0.1)


def fallen(truth: Truth) -> torch.Tensor:
    """Pole more than 0.8 rad from upright."""
    return truth.joint_pos[:, POLE].abs() > 0.8


def off_the_rail(truth: Truth) -> torch.Tensor:
    """Cart at an end of its rail."""
    return truth.joint_pos[:, CART].abs() > 1.75


def cartpole_balance() -> Task:
    """The task: 20 ms control, efforts of up to 10 N, with friction, masses, inertia and delay randomised."""
    return Task(
        name="cartpole-balance",
        description="balance a pole on a cart that is told where to be: pole within 0.1 rad and cart within 0.1 m for 2 s",
        scene=scene,
        period=0.02,
        physics_dt=0.01,
        episode_length=8.0,
        start=start,
        command=lambda world: UniformCommand(world, signal="command.cart", low=-1.0, high=1.0),
        rewards=(
            RewardTerm(name="alive", function=alive, weight=1.0),
            RewardTerm(name="upright", function=upright, weight=1.0),
            RewardTerm(name="at_place", function=at_place, weight=2.0),
            RewardTerm(name="pole_speed", function=pole_speed, weight=-0.02),
            RewardTerm(name="action_change", function=action_change, weight=-0.05),
        ),
        terminations=(
            TerminationTerm(name="fallen", function=fallen),
            TerminationTerm(name="off_the_rail", function=off_the_rail),
        ),
        randomization=(
            RandomTerm(parameter="mass_scale", distribution=Uniform(low=0.8, high=1.2)),
            RandomTerm(parameter="payload_kg", distribution=Uniform(low=0.0, high=0.05)),
            RandomTerm(  # the model's rail has next to none; 100 times are 0.05 N s/m
                parameter="friction_scale", distribution=Uniform(low=1.0, high=100.0)
            ),
            RandomTerm(parameter="inertia_scale", distribution=Uniform(low=0.8, high=1.2)),
            RandomTerm(parameter="latency_s", distribution=Uniform(low=0.0, high=0.02)),
            RandomTerm(parameter="encoder_noise_counts", distribution=Uniform(low=0.0, high=0.5)),
        ),
        success=Success(function=balanced, hold=2.0),
        metrics=(MetricTerm(name="cart_error", unit="m", function=cart_error, last=True),),
        privileged=(lambda truth: truth.joint_vel,),
    )
