"""What mjlab, Isaac Lab, LEAPP and unitree files cannot mean, and files that mean harm."""

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from parity import Recorded, load_rows
from recorded_a import RECORDED

from isthmus.hardware.robot import load_robot
from isthmus.policies.contract import bind
from isthmus.policies.importers.common import Facts, ImportFailed, robot_facts
from isthmus.policies.importers.registry import IMPORTERS

EVERY = {f"{r.importer}-{r.rows.parent.name}-{r.rows.stem}": r for r in RECORDED}
WALK, HISTORY = EVERY["unitree-walk-rows"], EVERY["unitree-history-rows"]
VELOCITY, TRACKING = EVERY["mjlab-mjlab-velocity"], EVERY["mjlab-mjlab-tracking"]
FLAT, PATTERNS = EVERY["isaaclab-flat-rows"], EVERY["isaaclab-history-rows"]
LEAPP, MIMIC = EVERY["leapp-leapp-rows"], EVERY["unitree-mimic-rows"]


def load(recorded: Recorded, path: Path, **facts: object) -> None:
    IMPORTERS[recorded.importer].load(path, replace(recorded.facts, **facts))


def copied(recorded: Recorded, folder: Path) -> Path:
    target = folder / recorded.path.name
    if recorded.path.is_dir():
        shutil.copytree(recorded.path, target)
    else:
        shutil.copy(recorded.path, target)
    return target


def edited(recorded: Recorded, folder: Path, name: str, old: str, new: str) -> Path:
    """A copy in which a text of one file is another."""
    path = copied(recorded, folder)
    file = path / name
    text = file.read_text()
    assert re.search(old, text), f"{old!r} is not in {file}"
    file.write_text(re.sub(old, new, text, count=1))
    return path


def with_property(recorded: Recorded, folder: Path, key: str, change: Callable[[str], str]) -> Path:
    """A copy of an ONNX file with another property."""
    path = copied(recorded, folder)
    model = onnx.load(path)
    for entry in model.metadata_props:
        if entry.key == key:
            entry.value = change(entry.value)
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("recorded", EVERY.values(), ids=EVERY)
def test_what_nobody_says_is_listed_whole(recorded: Recorded) -> None:
    with pytest.raises(ImportFailed) as error:
        IMPORTERS[recorded.importer].load(recorded.path, replace(recorded.facts, robot=None, task=None, latency_s=None))
    assert all(f" {key}: " in str(error.value) for key in ("robot", "task", "latency_s"))
    assert "TOML" in str(error.value)


