"""Every class of mistake is found and named; nothing is found where nothing is wrong."""

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from benches import Good
from catalogue import FAULTS
from faults import Case, Fault
from saying import ill_said

from isthmus.deploy.doctor.diagnose import diagnose
from isthmus.deploy.doctor.findings import Diagnosis

SEED = 5
MANY = [(name, seed) for name in ("reach", "sway", "hover") for seed in range(10)]
SOME = [(name, seed) for name in ("cart", "hand", "trot") for seed in range(3)]


def _named(fault: Fault, diagnosis: Diagnosis) -> bool:
    first = diagnosis.faults[:1]
    return any(re.search(word, found.line()) for found in first for word in fault.words)


def test_there_are_many_classes_of_faults_on_many_robots() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 40
    assert len({fault.on for fault in FAULTS}) >= 5


@pytest.mark.timeout(900)
def test_every_fault_is_found_and_nearly_all_are_named(
    good: Callable[[str, int], Good], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, found, named, badly_said = [], 0, 0, []
    started = time.monotonic()
    for fault in FAULTS:
        sound = good(fault.on, SEED)
        case = fault.inject(
            Case(good=sound, path=sound.bundle.path, robot=sound.robot, log=sound.logs[0], folder=tmp_path)
        )
        diagnosis = diagnose(case.path, case.robot, case.log)
        right = _named(fault, diagnosis)
        badly_said += [words for finding in diagnosis.findings if (words := ill_said(finding))]
        found, named = found + (not diagnosis.healthy), named + right
        first = diagnosis.faults[0] if diagnosis.faults else None
        stage = "-" if first is None else first.stage
        words = "" if first is None else first.cause
        rows.append(f"{fault.name:52} {fault.on:6} {stage:9} {'named' if right else 'NOT NAMED':10} {words[:90]}")
    with capsys.disabled():
        print("\n" + "\n".join(rows))
        print(f"{len(FAULTS)} faults, {found} found, {named} named, {time.monotonic() - started:.0f} s")
    assert badly_said == []
    assert found >= 0.98 * len(FAULTS)
    assert named >= 0.9 * len(FAULTS)


@pytest.mark.parametrize(("name", "seed"), [*MANY, *SOME])
def test_a_good_robot_under_a_good_policy_is_healthy(good: Callable[[str, int], Good], name: str, seed: int) -> None:
    sound = good(name, seed)
    for log in sound.logs:
        diagnosis = diagnose(sound.bundle.path, sound.robot, log)
        assert diagnosis.healthy, "\n".join(finding.line() for finding in diagnosis.faults)
