"""What every Engine must do. A test module gives `make(num_envs) -> Engine` and calls these."""

import numpy as np
import torch

from isthmus.sim.engine import ENGINE_PARAMETERS


def shapes_and_types(make):
    engine = make(3)
    n = len(engine.robot.joints)
    for tensor in (engine.joint_pos(), engine.joint_vel()):
        assert tensor.shape == (3, n) and tensor.dtype == torch.float32
    assert engine.failed().shape == (3,) and engine.failed().dtype == torch.bool


def reset_touches_only_its_environments(make):
    engine = make(4)
    n = len(engine.robot.joints)
    engine.step(torch.full((4, n), 0.3))
    before = engine.joint_pos().clone()
    engine.reset(torch.tensor([1, 3]), torch.full((2, n), 0.1), torch.full((2, n), -0.2))
    after = engine.joint_pos()
    assert torch.equal(after[[0, 2]], before[[0, 2]])
    assert torch.allclose(after[[1, 3]], torch.tensor(0.1)) and torch.allclose(
        engine.joint_vel()[1], torch.tensor(-0.2)
    )


def parameters_act_in_their_environment_only(make):
    for name in ENGINE_PARAMETERS:
        engine = make(2)
        n = len(engine.robot.joints)
        pose = torch.tensor([[0.0, 0.4, -0.4, 0.5, 0.0, 0.0]]).repeat(2, 1)[:, :n]
        value = 0.1 if name == "payload_kg" else 1.5
        engine.set_parameter(name, torch.tensor([value]), torch.tensor([1]))
        engine.reset(torch.arange(2), pose, torch.zeros(2, n))
        reference = make(1)
        reference.reset(torch.arange(1), pose[:1], torch.zeros(1, n))
        for _ in range(20):
            engine.step(torch.full((2, n), 0.5))
            reference.step(torch.full((1, n), 0.5))
        assert torch.equal(engine.joint_pos()[0], reference.joint_pos()[0]), name
        assert (engine.joint_pos()[1] - reference.joint_pos()[0]).abs().max() > 1e-4, name


def unknown_parameters_are_named(make):
    engine = make(1)
    try:
        engine.set_parameter("colour", torch.ones(1), torch.arange(1))
    except KeyError as error:
        assert "colour" in str(error) and "payload_kg" in str(error)
    else:
        raise AssertionError("an unknown parameter was accepted")


def a_failed_environment_is_reported_and_comes_back(make):
    engine = make(3)
    n = len(engine.robot.joints)
    engine.reset(torch.tensor([1]), torch.full((1, n), float("nan")), torch.zeros(1, n))
    engine.step(torch.zeros(3, n))
    assert engine.failed().tolist() == [False, True, False]
    engine.reset(torch.tensor([1]), torch.zeros(1, n), torch.zeros(1, n))
    engine.step(torch.zeros(3, n))
    assert not engine.failed().any() and bool(torch.isfinite(engine.joint_pos()).all())


def same_inputs_give_the_same_bits(make):
    runs = []
    for _ in range(2):
        engine = make(8)
        generator = torch.Generator().manual_seed(3)
        for _ in range(30):
            engine.step(torch.randn(8, len(engine.robot.joints), generator=generator))
        runs.append(engine.joint_pos().numpy().copy())
    assert np.array_equal(runs[0], runs[1])


CONTRACT = (
    shapes_and_types,
    reset_touches_only_its_environments,
    parameters_act_in_their_environment_only,
    unknown_parameters_are_named,
    a_failed_environment_is_reported_and_comes_back,
    same_inputs_give_the_same_bits,
)
