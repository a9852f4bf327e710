"""Figures of `isthmus bench loop` and `bench peers`, against numbers known beforehand."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from isthmus.deploy.bench import nanosleep
from isthmus.deploy.bench.memory import cpu_s, kept, resident_kib
from isthmus.deploy.bench.nanosleep import BenchError, Scheduling
from isthmus.deploy.bench.punctuality import (
    Segment,
    grid_lateness_us,
    interval_error_us,
    punctuality,
    rate_error,
    skipped,
)

PERIOD = 2_000_000
USUAL = Scheduling(priority=0, cpu=-1)
GRID = 7_000_000_000_000 + PERIOD * np.arange(1000, dtype=np.int64)


def _segment(late_us: np.ndarray) -> Segment:
    return Segment(
        deadline_ns=GRID[: len(late_us)],
        wake_ns=GRID[: len(late_us)] + np.int64(1000) * late_us.astype(np.int64),
        cpu_s=0.05,
    )


def test_lateness_is_that_of_all_segments_without_their_first_ticks():
    first = _segment(np.concatenate([[900], np.arange(1, 51)]))
    second = _segment(np.concatenate([[900], np.arange(51, 102)]))
    found = punctuality([first, second], PERIOD)
    assert (found.p50_us, found.p90_us, found.p99_us, found.max_us) == pytest.approx((51, 91, 100, 101))
    assert found.ticks == 103 and found.missed == 0
    assert found.cpu_us == pytest.approx(0.1 / 103 * 1e6)


def test_a_segment_of_one_tick_is_no_measurement():
    with pytest.raises(ValueError, match="2 ticks"):
        punctuality([_segment(np.zeros(1))], PERIOD)


def test_skipped_deadlines_are_counted_and_missing_from_the_rate():
    deadlines = np.delete(GRID, [300, 301, 302, 700])
    assert skipped(deadlines, PERIOD) == 4
    found = punctuality([Segment(deadline_ns=deadlines, wake_ns=deadlines + 20_000, cpu_s=0.0)], PERIOD)
    assert found.missed == 4
    assert found.rate_error_percent == pytest.approx(-100 * 4 / 1000)
    assert found.drift_percent == pytest.approx(0.0, abs=1e-9)


def test_drift_is_seen_beside_what_was_skipped():
    deadlines = np.delete(GRID, [500, 995])
    wakes = deadlines + ((deadlines - GRID[0]) * 1e-3).astype(np.int64)
    found = punctuality([Segment(deadline_ns=deadlines, wake_ns=wakes, cpu_s=0.0)], PERIOD)
    assert found.missed == 2
    assert found.drift_percent == pytest.approx(-0.1, rel=0.01)
    assert found.rate_error_percent == pytest.approx(-0.1 - 0.2, rel=0.01)


@pytest.mark.parametrize("factor", [1.0, 1.01, 0.99, 1.0001])
def test_the_error_of_a_rate_is_that_of_the_period(factor: float):
    stamps = GRID[0] + np.rint(PERIOD * factor * np.arange(1000)).astype(np.int64)
    assert rate_error(stamps, PERIOD) == pytest.approx(1 / factor - 1, abs=1e-9)


def test_late_ticks_at_the_ends_are_no_error_of_the_rate():
    stamps = GRID.copy()
    stamps[[0, 1, -1]] += 1_500_000
    assert rate_error(stamps, PERIOD) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("phase", [0, 1_999_999, 1_000_000])
def test_lateness_against_a_grid_is_that_beyond_the_earliest_wherever_the_grid_lies(phase: int):
    late_us = np.random.default_rng(0).integers(0, 100, 1000)
    late_us[[0, 17, 500]] = 90, 1300, 1500
    found = grid_lateness_us(GRID + phase + 1000 * late_us, PERIOD)
    np.testing.assert_allclose(found, late_us - np.quantile(late_us, 0.01), atol=1.0)


def test_a_grid_knows_no_whole_periods_that_were_skipped():
    late_us = np.random.default_rng(1).integers(0, 50, 1000)
    skipping = GRID + 1000 * late_us
    skipping[400:] += 3 * PERIOD
    np.testing.assert_allclose(
        grid_lateness_us(skipping, PERIOD), grid_lateness_us(GRID + 1000 * late_us, PERIOD), atol=1e-6
    )


def test_a_loop_that_drifts_wanders_over_the_period():
    drifting = GRID[0] + np.rint(PERIOD * 1.003 * np.arange(1000)).astype(np.int64)
    found = grid_lateness_us(drifting, PERIOD)
    assert np.ptp(found) > 0.95e-3 * PERIOD
    assert np.median(found) == pytest.approx(0.375e-3 * PERIOD, rel=0.1)  # the middle of -1/8 .. 7/8
    np.testing.assert_allclose(interval_error_us(drifting, PERIOD), 6.0, atol=2e-3)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return nanosleep.build(tmp_path_factory.mktemp("c"))


def test_the_loop_in_c_wakes_at_or_after_deadlines_that_lie_on_a_grid(program: Path):
    done = nanosleep.run(program, period_ns=PERIOD, ticks=25, scheduling=USUAL)
    assert done.deadline_ns.shape == done.wake_ns.shape == (25,)
    assert (np.diff(done.deadline_ns) % PERIOD == 0).all() and (np.diff(done.deadline_ns) > 0).all()
    assert (done.wake_ns >= done.deadline_ns).all()
    assert 0 <= done.cpu_s < 25 * PERIOD * 1e-9


@pytest.mark.parametrize(("period_ns", "scheduling"), [(0, USUAL), (PERIOD, Scheduling(priority=0, cpu=1023))])
def test_what_the_loop_in_c_cannot_do_is_said(program: Path, period_ns: int, scheduling: Scheduling):
    with pytest.raises(BenchError, match=r"PERIOD_NS|sched_setaffinity"):
        nanosleep.run(program, period_ns=period_ns, ticks=5, scheduling=scheduling)


def test_without_a_compiler_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shutil.which("cc") is None
    with pytest.raises(BenchError, match=r"cc, gcc, clang.*install"):
        nanosleep.build(tmp_path)


def test_a_compiler_that_fails_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'no time.h here' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(BenchError, match=r"nanosleep\.c: no time\.h here"):
        nanosleep.build(tmp_path)


def test_what_is_kept_in_every_call_is_found_with_its_line():
    held: list[bytearray] = []
    found = kept(lambda: held.append(bytearray(1000)), 50, settling=10)
    assert found.calls == 50
    assert 50 * 1000 < found.grown_bytes < 50 * 1300
    assert Path(__file__).name in found.where


def test_what_is_given_back_or_kept_once_is_not_growth():
    held: list[bytearray] = []

    def step() -> None:
        bytearray(1000)
        if len(held) < 5:
            held.append(bytearray(10_000))

    found = kept(step, 50, settling=10)
    assert found.grown_bytes <= 0 and found.where == ""


def test_memory_and_cpu_time_of_a_process_are_those_that_it_sees_itself():
    import os
    import resource
    import time

    ballast = np.ones(4_000_000)
    assert (
        ballast.nbytes / 1024 < resident_kib(os.getpid()) <= resource.getrusage(resource.RUSAGE_SELF).ru_maxrss + 4096
    )
    assert cpu_s(os.getpid()) == pytest.approx(time.process_time(), abs=0.2)
