"""Terms are refused where they cannot be applied, and the randomizer draws each at its time."""

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from isthmus.hardware.structure import FormatError, read_json, structure, write_json
from isthmus.sim.distributions import Constant, Gaussian, LogUniform, TruncatedMultivariateNormal, Uniform
from isthmus.sim.engine import ENGINE_PARAMETERS, EngineParameter
from isthmus.sim.randomization import (
    EACH_JOINT,
    PER_JOINT,
    WORLD_PARAMETERS,
    CorrelatedTerm,
    RandomizationError,
    RandomTerm,
    Term,
    check_randomization,
    override,
    parameter_info,
    widen,
)
from isthmus.sim.randomizer import Randomizer
from isthmus.sim.tasks import tasks

ALL = {**ENGINE_PARAMETERS, **WORLD_PARAMETERS}
NUM_ENVS, JOINTS = 64, 6
UNIT_SUFFIX = {
    "_kg": "kg",
    "_m_s2": "m/s^2",
    "_rad_s": "rad/s",
    "_m_s": "m/s",
    "_m": "m",
    "_s": "s",
    "_rad": "rad",
    "_counts": "counts",
    "_scale": "1",
    "_probability": "1",
}


def uniform(parameter, low, high, **others):
    return RandomTerm(parameter=parameter, distribution=Uniform(low=low, high=high), **others)


def together(**others):
    return CorrelatedTerm(
        parameters=("friction_scale", "gain_scale"),
        distribution=TruncatedMultivariateNormal(
            mean=(1.0, 0.9), covariance=((0.04, 0.016), (0.016, 0.01)), low=(0.3, 0.5), high=(2.0, 1.5)
        ),
        **others,
    )


TERMS = (
    together(),
    uniform("mass_scale", 0.9, 1.1, when="build"),
    uniform("com_offset_m", -0.02, 0.02),
    uniform("encoder_offset_rad", -0.01, 0.01, component=2),
    uniform("motor_strength_scale", 0.9, 1.1),
    uniform("gravity_m_s2", -9.9, -9.7, component=2),
    uniform("push_velocity_m_s", 0.2, 0.5, when="interval", interval_s=0.4),
    uniform("contact_friction_scale", 0.5, 1.5, when="interval", interval_s=1.0),
)


def randomizer(terms=TERMS, seed=0, num_envs=NUM_ENVS):
    return Randomizer(terms, num_envs, JOINTS, torch.Generator().manual_seed(seed))


def everyone(num_envs=NUM_ENVS):
    return torch.arange(num_envs)


@pytest.mark.parametrize(("name", "info"), ALL.items(), ids=ALL)
def test_every_parameter_has_a_unit_a_description_and_a_possible_neutral(name, info):
    assert isinstance(info, EngineParameter) and info.unit and info.description
    assert info.width in (EACH_JOINT, 1, 2, 3) and len(info.neutral) == max(info.width, 1)
    suffix = max((end for end in UNIT_SUFFIX if name.endswith(end)), key=len, default=None)
    assert info.unit == UNIT_SUFFIX.get(suffix or "", "1")
    assert all(info.low <= value <= getattr(info, "high", math.inf) for value in info.neutral)
    for index, value in enumerate(info.neutral):
        when = getattr(info, "when", ("reset",))[0]
        whole = info.width == 1 or getattr(info, "direction", False)
        term = RandomTerm(
            parameter=name,
            distribution=Constant(value=value),
            when=when,
            interval_s=1.0 if when == "interval" else None,
            component=None if whole else index,
        )
        check_randomization((term,))
        values = randomizer((term,)).values[name]
        assert values.shape == (NUM_ENVS, JOINTS if info.width == EACH_JOINT else info.width)


def test_no_parameter_belongs_to_both_engine_and_world_and_those_per_joint_are_listed():
    assert not set(ENGINE_PARAMETERS) & set(WORLD_PARAMETERS)
    assert set(PER_JOINT) == {name for name, info in WORLD_PARAMETERS.items() if info.width == EACH_JOINT}
    assert "encoder_offset_rad" in PER_JOINT and "gain_scale" not in PER_JOINT


