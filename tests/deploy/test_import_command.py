"""`isthmus import`, and back by `isthmus export mjlab` and `isthmus export holosoma`."""

from pathlib import Path

import onnx
import onnx.numpy_helper
import pytest

from isthmus.deploy.cli import main
from isthmus.policies.bundle import load_bundle
from isthmus.policies.importers.registry import IMPORTERS

DATA = Path(__file__).parents[1] / "importers" / "data"
FACTS = """
robot = "g1"
latency_s = [0.0, 0.02]
"""


def isthmus(*words):
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return ended.value.code


@pytest.fixture
def facts(tmp_path):
    path = tmp_path / "facts.toml"
    path.write_text(FACTS)
    return path


def test_what_a_format_lacks_is_listed_a_line_each(capsys):
    assert isthmus("import", DATA / "holosoma" / "walk" / "policy.onnx") == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("isthmus: ") and "--facts" in said[0]
    assert any(line.startswith("  - latency_s: ") for line in said)


def test_a_policy_of_another_tool_becomes_a_bundle_that_loads(facts, tmp_path, capsys):
    out = tmp_path / "walk.onnx"
    assert isthmus("import", DATA / "holosoma" / "walk" / "policy.onnx", "--facts", facts, "--out", out) == 0
    assert "holosoma" in capsys.readouterr().out
    manifest = load_bundle(out).manifest
    assert manifest.contract.robot == "g1" and manifest.sources and manifest.provenance.trainer == "holosoma"
    assert isthmus("bundle", "verify", out) == 0


def test_without_out_it_says_where_every_number_came_from_and_writes_nothing(facts, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert isthmus("import", DATA / "holosoma" / "walk" / "policy.onnx", "--facts", facts) == 0
    assert "joints[0].kp: " in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["facts.toml"]


@pytest.mark.parametrize("flavour", ["mjlab", "holosoma"])
def test_there_and_back(facts, tmp_path, capsys, flavour):
    bundle, model = tmp_path / "walk.onnx", tmp_path / f"{flavour}.onnx"
    assert isthmus("import", DATA / "holosoma" / "walk" / "policy.onnx", "--facts", facts, "--out", bundle) == 0
    code = isthmus("export", flavour, bundle, "--out", model)
    if code == 2:  # a clock that the other tool does not have
        assert "isthmus: " in capsys.readouterr().err and not model.exists()
        assert flavour == "mjlab"
        return
    keys = {prop.key for prop in onnx.load(str(model)).metadata_props}
    assert "dof_names" in keys


def test_files_of_nobody_and_unknown_formats_are_refused_with_the_list(tmp_path, capsys):
    (tmp_path / "policy.onnx").write_bytes(b"nothing")
    assert isthmus("import", tmp_path / "policy.onnx") == 2
    said = capsys.readouterr().err
    assert all(f"\n  - {name}: " in said for name in IMPORTERS)
    assert isthmus("import", tmp_path / "nowhere") == 2
    assert "no such file" in capsys.readouterr().err
    assert isthmus("import", tmp_path / "policy.onnx", "--format", "vhs") == 2
    assert "expected one of mjlab" in capsys.readouterr().err


def test_facts_that_contradict_the_files_are_refused_with_both_numbers(facts, capsys):
    facts.write_text(FACTS + "[defaults]\nlower = -2.0\n")
    assert isthmus("import", DATA / "holosoma" / "walk" / "policy.onnx", "--facts", facts) == 2
    said = capsys.readouterr().err
    assert "says -1.5" in said and "facts.toml says -2.0" in said


def test_facts_with_an_unknown_key_name_it(tmp_path, capsys):
    path = tmp_path / "facts.toml"
    path.write_text('rate = 50\nrobot = "g1"\n')
    assert isthmus("import", DATA / "holosoma" / "walk" / "policy.onnx", "--facts", path) == 2
    assert "rate" in capsys.readouterr().err


def test_a_policy_that_overflows_never_takes_the_place_of_a_good_one(facts, tmp_path, capsys):
    source, out = tmp_path / "loud.onnx", tmp_path / "walk.onnx"
    assert isthmus("import", DATA / "holosoma" / "walk" / "policy.onnx", "--facts", facts, "--out", out) == 0
    good = out.read_bytes()
    model = onnx.load(str(DATA / "holosoma" / "walk" / "policy.onnx"))
    for weight in model.graph.initializer:
        if weight.data_type == onnx.TensorProto.FLOAT:
            array = onnx.numpy_helper.to_array(weight)
            weight.CopyFrom(onnx.numpy_helper.from_array(array * array.dtype.type(1e25), weight.name))
    onnx.save(model, str(source))
    assert isthmus("import", source, "--facts", facts, "--out", out) == 2
    assert "finite" in capsys.readouterr().err
    assert out.read_bytes() == good and sorted(p.name for p in tmp_path.iterdir()) == [
        "facts.toml",
        "loud.onnx",
        "walk.onnx",
    ]


def test_a_bundle_has_its_ending_and_never_replaces_what_it_is_made_from(facts, tmp_path, capsys):
    source = tmp_path / "policy.onnx"
    source.write_bytes((DATA / "holosoma" / "walk" / "policy.onnx").read_bytes())
    assert isthmus("import", source, "--facts", facts, "--out", source) == 2
    assert "would replace" in capsys.readouterr().err
    assert isthmus("import", source, "--facts", facts, "--out", tmp_path / "walk.bin") == 2
    assert "must end with .onnx" in capsys.readouterr().err
