"""Bundles of every kind that isthmus makes, with networks that were not trained."""

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
import torch
from c_networks import TASKS, WITH_MEMORY, WithMemory, network
from torch import nn

from isthmus.policies.compose import compose
from isthmus.policies.contract import Contract, observation_width
from isthmus.policies.contracts import get_contract
from isthmus.policies.learning.export import export_bundle
from isthmus.policies.learning.recipe import provenance
from isthmus.policies.learning.residual import GatedResidual, GateNet, ResidualNet, export_residual
from isthmus.sim.mujoco_engine import MujocoEngine
from isthmus.sim.tasks import get_task
from isthmus.sim.world import World


@pytest.fixture(scope="session")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By task, and "<task> with memory"."""
    folder = tmp_path_factory.mktemp("bundles")
    made = {task: _export(folder / f"{task}.onnx", task, network) for task in TASKS}
    for task, kind in WITH_MEMORY.items():
        name = f"{task} with memory"
        made[name] = _export(
            folder / f"{name}.onnx", task, lambda width, actions, kind=kind: WithMemory(width, actions, kind)
        )
    return made


def _export(path: Path, task: str, make: Callable[[int, int], nn.Module]) -> Path:
    torch.manual_seed(0)
    contract, about = get_contract(task), get_task(task)
    world = World(about, MujocoEngine(about.scene(), 1, dt=about.physics_dt), seed=3)
    net = make(observation_width(contract), len(contract.action.joints))
    export_bundle(path, contract, net, world, provenance(0, 0, None))
    return path


@pytest.fixture(scope="session")
def composed(contract: Contract, base_path: Path) -> bytes:
    """Base, residual and gate in one graph; weights are such that the gate opens and closes."""
    torch.manual_seed(3)
    actions, width = len(contract.action.joints), observation_width(contract)
    module = GatedResidual(ResidualNet(width, actions, alpha=0.8, members=3), GateNet(width, actions, members=3)).eval()
    for net in (module.residual, module.gate):
        net.normalizer.mean.uniform_(-0.1, 0.1)
        net.normalizer.std.uniform_(0.2, 0.5)
        nn.init.normal_(net.net.weights[-1], std=0.8)
    return compose(onnx.load(base_path), export_residual(module, width, actions), contract).SerializeToString()
