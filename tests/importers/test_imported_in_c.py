"""Imported policies as C: the golden rows of their bundles come out of the C code's own test."""

import shutil
import subprocess
from pathlib import Path

import pytest
from parity import Recorded, load_rows
from recorded_a import RECORDED as RECORDED_A
from recorded_b import RECORDED as RECORDED_B

from isthmus.policies.c99.export import export_c
from isthmus.policies.importers.imported_bundle import write_imported
from isthmus.policies.importers.registry import IMPORTERS

RECORDED = (*RECORDED_A, *RECORDED_B)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
@pytest.mark.parametrize("recorded", RECORDED, ids=lambda r: f"{r.importer}-{r.rows.parent.name}-{r.rows.stem}")
def test_an_imported_policy_in_c_passes_its_own_test(recorded: Recorded, tmp_path: Path) -> None:
    imported = IMPORTERS[recorded.importer].load(recorded.path, recorded.facts)
    signals = recorded.signals(load_rows(recorded.rows), imported.contract.joint_names)
    path, program = tmp_path / "policy.onnx", tmp_path / "selftest"
    write_imported(path, imported, name="walk", tool=recorded.importer, signals=signals)
    source = export_c(path, tmp_path).paths[0]
    command = [
        "gcc",
        "-std=c99",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Wconversion",
        "-Werror",
        "-DISTHMUS_SELFTEST",
    ]
    subprocess.run([*command, str(source), "-o", str(program), "-lm"], check=True, timeout=120)
    tested = subprocess.run([str(program)], capture_output=True, text=True, timeout=60, check=False)
    assert tested.returncode == 0 and "allowed 1e-05" in tested.stdout, tested.stdout
