"""What every Policy must do. A test module gives `make() -> Policy` and calls these."""

import numpy as np
import pytest


def example_signals(policy, seed=0):
    rng = np.random.default_rng(seed)
    n = len(policy.joint_names)
    pose = rng.uniform(-0.3, 0.3, n)
    return {
        "joint_pos": pose,
        "joint_vel": rng.normal(0.0, 0.1, n),
        "joint_target": pose + rng.normal(0.0, 0.01, n),
        "command.target": np.array([0.25, 0.05, 0.15]),
    }


def says_who_it_is(make):
    policy = make()
    assert policy.policy_id and len(set(policy.joint_names)) == len(policy.joint_names)
    assert policy.period_ns > 0 and policy.num_actions >= 0


def proposes_finite_float64_targets_of_the_right_shape(make):
    policy = make()
    output = policy.act(example_signals(policy))
    assert output.joint_target.shape == (len(policy.joint_names),) and output.joint_target.dtype == np.float64
    assert np.isfinite(output.joint_target).all()
    for action in (output.base_action, output.residual_action):
        assert action.shape == (policy.num_actions,)
    assert isinstance(output.gate, float) and isinstance(output.gate_prob, float)


def leaves_its_inputs_alone(make):
    policy = make()
    signals = example_signals(policy)
    before = {name: value.copy() for name, value in signals.items()}
    policy.act(signals)
    assert all(np.array_equal(signals[name], before[name]) for name in before)


def reset_makes_an_episode_repeatable(make):
    policy = make()
    runs = []
    for _ in range(2):
        policy.reset()
        runs.append([policy.act(example_signals(policy, seed)).joint_target.copy() for seed in range(5)])
    np.testing.assert_array_equal(runs[0], runs[1])


def outputs_are_not_overwritten_by_the_next_call(make):
    policy = make()
    first = policy.act(example_signals(policy, 0)).joint_target
    kept = first.copy()
    policy.act(example_signals(policy, 1))
    np.testing.assert_array_equal(first, kept)


def names_a_missing_signal(make):
    policy = make()
    signals = example_signals(policy)
    del signals["joint_target"]
    with pytest.raises(KeyError, match="joint_target"):
        policy.act(signals)


CONTRACT = (
    says_who_it_is,
    proposes_finite_float64_targets_of_the_right_shape,
    leaves_its_inputs_alone,
    reset_makes_an_episode_repeatable,
    outputs_are_not_overwritten_by_the_next_call,
    names_a_missing_signal,
)
