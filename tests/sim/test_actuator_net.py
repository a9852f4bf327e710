"""The network that runs is the network that was trained, on the history that it was trained on."""

import pytest
import torch
from actuator_nets import mlp, save_net

from isthmus.sim.actuator_net import ActuatorNet, ActuatorNetError, net_inputs

DT = 0.005


def test_the_net_gives_what_torch_gives_for_every_joint_and_environment(tmp_path):
    """Histories of three samples, 10 ms apart, kept as plain lists here."""
    net = mlp(6)
    actuator = ActuatorNet(save_net(net, tmp_path / "net.onnx", 6), 5, 4, interval=0.01, dt=DT)
    generator = torch.Generator().manual_seed(1)
    errors, velocities = [], []
    for step in range(12):
        errors.append(torch.randn(5, 4, generator=generator))
        velocities.append(torch.randn(5, 4, generator=generator))
        effort = actuator.effort(errors[-1], velocities[-1])
        ages = [max(step - 2 * k, 0) for k in range(3)]  # before the first step, the first stands for all
        rows = torch.stack([*(errors[age] for age in ages), *(velocities[age] for age in ages)], dim=-1)
        torch.testing.assert_close(effort, net(rows)[..., 0].detach(), atol=1e-5, rtol=1e-5)


def test_a_reset_forgets_the_history_of_its_own_environments(tmp_path):
    path = save_net(mlp(4), tmp_path / "net.onnx", 4)
    actuator, new = (ActuatorNet(path, 2, 1, interval=DT, dt=DT) for _ in range(2))
    actuator.effort(torch.ones(2, 1), torch.ones(2, 1))
    actuator.reset(torch.tensor([1]))
    sample = torch.full((2, 1), 0.3), torch.full((2, 1), -0.2)
    after, fresh = actuator.effort(*sample), new.effort(*sample)
    assert torch.equal(after[1], fresh[1])
    assert not torch.allclose(after[0], fresh[0])


def test_what_a_net_needs_can_be_asked(tmp_path):
    inputs = net_inputs(save_net(mlp(6), tmp_path / "net.onnx", 6), interval=0.01)
    assert (inputs.samples, inputs.memory) == (3, 0.02)
    assert str(inputs) == "position error (target - position, rad) and velocity (rad/s) 0, 10, 20 ms ago, in this order"


@pytest.mark.parametrize(
    ("width", "outputs", "options"),
    [
        (5, 1, {}),  # odd
        (6, 2, {}),
        (6, 1, {"names": ("obs", "effort")}),
        (6, 1, {"names": ("history", "torque")}),
        (6, 1, {"free_rows": False}),
        (6, 1, {"dtype": torch.float64}),
    ],
)
def test_a_graph_of_another_form_is_refused_with_its_own_form_and_the_expected_one(tmp_path, width, outputs, options):
    path = save_net(mlp(width, outputs), tmp_path / "net.onnx", width, **options)
    with pytest.raises(ActuatorNetError, match=r"net\.onnx: inputs \[.*\], outputs \[.*\]; expected one float32 input"):
        ActuatorNet(path, 1, 1, interval=DT, dt=DT)


def test_a_file_that_is_no_network_is_refused(tmp_path):
    with pytest.raises(ActuatorNetError, match="no such file"):
        net_inputs(tmp_path / "absent.onnx", DT)
    (tmp_path / "text.onnx").write_text("not a graph")
    with pytest.raises(ActuatorNetError, match=r"text\.onnx: onnxruntime .* cannot load it"):
        net_inputs(tmp_path / "text.onnx", DT)


def test_samples_that_fall_between_physics_steps_are_refused(tmp_path):
    path = save_net(mlp(6), tmp_path / "net.onnx", 6)
    with pytest.raises(ActuatorNetError, match=r"0.008 s apart, which is no whole number of physics steps of 0.005 s"):
        ActuatorNet(path, 1, 1, interval=0.008, dt=DT)


def test_a_history_can_be_left_and_taken_up_again(tmp_path):
    path = save_net(mlp(6), tmp_path / "net.onnx", 6)
    first, second = (ActuatorNet(path, 3, 2, interval=2 * DT, dt=DT) for _ in range(2))
    generator = torch.Generator().manual_seed(2)
    samples = torch.randn(12, 2, 3, 2, generator=generator)
    for error, velocity in samples[:7]:
        first.effort(error, velocity)
    first.reset(torch.tensor([1]))  # not yet acted upon when it is left
    second.load_state_dict(first.state_dict())
    for error, velocity in samples[7:]:
        assert torch.equal(first.effort(error, velocity), second.effort(error, velocity))
