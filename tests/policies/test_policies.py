"""Every implementation of Policy keeps the Policy contract, and every task has a contract that fits it."""

import numpy as np
import pytest
from policy_contract import CONTRACT
from torch import nn

from isthmus.hardware.errors import IsthmusError
from isthmus.hardware.robot import load_robot
from isthmus.policies.bundle import load_bundle
from isthmus.policies.contract import JointIncrement, bind, observation_width
from isthmus.policies.contract_checks import check_contract
from isthmus.policies.contracts import get_contract
from isthmus.policies.learning.export import export_bundle
from isthmus.policies.manifest import Provenance
from isthmus.policies.trajectory import TrajectoryPolicy
from isthmus.sim.mujoco_engine import MujocoEngine
from isthmus.sim.scene import Scene
from isthmus.sim.tasks import get_task, tasks
from isthmus.sim.world import World

ROBOT = load_robot("so101")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    task, contract = get_task("so101-reach"), get_contract("so101-reach")
    network = nn.Sequential(nn.Linear(observation_width(contract), 8), nn.Tanh(), nn.Linear(8, 5))
    provenance = Provenance(
        created="2026-01-01", isthmus="0", trainer="t", seed=0, environment_steps=0, simulated_success=None
    )
    world = World(task, MujocoEngine(Scene(robot=ROBOT), 1, dt=task.physics_dt), seed=0)
    path = tmp_path_factory.mktemp("policy") / "p.onnx"
    export_bundle(path, contract, network, world, provenance)
    return path


def trajectory():
    policy = TrajectoryPolicy(joint_names=ROBOT.joint_names, period_ns=20_000_000)
    policy.load(np.linspace(0.0, 0.1, 12).reshape(2, 6))
    return policy


@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
def test_a_bundle_keeps_the_policy_contract(check, bundle):
    check(lambda: load_bundle(bundle).policy())


@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
def test_a_trajectory_keeps_the_policy_contract(check):
    check(trajectory)


@pytest.mark.parametrize("task", tasks().values(), ids=lambda task: task.name)
def test_every_task_has_a_contract_that_fits_robot_period_and_latency(task):
    contract = get_contract(task.name)
    check_contract(contract)
    assert set(contract.signals) <= set(World(task, MujocoEngine(task.scene(), 1, dt=task.physics_dt), seed=0).read())
    assert bind(contract, task.scene().robot) == list(range(len(contract.joints)))
    assert contract.period_ns == round(task.period * 1e9)
    latency = next(t.distribution.support for t in task.randomization if t.parameter == "latency_s")
    assert contract.latency_s == latency
    if isinstance(contract.action, JointIncrement):
        speed = contract.action.scale / task.period
        assert all(speed <= joint.velocity_limit + 1e-9 for joint in contract.joints)


def test_an_unknown_task_is_named_with_the_known_ones():
    with pytest.raises(IsthmusError, match=r"so101-juggle.*so101-reach"):
        get_contract("so101-juggle")
    with pytest.raises(IsthmusError, match=r"so101-juggle.*so101-reach"):
        get_task("so101-juggle")
