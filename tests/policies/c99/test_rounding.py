"""Int8 weights: the error that is reported is the error that the code has."""

from pathlib import Path

import numpy as np
import pytest
from c_graphs import mlp, one
from c_policies import OnnxPolicy, build, needs_gcc
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from isthmus.policies.bundle import load_bundle, target_output
from isthmus.policies.c99.compiler import compile_model
from isthmus.policies.c99.dense import in_blocks, largest_activation, rounded_weights, words
from isthmus.policies.c99.export import export_c
from isthmus.policies.c99.rounding import rounded_model, rounding_errors

KINDS = (
    "so101-reach with residual",
    "so101-reach with memory",
    "go2-velocity",
    "quadrotor-hover",
    "cartpole-balance with memory",
)


@given(arrays(np.float32, (5, 7), elements=st.floats(-10, 10, width=32)))
@settings(max_examples=50, deadline=None)
def test_no_weight_is_off_by_more_than_half_a_step_of_its_row(weights: np.ndarray) -> None:
    near, scale = rounded_weights(weights)
    assert np.abs(near.astype(np.int32)).max() <= 127
    assert (np.abs(near * scale[:, None] - weights) <= 0.5001 * scale[:, None] + 1e-12).all()
    np.testing.assert_allclose(scale, np.where(np.abs(weights).max(1) > 0, np.abs(weights).max(1) / 127, 1), rtol=1e-6)


@pytest.mark.parametrize("columns", [1, 48, 516, 517, 4096])
def test_no_sum_of_products_leaves_int32(columns: int) -> None:
    assert columns * 127 * largest_activation(columns) < 2**31
    assert largest_activation(columns) >= 4000


def test_weights_are_packed_in_the_order_in_which_the_kernel_unpacks_them() -> None:
    weights = np.arange(-12, 12, dtype=np.int8).reshape(4, 6)  # one block of four rows, six columns in two groups
    packed = words(weights).buffer.data
    assert packed is not None and packed.size == 8
    octets = packed.astype("<u4").view(np.uint8).view(np.int8).reshape(2, 4, 4)[..., [0, 2, 1, 3]]  # group, row, column
    np.testing.assert_array_equal(octets[0], weights[:, :4])
    np.testing.assert_array_equal(octets[1, :, :2], weights[:, 4:])
    assert (octets[1, :, 2:] == 0).all()


def test_rows_lie_in_blocks_of_the_largest_size_that_is_left() -> None:
    values = np.arange(26).reshape(13, 2)
    flat = in_blocks(values, (8, 4, 1)).tolist()
    assert flat == [*range(0, 16, 2), *range(1, 16, 2), *range(16, 24, 2), *range(17, 24, 2), 24, 25]


@needs_gcc
@pytest.mark.parametrize("opset", [17, 20])
def test_the_rounded_model_is_what_the_code_computes(opset: int, tmp_path: Path) -> None:
    data = mlp((17, 33, 32, 5), "Tanh", seed=2, opset=opset)
    (ours,) = build([compile_model(data, name="policy", precision="int8")], tmp_path)
    exact, near = OnnxPolicy(data, ["action"]), OnnxPolicy(rounded_model(data), ["action"])
    rng, off, apart = np.random.default_rng(0), [], []
    for scale in (0.0, 1e-3, 1.0, 1.0, 100.0):
        row = {"obs": rng.normal(0.0, scale, 17).astype(np.float32)}
        found = ours.step(row)[1]["action"]
        off.append(np.abs(found - exact.step(row)["action"]).max())
        apart.append(np.abs(found - near.step(row)["action"]).max())
    assert max(apart) < 1e-4 < 1e-3 < max(off) < 3e-2


@needs_gcc
def test_convolutions_are_rounded_in_the_report_as_in_the_code(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    data = one("Conv", [[1, 8, 20]], rng.normal(0.0, 0.2, (16, 8, 5)).astype(np.float32), strides=[5])
    (ours,) = build([compile_model(data, name="policy", precision="int8")], tmp_path)
    exact, near = OnnxPolicy(data, ["y"]), OnnxPolicy(rounded_model(data), ["y"])
    row = {name: rng.normal(0.0, 1.0, shape).astype(np.float32) for name, shape in exact.inputs.items()}
    found, off = ours.step(row)[1]["y"], exact.step(row)["y"]
    assert np.abs(found - near.step(row)["y"]).max() < 1e-3 < np.abs(found - off).max() < 3e-2


@needs_gcc
@pytest.mark.parametrize("kind", KINDS)
def test_the_code_is_no_further_off_than_reported(kind: str, bundles: dict[str, Path], tmp_path: Path) -> None:
    done = export_c(bundles[kind], tmp_path, precision="int8")
    assert done.source.int8_layers
    bundle = load_bundle(bundles[kind])
    (ours,) = build([done.source], tmp_path)
    worst = {error.output: 0.0 for error in done.errors}
    policy = bundle.policy()
    for row in range(len(bundle.golden[target_output(bundle.manifest.contract)])):
        signals = {name: bundle.golden[name][row] for name in ours.inputs}
        code, found = ours.step(signals)
        expected = policy.run(signals)
        assert code == 0
        for name in worst:
            worst[name] = max(worst[name], float(np.abs(found[name] - expected[name]).max()))
    for error in done.errors:
        assert worst[error.output] <= 1.5 * error.golden + 1e-5
        assert f"{error.output}: off by {error.golden:.2g} on the golden rows" in done.source.header


def test_geometry_is_not_rounded(bundles: dict[str, Path]) -> None:
    bundle = load_bundle(bundles["so101-reach"])
    data, signals = bundles["so101-reach"].read_bytes(), bundle.manifest.contract.signals
    (error,) = rounding_errors(data, {name: bundle.golden[name] for name in signals}, ("observation",))
    assert error.golden < 1e-6 and error.largest > 0.1
