"""A thousand handovers, the way back, and asking for help."""

import numpy as np
import pytest
from deploy_fakes import SPEC, STEP, Bench, N, ReachPolicy

from isthmus.deploy.messages import Drive, OperatorCommand
from isthmus.deploy.modes import Mode
from isthmus.deploy.rewind import Path
from isthmus.policies.episode import Source

LOWER, UPPER = SPEC.array("lower"), SPEC.array("upper")


def random_values(drive: Drive, rng: np.random.Generator) -> tuple[float, ...]:
    if drive is Drive.TIP_VELOCITY:
        return tuple(rng.normal(0.0, 0.3, 3))
    if drive is Drive.COMMAND:
        return tuple(rng.uniform((0.15, -0.15, 0.05), (0.3, 0.15, 0.25)))
    scale = {Drive.JOINT_VELOCITY: 3.0, Drive.JOINT_TARGET: 1.5, Drive.JOINT_OFFSET: 0.5}[drive]
    values = rng.normal(0.0, scale, N)
    values[rng.random(N) < 0.1] = np.nan  # joints that nobody gives
    return tuple(values)


@pytest.mark.parametrize("drive", list(Drive))
def test_a_thousand_handovers_never_step_farther_than_a_tick_allows(drive: Drive):
    rng, bench = np.random.default_rng(int(drive)), Bench([ReachPolicy(gain=10.0)])
    bench.arm()
    bench.start_policy(5)
    handovers, edges = 0, []
    while handovers < 200:  # of each of five kinds
        bench.desk.beat()
        bench.desk.ask(Mode.POLICY, target=rng.uniform((0.15, -0.15, 0.05), (0.3, 0.15, 0.25)).tolist())
        for engaged in (True, False):
            values = random_values(drive, rng)
            for _ in range(int(rng.integers(1, 30))):
                if rng.random() < 0.2:
                    values = random_values(drive, rng)
                bench.desk.give(drive, values, engaged=engaged)
                bench.steps(1)
            edges.append(len(bench.sink.ticks))
        handovers += 1
        assert bench.runtime.mode is Mode.POLICY, bench.runtime.fault
    ticks = bench.ticks()
    steps = ticks["executed_target"] - ticks["joint_target"]
    driven = ticks["written_ns"] > 0
    assert (np.abs(steps[driven]) <= STEP + 1e-12).all()
    assert ((ticks["executed_target"] >= LOWER - 1e-12) & (ticks["executed_target"] <= UPPER + 1e-12))[driven].all()
    changes = np.flatnonzero(np.diff(ticks["mode"] == Mode.TELEOP)) + 1
    jump = np.abs(steps[changes] - steps[changes - 1]) / STEP
    assert len(changes) >= 2 * handovers - 1 and jump.max() <= 1.0


def test_a_persons_wish_is_executed_at_the_next_tick():
    bench = Bench()
    bench.arm()
    bench.start_policy(20)
    bench.steps(100)  # the policy has arrived
    for _ in range(20):
        bench.desk.give(Drive.JOINT_VELOCITY, (0.0,) * N, engaged=True)
        bench.steps(1)
    bench.desk.give(Drive.JOINT_VELOCITY, (1.0,) + (0.0,) * (N - 1), engaged=True)
    bench.steps(1)
    tick = bench.ticks()[-1]
    assert tick["human_target"][0] - tick["joint_target"][0] == pytest.approx(0.02)
    assert tick["executed_target"][0] == tick["human_target"][0]


@pytest.mark.parametrize(
    ("drive", "values", "words"),
    [
        (Drive.JOINT_TARGET, (0.0,) * (N + 1), "7 numbers"),
        (Drive.TIP_VELOCITY, (0.0,) * N, "6 numbers"),
        (9, (0.0,) * N, "kind 9"),
    ],
)
def test_numbers_that_mean_nothing_make_the_robot_hold(drive: int, values: tuple[float, ...], words: str):
    bench = Bench()
    bench.arm()
    bench.start_policy(5)
    bench.desk.give(drive, values, engaged=True)
    bench.steps(2)
    assert bench.runtime.mode is Mode.HOLD and words in bench.runtime.fault


