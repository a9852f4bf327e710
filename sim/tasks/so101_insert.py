"""Put a peg into a hole with half a millimetre to each side."""

import math
from pathlib import Path

import numpy as np
import torch

from isthmus.hardware.kinematics import tip_position
from isthmus.hardware.robot import load_robot
from isthmus.hardware.workspace import inside

from ..engine import EngineState
from ..randomization import LogUniform, RandomTerm, Uniform
from ..scene import Scene, SceneObject
from ..state import TensorState
from ..task import Function, MetricTerm, RewardTerm, Success, Task
from ..truth import Truth
from ..world import World
from .terms import action_change, action_size

HOLE = Path(__file__).parents[1] / "objects" / "hole.xml"
BOTTOM, ENTRANCE = 0.010, 0.040  # m above the table, of the hole
PEG_TURN = 0.0487  # rad, yaw of the peg's sides in the frame of the last link
POOL_SIZE = 4096


def scene() -> Scene:
    """The arm with its peg, and a block with a hole on the table."""
    hole = SceneObject(name="hole", model_path=HOLE, free=False, pos=(0.24, 0.0, 0.0))
    return Scene(robot=load_robot("so101_peg"), objects=(hole,))


def plumb_poses(world: World, low: float, high: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Poses (POOL_SIZE, m) rad that hold the peg plumb, its sides along the base's axes, and tips (POOL_SIZE, 3) m.

    The three joints between shoulder and wrist turn about parallel axes, so that plumb means that they add up to a right angle.

    Args:
        world: of the robot with the peg.
        low: lowest tip, m above the table.
        high: highest tip, m.
    """
    chain, robot = world.reach_chain(), world.robot
    lower, upper = (robot.array(key)[world.chain_index] for key in ("lower", "upper"))
    rng = np.random.default_rng(world.seed)
    found: list[np.ndarray] = []
    while sum(map(len, found)) < POOL_SIZE:
        pose = rng.uniform(lower, upper, size=(65536, lower.size))
        pose[:, 3] = math.pi / 2 - pose[:, 1] - pose[:, 2]
        pose[:, 4] = pose[:, 0]
        tip = tip_position(chain, pose)
        keep = ((pose > lower + 0.05) & (pose < upper - 0.05)).all(-1) & inside(robot.reach_workspace(), chain, tip)
        found.append(pose[keep & (tip[:, 2] > low) & (tip[:, 2] < high)])
    poses = np.concatenate(found)[:POOL_SIZE]
    return torch.from_numpy(poses).float(), torch.from_numpy(tip_position(chain, poses)).float()


class InsertCommand(TensorState):
    """The bottom of the hole; also where holes may be and poses to start from."""

    signal = "command.target"
    _changing = ("value",)

    def __init__(self, world: World) -> None:
        self._world = world
        self.places = plumb_poses(world, BOTTOM - 0.003, BOTTOM + 0.01)[1]
        self.poses = plumb_poses(world, ENTRANCE + 0.012, 0.078)[0]
        self.value = torch.zeros(world.num_envs, 3)

    def reset(self, ids: torch.Tensor) -> None:
        """See Command."""
        bottom = torch.tensor([0.0, 0.0, BOTTOM])
        self.value[ids] = self._world.engine.fixed_pos("hole")[ids] + bottom

    def step(self) -> None:
        """See Command."""


def start(world: World, ids: torch.Tensor) -> EngineState:
    """The peg above the block, a little turned and tilted; the hole anywhere that a plumb peg reaches."""
    command, count = world.command, ids.numel()
    assert isinstance(command, InsertCommand)
    pose = world.default_pos.repeat(count, 1)
    spread = torch.tensor([0.0, 0.0, 0.0, 0.1, 0.2])
    pose[:, world.chain_index] = command.poses[world.integers(POOL_SIZE, count)] + spread * (
        2.0 * world.uniform(count, 5) - 1.0
    )
    hole = command.places[world.integers(POOL_SIZE, count)].clone()
    hole[:, 2] = 0.0
    return EngineState(joint_pos=pose, joint_vel=torch.zeros_like(pose), fixed_pos={"hole": hole})


def sideways(truth: Truth) -> torch.Tensor:
    """Horizontal distance of the peg's end from the hole's middle, (N,) m."""
    return torch.linalg.vector_norm((truth.tip_pos - truth.command)[:, :2], dim=-1)


def height(truth: Truth) -> torch.Tensor:
    """Height of the peg's end above the hole's bottom, (N,) m."""
    return truth.tip_pos[:, 2] - truth.command[:, 2]


def misalignment(truth: Truth) -> torch.Tensor:
    """Tilt of the peg and turn of its sides against the hole's, added, (N,) rad."""
    rotation = truth.tip_frame[1]
    tilt = torch.arccos(rotation[:, 2, 2].clamp(-1.0, 1.0 - 1e-7))
    turn = torch.atan2(rotation[:, 1, 0], rotation[:, 0, 0]) + PEG_TURN
    return tilt + torch.remainder(turn + math.pi / 4, math.pi / 2).sub(math.pi / 4).abs()


def above(scale: float) -> Function:
    """exp(-sideways / scale), scale in m."""
    return lambda truth: torch.exp(-sideways(truth) / scale)


def aligned(truth: Truth) -> torch.Tensor:
    """exp(-misalignment / 0.1 rad), 1."""
    return torch.exp(-misalignment(truth) / 0.1)


def depth(truth: Truth) -> torch.Tensor:
    """How far down the peg is, where it is over the hole, share of the way from 3 cm above the entrance, 1."""
    way = ENTRANCE - BOTTOM + 0.03
    return (1.0 - height(truth) / way).clamp(0.0, 1.0) * torch.exp(-sideways(truth) / 0.004)


def inserted(truth: Truth) -> torch.Tensor:
    """The peg's end is within 5 mm of the hole's bottom."""
    return (height(truth) < 0.005) & (sideways(truth) < 0.002)


def so101_insert() -> Task:
    """The task: 50 Hz, friction, gain, latency and encoder noise randomised; contact-rich."""
    return Task(
        name="so101-insert",
        description="peg of 12 mm into a hole of 13 mm: within 5 mm of the bottom for 0.3 s",
        scene=scene,
        period=0.02,
        physics_dt=0.005,
        episode_length=4.0,
        start=start,
        command=InsertCommand,
        rewards=(
            RewardTerm(name="above_far", function=above(0.1), weight=0.5),
            RewardTerm(name="above", function=above(0.01), weight=1.0),
            RewardTerm(name="aligned", function=aligned, weight=0.5),
            RewardTerm(name="depth", function=depth, weight=4.0),
            RewardTerm(name="inserted", function=lambda truth: inserted(truth).float(), weight=2.0),
            RewardTerm(name="action_size", function=action_size, weight=-0.01),
            RewardTerm(name="action_change", function=action_change, weight=-0.02),
        ),
        randomization=(
            RandomTerm(parameter="friction_scale", distribution=LogUniform(low=0.6, high=1.7)),
            RandomTerm(parameter="gain_scale", distribution=Uniform(low=0.8, high=1.25)),
            RandomTerm(parameter="contact_friction_scale", distribution=Uniform(low=0.5, high=1.5)),
            RandomTerm(parameter="latency_s", distribution=Uniform(low=0.003, high=0.02)),
            RandomTerm(parameter="encoder_noise_counts", distribution=Uniform(low=0.0, high=0.3)),
        ),
        success=Success(function=inserted, hold=0.3),
        metrics=(
            MetricTerm(name="final_height", unit="m", function=height, last=True),
            MetricTerm(name="final_sideways", unit="m", function=sideways, last=True),
        ),
        privileged=(
            lambda truth: 10.0 * (truth.command - truth.tip_pos),
            lambda truth: 200.0 * (truth.command - truth.tip_pos).clamp(-0.01, 0.01),
            lambda truth: truth.tip_frame[1].reshape(-1, 9),
            lambda truth: 0.3 * truth.joint_vel,
        ),
    )
