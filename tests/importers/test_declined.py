"""Why a file is read by nobody is said, by the importers that it is likely for."""

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from parity import DATA, Recorded
from recorded_a import RECORDED as RECORDED_A
from recorded_b import RECORDED as RECORDED_B
from spoiling import BARE, HOLOSOMA, copied, load

from isthmus.policies.importers import holosoma, mjlab, unitree_rl_gym
from isthmus.policies.importers.common import ImportFailed
from isthmus.policies.importers.imported_bundle import write_imported
from isthmus.policies.importers.registry import IMPORTERS, find_importer

EVERY = {f"{r.importer}-{r.rows.parent.name}-{r.rows.stem}": r for r in (*RECORDED_A, *RECORDED_B)}
NETWORK = DATA / "mjlab" / "velocity.onnx"


def why(path: Path) -> str:
    with pytest.raises(ImportFailed) as error:
        find_importer(path)
    said, _, known = str(error.value).partition("\n  - known are:")
    assert all(f"\n  - {name}: " in known for name in IMPORTERS)
    return said


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: b"", "the file is empty"),
        (lambda data: data[: len(data) // 2], "cut off"),
        (lambda data: b"nothing", "not an ONNX model"),
        (lambda data: spoiled(data), "not finite: the training diverged"),
    ],
)
def test_a_damaged_network_is_told_as_such(change, words: str, tmp_path: Path) -> None:
    path = tmp_path / "policy.onnx"
    path.write_bytes(change(NETWORK.read_bytes()))
    assert words in why(path)


def spoiled(data: bytes) -> bytes:
    model = onnx.load_model_from_string(data)
    weight = model.graph.initializer[0]
    nothing = np.full_like(numpy_helper.to_array(weight), np.nan)
    weight.CopyFrom(numpy_helper.from_array(nothing, weight.name))
    return model.SerializeToString()


@pytest.mark.parametrize("key", mjlab.KEYS)
def test_a_property_that_is_missing_is_named(key: str, tmp_path: Path) -> None:
    model = onnx.load(str(NETWORK))
    for entry in [entry for entry in model.metadata_props if entry.key == key]:
        model.metadata_props.remove(entry)
    onnx.save(model, str(tmp_path / "policy.onnx"))
    assert f"mjlab: it has no properties {key}\n" in why(tmp_path / "policy.onnx")


@pytest.mark.parametrize("key", unitree_rl_gym.KEYS)
def test_a_key_of_a_yaml_that_is_missing_is_named(key: str, tmp_path: Path) -> None:
    lines = (DATA / "unitree_rl_gym" / "mujoco.yaml").read_text().splitlines()
    path = tmp_path / "mine.yaml"
    path.write_text("\n".join(f"_{line}" if line.startswith(f"{key}:") else line for line in lines))
    assert f"unitree_rl_gym: it has no {key}\n" in why(path)


@pytest.mark.parametrize("key", ["network", "observation", "action"])
def test_a_key_of_a_description_that_is_missing_is_named(key: str, tmp_path: Path) -> None:
    path = copied(BARE, tmp_path)
    path.write_text(
        path.read_text()
        .replace(f"\n[[{key}]]", f"\n[[_{key}]]")
        .replace(f"[{key}]", f"[_{key}]")
        .replace(f"{key} =", f"_{key} =")
    )
    for given in (path, path.with_suffix(".onnx")):
        assert f"bare: it has no {key} " in why(given)


def test_a_property_that_is_not_json_is_shown(tmp_path: Path) -> None:
    path = copied(HOLOSOMA, tmp_path)
    model = onnx.load(str(path))
    next(entry for entry in model.metadata_props if entry.key == "dof_names").value = "a,b"
    onnx.save(model, str(path))
    assert not holosoma.IMPORTER.recognises(path)
    assert "holosoma: dof_names is 'a,b'; expected a list in JSON" in why(path)


