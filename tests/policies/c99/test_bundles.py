"""Bundles of every kind as C: the same targets tick after tick, with history, memory, residual and gate."""

from pathlib import Path

import numpy as np
import pytest
from c_networks import KINDS
from c_policies import CPolicy, OnnxPolicy, build, largest_error, needs_gcc, run

from isthmus.policies.bundle import GOLDEN_TOLERANCE, load_bundle, target_output
from isthmus.policies.c99.compiler import Precision, compile_model
from isthmus.policies.c99.export import export_c, wanted_outputs

pytestmark = needs_gcc
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wconversion")
SANITISED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
TICKS = 150


def pair(data: bytes, outputs: tuple[str, ...], states: tuple[str, ...], folder: Path) -> tuple[CPolicy, OnnxPolicy]:
    source = compile_model(data, name="policy", outputs=(*outputs, *(f"next.{name}" for name in states)))
    return build([source], folder)[0], OnnxPolicy(data, outputs)


@pytest.fixture(scope="session", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


def test_a_bundle_in_c_gives_what_the_bundle_gives_tick_after_tick(
    kind: str, bundles: dict[str, Path], tmp_path: Path
) -> None:
    bundle = load_bundle(bundles[kind])
    states = tuple(state.name for state in bundle.manifest.states)
    ours, _ = pair(bundles[kind].read_bytes(), (*wanted_outputs(bundle), "observation"), states, tmp_path)
    policy = bundle.policy()
    rng, golden = np.random.default_rng(0), bundle.golden
    rows = len(golden[target_output(bundle.manifest.contract)])
    for tick in range(TICKS):
        if tick in (0, 90):  # an episode ends
            policy.reset()
            ours.reset()
        signals = {name: golden[name][tick % rows] for name in ours.inputs}
        signals = {n: (v + rng.normal(0.0, 0.2, len(v))).astype(np.float32) for n, v in signals.items()}
        code, found = ours.step(signals)
        expected = policy.run(signals)
        assert code == 0
        for name, value in found.items():
            assert largest_error(value, expected[name]) < 1e-5, (tick, name)


def test_base_residual_and_gate_in_c_give_what_the_composed_graph_gives(composed: bytes, tmp_path: Path) -> None:
    outputs = ("joint_target_next", "base_action", "residual_action", "gate_prob", "gate")
    states = [name for name in OnnxPolicy(composed, ()).inputs if name.startswith("state.")]
    ours, theirs = pair(composed, outputs, tuple(name.removeprefix("state.") for name in states), tmp_path)
    rng, gates = np.random.default_rng(1), []
    for _ in range(TICKS):
        signals = {name: rng.normal(0.0, 0.5, theirs.inputs[name]).astype(np.float32) for name in ours.inputs}
        code, found = ours.step(signals)
        assert code == 0
        for name, value in theirs.step(signals).items():
            assert largest_error(found[name], value) < 1e-5, name
        gates.append(float(found["gate"][0]))
    assert {0.0, 1.0} == set(gates)


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_an_exported_bundle_passes_its_own_test(
    kind: str, precision: Precision, bundles: dict[str, Path], tmp_path: Path
) -> None:
    done = export_c(bundles[kind], tmp_path, precision=precision)
    program = tmp_path / "selftest"
    run(["gcc", *STRICT, *SANITISED, "-O1", "-DISTHMUS_SELFTEST", str(done.paths[0]), "-o", str(program), "-lm"])
    assert run([str(program)]).startswith("64 golden rows: largest error ")
    if precision == "float32":
        assert "allowed 1e-05" in run([str(program)]) and GOLDEN_TOLERANCE == 1e-5


def test_the_self_test_fails_for_another_policy(bundles: dict[str, Path], tmp_path: Path) -> None:
    done = export_c(bundles["go2-velocity"], tmp_path)
    name, text = "static const float golden_out_joint_target_next[768] = {\n", done.paths[0].read_text()
    assert name in text
    done.paths[0].write_text(text.replace(name, f"{name}    0.01f + "))  # the first target is another
    run(["gcc", "-DISTHMUS_SELFTEST", str(done.paths[0]), "-o", str(tmp_path / "selftest"), "-lm"])
    with pytest.raises(AssertionError, match=r"largest error 0\.0"):
        run([str(tmp_path / "selftest")])


def test_the_header_says_what_the_manifest_says(bundles: dict[str, Path], tmp_path: Path) -> None:
    done = export_c(bundles["so101-reach"], tmp_path, name="Arm 1")
    contract, header = done.bundle.manifest.contract, done.paths[1].read_text()
    assert done.paths[0].name == "arm_1.c"
    assert f'#define ARM_1_SHA256 "{done.bundle.sha256}"' in header
    program = f"""
#include <stdio.h>
#include "arm_1.h"
int main(void)
{{
    static const char *const names[] = ARM_1_JOINT_NAMES;
    static const float lower[] = ARM_1_LOWER, kp[] = ARM_1_KP;
    for (int i = 0; i < ARM_1_JOINTS; ++i)
        printf("%s %.9g %.9g\\n", names[i], (double)lower[i], (double)kp[i]);
    printf("%lld", (long long)ARM_1_PERIOD_NS);
    return (int)(sizeof(arm_1_input) / sizeof(float)) - {sum(contract.signal_width(n) for n in contract.signals)};
}}"""
    (tmp_path / "main.c").write_text(program)
    run(["gcc", *STRICT, str(tmp_path / "main.c"), "-o", str(tmp_path / "main")])
    *lines, period = run([str(tmp_path / "main")]).splitlines()
    assert int(period) == contract.period_ns
    for line, joint in zip(lines, contract.joints, strict=True):
        name, lower, kp = line.split()
        assert name == joint.name and float(lower) == np.float32(joint.lower) and float(kp) == np.float32(joint.kp)


def test_no_library_is_called_but_mathematics_and_nothing_is_kept_outside_of_the_state(
    kind: str, bundles: dict[str, Path], tmp_path: Path
) -> None:
    done = export_c(bundles[kind], tmp_path)
    for level in ("-O2", "-O3"):
        run(["gcc", *STRICT, level, "-c", str(done.paths[0]), "-o", str(tmp_path / "policy.o")])
        symbols = [line.split() for line in run(["nm", str(tmp_path / "policy.o")]).splitlines()]
        called = {words[-1] for words in symbols if words[-2] == "U"}
        assert called <= {
            "sqrtf",
            "floorf",
            "fmodf",
            "expf",
            "logf",
            "log1pf",
            "erff",
            "powf",
            "rintf",
            "fabsf",
            "_GLOBAL_OFFSET_TABLE_",
        }
        assert not [words for words in symbols if words[-2] in "bBdDC"]
