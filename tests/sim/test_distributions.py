"""Distributions against scipy and closed forms: right shape, never outside their range, and clear errors."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from isthmus.sim.distributions import (
    Constant,
    Gaussian,
    LogUniform,
    RandomizationError,
    TruncatedMultivariateNormal,
    Uniform,
)

COUNT = 20_000


def draw(distribution, count=COUNT, seed=0):
    return distribution.sample((count,), torch.Generator().manual_seed(seed))


def normal(mean, std, low, high):
    return Gaussian(mean=mean, std=std, low=low, high=high)


def truncated(mean, std, low, high):
    return stats.truncnorm((low - mean) / std, (high - mean) / std, loc=mean, scale=std)


@pytest.mark.parametrize(
    ("distribution", "reference"),
    [
        (Uniform(low=-0.5, high=1.5), stats.uniform(-0.5, 2.0)),
        (LogUniform(low=0.2, high=5.0), stats.loguniform(0.2, 5.0)),
        (normal(1.0, 0.3, 0.2, 3.0), truncated(1.0, 0.3, 0.2, 3.0)),
        (normal(1.0, 0.3, 0.9, 1.05), truncated(1.0, 0.3, 0.9, 1.05)),
        (normal(0.0, 1.0, 8.0, 9.0), truncated(0.0, 1.0, 8.0, 9.0)),
        (normal(0.0, 1.0, -9.0, -8.0), truncated(0.0, 1.0, -9.0, -8.0)),
        (normal(-2.0, 0.5, -1.0, 4.0), truncated(-2.0, 0.5, -1.0, 4.0)),
    ],
)
def test_samples_follow_the_distribution_that_scipy_has_of_that_name(distribution, reference):
    sample = draw(distribution)
    assert sample.dtype == torch.float32
    assert stats.kstest(sample.double().numpy(), reference.cdf).pvalue > 0.01


def test_the_same_seed_gives_the_same_bits_and_shapes_are_as_asked():
    for distribution in (Uniform(low=0.0, high=1.0), LogUniform(low=1.0, high=2.0), normal(0.0, 1.0, -1.0, 1.0)):
        assert torch.equal(draw(distribution, 50, seed=3), draw(distribution, 50, seed=3))
        assert not torch.equal(draw(distribution, 50, seed=3), draw(distribution, 50, seed=4))
        assert distribution.sample((2, 3), torch.Generator()).shape == (2, 3)


def test_distributions_without_width_give_their_value():
    for distribution in (Constant(value=0.3), Uniform(low=0.3, high=0.3), normal(0.3, 0.0, -1.0, 1.0)):
        distribution.check()
        assert torch.equal(draw(distribution, 5), torch.full((5,), 0.3))


finite = st.floats(-100.0, 100.0)


@settings(max_examples=60, deadline=None)
@given(low=finite, width=st.floats(0.0, 50.0), std=st.floats(0.01, 50.0), off=st.floats(-10.0, 10.0))
def test_no_sample_lies_outside_the_support(low, width, std, off):
    high = low + width
    mean = min(max(low + off, low - 20 * std), high + 20 * std)
    for distribution in (Uniform(low=low, high=high), normal(mean, std, low, high)):
        distribution.check()
        sample = draw(distribution, 200).numpy()
        assert np.isfinite(sample).all()
        assert sample.min() >= np.float32(low) and sample.max() <= np.float32(high)


@settings(max_examples=60, deadline=None)
@given(fraction=st.floats(0.0, 1.0), neutral=st.floats(0.1, 10.0))
def test_shrinking_moves_both_ends_towards_neutral_by_the_fraction(fraction, neutral):
    uniform = Uniform(low=0.5, high=4.0).widened(neutral, fraction)
    assert uniform.low == pytest.approx(neutral + fraction * (0.5 - neutral))
    assert uniform.high == pytest.approx(neutral + fraction * (4.0 - neutral))
    logarithmic = LogUniform(low=0.5, high=4.0).widened(neutral, fraction)
    assert logarithmic.low == pytest.approx(neutral ** (1 - fraction) * 0.5**fraction)
    assert logarithmic.high == pytest.approx(neutral ** (1 - fraction) * 4.0**fraction)
    gaussian = normal(1.5, 0.4, 0.5, 4.0).widened(neutral, fraction)
    assert (gaussian.std, gaussian.support) == (pytest.approx(0.4 * fraction), pytest.approx(uniform.support))
    for shrunk in (uniform, logarithmic, gaussian, Constant(value=2.0).widened(neutral, fraction)):
        shrunk.check()
    assert min(0.5, neutral) <= uniform.low and uniform.high <= max(4.0, neutral)


def test_a_shrunken_gaussian_is_the_whole_one_scaled_about_neutral():
    whole = normal(1.3, 0.4, 0.5, 2.0)
    part = whole.widened(1.0, 0.25)
    torch.testing.assert_close(draw(part), 1.0 + 0.25 * (draw(whole) - 1.0), atol=1e-6, rtol=0)


def test_fraction_one_changes_nothing_and_fraction_zero_leaves_the_neutral_value():
    for distribution in (Uniform(low=0.3, high=0.9), LogUniform(low=0.3, high=0.9), normal(0.5, 0.1, 0.3, 0.9)):
        assert distribution.widened(0.7, 1.0) == distribution
        assert torch.allclose(draw(distribution.widened(0.7, 0.0), 10), torch.tensor(0.7))


COVARIANCE = ((0.04, 0.012, 0.0), (0.012, 0.01, -0.0002), (0.0, -0.0002, 0.000025))  # correlations 0.6, 0, -0.4


def mvn(covariance=COVARIANCE, mean=(1.0, 0.9, 0.02), low=(0.0, 0.0, 0.0), high=(2.0, 2.0, 0.1)):
    return TruncatedMultivariateNormal(mean=mean, covariance=covariance, low=low, high=high)


def test_a_multivariate_normal_in_a_wide_box_has_the_asked_mean_and_covariance():
    wide = mvn(low=(-9.0,) * 3, high=(9.0,) * 3)
    wide.check()
    sample = draw(wide, 200_000).double().numpy()
    np.testing.assert_allclose(sample.mean(0), wide.mean, atol=1e-3)
    scale = np.sqrt(np.diag(COVARIANCE))
    np.testing.assert_allclose(
        np.cov(sample.T) / np.outer(scale, scale), COVARIANCE / np.outer(scale, scale), atol=0.01
    )


def test_a_bivariate_normal_cut_at_zero_has_the_half_normal_means():
    """x > 0 alone: E x = sqrt(2 / pi), and E y = rho E x although y is not cut."""
    half = TruncatedMultivariateNormal(
        mean=(0.0, 0.0), covariance=((1.0, -0.7), (-0.7, 1.0)), low=(0.0, -9.0), high=(9.0, 9.0)
    )
    half.check()
    sample = draw(half, 100_000).double()
    expected = math.sqrt(2 / math.pi)
    assert sample.mean(0).tolist() == pytest.approx([expected, -0.7 * expected], abs=0.01)
    assert stats.kstest(sample[:, 0].numpy(), stats.halfnorm.cdf).pvalue > 0.01


def test_a_cut_multivariate_normal_has_the_density_of_the_whole_one_within_its_box():
    cut = mvn(low=(0.9, 0.95, 0.01), high=(1.4, 1.2, 0.03))
    cut.check()
    sample = draw(cut, 50_000).double().numpy()
    assert (sample >= np.array(cut.low) - 1e-7).all() and (sample <= np.array(cut.high) + 1e-7).all()
    corner = np.array([1.1, 1.05, 0.02])
    parts = [
        float(stats.multivariate_normal.cdf(end, cut.mean, COVARIANCE, lower_limit=cut.low))  # pyright: ignore[reportArgumentType]
        for end in (corner, np.array(cut.high))
    ]
    assert (sample <= corner).all(-1).mean() == pytest.approx(parts[0] / parts[1], abs=0.01)


def test_one_component_alone_is_the_truncated_normal():
    one = TruncatedMultivariateNormal(mean=(1.0,), covariance=((0.09,),), low=(0.9,), high=(1.05,))
    assert stats.kstest(draw(one)[:, 0].double().numpy(), truncated(1.0, 0.3, 0.9, 1.05).cdf).pvalue > 0.01


def test_components_that_depend_on_each_other_wholly_or_do_not_vary_are_allowed():
    line = TruncatedMultivariateNormal(
        mean=(1.0, 2.0, 0.5),
        covariance=((0.01, 0.02, 0.0), (0.02, 0.04, 0.0), (0.0, 0.0, 0.0)),
        low=(0.5, 1.0, 0.5),
        high=(1.5, 3.0, 0.9),
    )
    line.check()
    sample = draw(line, 500)
    torch.testing.assert_close(sample[:, 1] - 2.0, 2 * (sample[:, 0] - 1.0), atol=1e-5, rtol=0)
    assert torch.equal(sample[:, 2], torch.full((500,), 0.5))


def test_a_shrunken_multivariate_normal_keeps_its_correlations():
    cut = mvn(low=(0.9, 0.95, 0.01), high=(1.4, 1.2, 0.03))
    part = cut.widened((1.0, 1.0, 0.0), 0.5)
    part.check()
    centre = torch.tensor([1.0, 1.0, 0.0])
    torch.testing.assert_close(draw(part, 1000), centre + 0.5 * (draw(cut, 1000) - centre), atol=1e-6, rtol=0)
    assert torch.equal(draw(cut.widened((1.0, 1.0, 0.0), 0.0), 3), centre.repeat(3, 1))
    assert cut.sample((2, 5), torch.Generator()).shape == (2, 5, 3)


def test_sampling_ends_even_where_check_was_not_heeded():
    hopeless = TruncatedMultivariateNormal(mean=(0.0,), covariance=((1.0,),), low=(50.0,), high=(51.0,))
    with pytest.raises(RandomizationError, match=r"of \d+ draws only 0"):
        draw(hopeless, 1)


@pytest.mark.parametrize(
    ("distribution", "words"),
    [
        (Uniform(low=2.0, high=1.0), r"empty: low 2\.0 is above high 1\.0"),
        (Uniform(low=math.nan, high=1.0), "uniform low must be finite, got nan"),
        (Uniform(low=0.0, high=math.inf), "uniform high must be finite, got inf"),
        (LogUniform(low=0.0, high=1.0), r"log-uniform low must be positive, got 0\.0"),
        (Constant(value=math.nan), "constant value must be finite"),
        (normal(0.0, -0.1, -1.0, 1.0), r"gaussian std must not be negative, got -0\.1"),
        (normal(math.inf, 0.1, -1.0, 1.0), "gaussian mean must be finite"),
        (normal(5.0, 0.1, -1.0, 1.0), r"gaussian mean 5\.0 lies 4 outside -1\.0 \.\. 1\.0"),
        (normal(2.0, 0.0, -1.0, 1.0), "nothing would be drawn"),
        (mvn(low=(0.0, 0.0)), "low has 2 entries, expected as many as mean, which has 3"),
        (mvn(covariance=((1.0,),)), "covariance has 1 entries"),
        (mvn(covariance=((1.0, 0.0), (0.0,), (0.0, 0.0, 1.0))), r"must be 3 x 3, got rows of \[2, 1, 3\]"),
        (mvn(high=(2.0, -1.0, 0.1)), "component 1 range is empty"),
        (mvn(mean=(math.nan, 0.9, 0.02)), r"mean\[0\] must be finite"),
        (
            mvn(covariance=((0.04, 0.01, 0.0), (0.02, 0.01, 0.0), (0.0, 0.0, 0.0001))),
            r"symmetric, got 0\.01 at \[0\]\[1\] and 0\.02 at \[1\]\[0\]",
        ),
        (
            mvn(covariance=((0.04, 0.03, 0.0), (0.03, 0.01, 0.0), (0.0, 0.0, 0.0001))),
            r"positive semi-definite: the smallest eigenvalue of its correlations is -0\.5",
        ),
        (mvn(covariance=((0.0, 0.1, 0.0), (0.1, 0.01, 0.0), (0.0, 0.0, 0.0001))), "positive semi-definite"),
        (mvn(covariance=((-0.1, 0.0, 0.0), (0.0, 0.01, 0.0), (0.0, 0.0, 0.0001))), "positive semi-definite"),
        (mvn(covariance=((math.nan,) * 3,) * 3), "covariance must be finite"),
        (mvn(low=(1.9, 0.0, 0.0)), "low .. high holds 0.00% of the distribution"),
    ],
)
def test_what_cannot_be_is_refused_by_name(distribution, words):
    with pytest.raises(RandomizationError, match=words):
        distribution.check()


def test_impossible_shrinking_is_refused():
    with pytest.raises(RandomizationError, match=r"fraction must lie in 0 \.\. 1, got 1\.5"):
        Uniform(low=0.0, high=1.0).widened(0.5, 1.5)
    with pytest.raises(RandomizationError, match=r"towards a positive value only, got neutral 0"):
        LogUniform(low=0.1, high=1.0).widened(0.0, 0.5)
    with pytest.raises(RandomizationError, match="neutral has 2 entries, expected 3"):
        mvn().widened((1.0, 1.0), 0.5)
