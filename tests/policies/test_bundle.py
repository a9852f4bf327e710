"""Bundles: what the trainer computed comes out of the file, and nothing else gets in."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch import nn

from isthmus.hardware.robot import load_robot
from isthmus.policies.bundle import GOLDEN_KEY, MANIFEST_KEY, BundleError, load_bundle, seal
from isthmus.policies.contract import observation_width
from isthmus.policies.contracts import get_contract
from isthmus.policies.learning.export import export_bundle
from isthmus.policies.learning.graph import PolicyGraph
from isthmus.policies.manifest import Provenance
from isthmus.sim.mujoco_engine import MujocoEngine
from isthmus.sim.scene import Scene
from isthmus.sim.tasks import get_task
from isthmus.sim.world import World

CONTRACT = get_contract("so101-reach")
PROVENANCE = Provenance(
    created="2026-01-01T00:00:00+00:00",
    isthmus="0",
    trainer="test",
    seed=0,
    environment_steps=0,
    simulated_success=None,
)


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(observation_width(CONTRACT), 32), nn.ELU(), nn.Linear(32, 5))


@pytest.fixture(scope="module")
def path(network, tmp_path_factory):
    task = get_task("so101-reach")
    world = World(task, MujocoEngine(Scene(robot=load_robot("so101")), 1, dt=task.physics_dt), seed=3)
    file = tmp_path_factory.mktemp("bundle") / "policy.onnx"
    export_bundle(file, CONTRACT, network, world, PROVENANCE)
    return file


def edited(path: Path, tmp_path: Path, change) -> Path:
    model = onnx.load(str(path))
    change(model)
    copy = tmp_path / "edited.onnx"
    data = model.SerializeToString()
    copy.write_bytes(seal(data) if len(model.metadata_props) else data)  # as somebody who edits and exports would
    return copy


def edit_property(key, function):
    def change(model):
        for entry in model.metadata_props:
            if entry.key == key:
                entry.value = function(entry.value)

    return change


def edit_manifest(function):
    def rewrite(text):
        manifest = json.loads(text)
        function(manifest)
        return json.dumps(manifest)

    return edit_property(MANIFEST_KEY, rewrite)


def test_the_file_is_whole_and_keeps_the_contract_to_the_last_bit(path):
    assert [f.name for f in path.parent.iterdir()] == ["policy.onnx"]  # no second file with weights
    assert load_bundle(path).manifest.contract == CONTRACT


def test_onnx_equals_torch_over_a_thousand_random_steps(path, network):
    policy, graph = load_bundle(path).policy(), PolicyGraph(CONTRACT, network)
    rng = np.random.default_rng(0)
    state = {name: torch.zeros(1, width) for name, width in graph.contract_graph.state_widths.items()}
    worst = 0.0
    for _ in range(1000):
        pose = rng.uniform(-1, 1, 6)
        given = {
            "joint_pos": pose,
            "joint_vel": rng.normal(0, 1, 6),
            "joint_target": pose + rng.normal(0, 0.1, 6),
            "command.target": rng.uniform(-0.3, 0.3, 3),
        }
        outputs = graph(
            *(torch.tensor(given[n], dtype=torch.float32)[None] for n in graph.signal_names), *state.values()
        )
        named = dict(zip(graph.output_names, outputs, strict=True))
        state = {name: named[f"next.{name}"] for name in state}
        result = policy.act(given)
        worst = max(worst, float(np.abs(result.joint_target - named["joint_target_next"][0].detach().numpy()).max()))
    assert worst < 1e-5


def test_reset_forgets_the_history(path):
    bundle = load_bundle(path)
    policy = bundle.policy()
    first = {name: bundle.golden[name][0] for name in ("joint_pos", "joint_vel", "joint_target", "command.target")}
    other = {name: bundle.golden[name][40] for name in first}
    fresh = policy.act(first).joint_target
    policy.act(other)
    policy.reset()
    np.testing.assert_array_equal(policy.act(first).joint_target, fresh)


def test_a_missing_signal_is_named(path):
    with pytest.raises(KeyError, match="joint_vel"):
        load_bundle(path).policy().act({"joint_pos": np.zeros(6)})


def test_changed_weights_fail_the_golden_rows(path, tmp_path):
    def bend(model):
        weight = next(t for t in model.graph.initializer if len(t.dims) == 2 and t.dims[0] == 32)
        values = onnx.numpy_helper.to_array(weight).copy()
        values[0, 0] += 0.5
        weight.CopyFrom(onnx.numpy_helper.from_array(values, weight.name))

    with pytest.raises(BundleError, match=r"golden row \d+: .* is off by .*export again"):
        load_bundle(edited(path, tmp_path, bend))


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (edit_manifest(lambda m: m["contract"].pop("period_ns")), "period_ns"),
        (edit_manifest(lambda m: m.update(colour="red")), "colour"),
        (edit_manifest(lambda m: m["contract"]["joints"][0].update(kp="17")), "kp"),
        (edit_manifest(lambda m: m.update(schema=7)), "schema 7"),
        (edit_manifest(lambda m: m["states"].pop()), "graph inputs"),
        (edit_property(MANIFEST_KEY, lambda text: text[:-5]), "policy|manifest|JSON|delimiter|Expecting"),
        (edit_property(GOLDEN_KEY, lambda text: text[:-40]), "golden rows cannot be read"),
        (edit_property(GOLDEN_KEY, lambda text: "!" + text), "golden rows cannot be read"),
        (lambda model: model.ClearField("metadata_props"), "is not an isthmus bundle"),
    ],
)
def test_damaged_bundles_are_refused_with_the_cause(path, tmp_path, change, word):
    with pytest.raises(BundleError, match=word):
        load_bundle(edited(path, tmp_path, change))


def test_no_byte_of_a_bundle_can_change_unnoticed(path, tmp_path):
    data = path.read_bytes()
    rng = np.random.default_rng(0)
    places = [
        *rng.integers(0, len(data), 150),
        *range(data.index(b"isthmus.sha256"), len(data), 7),
    ]
    for place in places:
        changed = bytearray(data)
        changed[place] ^= int(rng.integers(1, 256))
        (tmp_path / "changed.onnx").write_bytes(changed)
        with pytest.raises(BundleError):
            load_bundle(tmp_path / "changed.onnx")


def test_an_edited_manifest_does_not_belong_to_its_graph_any_more(path, tmp_path):
    """Reversed joints pass golden rows and binding: names and numbers agree, only their meaning does not."""
    model = onnx.load(str(path))
    edit_manifest(lambda m: m["contract"]["joints"].reverse())(model)
    onnx.save_model(model, str(tmp_path / "shuffled.onnx"))
    with pytest.raises(BundleError, match="damaged or was edited"):
        load_bundle(tmp_path / "shuffled.onnx")


def test_files_that_are_no_bundles(tmp_path):
    with pytest.raises(BundleError, match="no such bundle"):
        load_bundle(tmp_path / "nothing.onnx")
    for content in (b"", b"hello", b"\x80\x04pickle"):
        (tmp_path / "junk.onnx").write_bytes(content)
        with pytest.raises(BundleError, match=r"not an ONNX model|not an isthmus bundle"):
            load_bundle(tmp_path / "junk.onnx")
