"""TorchScript that is read and translated computes what torch computes, tick after tick."""

import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
import torch

from isthmus.policies.importers.common import ImportFailed
from isthmus.policies.importers.torchscript_graph import torchscript_network

WIDTH, TICKS = 9, 20


def mlp(activation: torch.nn.Module) -> torch.nn.Sequential:
    return torch.nn.Sequential(torch.nn.Linear(WIDTH, 16), activation, torch.nn.Linear(16, 4))


class Normalised(torch.nn.Module):
    """In the form of rsl_rl's exporter: statistics in buffers, then the actor."""

    _mean: torch.Tensor
    _std: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("_mean", torch.linspace(-1, 1, WIDTH)[None])
        self.register_buffer("_std", torch.linspace(0.5, 2, WIDTH)[None])
        self.eps = 0.01
        self.actor = mlp(torch.nn.ELU(alpha=0.7))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.actor(torch.clamp((x - self._mean) / (self._std + self.eps), -1.5, 1.5))


class Estimator(torch.nn.Module):
    """In the form of HIMLoco's exporter: an estimate and a unit vector join the newest observation."""

    def __init__(self) -> None:
        super().__init__()
        self.estimator, self.actor = mlp(torch.nn.ReLU()), torch.nn.Linear(7, 4)

    def forward(self, history: torch.Tensor) -> torch.Tensor:
        parts = self.estimator(history)[:, 0:4]
        z = torch.nn.functional.normalize(parts[..., 1:], dim=-1, p=2.0)
        return self.actor(torch.cat((history[:, 0:3], parts[..., :1], z), dim=1))


class Memory(torch.nn.Module):
    """In the form of legged_gym's exporter, for any memory; the state begins elsewhere than at 0."""

    hidden_state: torch.Tensor

    def __init__(self, kind: str, layers: int) -> None:
        super().__init__()
        self.memory = getattr(torch.nn, kind)(WIDTH, 12, num_layers=layers)
        self.actor = torch.nn.Linear(12, 4)
        self.register_buffer("hidden_state", torch.linspace(-0.5, 0.5, layers * 12).reshape(layers, 1, 12))


class Gru(Memory):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out, h = self.memory(x.unsqueeze(0), self.hidden_state)
        self.hidden_state[:] = h
        return self.actor(out.squeeze(0))


class Lstm(Memory):
    cell_state: torch.Tensor

    def __init__(self, kind: str, layers: int) -> None:
        super().__init__(kind, layers)
        self.register_buffer("cell_state", torch.zeros(layers, 1, 12))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out, (h, c) = self.memory(x.unsqueeze(0), (self.hidden_state, self.cell_state))
        self.hidden_state[:] = h
        self.cell_state[:] = c
        return self.actor(out.squeeze(0))


MODULES = {
    "elu": mlp(torch.nn.ELU(alpha=0.7)),
    "relu": mlp(torch.nn.ReLU()),
    "tanh": mlp(torch.nn.Tanh()),
    "sigmoid": mlp(torch.nn.Sigmoid()),
    "selu": mlp(torch.nn.SELU()),
    "leaky": mlp(torch.nn.LeakyReLU(0.2)),
    "silu": mlp(torch.nn.SiLU()),
    "normalised": Normalised(),
    "estimator": Estimator(),
    "gru": Gru("GRU", 1),
    "two_layers": Gru("GRU", 2),
    "lstm": Lstm("LSTM", 2),
}


def saved(module: torch.nn.Module, path: Path, traced: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        script = torch.jit.trace(module, torch.zeros(1, WIDTH)) if traced else torch.jit.script(module)
        torch.jit.save(script, str(path))


CASES = [
    (name, traced)
    for name, module in MODULES.items()
    for traced in (False, True)
    if not (traced and isinstance(module, Memory))
]


@pytest.mark.parametrize(("name", "traced"), CASES)  # a trace writes no buffers
def test_a_translated_network_computes_what_torch_computes(name: str, traced: bool, tmp_path: Path) -> None:
    module = MODULES[name].eval()
    path, start = tmp_path / "policy.pt", {key: value.clone() for key, value in module.state_dict().items()}
    saved(module, path, traced)
    module.load_state_dict(start)
    model, memory = torchscript_network(path, WIDTH)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    given = {f"state.{key}": np.zeros((1, width), dtype=np.float32) for key, width in memory.items()}
    rng = np.random.default_rng(0)
    for _ in range(TICKS):
        seen = rng.normal(size=(1, WIDTH)).astype(np.float32)
        found = dict(
            zip([o.name for o in session.get_outputs()], session.run(None, {"observation": seen, **given}), strict=True)
        )
        given = {key: found[key.replace("state.", "next.")] for key in given}
        with torch.no_grad():
            expected = module(torch.from_numpy(seen)).numpy()
        np.testing.assert_allclose(np.asarray(found["action"]), expected, atol=2e-6)


def test_memories_are_states_of_the_network(tmp_path: Path) -> None:
    saved(MODULES["lstm"], tmp_path / "policy.pt", traced=False)
    assert torchscript_network(tmp_path / "policy.pt", WIDTH)[1] == {"hidden_state": 24, "cell_state": 24}


def test_an_observation_of_another_size_is_refused(tmp_path: Path) -> None:
    saved(MODULES["elu"], tmp_path / "policy.pt", traced=False)
    with pytest.raises(ImportFailed, match="observation of 10 values"):
        torchscript_network(tmp_path / "policy.pt", WIDTH + 1)


def test_code_that_calls_itself_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "policy.pt"
    saved(MODULES["normalised"], path, traced=False)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    code = next(name for name in members if b"class Normalised" in members[name])
    text = members[code].decode()
    members[code] = (text[: text.index("    actor = self.actor")] + "    return (self).forward(x, )\n").encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(ImportFailed, match="cannot be followed"):
        torchscript_network(path, WIDTH)


def test_reading_needs_no_torch() -> None:
    code = "import sys, isthmus.policies.importers.registry as r; sys.exit('torch' in sys.modules or not r.IMPORTERS)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