@pytest.mark.parametrize("task", tasks().values(), ids=lambda task: task.name)
def test_the_randomisation_of_every_task_can_be_applied(task):
    check_randomization(task.randomization)


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        (
            (uniform("gravity_on_mars", 0.0, 1.0),),
            r"unknown parameter 'gravity_on_mars'; known: friction_scale, .*backlash",
        ),
        ((uniform("gain_scale", 2.0, 1.0),), r"gain_scale: uniform range is empty"),
        (
            (uniform("mass_scale", -0.1, 1.0),),
            r"mass_scale: -0\.1 \.\. 1\.0 1 goes beyond what is possible, 0\.0 \.\. inf",
        ),
        ((uniform("packet_loss_probability", 0.0, 1.5),), r"goes beyond what is possible, 0\.0 \.\. 1\.0"),
        ((uniform("push_velocity_m_s", -1.0, 1.0, when="interval", interval_s=1.0),), "beyond what is possible"),
        ((uniform("gain_scale", 0.9, 1.1), uniform("gain_scale", 0.8, 1.2)), "gain_scale is randomised twice"),
        ((uniform("gain_scale", 0.9, 1.1), together()), "gain_scale is randomised twice"),
        ((uniform("com_offset_m", 0.0, 0.1), uniform("com_offset_m", 0.0, 0.1, component=1)), "twice"),
        ((uniform("com_offset_m", 0.0, 0.1, component=1),) * 2, "twice"),
        (
            (uniform("gain_scale", 0.9, 1.1, when="interval"),),
            "interval_s must be a positive number of seconds, got None",
        ),
        ((uniform("gain_scale", 0.9, 1.1, when="interval", interval_s=0.0),), r"positive number of seconds, got 0\.0"),
        (
            (uniform("gain_scale", 0.9, 1.1, interval_s=2.0),),
            r"interval_s 2\.0 is for when = .interval., but when is 'reset'",
        ),
        ((uniform("push_velocity_m_s", 0.0, 1.0),), "push_velocity_m_s: when must be 'interval', got 'reset'"),
        ((uniform("initial_yaw_rad", 0.0, 1.0, when="build"),), "initial_yaw_rad: when must be 'reset', got 'build'"),
        ((uniform("com_offset_m", 0.0, 0.1, component=3),), r"component must lie in 0 \.\. 2, got 3"),
        ((uniform("gain_scale", 0.9, 1.1, component=0),), "component must be left out, got 0"),
        ((uniform("imu_misalignment_rad", 0.0, 0.1, component=0),), "component must be left out"),
        ((uniform("gravity_m_s2", -9.9, -9.7),), r"its values differ .* component = 0, 1"),
        ((replace(together(), parameters=("gain_scale",)),), "1 parameters for a distribution of 2 components"),
        ((replace(together(), parameters=("gain_scale", "gain_scale")),), "gain_scale is randomised twice"),
        ((replace(together(), parameters=("gain_scale", "com_offset_m")),), "com_offset_m: has several values"),
        (
            (replace(together(), parameters=("gain_scale", "packet_loss_probability")),),
            "packet_loss_probability: 0.5 .. 1.5",
        ),
    ],
)
def test_terms_that_cannot_be_applied_are_refused(terms, words):
    with pytest.raises(RandomizationError, match=words):
        check_randomization(terms)


def test_terms_of_one_parameter_on_different_components_are_allowed():
    check_randomization(tuple(uniform("com_offset_m", 0.0, 0.1, component=axis) for axis in range(3)))


@dataclass(frozen=True, kw_only=True)
class Stored:
    """As a training configuration keeps terms."""

    randomization: tuple[Term, ...]


@dataclass(frozen=True, kw_only=True)
class StoredSimple:
    """As configurations written before there were correlated terms."""

    randomization: tuple[RandomTerm, ...]


def test_terms_of_every_kind_survive_a_file(tmp_path: Path):
    others = (
        RandomTerm(parameter="latency_s", distribution=Gaussian(mean=0.02, std=0.01, low=0.0, high=0.05)),
        RandomTerm(parameter="armature_scale", distribution=LogUniform(low=0.5, high=2.0)),
        RandomTerm(parameter="payload_kg", distribution=Constant(value=0.1)),
    )
    stored = Stored(randomization=TERMS + others)
    write_json(tmp_path / "terms.json", stored)
    assert read_json(tmp_path / "terms.json", Stored) == stored


@pytest.mark.parametrize("form", [Stored, StoredSimple])
def test_files_from_before_there_were_times_and_components_still_load(form):
    old = json.loads(
        '{"randomization": [{"parameter": "latency_s", "distribution": {"low": 0.01, "high": 0.02, "kind": "uniform"}},'
        ' {"parameter": "friction_scale", "distribution": {"low": 0.5, "high": 2, "kind": "log-uniform"}}]}'
    )
    assert structure(old, form, source="old").randomization == (
        uniform("latency_s", 0.01, 0.02),
        RandomTerm(parameter="friction_scale", distribution=LogUniform(low=0.5, high=2.0)),
    )
    del old["randomization"][0]["distribution"]["high"]
    with pytest.raises(FormatError, match="missing"):
        structure(old, form, source="old")


