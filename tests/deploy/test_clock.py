import time

import pytest

from isthmus.deploy.clock import LockstepClock, RealClock


def test_lockstep_time_passes_only_by_sleeping_and_the_robot_gets_exactly_that():
    advanced: list[float] = []
    clock = LockstepClock(advanced.append, start_ns=5)
    time.sleep(0.01)
    assert clock.now_ns() == 5
    clock.sleep_until(20_000_005)
    clock.sleep_until(1)
    clock.sleep_until(60_000_005)
    assert clock.now_ns() == 60_000_005
    assert advanced == pytest.approx([0.02, 0.04])
    assert clock.from_monotonic(time.monotonic_ns()) == clock.now_ns()


def test_the_real_clock_never_returns_before_the_deadline():
    clock = RealClock()
    for _ in range(20):
        deadline = clock.now_ns() + 1_500_000
        clock.sleep_until(deadline)
        assert clock.now_ns() >= deadline
    assert clock.from_monotonic(123) == 123
