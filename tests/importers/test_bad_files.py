"""Numbers that no policy has are refused, with the file and the value in the error; what nobody says is listed."""

import json
from pathlib import Path

import onnx
import pytest
import yaml
from parity import Recorded
from spoiling import (
    APP,
    BARE,
    EVERY,
    GYM,
    HOLOSOMA,
    KINFER,
    MOTRIX,
    RL_SAR,
    changed_yaml,
    copied,
    first,
    load,
    rewritten_archive,
)

from isthmus.policies.importers.common import Facts, ImportFailed
from isthmus.policies.importers.registry import IMPORTERS


@pytest.mark.parametrize("recorded", EVERY.values(), ids=EVERY)
def test_what_nobody_says_is_listed_whole(recorded: Recorded) -> None:
    with pytest.raises(ImportFailed) as error:
        IMPORTERS[recorded.importer].load(recorded.path, Facts())
    assert "latency_s" in str(error.value)
    assert "TOML" in str(error.value)


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
        (lambda d: d.update(num_actions=10**30), "expected 1 .. 1000"),
        (lambda d: d.update(leg_joint2motor_idx=[10**30] * 8), "number of a motor"),
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
        (lambda d: d["control"].update(rate_hz=0.0), "rate_hz"),
        (lambda d: d["observation"][0].update(history=10**12), "expected 1 .. 1001"),
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
    with pytest.raises(ImportFailed, match=r"policy\.toml beside it with terms, obs_scales"):
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


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('network = "walk.onnx"', 'network = "../walk.onnx"', "only a file in"),
        ('network = "walk.onnx"', 'network = "walk.pickle"', "neither .onnx nor .pt"),
        ('network = "walk.onnx"', 'network = "walk.onnx"\nlayout = "depth"', "'term' or 'time'"),
        ('network = "walk.onnx"', 'network = "walk.onnx"\nlayer = 3', "layer"),
        ('name = "gyro"', 'name = "gyroscope"', "gyroscope"),
        ("scale = 0.25", "scale = 0.0", "must not be 0"),
        ("scale = 0.25", "scale = nan", "finite"),
        ("scale = [0.4, 0.5, 0.6]", "scale = [0.4, 0.0, 0.6]", "must not be 0"),
        ('joints = ["hip", "knee", "ankle"]', 'joints = ["hip", "hip", "ankle"]', "repeated"),
        ("lags = [0, 2]", "lags = [0, -2]", "whole numbers of ticks"),
        ("lags = [0, 2]", "lags = [0, 9000000000000]", "whole numbers of ticks"),
        ("width = 2", "width = 9000000000000", "width must be"),
    ],
)
def test_a_description_that_cannot_be_meant_is_refused_of_bare_networks(old, new, said: str, tmp_path: Path) -> None:
    path = copied(BARE, tmp_path)
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(ImportFailed, match=said):
        load(BARE, path)


def test_a_description_of_another_width_is_refused(tmp_path: Path) -> None:
    path = copied(BARE, tmp_path)
    path.write_text(path.read_text().replace("lags = [0, 2]", "lags = [0, 1, 2]", 1))
    with pytest.raises(ImportFailed, match=r"does not fit.*\[1, 27\]"):
        load(BARE, path)
