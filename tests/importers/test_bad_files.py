"""What cannot be trusted is refused, with the file and the value in the error: damaged, hostile, or numbers that no policy has."""

import io
import json
import os
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
import yaml
from onnx import numpy_helper
from parity import Recorded
from recorded_b import RECORDED

from isthmus.policies.importers.common import Facts, ImportFailed
from isthmus.policies.importers.registry import IMPORTERS

EVERY = {f"{r.importer}-{r.rows.parent.name}-{r.rows.stem}": r for r in RECORDED}
RL_SAR, GYM, KINFER, APP = (
    EVERY[n]
    for n in ("rl_sar-walk-rows", "unitree_rl_gym-unitree_rl_gym-real", "kinfer-kinfer-rows", "efferent-efferent-walk")
)
HOLOSOMA = EVERY["holosoma-history-rows"]
MOTRIX = EVERY["motrix-motrix-walk"]


def load(recorded: Recorded, path: Path, **facts: object) -> None:
    IMPORTERS[recorded.importer].load(path, replace(recorded.facts, **facts))


def copied(recorded: Recorded, folder: Path) -> Path:
    """The policy's folder with what lies beside and above it, to be changed."""
    source = recorded.path if recorded.path.is_dir() else recorded.path.parent
    shutil.copytree(source, folder / source.name)
    for beside in source.parent.glob("*.yaml"):
        shutil.copy(beside, folder)
    return folder / source.name / ("" if recorded.path.is_dir() else recorded.path.name)


@pytest.mark.parametrize("recorded", EVERY.values(), ids=EVERY)
def test_what_nobody_says_is_listed_whole(recorded: Recorded) -> None:
    with pytest.raises(ImportFailed) as error:
        IMPORTERS[recorded.importer].load(recorded.path, Facts())
    assert "latency_s" in str(error.value)
    assert "TOML" in str(error.value)


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


def rewritten_archive(path: Path, member: str, change: Callable[[bytes], bytes]) -> None:
    if path.suffix == ".kinfer":
        with tarfile.open(path) as archive:
            members = {info.name: archive.extractfile(info).read() for info in archive.getmembers()}  # pyright: ignore[reportOptionalMemberAccess]
        members[member] = change(members[member])
        with tarfile.open(path, "w:gz") as archive:
            for name, content in members.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
        return
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members[member] = change(members[member])
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


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
    network = torch.nn.Sequential(torch.nn.Linear(135, 12))
    with torch.no_grad():
        network[0].weight[0, 0] = float("nan")
    torch.jit.script(network).save(str(path / "policy.pt"))
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


def changed_yaml(path: Path, change: Callable[[dict], object]) -> None:  # pyright: ignore[reportMissingTypeArgument]
    data = yaml.safe_load(path.read_text())
    change(data)
    path.write_text(yaml.safe_dump(data))


def first(data: dict) -> dict:  # pyright: ignore[reportMissingTypeArgument]
    return next(iter(data.values()))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: first(d).update(action_scale=[0.0] * 12), "scale 0"),
        (lambda d: first(d).update(rl_kd=[-1.0] * 12), "kd"),
        (lambda d: first(d).update(rl_kp=[0.0] * 12), "kp"),
        (lambda d: first(d).update(rl_kp=[1.0] * 11), "11 values"),
        (lambda d: first(d).update(joint_mapping=[0, 0, *range(2, 12)]), "each of 0 .. 11 once"),
        (lambda d: first(d).update(model_name="../policy.pt"), "only a file in"),
        (lambda d: first(d).update(model_name="/etc/passwd.pt"), "only a file in"),
        (lambda d: first(d).update(wheel_indices=[3]), "wheels"),
        (lambda d: first(d).update(observations=["ang_vel", "height_scan"]), "height_scan"),
        (lambda d: first(d).update(observations_history_priority="depth"), "expected 'time' or 'term'"),
        (lambda d: first(d).update(clip_obs=float("nan")), "finite"),
        (lambda d: d.update(other={}), "expected one key"),
    ],
)
def test_numbers_that_no_policy_has_are_refused_in_rl_sar(change, said: str, tmp_path: Path) -> None:
    path = copied(RL_SAR, tmp_path)
    changed_yaml(path / "config.yaml", change)
    with pytest.raises(ImportFailed, match=said):
        load(RL_SAR, path)


def test_the_robots_file_is_found_above_a_policy_of_several_folders_in_rl_sar(tmp_path: Path) -> None:
    path = copied(RL_SAR, tmp_path)
    (tmp_path / "skills").mkdir()
    path = path.rename(tmp_path / "skills" / "walk")
    changed_yaml(path / "config.yaml", lambda d: d.update({"quad/skills/walk": d.pop("quad/walk")}))
    load(RL_SAR, path)


