import numpy as np
import pytest

from isthmus.policies.interval import wilson_interval
from isthmus.policies.learning.promote import (
    EvaluationResults,
    PromotionError,
    compare,
    mcnemar_p_value,
    paired_bootstrap_interval,
)


def results(success, error, name="p", targets=None):
    count = len(success)
    where = np.arange(3 * count, dtype=float).reshape(count, 3) if targets is None else targets
    return EvaluationResults(
        policy_id=name, targets=where, success=np.array(success, dtype=bool), final_error_m=np.array(error, dtype=float)
    )


# Newcombe, Statistics in Medicine 17 (1998) 857-872, table I, method 3 (score without continuity correction).
@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_the_wilson_interval_has_the_published_values(successes, trials, low, high):
    assert wilson_interval(successes, trials) == pytest.approx((low, high), abs=5e-5)


def test_an_interval_of_no_trials_is_refused():
    with pytest.raises(ValueError, match="got 0 of 0"):
        wilson_interval(0, 0)


def test_the_mcnemar_test_counts_coin_tosses():
    assert mcnemar_p_value(0, 0) == 1.0
    assert mcnemar_p_value(5, 0) == 1 / 32
    assert mcnemar_p_value(4, 1) == (5 + 1) / 32


def test_the_bootstrap_interval_agrees_with_the_normal_one_for_a_large_sample():
    sample = np.random.default_rng(1).normal(0.3, 2.0, 2000)
    half = 1.96 * sample.std() / np.sqrt(len(sample))
    assert paired_bootstrap_interval(sample) == pytest.approx(
        (sample.mean() - half, sample.mean() + half), abs=0.1 * half
    )


def test_a_clear_gain_in_success_is_promoted():
    verdict = compare(results([0] * 10, [0.02] * 10), results([1] * 8 + [0] * 2, [0.005] * 10))
    assert verdict.promote
    assert (verdict.champion_successes, verdict.challenger_successes, verdict.targets) == (0, 8, 10)
    assert verdict.success_p_value == 1 / 256


def test_a_policy_never_replaces_itself():
    error = np.random.default_rng(0).uniform(0.001, 0.02, 50)
    same = results(error < 0.01, error)
    verdict = compare(same, same)
    assert not verdict.promote
    assert "tie" in verdict.reason


def test_equal_success_with_a_significantly_smaller_error_is_promoted():
    error = np.random.default_rng(0).uniform(0.004, 0.009, 40)
    assert compare(results([1] * 40, error), results([1] * 40, 0.8 * error)).promote
    assert not compare(results([1] * 40, error), results([1] * 40, 1.2 * error)).promote


def test_fewer_successes_are_never_promoted_however_small_the_error():
    verdict = compare(results([1] * 10, [0.009] * 10), results([1] * 9 + [0], [0.001] * 9 + [0.011]))
    assert verdict.error_interval_m[1] < 0
    assert not verdict.promote
    assert "1 fewer" in verdict.reason


def test_one_lucky_success_among_noise_is_not_promoted():
    rng = np.random.default_rng(3)
    error = rng.uniform(0.005, 0.02, 30)
    noisy = error + rng.normal(0.0, 0.01, 30)
    verdict = compare(results([0] * 30, error), results([1] + [0] * 29, noisy - noisy.mean() + error.mean()))
    assert not verdict.promote
    assert "chance" in verdict.reason


def test_equal_policies_are_promoted_hardly_more_often_than_the_confidence_allows():
    rng = np.random.default_rng(4)
    wins = 0
    for _ in range(200):
        errors = np.abs(rng.normal(0.01, 0.004, (2, 40)))
        champion, challenger = (results(error < 0.01, error) for error in errors)
        wins += compare(champion, challenger).promote
    assert (
        wins <= 18
    )  # 5 % by success and at most 2.5 % by error, overlapping; P(X > 18) = 1 % for X ~ Binomial(200, 5 %)


def test_results_on_other_targets_are_refused():
    one = results([1, 0], [0.001, 0.02])
    other = results([1, 0], [0.001, 0.02], targets=np.zeros((2, 3)))
    with pytest.raises(PromotionError, match="same targets"):
        compare(one, other)


def test_an_error_that_is_not_finite_is_refused_by_the_policy_it_belongs_to():
    with pytest.raises(PromotionError, match="policy broken: final_error_m"):
        compare(results([1, 0], [0.001, 0.02]), results([1, 0], [0.001, np.nan], name="broken"))
