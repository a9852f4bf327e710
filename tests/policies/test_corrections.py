from dataclasses import replace

import numpy as np
import onnx
import pytest
import torch

from isthmus.hardware.joint_calibration import ArmCalibration
from isthmus.hardware.robot import load_robot
from isthmus.policies.bundle import load_bundle
from isthmus.policies.bundle_writer import write_bundle
from isthmus.policies.compose import compose
from isthmus.policies.episode import Source
from isthmus.policies.learning.composed_bundle import export_composed_bundle
from isthmus.policies.learning.correction_rows import BaseReplay, CorrectionError, correction_rows, human_action
from isthmus.policies.learning.corrections import CorrectionConfig, learn_residual, split_episodes
from isthmus.policies.learning.dataset import read_dataset, write_dataset
from isthmus.policies.learning.promote import compare
from isthmus.policies.manifest import SCHEMA, Manifest, Provenance, StateSpec

QUICK = CorrectionConfig(members=2, hidden=(16,), shifted_replays=1, max_steps=100)
ROWS = {"shifted_replays": 0, "shift_std": 0.1, "lead_in_s": 1.0, "seed": 0}


@pytest.fixture(scope="module")
def problem(make_problem):
    return make_problem(0)


@pytest.fixture(scope="module")
def base(graph_policy, base_path):
    return graph_policy(base_path)


@pytest.fixture(scope="module")
def corrected(problem, base):
    """Three corrected episodes and one that nobody had to touch, whose success is claimed."""
    episodes = problem.corrected(base, 3, seed=9)
    alone = replace(problem.attempt(base, problem.targets(1, 8)[0], seed=8), success=True)
    return [*(replace(episode, success=True) for episode in episodes), alone]


def test_the_replayed_base_says_what_it_said_on_the_robot(base_path, contract, corrected):
    _, base_action = BaseReplay(base_path, contract).run(corrected[0], np.zeros(6))
    np.testing.assert_allclose(base_action, corrected[0].ticks["base_action"], atol=1e-6)


def test_joints_are_matched_by_name(base_path, contract, corrected):
    episode = corrected[0]
    ticks = episode.ticks.copy()
    for field in ("joint_pos", "joint_vel", "joint_target", "executed_target", "policy_target", "human_target"):
        ticks[field] = ticks[field][:, ::-1]
    reversed_joints = replace(episode, ticks=ticks, joint_names=episode.joint_names[::-1])
    one, other = (correction_rows(base_path, contract, [e], **ROWS) for e in (episode, reversed_joints))
    np.testing.assert_array_equal(one.observation, other.observation)
    np.testing.assert_array_equal(one.target, other.target)


def test_base_plus_target_is_what_the_person_did(base_path, contract, corrected):
    rows = correction_rows(base_path, contract, corrected[:1], **ROWS)
    ticks = corrected[0].ticks
    driving = ticks["source"] == Source.HUMAN
    np.testing.assert_array_equal(rows.correcting, driving)
    did = ((ticks["executed_target"] - ticks["joint_target"]) / contract.action.scale)[driving, :5]
    np.testing.assert_allclose(np.clip(rows.base_action[driving], -1, 1) + rows.target[driving], did, atol=1e-5)


def test_holding_asks_for_exactly_minus_the_base_action(base_path, contract, corrected):
    rows = correction_rows(base_path, contract, corrected[:1], **ROWS)
    holding = rows.correcting & (human_action(corrected[0], contract) == 0).all(axis=1)
    assert holding.sum() > 10
    np.testing.assert_allclose(rows.target[holding], -np.clip(rows.base_action[holding], -1, 1), atol=1e-6)


def test_ticks_just_before_a_takeover_are_neither_class(base_path, contract, corrected):
    rows = correction_rows(base_path, contract, corrected, **ROWS)
    takeover = int(np.argmax(corrected[0].ticks["source"] == Source.HUMAN))
    first = rows.autonomous[rows.episode == 0]
    assert first[: takeover - 50].all() and not first[takeover - 50 :].any()  # 1 s at 50 Hz
    assert rows.autonomous[rows.episode == 3].all()


def test_a_blend_is_not_learned_from(base_path, contract, corrected):
    ticks = corrected[0].ticks.copy()
    ticks["source"][80:90] = Source.BLEND
    rows = correction_rows(base_path, contract, [replace(corrected[0], ticks=ticks)], **ROWS)
    assert not rows.correcting[80:90].any() and not rows.autonomous[80:90].any()