@pytest.mark.parametrize("recorded", EVERY.values(), ids=EVERY)
def test_a_network_that_ends_early_is_refused(recorded: Recorded, tmp_path: Path) -> None:
    path = copied(recorded, tmp_path)
    for file in [path] if path.is_file() else path.rglob("*.onnx"):
        file.write_bytes(file.read_bytes()[: file.stat().st_size * 2 // 3])
    with pytest.raises(ImportFailed):
        load(recorded, path)


@pytest.mark.parametrize("recorded", [VELOCITY, TRACKING], ids=["velocity", "tracking"])
def test_a_weight_that_is_not_a_number_is_refused(recorded: Recorded, tmp_path: Path) -> None:
    path = copied(recorded, tmp_path)
    model = onnx.load(path)
    weight = next(w for w in model.graph.initializer if w.data_type == TensorProto.FLOAT and len(w.dims) == 2)
    values = numpy_helper.to_array(weight).copy()
    values.flat[3] = np.nan
    weight.CopyFrom(numpy_helper.from_array(values, weight.name))
    onnx.save(model, path)
    with pytest.raises(ImportFailed, match="not finite"):
        load(recorded, path)


def test_split_weights_are_read_from_the_models_own_folder_alone(tmp_path: Path) -> None:
    for location in ("../secret", "/etc/hostname", "sub/policy.onnx.data", "..", ""):
        path = copied(WALK, tmp_path / re.sub(r"\W", "_", f"at{location}"))
        file = path / "exported" / "policy.onnx"
        model = onnx.load(file, load_external_data=False)
        split = next(w for w in model.graph.initializer if w.data_location == TensorProto.EXTERNAL)
        next(entry for entry in split.external_data if entry.key == "location").value = location
        file.write_bytes(model.SerializeToString())
        with pytest.raises(ImportFailed, match="own folder"):
            load(WALK, path)


def test_split_weights_behind_a_link_and_missing_ones_are_refused(tmp_path: Path) -> None:
    path = copied(WALK, tmp_path)
    data = path / "exported" / "policy.onnx.data"
    data.rename(tmp_path / "elsewhere")
    with pytest.raises(ImportFailed, match="no such file"):
        load(WALK, path)
    data.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ImportFailed, match="link"):
        load(WALK, path)


def test_split_weights_that_end_early_are_refused(tmp_path: Path) -> None:
    path = copied(WALK, tmp_path)
    data = path / "exported" / "policy.onnx.data"
    data.write_bytes(data.read_bytes()[:100])
    with pytest.raises(ImportFailed, match="cut off"):
        load(WALK, path)


def test_a_call_in_a_deploy_yaml_is_not_made(tmp_path: Path) -> None:
    trace = tmp_path / "executed"
    call = f"step_dt: !!python/object/apply:os.mkdir ['{trace}']"
    path = edited(WALK, tmp_path, "params/deploy.yaml", r"step_dt: 0\.02", call)
    with pytest.raises(ImportFailed, match=r"step_dt: expected a finite number, got a python object"):
        load(WALK, path)
    assert not trace.exists()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (r"joint_ids_map: \[3, ", "joint_ids_map: [0, ", "expected different numbers"),
        (r"joint_ids_map: \[3, ", "joint_ids_map: [12, ", "expected different numbers"),
        (r"stiffness: \[25.0, ", "stiffness: [0.0, ", "expected kp > 0"),
        (r"stiffness: \[25.0, ", "stiffness: [", "11 values, but joint_ids_map names motor 11"),
        (r"damping: \[0.5, ", "damping: [-0.5, ", "kd >= 0"),
        (r"scale: \[0.25, ", "scale: [0.0, ", "scale 0 at"),
        (r"scale: \[0.25, ", "scale: [.nan, ", "finite number"),
        (r"step_dt: 0.02", "step_dt: -0.02", "positive number"),
        (r"JointPositionAction:", "JointVelocityAction:", "only one JointPositionAction"),
        (r"joint_ids: !!python/object/apply:builtins.slice \[null, null, null\]", "joint_ids: [1, 0]", "all joints in order"),
        (r"base_ang_vel:", "height_scan:", "unknown observation"),
        (r"period: 0.8", "period: 0", "positive number of seconds"),
        (r"lin_vel_x: \[-0.5, 1.0\]", "lin_vel_x: [1.0, -0.5]", "lowest and a highest"),
        (r"history_length: 1", "history_length: 0", "expected 1 at least"),
        (r"observations:\n", "observations:\n  scale_first: true\n", "needs a term or a group first"),
    ],
)  # fmt: skip
def test_a_deploy_yaml_that_cannot_be_meant_is_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ImportFailed, match=message):
        load(WALK, edited(WALK, tmp_path, "params/deploy.yaml", old, new))


def test_a_history_of_a_phase_is_refused(tmp_path: Path) -> None:
    path = edited(
        WALK, tmp_path, "params/deploy.yaml", r"scale: \[1.0, 1.0\]\n    history_length: 1", "history_length: 2"
    )
    with pytest.raises(ImportFailed, match="history of gait_phase"):
        load(WALK, path)


def first(word: str) -> Callable[[str], str]:
    return lambda text: ",".join([word, *text.split(",")[1:]])


