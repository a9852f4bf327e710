"""A policy with memory as a bundle: onnxruntime and torch agree over an episode."""

import numpy as np
import pytest
import torch
from torch import nn

from isthmus.policies.bundle import load_bundle
from isthmus.policies.contract import observation_width
from isthmus.policies.contracts import contracts, get_contract
from isthmus.policies.learning.export import export_bundle
from isthmus.policies.learning.recipe import provenance
from isthmus.sim.mujoco_engine import MujocoEngine
from isthmus.sim.tasks import get_task
from isthmus.sim.world import World


class Remembers(nn.Module):
    """A small GRU in the form that deployed networks have."""

    def __init__(self, width, actions):
        super().__init__()
        self.state_widths = {"hidden": 2 * 8}
        self.gru, self.out = nn.GRU(width, 8, num_layers=2), nn.Linear(8, actions)

    def forward(self, observation, hidden):
        layers = hidden.reshape(-1, 2, 8).transpose(0, 1).contiguous()
        output, layers = self.gru(observation.unsqueeze(0), layers)
        return self.out(output.squeeze(0)), layers.transpose(0, 1).reshape(-1, 16)


def world_of(task):
    return World(task, MujocoEngine(task.scene(), 1, dt=task.physics_dt), seed=3)


def test_memory_is_a_state_of_the_bundle_and_changes_what_it_does(tmp_path):
    contract, task = get_contract("go2-velocity"), get_task("go2-velocity")
    torch.manual_seed(0)
    network = Remembers(observation_width(contract), 12)
    path = tmp_path / "policy.onnx"
    export_bundle(path, contract, network, world_of(task), provenance(0, 0, None))
    bundle = load_bundle(path)  # replays the golden rows: consecutive ticks of torch itself
    assert "network.hidden" in {state.name for state in bundle.manifest.states}
    policy = bundle.policy()
    signals = {name: rows[0] for name, rows in bundle.golden.items() if name in contract.signals}
    first, second = policy.run(signals)["base_action"], policy.run(signals)["base_action"]
    policy.reset()
    again = policy.run(signals)["base_action"]
    assert np.array_equal(first, again) and not np.allclose(first, second, atol=1e-3)


@pytest.mark.parametrize("contract", contracts(), ids=lambda contract: contract.task)
def test_every_tasks_policy_becomes_a_bundle_that_repeats_its_golden_rows(contract, tmp_path):
    torch.manual_seed(1)
    network = nn.Sequential(
        nn.Linear(observation_width(contract), 16), nn.ELU(), nn.Linear(16, len(contract.action.joints))
    )
    path = tmp_path / "policy.onnx"
    export_bundle(path, contract, network, world_of(get_task(contract.task)), provenance(1, 0, None))
    bundle = load_bundle(path)
    moved = bundle.golden[f"{contract.action.target}_next"]
    assert moved.shape[1] == contract.signal_width(contract.action.target) and moved.std() > 0
