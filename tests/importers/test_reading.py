"""Reading other people's files: tags are data, archives stay within bounds, numbers agree within their print."""

import io
import os
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from parity import DATA

from isthmus.hardware.errors import IsthmusError
from isthmus.policies.importers import files
from isthmus.policies.importers.common import ImportFailed, Numbers, agree, parse_csv
from isthmus.policies.importers.facts import read_facts
from isthmus.policies.importers.files import metadata, toml_tables
from isthmus.policies.importers.leapp import read_safetensors
from isthmus.policies.importers.tagged_yaml import Opaque, Slice, parse_yaml


def test_python_tags_are_data_and_nothing_is_run(tmp_path: Path) -> None:
    trace = tmp_path / "executed"
    text = f"""
a: !!python/object/apply:os.mkdir ['{trace}']
b: !!python/object/new:os.mkdir ['{trace}']
c: !!python/name:os.system ''
d: !!python/object/apply:builtins.slice [null, null, null]
e: !!python/tuple [1, 2]
f: !!python/module:os ''
"""
    found = parse_yaml(text, "text")
    assert not trace.exists()
    assert isinstance(found.raw("a"), Opaque)
    assert isinstance(found.raw("b"), Opaque)
    assert found.raw("c") == "os.system"  # a name, not the thing
    assert found.raw("d") == Slice(start=None, stop=None, step=None)
    assert found.numbers("e") == (1.0, 2.0)
    with pytest.raises(ImportFailed, match="python object"):
        found.number("a")


def test_yaml_that_grows_without_end_is_refused_in_a_short_text() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    found = parse_yaml("\n".join(lines), "text")
    with pytest.raises(ImportFailed) as error:
        found.number("a11")
    assert len(str(error.value)) < 100


def test_numbers_without_a_point_before_their_exponent_are_numbers() -> None:
    assert parse_yaml("a: [1e-3, -2E+2, 5.0e-1]", "text").numbers("a") == (0.001, -200.0, 0.5)
    with pytest.raises(ImportFailed, match="expected a finite number, got '1e'"):
        parse_yaml("a: 1e", "text").number("a")


def test_yaml_nested_too_deep_and_no_mapping_are_refused() -> None:
    for text in ("[" * 5000, "- 1\n- 2", "a: [1", "\x00"):
        with pytest.raises(ImportFailed):
            parse_yaml(text, "text")


def archive_of(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_archives_are_read_within_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert files.read_archive(archive_of(tmp_path / "good.zip", {"a/b.txt": b"x"})) == {"a/b.txt": b"x"}
    monkeypatch.setattr(files, "MAX_BYTES", 10_000)
    bomb = archive_of(tmp_path / "bomb.zip", {"zeros": bytes(10_001)})
    assert bomb.stat().st_size < 1000
    with pytest.raises(ImportFailed, match="more than"):
        files.read_archive(bomb)
    for name in ("../up", "/abs", "a/../../up", "a\\b"):
        with pytest.raises(ImportFailed, match="lead out"):
            files.read_archive(archive_of(tmp_path / "bad.zip", {name: b"x"}))


def test_links_in_tar_archives_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "links.tar"
    with tarfile.open(path, "w") as archive:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        plain = tarfile.TarInfo("plain")
        plain.size = 1
        archive.addfile(plain, io.BytesIO(b"x"))
    with pytest.raises(ImportFailed, match="link or a device"):
        files.read_archive(path)


def test_safetensors_that_end_early_or_are_none_are_refused(tmp_path: Path) -> None:
    source = next((DATA / "leapp").glob("*.safetensors"))
    path = tmp_path / "values.safetensors"
    data = source.read_bytes()
    for cut in (data[:4], data[:40], data[:-8], b"\xff" * 64, b"\x80\x04" + data):
        path.write_bytes(cut)
        with pytest.raises(ImportFailed):
            read_safetensors(path)
    path.write_bytes(data)
    kinds = {key.rpartition("/")[2]: value.dtype for key, value in read_safetensors(path).items()}
    assert kinds["last_action_in"] == np.dtype("float32")
    assert kinds["h_policy_base_ang_vel_num_pushes_in"] == np.dtype("int64")


def test_sources_agree_within_their_print_or_not_at_all() -> None:
    coarse = parse_csv("0.075,-1.500", "file: scale")
    assert coarse.resolution == (0.0005, 0.0005)
    fine = Numbers(values=(0.0745, -1.4996), source="facts")
    assert agree("scale", coarse, fine) is fine
    with pytest.raises(ImportFailed, match=r"scale\[1\]: file: scale says -1.5, facts says -1.4"):
        agree("scale", coarse, Numbers(values=(0.0745, -1.4), source="facts"))
    with pytest.raises(ImportFailed, match="2 values, facts has 1"):
        agree("scale", coarse, Numbers(values=(0.0745,), source="facts"))


@pytest.mark.parametrize("text", ["a = " + "[" * 100_000, "a = [1,", "\xff"])
def test_a_toml_that_is_none_is_refused_with_its_name(text: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(text.encode("latin1"))
    with pytest.raises(ImportFailed, match=r"mine\.toml"):
        toml_tables(path)
    with pytest.raises(IsthmusError, match=r"mine\.toml"):
        read_facts(path)


def test_facts_that_are_no_file_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path, tmp_path / "fifo", tmp_path / "nothing"):
        with pytest.raises(IsthmusError, match="expected a TOML file of facts"):
            read_facts(path)


def test_properties_that_are_no_text_are_refused() -> None:
    model = onnx.load(str(DATA / "mjlab" / "velocity.onnx"))
    data = model.SerializeToString().replace(b"joint_names", b"joint_\xffames")
    with pytest.raises(ImportFailed, match="no text"):
        metadata(onnx.load_model_from_string(data))