@pytest.mark.parametrize(
    ("key", "change", "message"),
    [
        ("joint_names", lambda text: text.replace("FL_hip_joint", "FR_hip_joint"), "expected different names"),
        ("joint_stiffness", first("1.000,0.000"), "values of kp for 12 joints"),
        ("joint_stiffness", first("0.000"), "expected kp > 0"),
        ("joint_damping", first("-0.500"), "kd >= 0"),
        ("action_scale", first("0.000"), "scale 0 at"),
        ("action_scale", first("nan"), "not finite"),
        ("action_scale", first("word"), "expected a number"),
        ("action_scale", lambda _: "0.5,0.5", "2 values for 12 joints"),
        ("observation_names", first("height_scan"), "'height_scan' is code of a task's own"),
        ("observation_terms_history_length", first("2.500"), "whole numbers"),
        ("observation_terms_scale", first("1.000,1.000"), "entries for 7 observations"),
        ("observation_terms_clip", first("3.000;1.000"), "lowest and a highest"),
        ("command_names", lambda _: "pose", "known: twist"),
        ("observation_terms_flatten_history_dim", lambda _: "0.000," * 6 + "0.000", "one vector"),
    ],
)  # fmt: skip
def test_mjlab_properties_that_cannot_be_meant_are_refused(
    key: str, change: Callable[[str], str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ImportFailed, match=message):
        load(VELOCITY, with_property(VELOCITY, tmp_path, key, change))


def test_a_motion_needs_its_anchor_among_its_bodies_and_the_way_there_among_the_joints(tmp_path: Path) -> None:
    with pytest.raises(ImportFailed, match="anchor_body_name: 'torso'"):
        load(TRACKING, with_property(TRACKING, tmp_path, "anchor_body_name", lambda _: "torso"))
    with pytest.raises(ImportFailed, match=r" anchor: joints from the base"):
        load(TRACKING, TRACKING.path, anchor=None)
    assert TRACKING.facts.anchor is not None
    with pytest.raises(ImportFailed, match="none of the joints"):
        load(TRACKING, TRACKING.path, anchor=(replace(TRACKING.facts.anchor[0], joint="neck"),))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (r"envs.mdp.observations:base_ang_vel", "my_task.mdp:base_ang_vel", "code of a task's own|expected"),
        (r"func: isaaclab.envs.mdp.observations:base_ang_vel", "func: mine:base_ang_vel", "code of a task's own"),
        (r"concatenate_terms: true", "concatenate_terms: false", "one vector"),
        (r"JointPositionAction", "JointEffortAction", "only JointPositionAction"),
        (r"    scale: 0.25", "    scale: 0.0", "scale 0 at"),
        (r"stiffness: 25.0", "stiffness: -1.0", "expected kp > 0"),
        (r"\.\*_calf_joint: -1.5", ".*_knee_joint: -1.5", "match none of the joints"),
        (r"\.\*_calf_joint: -1.5", "F.*: -1.5", "more than one pattern"),
        (r"\.\*: 0.0", ".*: 0.1", "initial velocities"),
        (r"\.\*_calf_joint: -1.5", "'[': -1.5", "not a pattern"),
        (r"\.\*_calf_joint: -1.5", "(\\\\w+)+x: -1.5", "for ever"),
        (r"UniformVelocityCommand", "UniformPoseCommand", "only a velocity"),
        (r"modifiers: null", "modifiers: [1]", "modifiers cannot be imported"),
    ],
)  # fmt: skip
def test_an_environment_that_cannot_be_meant_is_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ImportFailed, match=message):
        load(FLAT, edited(FLAT, tmp_path, "params/env.yaml", old, new))


def test_without_the_trainers_configuration_its_clip_is_asked_for(tmp_path: Path) -> None:
    path = copied(PATTERNS, tmp_path)
    (path / "params" / "agent.yaml").unlink()
    with pytest.raises(ImportFailed, match=r" action_clip: "):
        load(PATTERNS, path)
    load(PATTERNS, path, action_clip=0.4)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (r"sha256sum: \w+", "sha256sum: a0", "damaged or another export"),
        (r"model_path: ", "model_path: ../", "own folder"),
        (r"backend: onnx", "backend: jit", "only onnx"),
        (r"frequency: 50.0", "frequency: 0.0", "positive number"),
        (r"state:robot:root_ang_vel_b", "state:robot:root_ang_acc_b", "nothing that can be measured"),
        (r"\[qx, qy, qz, qw\]", "[a, b, c, d]", "expected qw, qx, qy, qz"),
        (r"kind: target/joint/position", "kind: target/joint/velocity", "expected one target/joint/position"),
        (r"initial_values: ", "initial_values: /", "own folder"),
        (r"last_action_out: \[Isaac", "last_action_out: [Other", "expected tensors of"),
    ],
)  # fmt: skip
def test_a_leapp_description_that_cannot_be_meant_is_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ImportFailed, match=message):
        load(LEAPP, edited(LEAPP, tmp_path, "go2.yaml", old, new))


