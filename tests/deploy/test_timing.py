"""The histogram of lateness against numpy's percentiles."""

import numpy as np
import pytest

from isthmus.deploy.timing import Lateness


@pytest.mark.parametrize("percent", [1.0, 50.0, 90.0, 99.0, 100.0])
def test_percentiles_are_right_within_a_bin(percent: float):
    lateness, values = Lateness(), np.random.default_rng(0).lognormal(4.0, 1.0, 20_000)
    for value in values:
        lateness.add(float(value))
    exact = np.percentile(values, percent)
    assert (
        exact <= lateness.percentile(percent) * 1.0001 and lateness.percentile(percent) <= exact * 2 ** (1 / 16) + 1e-9
    )
    assert lateness.max_us == values.max()


@pytest.mark.parametrize("value", [-5.0, 0.0, 1.0, 1e7])
def test_what_is_early_or_very_late_is_counted(value: float):
    lateness = Lateness()
    assert lateness.percentile(50) == 0.0
    lateness.add(value)
    assert sum(lateness.counts) == 1