def test_override_replaces_whole_terms_and_refuses_to_tear_a_correlated_one():
    new = (uniform("friction_scale", 0.9, 1.1), uniform("gain_scale", 0.9, 1.1))
    assert override((together(), TERMS[1]), new) == (*new, TERMS[1])  # where it stood
    assert override(new, (together(),)) == (together(),)
    with pytest.raises(RandomizationError, match="gain_scale is drawn together with friction_scale"):
        override((together(),), new[1:])


def test_widening_goes_from_neutral_to_the_whole():
    assert widen(TERMS, 1.0) == TERMS
    drawn = randomizer(widen(TERMS, 0.0))
    for when in ("build", "reset", "interval"):
        drawn.draw(everyone(), when)
    for name, values in drawn.values.items():
        neutral = torch.tensor(parameter_info(name).neutral)
        torch.testing.assert_close(values, neutral.expand_as(values))
    half = widen((uniform("gravity_m_s2", -10.81, -7.81, component=2),), 0.5)[0]
    assert half.distribution.support == pytest.approx((-10.31, -8.81))


def test_values_are_neutral_until_drawn_and_each_time_draws_its_own_terms():
    drawn = randomizer()
    for values, neutral in ((drawn.values["gravity_m_s2"], [0.0, 0.0, -9.81]), (drawn.value("payload_kg"), [0.0])):
        assert torch.equal(values, torch.tensor(neutral).repeat(NUM_ENVS, 1))
    before = {name: values.clone() for name, values in drawn.values.items()}
    assert drawn.draw(everyone(), "build") == ("mass_scale",)
    assert drawn.draw(torch.tensor([1, 5]), "reset") == (
        "friction_scale",
        "gain_scale",
        "com_offset_m",
        "encoder_offset_rad",
        "motor_strength_scale",
        "gravity_m_s2",
    )
    assert drawn.draw(torch.tensor([], dtype=torch.long), "reset") == ()
    changed = {name: (drawn.values[name] != before[name]).any(-1) for name in before}
    assert changed["mass_scale"].all()
    for name in ("friction_scale", "com_offset_m", "motor_strength_scale", "gravity_m_s2"):
        assert changed[name].nonzero().flatten().tolist() == [1, 5]
    assert not changed["push_velocity_m_s"].any()


def test_drawn_values_lie_in_their_ranges_and_components_stay_alone():
    drawn = randomizer()
    drawn.draw(everyone(), "reset")
    gravity, offset = drawn.values["gravity_m_s2"], drawn.values["encoder_offset_rad"]
    assert (gravity[:, :2] == 0).all() and gravity[:, 2].min() >= -9.9 and gravity[:, 2].max() <= -9.7
    assert (offset[:, [0, 1, 3, 4, 5]] == 0).all() and (offset[:, 2] != 0).all()
    strength = drawn.values["motor_strength_scale"]
    assert strength.shape == (NUM_ENVS, JOINTS) and (strength.std(dim=1) > 0.01).all()
    with pytest.raises(RandomizationError, match=r"component must lie in 0 \.\. 5, a joint, got 6"):
        randomizer((uniform("encoder_offset_rad", 0.0, 0.1, component=6),))


def test_correlated_parameters_are_correlated_across_environments():
    drawn = randomizer((together(),), num_envs=20_000)
    drawn.draw(everyone(20_000), "reset")
    pair = torch.cat([drawn.values["friction_scale"], drawn.values["gain_scale"]], dim=-1).double().numpy()
    assert np.corrcoef(pair.T)[0, 1] == pytest.approx(0.8, abs=0.02)
    assert pair.min(0) == pytest.approx([0.3, 0.5], abs=0.2) and (pair.max(0) <= [2.0, 1.5]).all()


@pytest.mark.parametrize(("name", "when"), [("push_velocity_m_s", "interval"), ("imu_misalignment_rad", "reset")])
def test_lengths_follow_the_distribution_and_directions_are_even(name, when):
    interval = 1.0 if when == "interval" else None
    drawn = randomizer((uniform(name, 0.2, 0.5, when=when, interval_s=interval),), num_envs=20_000)
    drawn.draw(everyone(20_000), when)
    vectors = drawn.values[name].double().numpy()
    length = np.linalg.norm(vectors, axis=-1)
    assert stats.kstest(length, stats.uniform(0.2, 0.3).cdf).pvalue > 0.01
    unit = vectors / length[:, None]
    if unit.shape[1] == 2:  # the angle is uniform
        assert stats.kstest(np.arctan2(*unit.T), stats.uniform(-math.pi, 2 * math.pi).cdf).pvalue > 0.01
    else:  # on a sphere each coordinate is uniform (Archimedes)
        assert all(stats.kstest(axis, stats.uniform(-1, 2).cdf).pvalue > 0.01 for axis in unit.T)


