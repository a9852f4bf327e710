"""Bundles go back into other tools' files, and what those tools then compute is what the bundle computes."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from parity import TOLERANCE, load_rows, run_rows
from recorded_a import RECORDED as RECORDED_A
from recorded_b import RECORDED as RECORDED_B

from isthmus.policies.contract import JointPosition, history
from isthmus.policies.exporters.network import ExportFailed
from isthmus.policies.exporters.registry import export_bundle
from isthmus.policies.importers.common import CommandFacts, Facts, Imported, JointFacts
from isthmus.policies.importers.imported_bundle import write_imported
from isthmus.policies.importers.registry import IMPORTERS

BY_NAME = {f"{r.importer}-{r.rows.parent.name}-{r.rows.stem}": r for r in (*RECORDED_A, *RECORDED_B)}
WALK, MJLAB = (BY_NAME[name] for name in ("holosoma-walk-rows", "mjlab-mjlab-velocity"))
RL_SAR, NEWEST_FIRST = (BY_NAME[name] for name in ("rl_sar-trot-rows", "rl_sar-walk-rows"))


def imported_with(name_or_recorded, **changes: object) -> tuple[Imported, dict[str, np.ndarray]]:
    recorded = name_or_recorded
    imported = IMPORTERS[recorded.importer].load(recorded.path, recorded.facts)
    imported = replace(imported, contract=replace(imported.contract, **changes))
    return imported, recorded.signals(load_rows(recorded.rows), imported.contract.joint_names)


def there_and_back(imported: Imported, flavour: str, folder: Path, facts: Facts) -> Imported:
    write_imported(folder / "bundle.onnx", imported, name="walk", tool="test")
    export_bundle(folder / "bundle.onnx", flavour, folder / "exported.onnx")
    facts = replace(facts, action_clip=float("inf") if flavour == "mjlab" else None)
    return IMPORTERS[flavour].load(folder / "exported.onnx", facts)


def assert_the_same(first: Imported, second: Imported, signals: dict[str, np.ndarray]) -> None:
    ours, theirs = run_rows(first, signals), run_rows(second, signals)
    assert np.abs(ours["joint_target_next"] - theirs["joint_target_next"]).max() <= TOLERANCE


def facts_of(imported: Imported) -> Facts:
    """What formats lack, from the contract."""
    contract = imported.contract
    limits = {
        joint.name: JointFacts(
            lower=joint.lower, upper=joint.upper, velocity_limit=joint.velocity_limit, effort_limit=joint.effort_limit
        )
        for joint in contract.joints
    }
    assert contract.command is not None
    return Facts(
        robot=contract.robot,
        task=contract.task,
        period_s=contract.period_ns * 1e-9,
        latency_s=contract.latency_s,
        command=CommandFacts(low=contract.command.low, high=contract.command.high),
        joint=limits,
    )


def test_a_walking_policy_goes_to_holosoma_and_back(tmp_path: Path) -> None:
    imported, signals = imported_with(WALK)
    assert_the_same(imported, there_and_back(imported, "holosoma", tmp_path, facts_of(imported)), signals)


def test_a_policy_of_another_order_of_terms_lags_and_scales_goes_to_holosoma(tmp_path: Path) -> None:
    """As rl_sar has it: whole observations, newest first with one left out, clipped, and scales that differ between joints."""
    imported, signals = imported_with(NEWEST_FIRST)
    assert len(set(np.atleast_1d(imported.contract.action.scale))) > 1
    assert_the_same(imported, there_and_back(imported, "holosoma", tmp_path, facts_of(imported)), signals)


@pytest.mark.parametrize("layout", ["term", "time"])
def test_histories_in_any_order_go_to_mjlab(layout: str, tmp_path: Path) -> None:
    imported, signals = imported_with(RL_SAR)
    terms = [replace(t, fill="first", lags=tuple(reversed(t.lags))) for t in imported.contract.observation]
    imported = replace(imported, contract=replace(imported.contract, observation=tuple(terms), layout=layout))
    assert_the_same(imported, there_and_back(imported, "mjlab", tmp_path, facts_of(imported)), signals)


def test_clips_after_scales_that_differ_go_to_mjlab(tmp_path: Path) -> None:
    """Of which its files cannot say every one: the network does then."""
    imported, signals = imported_with(RL_SAR)
    clipped = [replace(t, fill="first", clip=0.15, clip_scaled=True) for t in imported.contract.observation]
    imported = replace(imported, contract=replace(imported.contract, observation=tuple(clipped)))
    again = there_and_back(imported, "mjlab", tmp_path, facts_of(imported))
    by_name = {term.name: term for term in again.contract.observation}
    assert by_name["command"].clip is None
    assert by_name["gyro"].clip == (-0.6, 0.6)  # 0.15 / 0.25
    assert_the_same(imported, again, signals)


def test_a_policy_of_mjlab_goes_back_to_mjlab(tmp_path: Path) -> None:
    imported, signals = imported_with(MJLAB)
    assert_the_same(imported, there_and_back(imported, "mjlab", tmp_path, facts_of(imported)), signals)


def test_numbers_keep_nine_digits_in_mjlabs_lists(tmp_path: Path) -> None:
    imported, _ = imported_with(MJLAB)
    rule, count = imported.contract.action, len(imported.contract.joints)
    assert isinstance(rule, JointPosition)
    scale = tuple(0.00043807631 + 1e-9 * index for index in range(count))
    joints = tuple(replace(joint, kp=40.17923847137318) for joint in imported.contract.joints)
    imported = replace(imported, contract=replace(imported.contract, action=replace(rule, scale=scale), joints=joints))
    again = there_and_back(imported, "mjlab", tmp_path, facts_of(imported))
    assert again.contract.action.scale == scale
    assert [joint.kp for joint in again.contract.joints] == [40.17923847137318] * count


def test_every_property_is_json_in_holosomas_files(tmp_path: Path) -> None:
    """Its runtime reads all of them with json.loads before it looks for the gains."""
    imported, _ = imported_with(WALK)
    there_and_back(imported, "holosoma", tmp_path, facts_of(imported))
    model = onnx.load(str(tmp_path / "exported.onnx"))
    read = {entry.key: json.loads(entry.value) for entry in model.metadata_props}
    assert read["dof_names"] == list(imported.contract.joint_names)
    assert read["kp"] == [joint.kp for joint in imported.contract.joints]
    assert [value.name for value in (*model.graph.input, *model.graph.output)] == ["actor_obs", "action"]


@pytest.mark.parametrize(
    ("recorded", "flavour", "said"),
    [
        ("kinfer-kinfer-rows", "mjlab", "memory"),
        ("kinfer-kinfer-rows", "holosoma", "memory"),
        ("unitree_rl_gym-unitree_rl_gym-mujoco", "mjlab", "phase_sin"),
        ("unitree_rl_gym-unitree_rl_gym-mujoco", "holosoma", "two feet"),
        ("rl_sar-trot-rows", "mjlab", "begin with their first sample"),
        ("unitree-history-rows", "holosoma", "begin with zeros"),
        ("rl_sar-trot-rows", "holosoma", "base_lin_vel"),
    ],
)
def test_what_a_format_cannot_say_is_refused_and_nothing_is_written(recorded, flavour, said, tmp_path: Path) -> None:
    imported, _ = imported_with(BY_NAME[recorded])
    write_imported(tmp_path / "bundle.onnx", imported, name="walk", tool="test")
    with pytest.raises(ExportFailed, match=said):
        export_bundle(tmp_path / "bundle.onnx", flavour, tmp_path / "exported.onnx")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle.onnx"]


def test_a_policy_of_one_joint_of_several_is_refused(tmp_path: Path) -> None:
    imported, _ = imported_with(WALK)
    terms = tuple(
        replace(t, joints=imported.contract.joint_names[::-1]) if t.name == "joint_vel" else t
        for t in imported.contract.observation
    )
    write_imported(
        tmp_path / "bundle.onnx",
        replace(imported, contract=replace(imported.contract, observation=terms)),
        name="walk",
        tool="test",
    )
    with pytest.raises(ExportFailed, match="knows all joints"):
        export_bundle(tmp_path / "bundle.onnx", "holosoma", tmp_path / "exported.onnx")


def test_histories_of_different_lengths_are_told_apart(tmp_path: Path) -> None:
    imported, signals = imported_with(RL_SAR)
    first, *others = imported.contract.observation
    assert first.lags == history(3)
    kept = (replace(first, fill="first"), *(replace(term, fill="first") for term in others))
    imported = replace(imported, contract=replace(imported.contract, observation=kept))
    again = there_and_back(imported, "mjlab", tmp_path, facts_of(imported))
    assert {term.lags for term in again.contract.observation} == {history(3)}
    assert_the_same(imported, again, signals)