def test_a_residual_that_ran_unopposed_counts_for_the_gate_and_not_against_it(base_path, contract, corrected):
    ticks = corrected[3].ticks.copy()
    ticks["gate"][100:] = 1.0
    rows = correction_rows(base_path, contract, [replace(corrected[3], ticks=ticks)], **ROWS)
    assert rows.autonomous[:100].all() and not rows.autonomous[100:].any()
    assert rows.assisted[100:].all() and not rows.assisted[:100].any()


def test_shifted_replays_keep_targets_and_move_only_what_the_base_saw(base_path, contract, corrected):
    rows = correction_rows(base_path, contract, corrected[:1], **{**ROWS, "shifted_replays": 1})
    plain, shifted = np.split(np.arange(len(rows.episode)), 2)
    np.testing.assert_array_equal(rows.target[plain], rows.target[shifted])
    moved = (rows.observation[shifted] - rows.observation[plain])[:, :5]  # joint_pos - default
    np.testing.assert_allclose(moved, np.broadcast_to(moved[0], moved.shape), atol=1e-6)
    assert np.abs(moved[0]).min() > 1e-3
    np.testing.assert_allclose(
        rows.observation[shifted][:, 5:], rows.observation[plain][:, 5:], atol=1e-6
    )  # leads, target


def test_failed_episodes_are_left_out(base_path, contract, corrected):
    rows = correction_rows(base_path, contract, [replace(corrected[0], success=False), corrected[1]], **ROWS)
    assert set(rows.episode) == {1}
    with pytest.raises(CorrectionError, match="none of 1 episodes ended in success"):
        correction_rows(base_path, contract, [replace(corrected[0], success=False)], **ROWS)


def test_episodes_of_another_base_robot_or_rate_are_refused(base_path, contract, corrected):
    ticks = corrected[0].ticks.copy()
    ticks["base_action"] = 0.5
    with pytest.raises(CorrectionError, match="recorded base action differs"):
        correction_rows(base_path, contract, [replace(corrected[0], ticks=ticks)], **ROWS)
    with pytest.raises(CorrectionError, match="robot 'other'"):
        correction_rows(base_path, contract, [replace(corrected[0], robot="other")], **ROWS)
    with pytest.raises(CorrectionError, match="period of 10000000 ns"):
        correction_rows(base_path, contract, [replace(corrected[0], period_ns=10_000_000)], **ROWS)


def test_rows_are_the_same_after_a_trip_through_the_dataset(base_path, contract, corrected, tmp_path):
    nominal = ArmCalibration.nominal(load_robot("so101"))
    write_dataset(tmp_path / "set", corrected, fps=50, repo_id="test/so101", task="reach", calibration=nominal)
    one, other = (correction_rows(base_path, contract, e, **ROWS) for e in (corrected, read_dataset(tmp_path / "set")))
    np.testing.assert_array_equal(one.observation, other.observation)
    np.testing.assert_array_equal(one.correcting, other.correcting)
    np.testing.assert_allclose(one.target, other.target, atol=1e-5)


def test_no_member_is_validated_on_an_episode_it_saw(base_path, contract, corrected):
    rows = correction_rows(base_path, contract, corrected, **ROWS)
    folds = split_episodes(rows, CorrectionConfig(members=3))
    assert sorted(index for fold in folds for index in fold) == [0, 1, 2, 3]
    assert all(set(fold) & {0, 1, 2} for fold in folds)  # a corrected one in each


def test_one_corrected_episode_is_too_few(base_path, contract, corrected):
    with pytest.raises(CorrectionError, match=r"at least 2 corrected successful episodes.*got 1"):
        learn_residual(base_path, contract, [corrected[0], corrected[3]], QUICK)


def test_one_seed_gives_one_result_and_leaves_the_callers_random_state(base_path, contract, corrected):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one, same = (learn_residual(base_path, contract, corrected, QUICK) for _ in range(2))
    assert torch.equal(before, torch.get_rng_state())
    assert one.residual_curve == same.residual_curve
    other = learn_residual(base_path, contract, corrected, replace(QUICK, seed=1))
    assert other.residual_curve != one.residual_curve
    for left, right in zip(one.module.parameters(), same.module.parameters(), strict=True):
        assert torch.equal(left, right)


def test_the_residual_is_bounded_by_what_people_added(base_path, contract, corrected):
    rows = correction_rows(base_path, contract, corrected, **ROWS)
    learned = learn_residual(base_path, contract, corrected, QUICK)
    assert learned.alpha == pytest.approx(1.1 * np.quantile(np.abs(rows.target[rows.correcting]), 0.99), rel=1e-5)
    assert learned.residual_curve.validation_loss[0] == pytest.approx(
        learned.zero_loss, rel=0.3
    )  # starts by adding nothing


