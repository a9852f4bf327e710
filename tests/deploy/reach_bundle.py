"""Policies without training, as bundles: the tip goes towards the target by the transpose of the Jacobian."""

from dataclasses import replace
from pathlib import Path

import torch

from isthmus.hardware.kinematics import joint_frames
from isthmus.hardware.robot import load_robot
from isthmus.policies.bundle import Bundle
from isthmus.policies.contract import Contract, ObservationTerm, history
from isthmus.policies.contracts.so101_reach import so101_reach
from isthmus.policies.learning.export import export_bundle
from isthmus.policies.manifest import Provenance
from isthmus.sim.mujoco_engine import MujocoEngine
from isthmus.sim.scene import Scene
from isthmus.sim.tasks import get_task
from isthmus.sim.world import World

PROVENANCE = Provenance(
    created="2026-01-01T00:00:00+00:00",
    isthmus="0.1.0",
    trainer="none",
    seed=0,
    environment_steps=0,
    simulated_success=None,
)


class TowardsTarget(torch.nn.Module):
    """Action = gain * J(q)^T (target - tip(q)); NaN where the x of the target is `nan_at_x`, m, and nowhere else."""

    default_pos: torch.Tensor

    def __init__(self, contract: Contract, gain: float, nan_at_x: float | None) -> None:
        super().__init__()
        self.chain, self.gain, self.width = contract.reach_chain(), gain, len(contract.action.joints)
        self.nan_at_x = nan_at_x
        defaults = {joint.name: joint.default_pos for joint in contract.joints}
        self.register_buffer("default_pos", torch.tensor([defaults[name] for name in contract.action.joints]))

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        rotations, origins, tip = joint_frames(self.chain, observation[:, : self.width] + self.default_pos, torch)
        error = observation[:, -3:] - tip
        columns = []
        for link, rotation, origin in zip(self.chain.links, rotations, origins, strict=True):
            axis = rotation @ torch.tensor(link.axis)
            columns.append((torch.linalg.cross(axis, tip - origin) * error).sum(dim=-1, keepdim=True))
        action = self.gain * torch.cat(columns, dim=-1)
        if self.nan_at_x is None:
            return action
        distance = observation[:, -3:-2] - self.nan_at_x
        return action * (distance / distance)


def reach_contract() -> Contract:
    """The task's contract, with an observation that this network can read."""
    observation = (
        ObservationTerm(name="joint_pos", scale=1.0),
        ObservationTerm(name="joint_vel", scale=1.0),
        ObservationTerm(name="joint_lead", scale=1.0, lags=history(2)),
        ObservationTerm(name="target", scale=1.0),
    )
    return replace(so101_reach(), observation=observation)


def write_reach_bundle(
    path: Path, contract: Contract | None = None, *, gain: float = 40.0, nan_at_x: float | None = None
) -> Bundle:
    """A working bundle with golden rows of the simulator."""
    contract = reach_contract() if contract is None else contract
    world = World(get_task(contract.task), MujocoEngine(Scene(robot=load_robot("so101")), 1), seed=0)
    return export_bundle(path, contract, TowardsTarget(contract, gain, nan_at_x), world, PROVENANCE)
