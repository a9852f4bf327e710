"""How the doctor says things, and what it says of the chain to the tip. The catalogue's own run holds all its findings to the same."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benches import Good
from saying import ill_said

from isthmus.deploy.doctor.diagnose import diagnose
from isthmus.deploy.doctor.findings import fault
from isthmus.hardware.robot import load_robot

SEED = 0


def test_a_number_without_a_unit_and_a_sentence_that_ends_twice_would_be_noticed() -> None:
    assert ill_said(fault("load", "x", "it is wrong", "repair it", numbers={"share": 1.0}))
    assert ill_said(fault("load", "x", "it is wrong.", "repair it"))
    assert ill_said(fault("load", "x", "it is quite wrong; it is quite wrong", "repair it"))
    assert not ill_said(fault("load", "x", "it is wrong", "repair it", numbers={"range of the target [rad]": 1.0}))


def test_units_of_a_joint_that_slides_are_its_own(good: Callable[[str, int], Good]) -> None:
    sound = good("cart", SEED)
    slider, *others = sound.robot.joints
    joints = (replace(slider, upper=slider.upper + 1.0), *others)
    found = diagnose(sound.bundle.path, replace(sound.robot, joints=joints)).faults
    assert {"slider in training [m]", "slider in robot.toml [m]"} <= found[0].numbers.keys()


def test_a_term_is_said_to_differ_once(good: Callable[[str, int], Good]) -> None:
    sound = good("reach", SEED)
    log = sound.logs[0]
    silent = {name: 0.0 * values for name, values in log.signals.items()}
    found = diagnose(sound.bundle.path, sound.robot, replace(log, signals=silent)).faults
    shown = next(finding for finding in found if finding.link == "observation")
    assert shown.cause.count("clipped or computed otherwise") == 1


def test_a_chain_that_is_not_the_models_is_named_with_its_link_and_the_tips_error(
    good: Callable[[str, int], Good], tmp_path: Path
) -> None:
    sound, robot = good("reach", SEED), load_robot("so101")
    text = robot.model_path.read_text()
    place = re.search(r'<body name="(\w+)"[^>]*pos="([^"]+)"', text[text.index("upper_arm") :])
    assert place is not None
    x, *rest = place.group(2).split()
    moved = place.group(0).replace(place.group(2), " ".join([f"{float(x) + 0.02:.6f}", *rest]))
    longer = tmp_path / "model.xml"
    longer.write_text(text.replace(place.group(0), moved))
    found = diagnose(sound.bundle.path, replace(robot, model_path=longer)).faults
    assert [finding.link for finding in found] == ["kinematic chain"]
    assert "the place of" in found[0].cause
    assert found[0].numbers["tip is off in the default pose [m]"] == pytest.approx(0.02, rel=1e-3)
    for change, words in (
        ({"tip_site": None}, "no tip_site"),
        ({"tip_site": "elsewhere"}, "no site 'elsewhere'"),
        ({"model_path": tmp_path / "nothing.xml"}, "No such file"),
    ):
        found = diagnose(sound.bundle.path, replace(robot, **change)).faults
        assert any(words in finding.cause for finding in found), words


def test_rounding_of_a_chain_is_no_difference(good: Callable[[str, int], Good]) -> None:
    from isthmus.deploy.doctor.chain import chain_differs

    sound = good("reach", SEED)
    contract = sound.bundle.manifest.contract
    chain = contract.reach_chain()
    links = tuple(
        replace(link, quat=tuple(-v for v in link.quat), pos=tuple(float(np.float32(v)) for v in link.pos))
        for link in chain.links
    )
    assert [*chain_differs(replace(chain, links=links), contract, sound.robot)] == []
