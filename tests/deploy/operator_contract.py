"""What every `Operator` must do. A test module subclasses these and gives a fixture `bench`."""

from itertools import pairwise
from multiprocessing.connection import wait

import numpy as np
import pytest
from operator_bench import OperatorBench, Stage

from isthmus.deploy.messages import Drive, OperatorCommand, Verdict
from isthmus.deploy.operators.operator import Operator, OperatorError

KEEPS = (Drive.JOINT_TARGET, Drive.JOINT_OFFSET)  # whose NaN mean: this joint keeps its target


def check_values(command: OperatorCommand, width: int) -> None:
    assert len(command.values) == width
    values = np.array(command.values)
    assert np.isfinite(values[~np.isnan(values)] if command.drive in KEEPS else values).all()


class OperatorContract:
    """For everybody, also those who are no person. The fixture `operated` gives the operator and its stage."""

    def test_it_gives_signs_of_life_and_never_drives_between_attempts(self, operated: tuple[Operator, Stage]):
        operator, stage = operated
        begin = stage.now_ns
        commands = stage.run(operator, 150)
        assert [c.heartbeat_ns - begin for c in commands] == [i * 20_000_000 for i in range(150)]
        assert all(a.sequence < b.sequence for a, b in pairwise(commands))
        assert not any(c.engaged or c.stop or c.verdict or c.rewind or c.resume for c in commands)

    def test_each_attempt_begins_without_driving(self, operated: tuple[Operator, Stage]):
        operator, stage = operated
        for episode in range(3):
            stage.episode = episode
            first, *rest = stage.run(operator, 100)
            assert not first.engaged and first.verdict == Verdict.NONE
            for command in [first, *rest]:
                check_values(command, len(first.values))

    def test_it_may_be_closed_twice(self, operated: tuple[Operator, Stage]):
        operator, stage = operated
        stage.run(operator, 1)
        operator.close()
        operator.close()


