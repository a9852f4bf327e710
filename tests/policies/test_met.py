"""What a policy met in training is kept in its bundle."""

import numpy as np
import torch

from isthmus.policies.contract import observation_width
from isthmus.policies.contracts import get_contract
from isthmus.policies.learning.graph import PolicyGraph
from isthmus.policies.learning.met import PROBABILITIES, Met, observe_training
from isthmus.sim.engines import make_engine
from isthmus.sim.tasks import get_task
from isthmus.sim.world import World


def met_by_a_random_network(task_name, count=6):
    torch.manual_seed(0)
    contract, task = get_contract(task_name), get_task(task_name)
    network = torch.nn.Linear(observation_width(contract), len(contract.action.joints))
    world = World(task, make_engine("mujoco", task.scene(), count, dt=task.physics_dt), seed=3)
    return contract, world, observe_training(PolicyGraph(contract, network).eval(), world)


def test_quantiles_are_those_of_numpy_and_of_every_value():
    rng = np.random.default_rng(0)
    signal = rng.normal(size=(40, 5, 3))
    told = Met(signals={"gyro": signal}, observation=signal[..., :2]).distribution()
    assert told.probabilities == PROBABILITIES and told.ticks == 200
    np.testing.assert_allclose(
        told.signals[0].quantiles, np.quantile(signal.reshape(-1, 3), PROBABILITIES, axis=0).T, rtol=1e-5
    )
    assert len(told.observation) == 2


def test_every_signal_of_a_walking_robot_is_there_and_the_envelope_is_where_episodes_start():
    contract, world, met = met_by_a_random_network("go2-velocity")
    told, envelope = met.distribution(), met.envelope(contract)
    assert [row.name for row in told.signals] == list(contract.signals)
    assert all(len(row.quantiles) == contract.signal_width(row.name) for row in told.signals)
    assert len(told.observation) == observation_width(contract)
    default = world.default_pos.numpy()
    assert (np.array(envelope.joint_pos_low) < default + 0.3).all() and (
        np.array(envelope.joint_pos_high) > default - 0.3
    ).all()
    assert envelope.tilt is not None and envelope.tilt < 0.5 and envelope.turn_rate is not None


def test_robots_that_fell_start_anew_so_that_falling_is_not_taken_for_walking():
    _, _, met = met_by_a_random_network("go2-velocity")
    upright = -met.signals["gravity"][..., 2]
    assert upright.mean() > 0.5


def test_a_robot_without_an_imu_has_no_tilt():
    contract, _, met = met_by_a_random_network("so101-reach")
    envelope = met.envelope(contract)
    assert envelope.tilt is None and envelope.turn_rate is None
