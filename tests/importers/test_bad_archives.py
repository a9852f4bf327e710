"""Files that are damaged or hostile are refused, and nothing in them is run."""

import io
import os
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from parity import Recorded
from spoiling import (
    APP,
    EVERY,
    HOLOSOMA,
    KINFER,
    RL_SAR,
    copied,
    load,
    rewritten_archive,
)

from isthmus.policies.importers.common import ImportFailed
from isthmus.policies.importers.registry import find_importer


@pytest.mark.parametrize("recorded", EVERY.values(), ids=EVERY)
def test_a_file_that_ends_early_is_refused(recorded: Recorded, tmp_path: Path) -> None:
    path = copied(recorded, tmp_path)
    folder = path if path.is_dir() else path.parent
    for file in folder.rglob("*.*"):
        if file.suffix in (".pt", ".onnx", ".kinfer", ".app"):
            file.write_bytes(file.read_bytes()[: file.stat().st_size * 2 // 3])
    with pytest.raises(ImportFailed):
        load(recorded, path)


def spoiled(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model with a weight that is not a number."""
    for index, weight in enumerate(model.graph.initializer):
        values = numpy_helper.to_array(weight).copy()
        if values.dtype == np.float32 and values.size > 1:
            values.flat[0] = np.nan
            model.graph.initializer[index].CopyFrom(numpy_helper.from_array(values, weight.name))
            return model
    raise AssertionError


def nan_weights(data: bytes) -> bytes:
    return spoiled(onnx.load_model_from_string(data)).SerializeToString()


@pytest.mark.parametrize(("recorded", "member"), [(KINFER, "step_fn.onnx"), (APP, "policy.onnx")])
def test_a_weight_that_is_not_a_number_is_refused_inside_archives(recorded, member, tmp_path: Path) -> None:
    path = copied(recorded, tmp_path)
    rewritten_archive(path, member, nan_weights)
    with pytest.raises(ImportFailed, match="not finite"):
        load(recorded, path)


def test_a_weight_that_is_not_a_number_is_refused_in_torchscript(tmp_path: Path) -> None:
    path = copied(RL_SAR, tmp_path)
    layer = torch.nn.Linear(135, 12)
    with torch.no_grad():
        layer.weight[0, 0] = float("nan")
    torch.jit.script(torch.nn.Sequential(layer)).save(str(path / "policy.pt"))
    with pytest.raises(ImportFailed, match="not finite"):
        load(RL_SAR, path)


def bomb(path: Path) -> bytes:
    """A pickle that would make a folder if it were ever unpickled: posix.mkdir called with the path."""
    text = str(path).encode()
    return b"\x80\x02cposix\nmkdir\nX" + len(text).to_bytes(4, "little") + text + b"\x85R."


class Bomb:
    """Would make a file if it were ever unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_a_checkpoint_is_never_unpickled(tmp_path: Path) -> None:
    path, trace = copied(RL_SAR, tmp_path), tmp_path / "executed"
    torch.save({"model": Bomb(trace)}, path / "policy.pt")
    with pytest.raises(ImportFailed, match="no code in it"):
        load(RL_SAR, path)
    (path / "policy.pt").write_bytes(bomb(trace))
    with pytest.raises(ImportFailed):
        load(RL_SAR, path)
    assert not trace.exists()


def test_a_call_hidden_in_a_torchscript_archive_is_never_made(tmp_path: Path) -> None:
    path, trace = copied(RL_SAR, tmp_path), tmp_path / "executed"
    with zipfile.ZipFile(path / "policy.pt") as archive:
        names = archive.namelist()
    member = next(name for name in names if name.endswith("/data.pkl"))
    rewritten_archive(path / "policy.pt", member, lambda _: bomb(trace))
    with pytest.raises(ImportFailed, match="mkdir"):
        load(RL_SAR, path)
    assert not trace.exists()


def test_code_that_is_not_known_is_refused_by_name(tmp_path: Path) -> None:
    class Odd(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(135, 12)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.erfinv(torch.tanh(self.layer(x)))

    path = copied(RL_SAR, tmp_path)
    torch.jit.script(Odd()).save(str(path / "policy.pt"))
    with pytest.raises(ImportFailed, match=r"torch\.erfinv"):
        load(RL_SAR, path)


@pytest.mark.parametrize("name", ["../outside.onnx", "/outside.onnx", "a/../../outside.onnx"])
def test_members_that_lead_out_of_an_archive_are_refused(name: str, tmp_path: Path) -> None:
    for recorded in (KINFER, APP):
        path = copied(recorded, tmp_path / recorded.importer)
        if path.suffix == ".app":
            with zipfile.ZipFile(path, "a") as archive:
                archive.writestr(name, b"x")
        else:
            with tarfile.open(path, "w:gz") as archive:
                info = tarfile.TarInfo(name)
                info.size = 1
                archive.addfile(info, io.BytesIO(b"x"))
        with pytest.raises(ImportFailed, match="out of the archive"):
            load(recorded, path)


def test_links_in_an_archive_are_refused(tmp_path: Path) -> None:
    path = copied(KINFER, tmp_path)
    with tarfile.open(path, "w:gz") as archive:
        info = tarfile.TarInfo("metadata.json")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/hostname"
        archive.addfile(info)
    with pytest.raises(ImportFailed, match="link"):
        load(KINFER, path)


def test_archives_that_unpack_to_more_than_a_policy_are_refused(tmp_path: Path) -> None:
    zeros = bytes(1 << 20)
    app, tar = copied(APP, tmp_path / "app"), copied(KINFER, tmp_path / "kinfer")
    with zipfile.ZipFile(app, "a", zipfile.ZIP_DEFLATED) as archive:
        for index in range(300):
            archive.writestr(f"zeros_{index}", zeros)
    with tarfile.open(tar, "w:gz", compresslevel=1) as archive:
        for index in range(300):
            info = tarfile.TarInfo(f"zeros_{index}")
            info.size = len(zeros)
            archive.addfile(info, io.BytesIO(zeros))
    assert app.stat().st_size < 2 << 20
    for recorded, path in ((APP, app), (KINFER, tar)):
        with pytest.raises(ImportFailed, match="more than"):
            load(recorded, path)


def test_a_normaliser_that_would_be_unpickled_is_refused(tmp_path: Path) -> None:
    path, trace = copied(APP, tmp_path), tmp_path / "executed"
    buffer = io.BytesIO()
    np.savez(buffer, mean=np.array([Bomb(trace)], dtype=object), std=np.ones(39, dtype=np.float32))
    rewritten_archive(path, "obs_norm.npz", lambda _: buffer.getvalue())
    with pytest.raises(ImportFailed, match="cannot be read"):
        load(APP, path)
    assert not trace.exists()


@pytest.mark.parametrize(
    ("recorded", "least"), [(APP, 60), (KINFER, 60), (HOLOSOMA, 20)], ids=["zip", "tar.gz", "onnx"]
)
def test_damaged_bytes_are_refused(recorded: Recorded, least: int, tmp_path: Path) -> None:
    """Always in archives, whose sums tell; and whatever is damaged, the error is the importer's own."""
    path, rng = copied(recorded, tmp_path), np.random.default_rng(0)
    whole, refused = path.read_bytes(), 0
    for _ in range(60):
        damaged = np.frombuffer(whole, dtype=np.uint8).copy()
        damaged[rng.integers(0, len(whole), 20)] = rng.integers(0, 256, 20, dtype=np.uint8)
        path.write_bytes(damaged.tobytes())
        try:
            load(recorded, path)
        except ImportFailed:
            refused += 1
    assert refused >= least


def test_a_normaliser_beside_a_network_is_read_from_its_folder_alone(tmp_path: Path) -> None:
    """The same policy, unpacked: as it is, then with the normaliser elsewhere."""
    path = copied(APP, tmp_path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    folder = tmp_path / "unpacked"
    folder.mkdir()
    for name, content in members.items():
        (folder / name).write_bytes(content)
    assert find_importer(folder / "policy.onnx").name == "efferent"
    load(APP, folder / "policy.onnx")
    (folder / "obs_norm.npz").rename(tmp_path / "obs_norm.npz")
    (folder / "obs_norm.npz").symlink_to(tmp_path / "obs_norm.npz")
    with pytest.raises(ImportFailed, match="missing"):
        load(APP, folder / "policy.onnx")
    manifest = (folder / "manifest.yaml").read_text()
    (folder / "manifest.yaml").write_text(manifest.replace("obs_norm.npz", "../obs_norm.npz"))
    with pytest.raises(ImportFailed, match="missing"):
        load(APP, folder / "policy.onnx")
