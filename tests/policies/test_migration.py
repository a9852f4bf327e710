"""Files of older schemas are read as what they meant; files of unknown ones are refused."""

from pathlib import Path

import numpy as np
import pytest

from isthmus.hardware.structure import unstructure
from isthmus.policies.bundle import load_bundle
from isthmus.policies.contract import SCHEMA as CONTRACT_SCHEMA
from isthmus.policies.contracts import get_contract
from isthmus.policies.manifest import SCHEMA as MANIFEST_SCHEMA
from isthmus.policies.migration import CONTRACT_STEPS, MANIFEST_STEPS, migrated_contract, migrated_manifest

OLD = Path(__file__).parent / "data" / "schema1_so101_reach.onnx"  # written by isthmus 0.1.0 before schemas 2 and 3


def test_a_bundle_of_the_first_schema_loads_and_replays_its_golden_rows():
    bundle = load_bundle(OLD)
    manifest = bundle.manifest
    assert (manifest.schema, manifest.contract.schema) == (MANIFEST_SCHEMA, CONTRACT_SCHEMA)
    assert manifest.distribution is None and manifest.envelope is None and manifest.sources == ()
    assert [term.lags for term in manifest.contract.observation] == [(0,), (0,), (4, 3, 2, 1, 0), (0,), (0,), (0,)]
    assert len(bundle.golden["joint_target_next"]) == 64


def test_the_old_contract_is_the_one_of_today():
    assert load_bundle(OLD).manifest.contract == get_contract("so101-reach")


def test_what_the_old_bundle_computes_is_its_contract_of_today():
    torch = pytest.importorskip("torch")
    from isthmus.policies.learning.graph import ContractGraph

    bundle, graph = load_bundle(OLD), ContractGraph(get_contract("so101-reach"))
    state = {name: torch.zeros(1, width) for name, width in graph.state_widths.items()}
    for row in range(64):
        now = {name: torch.from_numpy(bundle.golden[name][row : row + 1]) for name in graph.contract.signals}
        _, state = graph.observe(now, state)
        target, state = graph.act(torch.from_numpy(bundle.golden["base_action"][row : row + 1]), now, state)
        np.testing.assert_allclose(target[0], bundle.golden["joint_target_next"][row], atol=1e-6)


def test_files_of_today_stay_as_they_are():
    data = unstructure(get_contract("go2-velocity"))
    assert migrated_contract(data) == data


@pytest.mark.parametrize("schema", [0, CONTRACT_SCHEMA + 1, "2", None, 2.5])
def test_unknown_schemas_are_left_for_the_check_to_refuse(schema):
    assert migrated_contract({"schema": schema}) == {"schema": schema}
    assert migrated_manifest({"schema": schema}) == {"schema": schema}


@pytest.mark.parametrize("data", [None, 3, [], "contract", {"schema": 2, "observation": 7}, {"schema": 1}])
def test_what_is_no_contract_is_not_an_accident(data):
    for migrate in (migrated_contract, migrated_manifest):
        try:
            migrate(data)
        except (TypeError, AttributeError, KeyError) as error:
            pytest.fail(f"{migrate.__name__}({data!r}) raised {error!r}")


def test_every_older_schema_has_its_step():
    assert list(MANIFEST_STEPS) == list(range(1, MANIFEST_SCHEMA))
    assert list(CONTRACT_STEPS) == list(range(2, CONTRACT_SCHEMA))