@pytest.mark.parametrize("name", ["isaaclab-flat-rows", "unitree-walk-rows"])
def test_a_network_of_a_run_leads_to_the_runs_folder(name: str) -> None:
    recorded = EVERY[name]
    assert f"{recorded.importer}: give the folder of the run, {recorded.path}" in why(
        recorded.path / "exported" / "policy.onnx"
    )


@pytest.mark.parametrize(
    "name",
    [
        "mjlab-mjlab-velocity",
        "kinfer-kinfer-rows",
        "unitree_rl_gym-unitree_rl_gym-real",
        "isaaclab-flat-rows",
        "motrix-motrix-walk",
    ],
)
def test_the_folder_of_a_policy_leads_to_it(name: str, tmp_path: Path) -> None:
    recorded = EVERY[name]
    copy = shutil.copytree if recorded.path.is_dir() else shutil.copy
    copy(recorded.path, tmp_path / recorded.path.name)
    assert f"{tmp_path / recorded.path.name} is read by {recorded.importer}: give that" in why(tmp_path)


def test_a_folder_of_several_descriptions_names_them(tmp_path: Path) -> None:
    folder = tmp_path / "leapp"
    shutil.copytree(DATA / "leapp", folder)
    shutil.copy(folder / "go2.yaml", folder / "again.yaml")
    assert "leapp: several descriptions, again.yaml, go2.yaml: give one of them" in why(folder)


def test_a_folder_without_anything_and_a_file_of_another_kind_are_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "the folder is empty" in why(tmp_path / "empty")
    (tmp_path / "notes.txt").write_text("walk")
    assert "'.txt' are not known" in why(tmp_path / "notes.txt")
    (tmp_path / "manifest.json").write_text(json.dumps({"schema_version": "motrix-deploy/v2"}))
    assert (
        "motrix: expected manifest.json of schema 'motrix-deploy/v1'; this is manifest.json of schema 'motrix-deploy/v2'"
        in why(tmp_path / "manifest.json")
    )


@pytest.mark.parametrize("recorded", EVERY.values(), ids=EVERY)
def test_a_bundle_is_told_to_be_one(recorded: Recorded, tmp_path: Path) -> None:
    imported = IMPORTERS[recorded.importer].load(recorded.path, recorded.facts)
    write_imported(tmp_path / "policy.onnx", imported, name="walk", tool="test")
    for path in (tmp_path / "policy.onnx", tmp_path):
        with pytest.raises(ImportFailed, match=r"policy\.onnx: this is a bundle already; `isthmus bundle show"):
            find_importer(path)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('kind = "joint-position"', 'kind = "position"', r"action\.kind = 'position'; known: joint-position, joint-increment"),
        ('kind = "joint-position"\n', "", r"action\.kind = None; known: joint-position"),
        ("clip = 1.0\n", "", r'action\.clip is missing; give the highest action, either way, or clip = "none"'),
        ('network = "walk.onnx"', 'network = "walk.onnx"\ncommand = "velocity"', r"command = 'velocity'; expected .*command\.velocity"),
        ('network = "walk.onnx"', 'network = "walk.onnx"\ncommand = [0.0, 1.0]', r"command = \[0\.0, 1\.0\]; expected .*command\.low"),
        ("[action]", "[action", r"walk\.toml: cannot be read as TOML"),
    ],
)  # fmt: skip
def test_a_description_that_is_written_otherwise_is_refused_with_what_is_known(
    old: str, new: str, words: str, tmp_path: Path
) -> None:
    path = copied(BARE, tmp_path)
    assert path.read_text().count(old) >= 1
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(ImportFailed, match=words):
        load(BARE, path)


def test_a_description_may_say_that_actions_are_not_clipped(tmp_path: Path) -> None:
    path = copied(BARE, tmp_path)
    path.write_text(path.read_text().replace("clip = 1.0", 'clip = "none"'))
    assert IMPORTERS["bare"].load(path, BARE.facts).contract.action.clip is None
