"""The mode machine, every pair of mode and event."""

from itertools import product

import pytest

from isthmus.deploy.modes import ATTEMPTING, DRIVING, REQUESTS, TRANSITIONS, Event, Mode, next_mode

PAIRS = list(product(Mode, Event))


def sources(goal: Mode, *, through: tuple[Event, ...] = tuple(Event)) -> set[Mode]:
    return {mode for mode, event in PAIRS if event in through and mode is not goal and next_mode(mode, event) is goal}


@pytest.mark.parametrize(("mode", "event"), PAIRS)
def test_every_pair_of_mode_and_event_is_defined(mode: Mode, event: Event):
    assert len(TRANSITIONS[event]) == len(Mode)
    assert isinstance(next_mode(mode, event), Mode)


def test_arming_takes_two_steps_and_each_must_be_asked_for():
    assert {m for m in Mode if m not in DRIVING and next_mode(m, Event.ASK_READY) in DRIVING} == {Mode.DAMP}
    for mode, event in PAIRS:
        if mode not in DRIVING and next_mode(mode, event) in DRIVING:
            assert (mode, event) == (Mode.DAMP, Event.ASK_READY)
    assert sources(Mode.READY) == {Mode.DAMP}


def test_damp_follows_idle_only_when_asked():
    for event in Event:
        if event is not Event.ASK_DAMP and next_mode(Mode.IDLE, event) is not Mode.IDLE:
            assert event is Event.ASK_ESTOP


def test_the_policy_drives_only_after_ready_hold_or_teleop():
    assert sources(Mode.POLICY) == {Mode.READY, Mode.HOLD, Mode.TELEOP, Mode.REWIND, Mode.HELP}
    assert sources(Mode.POLICY, through=(Event.OPERATOR_RELEASED,)) == {Mode.TELEOP}
    assert sources(Mode.POLICY, through=(Event.OPERATOR_RESUME,)) == {Mode.REWIND, Mode.HELP}


def test_a_person_takes_over_only_within_an_attempt():
    assert sources(Mode.TELEOP) == {Mode.POLICY, Mode.REWIND, Mode.HELP}
    assert set(ATTEMPTING) == sources(Mode.TELEOP) | {Mode.TELEOP}


def test_going_back_ends_in_waiting_for_a_person():
    assert sources(Mode.REWIND) == {Mode.POLICY, Mode.TELEOP, Mode.HELP}
    assert next_mode(Mode.REWIND, Event.REWOUND) is Mode.HELP


def test_who_waits_for_help_moves_only_when_somebody_says_so():
    people = {Event.ASK_POLICY, Event.OPERATOR_ENGAGED, Event.OPERATOR_RESUME, Event.OPERATOR_REWIND}
    moving = {event for event in Event if next_mode(Mode.HELP, event) in (Mode.POLICY, Mode.TELEOP, Mode.REWIND)}
    assert moving == people


@pytest.mark.parametrize("mode", list(Mode))
def test_estop_comes_from_anywhere_and_only_idle_leads_out(mode: Mode):
    assert next_mode(mode, Event.ASK_ESTOP) is Mode.ESTOP
    out = {event for event in Event if next_mode(Mode.ESTOP, event) is not Mode.ESTOP}
    assert out == {Event.ASK_IDLE}


@pytest.mark.parametrize("mode", DRIVING)
def test_whatever_goes_wrong_while_driving_ends_in_hold_or_damp(mode: Mode):
    for event in (Event.HARDWARE_FAULT, Event.SUPERVISOR_LOST, Event.OPERATOR_STOP):
        assert next_mode(mode, event) is Mode.HOLD
    for event in (Event.HARDWARE_LOST, Event.FAULT_EXPIRED, Event.ASK_DAMP):
        assert next_mode(mode, event) is Mode.DAMP


def test_a_failing_shadow_does_not_take_the_arm_from_a_person():
    assert next_mode(Mode.TELEOP, Event.POLICY_FAULT) is Mode.TELEOP
    assert next_mode(Mode.POLICY, Event.POLICY_FAULT) is Mode.HOLD


def test_teleop_cannot_be_asked_for():
    assert set(REQUESTS) == set(Mode) - {Mode.TELEOP, Mode.REWIND, Mode.HELP}
