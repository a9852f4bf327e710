"""What is deployed computes what rsl-rl computes."""

from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from rsl_rl.models import MLPModel, RNNModel
from tensordict import TensorDict
from torch import nn

from isthmus.policies.learning.networks import DeployedGRU, DeployedMLP, deployed_actor
from isthmus.policies.learning.ppo_config import TrainConfigError
from isthmus.policies.learning.shared_rows import elu, mlp_forward

BATCH, WIDTH, ACTIONS, TICKS = 5, 7, 3, 30


def observations(seed):
    return 2.0 * torch.randn(TICKS, BATCH, WIDTH, generator=torch.Generator().manual_seed(seed)) + 1.0


def model(kind, **more):
    torch.manual_seed(1)
    example = TensorDict({"actor": torch.zeros(BATCH, WIDTH)}, batch_size=[BATCH])
    made = kind(
        example,
        {"actor": ["actor"]},
        "actor",
        ACTIONS,
        hidden_dims=[16, 8],
        obs_normalization=True,
        distribution_cfg={"class_name": "GaussianDistribution", "init_std": 0.5, "std_type": "log"},
        **more,
    )
    made.train()
    made.update_normalization(TensorDict({"actor": observations(9).flatten(0, 1)}, batch_size=[TICKS * BATCH]))
    return made.eval()


@torch.no_grad()
def test_an_mlp_deploys_with_its_normaliser_inside():
    trained = model(MLPModel)
    deployed = deployed_actor(trained)
    x = observations(2)[0]
    expected = trained(TensorDict({"actor": x}, batch_size=[BATCH]))
    assert isinstance(deployed, DeployedMLP) and deployed.state_widths == {}
    torch.testing.assert_close(deployed(x), expected, atol=1e-6, rtol=0)
    assert (deployed.mlp(x) - expected).abs().max() > 1e-2  # the normaliser matters


@torch.no_grad()
@pytest.mark.parametrize("layers", [1, 2])
def test_a_gru_with_its_state_in_the_open_equals_rsl_rl_over_a_sequence_with_resets(layers):
    trained = model(RNNModel, rnn_type="gru", rnn_hidden_dim=6, rnn_num_layers=layers)
    deployed = deployed_actor(trained)
    assert isinstance(deployed, DeployedGRU) and deployed.state_widths == {"hidden": 6 * layers}
    hidden = torch.zeros(BATCH, 6 * layers)
    dones = torch.rand(TICKS, BATCH, generator=torch.Generator().manual_seed(3)) < 0.15
    assert dones.any()
    for x, done in zip(observations(2), dones, strict=True):
        expected = trained(TensorDict({"actor": x}, batch_size=[BATCH]))
        action, hidden = deployed(x, hidden)
        torch.testing.assert_close(action, expected, atol=1e-6, rtol=0)
        trained.reset(done)
        hidden[done] = 0.0


def test_a_gru_in_onnx_equals_torch_tick_by_tick(tmp_path):
    deployed = deployed_actor(model(RNNModel, rnn_type="gru", rnn_hidden_dim=6, rnn_num_layers=2)).eval()
    path, hidden = tmp_path / "gru.onnx", torch.zeros(1, 12)
    names: dict[str, Any] = {"input_names": ["observation", "hidden"], "output_names": ["action", "next"]}
    torch.onnx.export(deployed, (torch.zeros(1, WIDTH), hidden), str(path), opset_version=18, dynamo=False, **names)
    session = onnxruntime.InferenceSession(str(path))
    state = hidden.numpy()
    for x in observations(4)[:, :1]:
        with torch.no_grad():
            action, hidden = deployed(x, hidden)
        got, state = (np.asarray(each) for each in session.run(None, {"observation": x.numpy(), "hidden": state}))
        np.testing.assert_allclose(got, action.numpy(), atol=1e-6)
        np.testing.assert_allclose(state, hidden.numpy(), atol=1e-6)


def test_a_network_that_is_no_gru_is_refused_by_name():
    with pytest.raises(TrainConfigError, match="cannot deploy a LSTM"):
        deployed_actor(model(RNNModel, rnn_type="lstm", rnn_hidden_dim=6))


def test_the_fast_elu_is_torchs_with_its_gradient():
    x = torch.linspace(-20.0, 5.0, 2001, requires_grad=True)
    y = torch.linspace(-20.0, 5.0, 2001, requires_grad=True)
    ours, theirs = elu(x), nn.functional.elu(y)
    torch.testing.assert_close(ours, theirs, atol=2e-7, rtol=0)
    weights = torch.cos(torch.arange(2001.0))
    (ours @ weights).backward()
    (theirs @ weights).backward()
    torch.testing.assert_close(x.grad, y.grad, atol=2e-7, rtol=0)


@torch.no_grad()
@pytest.mark.parametrize("activation", [nn.ELU(), nn.Tanh(), nn.ReLU()])
def test_hidden_layers_in_bfloat16_stay_near_float32(activation):
    torch.manual_seed(0)
    mlp = nn.Sequential(nn.Linear(WIDTH, 64), activation, nn.Linear(64, 64), activation, nn.Linear(64, ACTIONS))
    x = observations(5)[0]
    torch.testing.assert_close(mlp_forward(mlp, x, torch.float32), mlp(x), atol=1e-6, rtol=0)
    low = mlp_forward(mlp, x, torch.bfloat16)
    assert low.dtype == torch.float32
    assert 0 < (low - mlp(x)).abs().max() < 0.02
