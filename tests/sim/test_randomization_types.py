"""Terms whose fields are of the wrong type, or whose values physics does not have, are refused by name."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from isthmus.hardware.errors import IsthmusError
from isthmus.hardware.robot import load_robot
from isthmus.sim.distributions import Constant, TruncatedMultivariateNormal, Uniform
from isthmus.sim.engines import make_engine
from isthmus.sim.randomization import (
    ABOVE_ZERO,
    CorrelatedTerm,
    RandomizationError,
    RandomTerm,
    check_randomization,
)
from isthmus.sim.scene import Scene

TOGETHER = CorrelatedTerm(
    parameters=("gain_scale", "friction_scale"),
    distribution=TruncatedMultivariateNormal(
        mean=(1.0, 1.0), covariance=((0.01, 0.0), (0.0, 0.01)), low=(0.5, 0.5), high=(1.5, 1.5)
    ),
)
RANGE = Uniform(low=0.9, high=1.1)


def raw(parameter="gain_scale", distribution: Any = RANGE, **more):
    """A term whose fields may be anything."""
    return RandomTerm(parameter=parameter, distribution=distribution, **more)


@pytest.mark.parametrize(
    ("term", "words"),
    [
        *((raw(name, Uniform(low=0.0, high=1.0)), f"{name}: .* holds 0; expected more than 0") for name in ABOVE_ZERO),
        (raw("contact_friction_scale", Constant(value=0.0)), "contact_friction_scale: .* more than 0"),
        (
            raw("contact_friction_scale", Uniform(low=-0.1, high=1.0)),
            "contact_friction_scale: .*beyond what is possible",
        ),
        (raw("payload_kg", Uniform(low=-0.1, high=1.0)), "payload_kg: .*beyond what is possible"),
        (raw("latency_s", Uniform(low=-0.01, high=0.01)), "latency_s: .*beyond what is possible"),
        (raw(distribution=Uniform(low=math.nan, high=1.0)), "gain_scale: uniform low must be finite, got nan"),
        (raw(distribution=Uniform(low=0.5, high=math.inf)), "gain_scale: uniform high must be finite, got inf"),
        (raw(distribution=Uniform(low=0.5, high=1e300)), "gain_scale: uniform high must be finite, got 1e.300"),
        (raw(distribution=replace(RANGE, low=(0.9, 1.0))), r"uniform low must be one number, got \(0\.9, 1\.0\)"),
        (raw(distribution=replace(RANGE, low="0.9")), "uniform low must be one number, got '0.9'"),
        (raw(distribution=replace(RANGE, low=None)), "uniform low must be one number, got None"),
        (
            raw(distribution=(0.9, 1.1)),
            r"gain_scale: distribution is \(0\.9, 1\.1\); a RandomTerm expects one of Constant",
        ),
        (raw(distribution=TOGETHER.distribution), "a RandomTerm expects one of Constant, Uniform"),
        (replace(TOGETHER, distribution=Uniform(low=0.9, high=1.1)), "a CorrelatedTerm expects one of Truncated"),
        (replace(TOGETHER, parameters="gain_scale"), "parameters is 'gain_scale'; expected a tuple"),
        (raw("com_offset_m", component=1.5), "component must be a whole number, got 1.5"),
        (raw("com_offset_m", component="x"), "component must be a whole number, got 'x'"),
        (raw(when="interval", interval_s="1"), "interval_s must be a positive number"),
        (raw(when="interval", interval_s=math.nan), "interval_s must be a positive number of seconds, got nan"),
        (raw(when="often"), "when must be 'build' or 'reset' or 'interval', got 'often'"),
        ("gain_scale", "randomization holds 'gain_scale'; expected a RandomTerm"),
    ],
)
def test_what_annotations_do_not_hold_back_is_refused_too(term, words):
    with pytest.raises(RandomizationError, match=words):
        check_randomization((term,))


def test_numbers_of_numpy_are_numbers():
    check_randomization((raw(distribution=replace(RANGE, low=np.float32(0.9), high=np.float64(1.1))),))


def test_a_payload_for_a_robot_without_a_place_for_it_is_refused():
    robot = replace(load_robot("so101"), payload_site=None)
    engine = make_engine("mujoco", Scene(robot=robot), 1, dt=0.005)
    with pytest.raises(IsthmusError, match=r"payload_kg: the robot has no payload_site in its robot\.toml; add one"):
        engine.set_parameter("payload_kg", torch.ones(1, 1), torch.arange(1))