def test_the_way_back_is_the_way_there():
    bench = Bench(rewind_speed=1.0, rewind_least_s=0.4)
    bench.arm()
    bench.start_policy(60, target=(0.2, 0.2, 0.25))
    there = bench.ticks()[-60:]["executed_target"]
    for _ in range(12):
        bench.desk.rewind()
        bench.steps(1)
        assert bench.runtime.mode is Mode.REWIND
    for _ in range(120):
        bench.desk.rewind()
        bench.steps(1)
    assert bench.runtime.mode is Mode.HELP  # far enough: it waits for a person
    assert (
        sum("REWIND (" in text for text in bench.events("mode")) == 1
    )  # and does not begin again while the key is held
    ticks = bench.ticks()
    back = ticks[ticks["source"] == Source.REWIND]["executed_target"]
    assert len(back) and all(
        np.abs(there - row).max(axis=1).min() < 2.0 * np.abs(np.diff(there, axis=0)).max() for row in back
    )
    assert (np.abs(np.diff(np.array(bench.robot.written), axis=0)) <= STEP + 1e-12).all()
    bench.desk.drive()
    bench.steps(1)
    assert bench.runtime.mode is Mode.TELEOP


def test_who_lets_go_of_rewind_waits_and_may_let_the_policy_go_on():
    bench = Bench()
    bench.arm()
    bench.start_policy(100)
    bench.desk.rewind()
    bench.steps(5)
    bench.desk.drive(engaged=False)
    bench.steps(3)
    assert bench.runtime.mode is Mode.HELP
    held = bench.runtime.executed.copy()
    bench.desk.drive(engaged=False)
    bench.steps(40)
    assert np.abs(bench.runtime.executed - held).max() < STEP.max()
    bench.desk.resume()
    bench.steps(1)
    assert bench.runtime.mode is Mode.POLICY


def test_a_policy_whose_gate_stays_open_asks_for_help_and_holds():
    bench = Bench([ReachPolicy()], help_after_s=0.2)  # its gate is always open
    bench.arm()
    bench.start_policy(1)
    bench.desk.drive(engaged=False)
    bench.steps(8)
    assert bench.runtime.mode is Mode.POLICY
    bench.steps(5)
    assert bench.runtime.mode is Mode.HELP and len(bench.events("help")) == 1
    bench.desk.drive()
    bench.steps(1)
    assert bench.runtime.mode is Mode.TELEOP


def test_going_back_ends_at_the_newest_good_place_far_enough_back():
    path = Path(1, 100, speed=1.0, least=10)
    for tick in range(250):  # more than it remembers
        path.add(np.array([float(tick)]), good=tick % 20 < 10 and tick < 230)
    path.begin()
    way = []
    while (target := path.back()) is not None:
        way.append(float(target[0]))
    assert way[0] == 248.0 and way[-1] == 229.0 and all(np.diff(way) == -1.0)
    path.cut()
    path.add(np.array([229.5]), good=False)
    path.begin()
    first = path.back()
    assert first is not None and first[0] == 229.0


def test_a_path_that_is_empty_or_short_leads_nowhere():
    path = Path(2, 10, speed=0.5, least=5)
    path.begin()
    assert path.back() is None
    path.cut()
    path.add(np.ones(2), good=False)
    path.begin()
    assert path.back() is None
    path.cut()


def test_the_numbers_of_a_person_survive_shared_memory():
    from isthmus.deploy.messages import MAX_VALUES, operator_from_record, operator_record

    command = OperatorCommand(
        sequence=7, heartbeat_ns=5, pressed_ns=3, engaged=True, drive=Drive.JOINT_TARGET, values=(0.1, 0.2), rewind=True
    )
    assert operator_from_record(operator_record(command)) == command
    with pytest.raises(ValueError, match="at most"):
        operator_record(OperatorCommand(values=(0.0,) * (MAX_VALUES + 1)))
