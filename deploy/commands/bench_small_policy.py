"""The policy that every loop of `bench loop` and `bench peers` runs: 45 signals of a quadruped, twice 64 units with ELU, 12 joints."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

SIZES = (45, 64, 64, 12)  # gyro, gravity, command and last action among the signals


def write_small_bundle(path: Path, period_ns: int) -> Path:
    """A bundle of the contract go2-velocity with another period, random weights; returns its path.

    Golden rows are signals and targets tick by tick, so those made at one period hold at every other.
    """
    import onnx

    from isthmus.policies.bundle import load_bundle
    from isthmus.policies.bundle_writer import write_bundle

    from .bench_policy import Trio

    with TemporaryDirectory() as name:
        made = Trio.make(SIZES[1:-1], 1, Path(name)).path
        bundle, model = load_bundle(made), onnx.load(str(made))
    contract = replace(bundle.manifest.contract, period_ns=period_ns)
    write_bundle(path, model, replace(bundle.manifest, contract=contract), bundle.golden)
    return path


def write_small_network(folder: Path) -> Path:
    """The same network bare, as other tools take it: network.onnx from "actor_obs" (1, 45) to "actions" (1, 12).

    Beside it lies network.npz with the weights `w<k>` (inputs, outputs) and `b<k>` (outputs,) of each layer. Returns the path of the ONNX.
    """
    from isthmus.policies.onnx_nodes import NodeList, tensor

    rng, nodes, value = np.random.default_rng(0), NodeList("network"), "actor_obs"
    layers = {}
    for layer, (inputs, outputs) in enumerate(pairwise(SIZES)):
        weight = 0.3 * rng.normal(0, inputs**-0.5, (inputs, outputs)).astype(np.float32)
        bias = np.zeros(outputs, np.float32)
        layers |= {f"w{layer}": weight, f"b{layer}": bias}
        last = layer == len(SIZES) - 2
        value = nodes.add("Gemm", value, nodes.constant(weight), nodes.constant(bias), name="actions" if last else None)
        value = value if last else nodes.add("Elu", value)
    model = nodes.model("network", [tensor("actor_obs", SIZES[0])], [tensor("actions", SIZES[-1])], 13)
    path = folder / "network.onnx"
    path.write_bytes(model.SerializeToString())
    np.savez(folder / "network.npz", **layers)  # pyright: ignore[reportArgumentType]
    return path