def test_leapp_quaternions_are_taken_in_the_order_that_the_file_names() -> None:
    imported = IMPORTERS["leapp"].load(LEAPP.path, LEAPP.facts)
    attitude = next(term for term in imported.contract.observation if term.signal == "base_quat")
    assert attitude.index == (1, 2, 3, 0)


def test_facts_that_contradict_the_file_are_refused() -> None:
    facts = replace(WALK.facts, defaults=replace(WALK.facts.defaults, kp=26.0))
    with pytest.raises(ImportFailed, match=r"kp of FL_hip_joint.*deploy.yaml: stiffness says 26.0|kp of .* says"):
        IMPORTERS["unitree"].load(WALK.path, facts)


def test_a_policy_binds_to_a_robot_whose_numbers_it_printed(tmp_path: Path) -> None:
    robot = load_robot("go2")
    bare = Facts(task="walk", latency_s=(0.0, 0.0), sdk_joints=WALK.facts.sdk_joints)
    path = copied(WALK, tmp_path)
    text = (path / "params" / "deploy.yaml").read_text()
    text = re.sub(r"stiffness: \[[^]]*\]", f"stiffness: {[40.0] * 12}", text)
    text = re.sub(r"damping: \[[^]]*\]", f"damping: {[1.0] * 12}", text)
    order = [str(name) for name in _policy_order(text)]
    pose = [robot.joints[robot.joint_names.index(name)].default_pos for name in order]
    text = re.sub(r"default_joint_pos: (&id001 )?\[[^]]*\]", f"default_joint_pos: &id001 {pose}", text)
    (path / "params" / "deploy.yaml").write_text(text)
    imported = IMPORTERS["unitree"].load(path, robot_facts(robot, bare))
    assert [robot.joint_names[i] for i in bind(imported.contract, robot)] == order


def _policy_order(text: str) -> list[str]:
    ids = [int(number) for number in re.findall(r"joint_ids_map: \[([^]]*)\]", text)[0].split(",")]
    motors = WALK.facts.sdk_joints
    assert motors is not None
    return [motors[i] for i in ids]


def test_rows_of_every_recording_are_numbers_alone() -> None:
    for recorded in EVERY.values():
        rows = load_rows(recorded.rows)  # numpy refuses pickled arrays
        assert all(values.dtype.kind in "fU" for values in rows.values())
    assert os.path.getsize(TRACKING.rows) < 150_000


def test_a_mimic_policy_needs_one_motion_of_plain_numbers_for_its_joints(tmp_path: Path) -> None:
    path = copied(MIMIC, tmp_path)
    motion = path / "params" / "dance.npz"
    with np.load(motion) as archive:
        arrays = {name: archive[name] for name in archive.files}
    changes: dict[str, tuple[str, np.ndarray]] = {
        "objects": ("joint_pos", np.array([[{}]], dtype=object)),
        "joints": ("joint_pos", arrays["joint_pos"][:, :-1]),
        "frames": ("joint_vel", arrays["joint_vel"][:-1]),
        "nan": ("body_quat_w", arrays["body_quat_w"] * np.float32("nan")),
        "double": ("joint_pos", arrays["joint_pos"].astype(np.float64)),
    }
    for name, array in changes.values():
        np.savez(motion, **{**arrays, name: array})  # pyright: ignore[reportArgumentType]
        with pytest.raises(ImportFailed, match=r"dance\.npz"):
            load(MIMIC, path)
    shutil.copy(MIMIC.path / "params" / "dance.npz", motion)
    shutil.copy(motion, motion.with_name("second.npz"))
    with pytest.raises(ImportFailed, match="its only npz"):
        load(MIMIC, path)
    with pytest.raises(ImportFailed, match=r" anchor: joints from the base"):
        load(MIMIC, MIMIC.path, anchor=None)


def test_delays_of_training_are_told_and_orders_of_time_are_known(tmp_path: Path) -> None:
    recorded = EVERY["isaaclab-v3-rows"]
    imported = IMPORTERS["isaaclab"].load(recorded.path, recorded.facts)
    assert [note.partition(": training delayed")[0].rpartition(": ")[2] for note in imported.notes] == ["joint_vel"]
    assert imported.contract.layout == "time"
    with pytest.raises(ImportFailed, match="expected term or time"):
        load(recorded, edited(recorded, tmp_path, "params/env.yaml", "history_order: time", "history_order: newest"))