def test_intervals_come_once_per_interval_at_phases_spread_over_it():
    drawn = randomizer((uniform("push_velocity_m_s", 0.2, 0.5, when="interval", interval_s=0.4),), num_envs=2000)
    first, count = torch.zeros(2000), torch.zeros(2000)
    for tick in range(1, 101):  # 2 s of 20 ms ticks, 5 intervals
        ids = drawn.due(0.02).get("push_velocity_m_s", torch.tensor([], dtype=torch.long))
        first[ids] = torch.where(count[ids] == 0, torch.tensor(0.02 * tick), first[ids])
        count[ids] += 1
    assert (count == 5).all()
    assert first.min() >= 0.02 - 1e-6 and first.max() <= 0.4 + 1e-6
    counts = np.bincount((first / 0.02).round().long().numpy(), minlength=21)[1:]
    assert stats.chisquare(counts).pvalue > 0.01


def test_due_draws_new_values_for_those_environments_alone():
    drawn = randomizer()
    before = {name: values.clone() for name, values in drawn.values.items()}
    due = drawn.due(0.1)
    assert set(due) == {"push_velocity_m_s", "contact_friction_scale"}
    for name, values in drawn.values.items():
        changed = (values != before[name]).any(-1).nonzero().flatten()
        assert torch.equal(changed, due.get(name, torch.tensor([], dtype=torch.long)))


def test_a_long_pause_draws_once_and_keeps_the_rhythm():
    drawn = randomizer((uniform("contact_friction_scale", 0.5, 1.5, when="interval", interval_s=1.0),), num_envs=8)
    wait = drawn.state_dict()["wait_s/0"]
    assert drawn.due(3.0)["contact_friction_scale"].tolist() == list(range(8))
    torch.testing.assert_close(drawn.state_dict()["wait_s/0"], wait)


def test_a_reset_makes_the_time_to_the_next_draw_random_again():
    drawn = randomizer()
    before = drawn.state_dict()["wait_s/6"]
    drawn.draw(torch.tensor([3]), "reset")
    changed = drawn.state_dict()["wait_s/6"] != before
    assert changed.nonzero().flatten().tolist() == [3]


def test_a_saved_state_goes_on_with_the_same_bits():
    original, twin = randomizer(seed=1), randomizer(seed=2)
    original.draw(everyone(), "reset")
    original.due(0.3)
    twin.load_state_dict(original.state_dict())
    for runner in (original, twin):
        for _ in range(20):
            runner.due(0.05)
        runner.draw(torch.arange(0, NUM_ENVS, 3), "reset")
    for name, values in original.state_dict().items():
        assert torch.equal(values, twin.state_dict()[name]), name
    with pytest.raises(RandomizationError, match="state of another randomisation"):
        randomizer(num_envs=3).load_state_dict(original.state_dict())
    with pytest.raises(RandomizationError, match="state of another randomisation"):
        randomizer(TERMS[:2]).load_state_dict(original.state_dict())


def test_distributions_may_be_replaced_but_not_what_is_drawn_or_when():
    drawn = randomizer()
    drawn.use(widen(TERMS, 0.1))
    drawn.draw(everyone(), "reset")
    assert drawn.values["motor_strength_scale"].sub(1).abs().max() <= 0.01 + 1e-6
    for other in (TERMS[1:], (TERMS[1], TERMS[0], *TERMS[2:]), (*TERMS[:-1], replace(TERMS[-1], interval_s=2.0))):
        with pytest.raises(RandomizationError, match="only distributions may change"):
            drawn.use(other)
    with pytest.raises(RandomizationError, match="empty"):
        drawn.use((*TERMS[:-1], replace(TERMS[-1], distribution=Uniform(low=1.0, high=0.0))))


def test_values_drawn_elsewhere_can_be_put():
    drawn = randomizer()
    drawn.put("gain_scale", torch.tensor([2, 4]), torch.tensor([[0.5], [0.6]]))
    assert drawn.values["gain_scale"][[2, 4], 0].tolist() == pytest.approx([0.5, 0.6])
    with pytest.raises(RandomizationError, match=r"'latency_s' is not randomised here; randomised: friction_scale"):
        drawn.put("latency_s", torch.tensor([2]), torch.zeros(1, 1))
    with pytest.raises(RandomizationError, match=r"expected values of shape \(1, 3\), got \(1, 1\)"):
        drawn.put("com_offset_m", torch.tensor([2]), torch.zeros(1, 1))


def test_the_log_has_mean_and_ends_of_every_parameter():
    drawn = randomizer((uniform("gain_scale", 0.5, 1.5),), num_envs=3)
    drawn.put("gain_scale", torch.arange(3), torch.tensor([[0.5], [1.0], [1.2]]))
    assert drawn.log() == pytest.approx({"gain_scale/mean": 0.9, "gain_scale/min": 0.5, "gain_scale/max": 1.2})