class DeviceContract(OperatorContract):
    """For devices in a person's hands. The fixture `bench` gives the device and the hands."""

    @pytest.fixture
    def operated(self, bench: OperatorBench) -> tuple[Operator, Stage]:
        return bench.operator, bench.stage

    @pytest.fixture
    def attempt(self, bench: OperatorBench) -> OperatorBench:
        """In the first attempt, nothing pressed."""
        bench.poll()
        bench.stage.episode = 0
        bench.poll()
        return bench

    def test_it_drives_at_the_next_poll_and_lets_go_at_the_next_poll(self, attempt: OperatorBench):
        assert attempt.do(attempt.engage).engaged
        assert all(attempt.poll().engaged for _ in range(100))
        assert not attempt.do(attempt.release).engaged
        assert not any(attempt.poll().engaged for _ in range(100))
        assert attempt.do(attempt.engage).engaged

    def test_its_numbers_move_the_robot_only_while_it_is_engaged(self, attempt: OperatorBench):
        commands = [attempt.do(attempt.move)]
        attempt.rest()
        rest = attempt.poll().values
        commands += [attempt.do(attempt.engage), attempt.poll(), attempt.do(attempt.move)]
        assert not np.allclose(commands[-1].values, rest, equal_nan=True)
        commands.append(attempt.do(attempt.release))
        for command in commands:
            check_values(command, attempt.width)
        if commands[0].drive is not Drive.JOINT_TARGET:  # a leader's pose is told all the time
            assert np.nansum(np.abs(rest)) == 0.0
            assert np.nansum(np.abs(commands[-1].values)) == 0.0

    def test_nothing_that_a_person_does_between_attempts_counts(self, bench: OperatorBench):
        for action in (bench.engage, bench.move, *bench.press.values()):
            if action is not bench.press.get("stop"):
                command = bench.do(action)
                assert not (command.engaged or command.rewind or command.resume or command.verdict)

    def test_a_switch_that_is_held_from_before_does_not_count_until_it_was_let_go(self, bench: OperatorBench):
        bench.poll()
        bench.do(bench.engage)
        bench.stage.episode = 0
        assert not any(bench.poll().engaged for _ in range(100))
        bench.rest()
        if bench.held:
            bench.do(bench.release)
        assert bench.do(bench.engage).engaged

    def test_a_new_attempt_takes_it_out_of_the_persons_hands(self, attempt: OperatorBench):
        attempt.do(attempt.engage)
        if "done" in attempt.press:
            assert attempt.do(attempt.press["done"]).verdict == Verdict.SUCCESS
        attempt.stage.episode = 1
        first = attempt.poll()
        assert not first.engaged and first.verdict == Verdict.NONE
        assert not any(attempt.poll().engaged for _ in range(20))

    def test_only_who_has_taken_over_judges(self, attempt: OperatorBench):
        for name, verdict in (("done", Verdict.SUCCESS), ("give_up", Verdict.GIVE_UP)):
            if name in attempt.press:
                assert attempt.do(attempt.press[name]).verdict == Verdict.NONE
                attempt.do(attempt.engage)
                assert attempt.do(attempt.press[name]).verdict == verdict
                attempt.do(attempt.release)
                assert attempt.poll().verdict == verdict
                attempt.stage.episode += 1
                attempt.rest()

    def test_a_stop_is_for_good(self, attempt: OperatorBench):
        if "stop" not in attempt.press:
            pytest.skip("this device has no stop: it is the other hand's, at the emergency switch")
        attempt.do(attempt.engage)
        assert attempt.do(attempt.press["stop"]).stop
        attempt.stage.episode = 1
        attempt.do(attempt.release)
        attempt.do(attempt.engage)
        assert all((c := attempt.poll()).stop and not c.engaged for _ in range(100))

    def test_it_goes_back_only_while_it_drives(self, attempt: OperatorBench):
        if "rewind" not in attempt.press:
            pytest.skip("this device cannot go back")
        attempt.do(attempt.engage)
        command = attempt.do(attempt.press["rewind"])
        assert command.rewind and command.engaged
        command = attempt.do(attempt.press["rewind_off"])
        assert command.engaged and not command.rewind
        attempt.do(attempt.press["rewind"])
        command = attempt.do(attempt.release)
        assert not command.rewind and not command.engaged

    def test_a_policy_that_waits_is_told_for_a_few_ticks_to_go_on(self, attempt: OperatorBench):
        if "resume" not in attempt.press:
            pytest.skip("this device cannot resume")
        told = [attempt.do(attempt.press["resume"]).resume, *(attempt.poll().resume for _ in range(40))]
        assert told[:10] == [True] * 10 and not any(told[20:])

    def test_it_says_when_the_person_last_did_something(self, attempt: OperatorBench):
        attempt.rest()
        quiet = attempt.poll().pressed_ns
        assert attempt.poll().pressed_ns == quiet < attempt.stage.now_ns
        acted = attempt.do(attempt.engage)
        assert acted.pressed_ns == acted.heartbeat_ns
        assert attempt.poll().pressed_ns == acted.pressed_ns

    def test_its_descriptors_tell_when_to_poll_and_are_quiet_afterwards(self, attempt: OperatorBench):
        operator = attempt.operator
        assert operator.filenos()
        attempt.stage.run(operator, 1)
        assert not wait(operator.filenos(), 0.0)
        attempt.engage()
        assert wait(operator.filenos(), 2.0)
        attempt.stage.run(operator, 1)
        assert not wait(operator.filenos(), 0.0)

    def test_a_device_that_is_gone_is_an_error_and_can_be_closed(self, attempt: OperatorBench):
        attempt.do(attempt.engage)
        attempt.lose()
        with pytest.raises(OperatorError, match=r"\w+ .*(gone|closed|went away|ended|no answer)"):
            attempt.poll()
        attempt.operator.close()
        attempt.operator.close()
