"""What ends driving, each by hand."""

import numpy as np
import pytest
from deploy_fakes import SPEC, N

from isthmus.deploy.monitors import MonitorLimits, Monitors, complaint, leak
from isthmus.deploy.safety import robot_limits
from isthmus.hardware.interface import JointState
from isthmus.hardware.robot import load_robot


def test_bus_errors_leak_away_in_about_a_second():
    level = 0.0
    for _ in range(50):
        level = leak(level, 1, 0.02)
    assert 25 < level < 50
    for _ in range(150):
        level = leak(level, 0, 0.02)
    assert level < 2.0


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"age_s": 0.2}, "0.200 s old"),
        ({"age_s": float("nan")}, "old"),
        ({"temperature": 80.0}, "80 deg C"),
        ({"bus_errors": 20.0}, "20 bus errors"),
        ({}, ""),
        ({"temperature": float("nan")}, ""),
    ],
)
def test_a_monitor_says_what_is_wrong(change: dict[str, float], text: str):
    values = {"age_s": 0.01, "temperature": 40.0, "bus_errors": 1.0, **change}
    said = complaint(limits=MonitorLimits(), **values)
    assert text in said if text else said == ""


def state(n: int = N, **changed: object) -> JointState:
    values = {"joint_pos": np.zeros(n), "joint_vel": np.zeros(n), "temperature": np.full(n, 30.0), **changed}
    return JointState(stamp_ns=0, **{"errors": 0, **values})  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("field", ["joint_pos", "joint_vel"])
def test_a_reading_that_is_not_finite_is_named(field: str, bad: float):
    monitors = Monitors(SPEC, robot_limits(SPEC, period_s=0.02, torque_factor=2.0), MonitorLimits(), 0.02)
    values = np.zeros(N)
    values[3] = bad
    assert "not all finite" in monitors.unreadable(state(N, **{field: values}))
    assert monitors.unreadable(state()) == ""


@pytest.mark.parametrize("period_s", [0.02, 0.002])
def test_slow_quantities_are_looked_at_often_enough_at_any_rate(period_s: float):
    monitors = Monitors(SPEC, robot_limits(SPEC, period_s=period_s, torque_factor=2.0), MonitorLimits(), period_s)
    hot = state(temperature=np.array([30.0] * (N - 1) + [90.0]))
    said = [monitors.complaint(hot, 0.0) for _ in range(round(0.04 / period_s))]
    assert "90 deg C" in said[-1] and monitors.max_temperature == 90.0


@pytest.mark.parametrize(("lean", "falls"), [(0.0, False), (0.6, False), (0.8, True), (3.1, True)])
def test_a_base_that_leans_too_far_is_told(lean: float, falls: bool):
    spec = load_robot("go2")
    monitors = Monitors(spec, robot_limits(spec, period_s=0.02, torque_factor=2.0), MonitorLimits(max_tilt=0.7), 0.02)
    gravity = np.array([np.sin(lean), 0.0, -np.cos(lean)])
    assert ("leans" in monitors.complaint(state(12, signals={"gravity": gravity}), 0.0)) == falls
