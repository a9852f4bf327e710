"""Bundles of every kind that isthmus makes, with networks that were not trained."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from c_networks import TASKS, WITH_MEMORY, WithMemory, network
from c_policies import OnnxPolicy
from torch import nn

from isthmus.policies.bundle import Bundle, load_bundle
from isthmus.policies.bundle_writer import write_bundle
from isthmus.policies.compose import compose
from isthmus.policies.contract import Contract, observation_width
from isthmus.policies.contracts import get_contract
from isthmus.policies.learning.export import export_bundle
from isthmus.policies.learning.recipe import provenance
from isthmus.policies.learning.residual import GatedResidual, GateNet, ResidualNet, export_residual
from isthmus.policies.manifest import ResidualInfo, StateSpec
from isthmus.sim.mujoco_engine import MujocoEngine
from isthmus.sim.tasks import get_task
from isthmus.sim.world import World


@pytest.fixture(scope="session")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By task, "<task> with memory" and "so101-reach with residual"."""
    folder = tmp_path_factory.mktemp("bundles")
    made = {task: _export(folder / f"{task}.onnx", task, network) for task in TASKS}
    for task, kind in WITH_MEMORY.items():
        name = f"{task} with memory"
        made[name] = _export(
            folder / f"{name}.onnx", task, lambda width, actions, kind=kind: WithMemory(width, actions, kind)
        )
    made["so101-reach with residual"] = _with_residual(load_bundle(made["so101-reach"]), folder / "composed.onnx")
    return made


def _export(path: Path, task: str, make: Callable[[int, int], nn.Module]) -> Path:
    torch.manual_seed(0)
    contract, about = get_contract(task), get_task(task)
    world = World(about, MujocoEngine(about.scene(), 1, dt=about.physics_dt), seed=3)
    net = make(observation_width(contract), len(contract.action.joints))
    export_bundle(path, contract, net, world, provenance(0, 0, None))
    return path


def _with_residual(base: Bundle, path: Path) -> Path:
    """A bundle on top of another; its golden rows are what onnxruntime makes of the base's."""
    contract = base.manifest.contract
    model = compose(onnx.load(str(base.path)), _residual(contract), contract)
    data, outputs = model.SerializeToString(), ("joint_target_next", "base_action", "residual_action", "gate")
    policy, signals = OnnxPolicy(data, outputs), {name: base.golden[name] for name in contract.signals}
    rows = [policy.step({n: v[k] for n, v in signals.items()}) for k in range(len(base.golden["base_action"]))]
    about = ResidualInfo(base_sha256=base.sha256, alpha=0.8, gate_on=0.5, gate_off=0.3, episodes=0)
    states = (*base.manifest.states, StateSpec(name="gate", width=1))
    golden = {**signals, **{name: np.stack([row[name] for row in rows]) for name in outputs}}
    write_bundle(path, model, replace(base.manifest, states=states, residual=about), golden)
    return path


def _residual(contract: Contract) -> onnx.ModelProto:
    """Weights are such that the gate opens and closes."""
    torch.manual_seed(3)
    actions, width = len(contract.action.joints), observation_width(contract)
    module = GatedResidual(ResidualNet(width, actions, alpha=0.8, members=3), GateNet(width, actions, members=3)).eval()
    for net in (module.residual, module.gate):
        net.normalizer.mean.uniform_(-0.1, 0.1)
        net.normalizer.std.uniform_(0.2, 0.5)
        nn.init.normal_(net.net.weights[-1], std=0.8)
    return export_residual(module, width, actions)


@pytest.fixture(scope="session")
def composed(contract: Contract, base_path: Path) -> bytes:
    """Base, residual and gate in one graph; the base is not a network but the arm's Jacobian."""
    return compose(onnx.load(str(base_path)), _residual(contract), contract).SerializeToString()