def test_joint_names_that_disagree_are_refused_in_rl_sar() -> None:
    with pytest.raises(ImportFailed, match="sdk_joints"):
        load(RL_SAR, RL_SAR.path, sdk_joints=tuple(f"joint_{i}" for i in range(12)))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d.update(action_scale=0.0), "scale 0"),
        (lambda d: d.update(kds=[-1] * 8), "kd"),
        (lambda d: d.update(leg_joint2motor_idx=[3, 3, 1, 0, 7, 6, 5, 4]), "repeated"),
        (lambda d: d.update(leg_joint2motor_idx=[3, 2, 1, 0, 7, 6, 5, 40]), "number 40"),
        (lambda d: d.update(num_obs=40), "gives 35"),
        (lambda d: d.update(policy_path="{LEGGED_GYM_ROOT_DIR}/../../policy_lstm_1.pt"), "below"),
        (lambda d: d.update(control_dt=-0.02), "control period"),
    ],
)
def test_numbers_that_no_policy_has_are_refused_in_unitree_rl_gym(change, said: str, tmp_path: Path) -> None:
    path = copied(GYM, tmp_path)
    changed_yaml(path, change)
    with pytest.raises(ImportFailed, match=said):
        load(GYM, path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d.update(joint_names=["a", "a", "b", "c"]), "repeated"),
        (lambda d: d.update(joint_names="abcd"), "joint_names"),
        (lambda d: d.update(carry_size=[0]), "carry_size"),
        (lambda d: d.update(carry_size=[24]), "shape"),
        (lambda d: d.update(command_names=["xvel"]), "command"),
    ],
)
def test_metadata_that_does_not_fit_is_refused_in_kinfer(change, said: str, tmp_path: Path) -> None:
    def changed(content: bytes) -> bytes:
        data = json.loads(content)
        change(data)
        return json.dumps(data).encode()

    path = copied(KINFER, tmp_path)
    rewritten_archive(path, "metadata.json", changed)
    with pytest.raises(ImportFailed, match=said):
        load(KINFER, path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d.update(efferent=2), "version 2"),
        (lambda d: d["control"].update(action_scale=0.0), "scale 0"),
        (lambda d: d["control"].update(action_type="joint_torque"), "joint_torque"),
        (lambda d: d["control"]["gains"].update(kd=-1.0), "kd"),
        (lambda d: d["joints"][1].update(name="hip_r"), "hip_r"),
        (lambda d: d["observation"].append({"term": "custom.mine"}), "custom.mine"),
        (lambda d: d["normalization"].update(file="../obs_norm.npz"), "missing"),
        (lambda d: d["policy"].update(file="other.onnx"), "other.onnx"),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused_in_efferent(change, said: str, tmp_path: Path) -> None:
    def changed(content: bytes) -> bytes:
        data = yaml.safe_load(content)
        change(data)
        return yaml.safe_dump(data).encode()

    path = copied(APP, tmp_path)
    rewritten_archive(path, "manifest.yaml", changed)
    with pytest.raises(ImportFailed, match=said):
        load(APP, path)


def test_a_normaliser_that_would_be_unpickled_is_refused(tmp_path: Path) -> None:
    path, trace = copied(APP, tmp_path), tmp_path / "executed"
    buffer = io.BytesIO()
    np.savez(buffer, mean=np.array([Bomb(trace)], dtype=object), std=np.ones(39, dtype=np.float32))
    rewritten_archive(path, "obs_norm.npz", lambda _: buffer.getvalue())
    with pytest.raises(ImportFailed, match="cannot be read"):
        load(APP, path)
    assert not trace.exists()


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("kp", json.dumps([0.0] * 6), "kp"),
        ("kd", json.dumps([-1.0] * 6), "kd"),
        ("dof_names", json.dumps(["a"] * 6), "repeated"),
        ("kp", "1.0,2.0", "not JSON"),
        ("kp", json.dumps([1.0] * 5), "5 values"),
    ],
)
def test_properties_that_no_policy_has_are_refused_in_holosoma(key, value, said, tmp_path: Path) -> None:
    path = copied(HOLOSOMA, tmp_path)
    model = onnx.load(str(path))
    for entry in model.metadata_props:
        entry.value = value if entry.key == key else entry.value
    onnx.save(model, str(path))
    with pytest.raises(ImportFailed, match=said):
        load(HOLOSOMA, path)


def test_a_holosoma_file_that_does_not_say_what_it_sees_asks_for_it(tmp_path: Path) -> None:
    path = copied(HOLOSOMA, tmp_path)
    path.with_name("holosoma.toml").unlink()
    with pytest.raises(ImportFailed, match=r"holosoma\.toml beside it with terms, obs_scales"):
        load(HOLOSOMA, path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d["policy"].update(payload_path="../policy.onnx"), "leads out"),
        (lambda d: d["policy"].update(payload_path="/etc/hostname"), "leads out"),
        (lambda d: d["policy"].update(sha256="0" * 64), "damaged, or of another export"),
        (lambda d: d["task"].update(name="g1_wbt/v1"), "importer 'bare'"),
        (lambda d: d["task"]["config"].update(action_scale=[0.0] * 6), "scale 0"),
        (lambda d: d["task"]["config"].update(kd=[-0.1] * 6), "kd"),
        (lambda d: d["task"]["config"].update(gait_frequency_hz=0.0), "positive"),
        (lambda d: d["robot"].update(joint_names=["a"] * 6), "repeated"),
        (lambda d: d["robot"].update(torque_limit=[1.0] * 5), "5 values"),
        (lambda d: d["control"].update(quaternion_order="wxyz"), "quaternion_order"),
        (lambda d: d["control"].update(period_s=-0.02), "control period"),
        (lambda d: d.update(schema_version="motrix-deploy/v2"), "v2"),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused_in_motrix(change, said: str, tmp_path: Path) -> None:
    path = copied(MOTRIX, tmp_path) / "manifest.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    with pytest.raises(ImportFailed, match=said):
        load(MOTRIX, path)


def test_a_network_that_is_a_link_is_refused_in_motrix(tmp_path: Path) -> None:
    path = copied(MOTRIX, tmp_path)
    (path / "policy/policy.onnx").rename(tmp_path / "elsewhere.onnx")
    (path / "policy/policy.onnx").symlink_to(tmp_path / "elsewhere.onnx")
    with pytest.raises(ImportFailed, match="link"):
        load(MOTRIX, path)
