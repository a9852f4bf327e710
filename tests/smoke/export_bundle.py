"""Writes the bundle that core.py runs: `python export_bundle.py BUNDLE`, in the training environment.

The network is not trained: what is tried is that a bundle made here loads and drives there.
"""

import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import torch

from isthmus.hardware.robot import load_robot
from isthmus.policies.contract import observation_width
from isthmus.policies.contracts.so101_reach import so101_reach
from isthmus.policies.learning.export import export_bundle
from isthmus.policies.manifest import Provenance
from isthmus.sim.mujoco_engine import MujocoEngine
from isthmus.sim.scene import Scene
from isthmus.sim.tasks import get_task
from isthmus.sim.world import World

SEED = 0


def main() -> None:
    """Export a small random network."""
    torch.manual_seed(SEED)
    contract = so101_reach()
    network = torch.nn.Sequential(
        torch.nn.Linear(observation_width(contract), 16),
        torch.nn.ELU(),
        torch.nn.Linear(16, len(contract.action.joints)),
    )
    world = World(get_task(contract.task), MujocoEngine(Scene(robot=load_robot(contract.robot)), 1), seed=SEED)
    provenance = Provenance(
        created=datetime.now(UTC).isoformat(),
        isthmus=version("isthmus"),
        trainer="none",
        seed=SEED,
        environment_steps=0,
        simulated_success=None,
    )
    bundle = export_bundle(Path(sys.argv[1]), contract, network, world, provenance)
    print(f"{bundle.path}: {bundle.path.stat().st_size} bytes, {bundle.sha256}")


if __name__ == "__main__":
    main()