def test_an_episode_corrected_over_a_running_residual_has_targets_relative_to_the_base(
    problem, base_path, contract, corrected, graph_policy
):
    model = compose(onnx.load(base_path), learn_residual(base_path, contract, corrected, QUICK).export(), contract)
    second = replace(problem.corrected(graph_policy(model), 1, seed=11)[0], success=True)
    assert np.abs(second.ticks["residual_action"]).max() > 0
    rows = correction_rows(base_path, contract, [second], **ROWS)
    total = np.clip(rows.base_action, -1, 1) + rows.target
    np.testing.assert_allclose(total, human_action(second, contract), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_ten_corrected_episodes_close_the_gap(make_problem, base, base_path, contract, graph_policy, seed):
    problem = make_problem(seed)
    champion = problem.evaluate(base, 40, seed=77, name="base")
    learned = learn_residual(
        base_path, contract, problem.corrected(base, 10, seed=seed + 5), CorrectionConfig(seed=seed)
    )
    policy = graph_policy(compose(onnx.load(base_path), learned.export(), contract))
    challenger = problem.evaluate(policy, 40, seed=77, name="corrected")
    verdict = compare(champion, challenger)
    assert champion.success.mean() <= 0.6
    assert challenger.success.mean() >= champion.success.mean() + 0.25
    assert challenger.final_error_m.mean() < 0.5 * champion.final_error_m.mean()
    assert verdict.promote
    assert learned.residual_curve.best_loss < 0.3 * learned.zero_loss


@pytest.mark.slow
def test_a_second_round_with_the_residual_running_closes_what_the_first_left(
    make_problem, base, base_path, contract, graph_policy
):
    problem = make_problem(
        2
    )  # the mildest of the three: the base succeeds in half of the attempts, so the gate is undecided
    policy, episodes = base, []
    for round_seed in (7, 31):
        episodes += problem.corrected(policy, 10, seed=round_seed)
        learned = learn_residual(base_path, contract, episodes, CorrectionConfig(seed=2))
        policy = graph_policy(compose(onnx.load(base_path), learned.export(), contract))
    assert problem.evaluate(policy, 40, seed=77, name="second round").success.mean() >= 0.9


@pytest.mark.slow
def test_corrections_that_are_noise_are_not_promoted(make_problem, base, base_path, contract, graph_policy):
    problem = make_problem(0)
    noise = [replace(episode, success=True) for episode in problem.corrected(base, 10, seed=5, operator="random")]
    learned = learn_residual(base_path, contract, noise, CorrectionConfig())
    policy = graph_policy(compose(onnx.load(base_path), learned.export(), contract))
    verdict = compare(problem.evaluate(base, 40, 77, "base"), problem.evaluate(policy, 40, 77, "noise"))
    assert not verdict.promote


def test_a_base_bundle_and_a_learned_residual_make_a_bundle(base_path, contract, corrected, tmp_path):
    """Golden rows of the composed bundle come from torch; loading replays them through onnxruntime."""
    provenance = Provenance(
        created="2026-01-01T00:00:00Z", isthmus="0", trainer="test", seed=0, environment_steps=0, simulated_success=None
    )
    states = (StateSpec(name="started", width=1), StateSpec(name="history", width=5))
    manifest = Manifest(
        schema=SCHEMA,
        name="reach",
        contract=contract,
        states=states,
        residual=None,
        provenance=provenance,
        distribution=None,
        envelope=None,
        sources=(),
    )
    ticks = corrected[0].ticks[:64]
    golden = {name: ticks[name] for name in ("joint_pos", "joint_vel", "joint_target", "base_action")}
    golden |= {"command.target": ticks["target"], "joint_target_next": ticks["policy_target"]}
    write_bundle(tmp_path / "base.onnx", onnx.load(base_path), manifest, golden)
    base = load_bundle(tmp_path / "base.onnx")

    learned = learn_residual(base.path, contract, corrected[:3], replace(QUICK, max_steps=500))
    bundle = export_composed_bundle(tmp_path / "composed.onnx", base, learned, provenance)
    assert bundle.manifest.residual is not None
    assert bundle.manifest.residual.base_sha256 == base.sha256
    assert bundle.manifest.residual.episodes == 3
    assert np.abs(bundle.golden["residual_action"]).max() > 0

    policy = bundle.policy()
    opened = []
    for tick in corrected[0].ticks:
        signals = {name: tick[name] for name in ("joint_pos", "joint_vel", "joint_target")}
        opened.append(policy.act({**signals, "command.target": tick["target"]}).gate)
    assert opened[0] == 0.0 and opened[-1] == 1.0  # closed at the start, open where the person held
