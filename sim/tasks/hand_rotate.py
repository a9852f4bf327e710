"""Turn a cube on the palm about the palm's normal, without dropping it."""

from pathlib import Path

import torch

from isthmus.hardware.robot import load_robot

from ..commands import UniformCommand
from ..engine import EngineState, FreeState
from ..randomization import RandomTerm, Uniform
from ..rotations import from_yaw, rotate, world_z_in_body
from ..scene import Scene, SceneObject
from ..task import MetricTerm, RewardTerm, Task, TerminationTerm
from ..truth import Truth
from ..world import World
from .terms import action_change, alive

CUBE = Path(__file__).parents[1] / "objects" / "cube.xml"
PLACE = (-0.02, 0.0, 0.141)  # m, world: where the cube rests on palm and fingers in the default pose


def scene() -> Scene:
    """The hand, palm up, with the cube."""
    cube = SceneObject(name="cube", model_path=CUBE, free=True, pos=PLACE)
    return Scene(robot=load_robot("hand"), objects=(cube,))


def start(world: World, ids: torch.Tensor) -> EngineState:
    """Fingers near their default pose, the cube on the palm, turned by up to 0.3 rad."""
    count = ids.numel()
    pose = world.default_pos + 0.05 * (2.0 * world.uniform(count, world.num_joints) - 1.0)
    zero = torch.zeros(count, 3)
    cube = FreeState(
        pos=torch.tensor(PLACE) + torch.tensor([0.003, 0.003, 0.0]) * (2.0 * world.uniform(count, 3) - 1.0),
        quat=from_yaw(0.3 * (2.0 * world.uniform(count) - 1.0)),
        lin_vel=zero,
        ang_vel=zero,
    )
    return EngineState(joint_pos=pose, joint_vel=torch.zeros_like(pose), free={"cube": cube})


def spin(truth: Truth) -> torch.Tensor:
    """Angular velocity of the cube about the vertical, (N,) rad/s."""
    cube = truth.object("cube")
    return rotate(cube.quat, cube.ang_vel)[:, 2]


def turning(truth: Truth) -> torch.Tensor:
    """Spin in the wanted direction, up to the wanted speed, in shares of it, 1."""
    wanted = truth.command[:, 0]
    return (spin(truth) / wanted).clamp(-1.0, 1.0)


def rolling(truth: Truth) -> torch.Tensor:
    """Squared angular velocity of the cube about horizontal axes, (rad/s)^2, at most 25."""
    cube = truth.object("cube")
    return rotate(cube.quat, cube.ang_vel)[:, :2].square().sum(-1).clamp(max=25.0)


def away(truth: Truth) -> torch.Tensor:
    """Distance of the cube from its place, (N,) m."""
    return torch.linalg.vector_norm(truth.object("cube").pos - torch.tensor(PLACE), dim=-1)


def tips_to_cube(truth: Truth) -> torch.Tensor:
    """Mean over fingers of exp(-(distance of the tip from the cube's middle - 3.5 cm) / 2 cm), 1."""
    distance = torch.linalg.vector_norm(truth.contact_pos_w - truth.object("cube").pos[:, None], dim=-1)
    return torch.exp(-(distance - 0.035).clamp_min(0.0) / 0.02).mean(-1)


def torque(truth: Truth) -> torch.Tensor:
    """Sum of squared joint torques, (N m)^2."""
    return truth.effort.square().sum(-1)


def pose_error(truth: Truth) -> torch.Tensor:
    """Sum of squared distances from the default pose, rad^2."""
    return truth.joint_offset.square().sum(-1)


def dropped(truth: Truth) -> torch.Tensor:
    """The cube is 6 cm from its place, or below the palm."""
    return away(truth) > 0.06


def hand_rotate() -> Task:
    """The task: 20 Hz increments of sixteen joint targets; the actor feels its joints alone."""
    return Task(
        name="hand-rotate",
        description="turn a cube on the palm of a sixteen-joint hand at a commanded speed, by feel",
        scene=scene,
        period=0.05,
        physics_dt=0.005,
        episode_length=10.0,
        start=start,
        command=lambda world: UniformCommand(world, signal="command.spin", low=0.5, high=1.0),
        rewards=(
            RewardTerm(name="turning", function=turning, weight=3.0),
            RewardTerm(name="rolling", function=rolling, weight=-0.05),
            RewardTerm(name="tips_to_cube", function=tips_to_cube, weight=0.5),
            RewardTerm(name="alive", function=alive, weight=1.5),  # else dropping the cube ends what costs
            RewardTerm(name="away", function=away, weight=-10.0),
            RewardTerm(name="torque", function=torque, weight=-0.1),
            RewardTerm(name="pose_error", function=pose_error, weight=-0.05),
            RewardTerm(name="action_change", function=action_change, weight=-0.01),
        ),
        terminations=(TerminationTerm(name="dropped", function=dropped),),
        randomization=(
            RandomTerm(parameter="contact_friction_scale", distribution=Uniform(low=0.7, high=1.3)),
            RandomTerm(parameter="object_mass_scale", distribution=Uniform(low=0.6, high=1.4)),
            RandomTerm(parameter="friction_scale", distribution=Uniform(low=0.5, high=1.5)),
            RandomTerm(parameter="gain_scale", distribution=Uniform(low=0.9, high=1.1)),
            RandomTerm(parameter="latency_s", distribution=Uniform(low=0.0, high=0.02)),
            RandomTerm(parameter="encoder_offset_rad", distribution=Uniform(low=-0.02, high=0.02)),
        ),
        success=None,
        metrics=(
            MetricTerm(name="spin", unit="rad/s", function=spin),
            MetricTerm(name="turning", unit="1", function=turning),
        ),
        privileged=(
            lambda truth: 20.0 * (truth.object("cube").pos - torch.tensor(PLACE)),
            lambda truth: truth.object("cube").quat,
            lambda truth: world_z_in_body(truth.object("cube").quat),
            lambda truth: truth.object("cube").ang_vel,
            lambda truth: truth.object("cube").lin_vel * 5.0,
            lambda truth: 20.0 * (truth.contact_pos_w - truth.object("cube").pos[:, None]).flatten(1),
            lambda truth: truth.touching.float(),
            lambda truth: 0.2 * truth.joint_vel,
        ),
    )
