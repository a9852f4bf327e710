"""Bundles go back into other tools' files, and what those tools then compute is what the bundle computes."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from parity import TOLERANCE, load_rows, run_rows
from recorded_a import RECORDED as RECORDED_A
from recorded_b import RECORDED as RECORDED_B

from isthmus.policies.contract import JointPosition, history
from isthmus.policies.exporters.mjlab import _number
from isthmus.policies.exporters.network import ExportFailed
from isthmus.policies.exporters.registry import export_bundle
from isthmus.policies.importers.common import CommandFacts, Facts, Imported, JointFacts, parse_csv
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


ROUND = st.one_of(
    st.integers(1, 999).map(float),
    st.integers(1, 99999).map(lambda n: n / 1000),
    st.floats(1e-30, 1e30).map(lambda x: float(np.float32(x))),
    st.floats(1e-30, 1e30),
)


@given(number=ROUND)
def test_numbers_of_mjlabs_lists_read_back_exactly_and_are_printed_to_nine_digits(number: float) -> None:
    for signed in (number, -number):
        read = parse_csv(_number(signed), "file")
        assert read.values == (signed,)
        assert read.resolution is not None and read.resolution[0] <= 1e-8 * number


def test_round_numbers_that_went_to_mjlab_come_back_as_fine_as_they_were(tmp_path: Path) -> None:
    """Of which 0.5 stands for anything from 0.45 to 0.55, and then every robot fits the policy."""
    imported, _ = imported_with(MJLAB)
    contract = imported.contract
    joints = tuple(replace(joint, kp=20.0, kd=0.5, default_pos=0.9, rounding=()) for joint in contract.joints)
    imported = replace(imported, contract=replace(contract, joints=joints))
    again = there_and_back(imported, "mjlab", tmp_path, facts_of(imported)).contract
    assert {(joint.kp, joint.kd, joint.default_pos) for joint in again.joints} == {(20.0, 0.5, 0.9)}
    assert max(step for joint in again.joints for _, step in joint.rounding) < 1e-5  # of float32


def test_two_policies_in_one_folder_keep_their_own_configurations(tmp_path: Path) -> None:
    slow, signals = imported_with(WALK)
    other = replace(slow.contract, joints=tuple(replace(joint, default_pos=0.1) for joint in slow.contract.joints))
    quick = replace(slow, contract=other)
    for name, imported in (("slow", slow), ("quick", quick)):
        write_imported(tmp_path / "bundle.onnx", imported, name=name, tool="test")
        assert list(export_bundle(tmp_path / "bundle.onnx", "holosoma", tmp_path / f"{name}.onnx").files) == [
            f"{name}.toml"
        ]
    for name, imported in (("slow", slow), ("quick", quick)):
        again = IMPORTERS["holosoma"].load(tmp_path / f"{name}.onnx", facts_of(imported))
        assert_the_same(imported, again, signals)
        assert [j.default_pos for j in again.contract.joints] == [j.default_pos for j in imported.contract.joints]


@pytest.mark.parametrize("content", ["", "mine = 1", "[obs_scales]"])
def test_a_users_file_is_never_overwritten_by_what_lies_beside_an_export(content: str, tmp_path: Path) -> None:
    imported, _ = imported_with(WALK)
    write_imported(tmp_path / "bundle.onnx", imported, name="walk", tool="test")
    (tmp_path / "walk.toml").write_text(content)
    with pytest.raises(ExportFailed, match=r"walk\.toml: .*another file"):
        export_bundle(tmp_path / "bundle.onnx", "holosoma", tmp_path / "walk.onnx")
    assert (tmp_path / "walk.toml").read_text() == content
    assert not (tmp_path / "walk.onnx").exists()
    (tmp_path / "walk.toml").unlink()
    for _ in range(2):  # the same again is no other file
        export_bundle(tmp_path / "bundle.onnx", "holosoma", tmp_path / "walk.onnx")


def test_facts_of_the_policys_name_are_not_taken_for_its_configuration(tmp_path: Path) -> None:
    imported, _ = imported_with(WALK)
    there_and_back(imported, "holosoma", tmp_path, facts_of(imported))
    (tmp_path / "exported.toml").rename(tmp_path / "holosoma.toml")
    (tmp_path / "exported.toml").write_text('robot = "made_up"\n')
    IMPORTERS["holosoma"].load(tmp_path / "exported.onnx", facts_of(imported))


@pytest.mark.parametrize("period", [0.9, 0.8, 1.0, 0.7, 1.1, 1 / 3])
def test_a_gait_is_written_as_the_number_that_somebody_gave(period: float, tmp_path: Path) -> None:
    imported, _ = imported_with(WALK)
    clock = imported.contract.clock
    assert clock is not None
    step = imported.contract.period_ns * 1e-9 / period
    clock = replace(clock, frequency=1.0 / period, start=(step, 0.5 + step))
    there_and_back(
        replace(imported, contract=replace(imported.contract, clock=clock)), "holosoma", tmp_path, facts_of(imported)
    )
    written = tomllib.loads((tmp_path / "exported.toml").read_text())
    assert 1.0 / written["gait_period"] == clock.frequency
    assert len(repr(written["gait_period"])) <= len(repr(period))
    assert written["rl_rate"] == 50.0


def test_a_clock_that_is_refused_is_told_in_words(tmp_path: Path) -> None:
    imported, _ = imported_with(BY_NAME["unitree_rl_gym-unitree_rl_gym-mujoco"])
    write_imported(tmp_path / "bundle.onnx", imported, name="walk", tool="test")
    with pytest.raises(ExportFailed, match="never stand") as error:
        export_bundle(tmp_path / "bundle.onnx", "holosoma", tmp_path / "exported.onnx")
    assert "PhaseClock" not in str(error.value) and "=" not in str(error.value)
