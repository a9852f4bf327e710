"""What every importer keeps: the merged graph computes what the tool computed, and what cannot be trusted is refused."""

import numpy as np
import pytest
from parity import TOLERANCE, Recorded, load_rows, run_rows
from recorded_a import RECORDED as RECORDED_A
from recorded_b import RECORDED as RECORDED_B

from isthmus.policies.importers.imported_bundle import write_imported
from isthmus.policies.importers.registry import IMPORTERS, find_importer

RECORDED = (*RECORDED_A, *RECORDED_B)


def name_of(recorded: Recorded) -> str:
    return f"{recorded.importer}-{recorded.rows.parent.name}-{recorded.rows.stem}"


every = pytest.mark.parametrize("recorded", RECORDED, ids=name_of)


@every
def test_the_merged_graph_computes_what_the_tool_computed(recorded: Recorded) -> None:
    imported = IMPORTERS[recorded.importer].load(recorded.path, recorded.facts)
    rows, names = load_rows(recorded.rows), imported.contract.joint_names
    found = run_rows(imported, recorded.signals(rows, names))
    assert len(rows["observation"]) >= 100
    assert np.abs(found["observation"] - rows["observation"]).max() <= TOLERANCE
    assert np.abs(found["base_action"] - rows["action"]).max() <= TOLERANCE
    assert np.abs(found["joint_target_next"] - recorded.target(rows, names)).max() <= TOLERANCE


@every
def test_a_file_is_recognised_by_its_own_importer_alone(recorded: Recorded) -> None:
    assert find_importer(recorded.path).name == recorded.importer


@every
def test_a_bundle_replays_its_golden_rows_and_keeps_the_source_of_every_joint_number(recorded, tmp_path) -> None:
    imported = IMPORTERS[recorded.importer].load(recorded.path, recorded.facts)
    signals = recorded.signals(load_rows(recorded.rows), imported.contract.joint_names)
    path = tmp_path / "policy.onnx"
    bundle = write_imported(path, imported, name="walk", tool=recorded.importer, signals=signals)
    count = len(imported.contract.joints)
    assert len(bundle.golden["joint_pos"]) >= 64
    assert bundle.manifest.contract == imported.contract
    assert {s.path for s in bundle.manifest.sources} >= {f"joints[{i}].kp" for i in range(count)}
    again = write_imported(path, imported, name="walk", tool=recorded.importer)  # from made-up signals
    assert np.isfinite(again.golden["joint_target_next"]).all()
