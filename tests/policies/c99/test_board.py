"""Policies on emulated microcontrollers: golden rows come out, within instructions, flash and RAM."""

from pathlib import Path

import numpy as np
import pytest
from c_graphs import mlp
from c_policies import OnnxPolicy

from isthmus.policies.c99.board import BOARDS, PACKAGES, Board, Figures, measure, missing_tools
from isthmus.policies.c99.compiler import Precision, compile_model
from isthmus.policies.c99.export import export_c
from isthmus.policies.c99.selftest import with_selftest

pytestmark = pytest.mark.skipif(
    bool(missing_tools()), reason=f"no {', '.join(missing_tools())}; .ci/system-packages installs {PACKAGES}"
)
SIZES = (48, 64, 64, 12)
PLAIN = Board(name="Cortex-M3", flags=("-mcpu=cortex-m3", "-mfloat-abi=soft"), machine="mps2-an385")
KINDS = ("so101-reach with residual", "so101-reach with memory", "go2-velocity", "cartpole-balance with memory")


def tell(what: str, figures: Figures) -> None:
    """Shown in the summary of pytest -rP."""
    print(
        f"{what}: {figures.instructions} instructions, {figures.flash} bytes of flash, {figures.ram} of RAM; {figures.said}"
    )


def network(precision: Precision, activation: str, tolerance: float, folder: Path, board: Board) -> Figures:
    data = mlp(SIZES, activation)
    source = compile_model(data, name="network", precision=precision)
    rows = np.random.default_rng(0).normal(0.0, 1.0, (64, SIZES[0])).astype(np.float32)
    theirs = OnnxPolicy(data, ["action"])
    golden = np.stack([theirs.step({"obs": row})["action"] for row in rows])
    path, _ = source.write(folder)
    path.write_text(with_selftest(source, {"obs": rows}, {"action": golden}, tolerance))
    return measure(path, "network", board, folder)


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
@pytest.mark.parametrize(
    ("precision", "tolerance", "instructions", "flash", "ram"),
    [("float32", 1e-5, 18_000, 34_000, 1024), ("int8", 4e-2, 21_000, 10_800, 1024)],
)
def test_a_network_of_8_000_weights_stays_within_its_budget(
    precision: Precision, tolerance: float, instructions: int, flash: int, ram: int, board: Board, tmp_path: Path
) -> None:
    figures = network(precision, "Elu", tolerance, tmp_path, board)
    tell(f"48-64-64-12 {precision} on {board.name}", figures)
    assert figures.instructions <= instructions and figures.flash <= flash and figures.ram <= ram


@pytest.mark.parametrize(("activation", "instructions"), [("Relu", 15_500), ("Tanh", 19_500)])
def test_other_activations_cost_little(activation: str, instructions: int, tmp_path: Path) -> None:
    figures = network("float32", activation, 1e-5, tmp_path, BOARDS[0])
    tell(f"48-64-64-12 {activation}", figures)
    assert figures.instructions <= instructions


@pytest.mark.parametrize(
    ("precision", "tolerance", "instructions"), [("float32", 1e-5, 900_000), ("int8", 4e-2, 180_000)]
)
def test_neither_floating_point_unit_nor_dsp_is_needed(
    precision: Precision, tolerance: float, instructions: int, tmp_path: Path
) -> None:
    figures = network(precision, "Elu", tolerance, tmp_path, PLAIN)
    tell(f"48-64-64-12 {precision} on {PLAIN.name}", figures)
    assert figures.instructions <= instructions


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_golden_rows_of_a_bundle_come_out_on_a_microcontroller(
    kind: str, precision: Precision, board: Board, bundles: dict[str, Path], tmp_path: Path
) -> None:
    done = export_c(bundles[kind], tmp_path, precision=precision)
    figures = measure(done.paths[0], done.source.name, board, tmp_path)
    tell(f"{kind} {precision} on {board.name}", figures)
    assert figures.said.startswith("64 golden rows: largest error")


def test_int8_weights_take_a_third_of_the_flash(tmp_path: Path) -> None:
    flash = {}
    for precision in ("float32", "int8"):
        figures = network(precision, "Elu", 4e-2, tmp_path, BOARDS[0])
        flash[precision] = figures.flash
    assert flash["int8"] < flash["float32"] / 3
