"""The chain to the tip that a policy was trained with against the one that the robot's model.xml describes."""

import xml.etree.ElementTree as ET
from collections.abc import Iterator

import numpy as np

from isthmus.hardware.errors import IsthmusError
from isthmus.hardware.kinematics import KinematicChain, chain_from_mjcf, tip_position
from isthmus.hardware.robot import RobotSpec
from isthmus.policies.contract import Contract

from .findings import Finding, fault

_SAME = 1e-6  # m, of unit vectors and quaternions 1: what writing a number and reading it may change
_REMEDY = "use the model that the policy was trained with, or retrain"


def chain_differs(trained: KinematicChain, contract: Contract, robot: RobotSpec) -> Iterator[Finding]:
    """Findings where the model has another chain to the tip, or none: which link, and how far the tip is off in the default pose."""
    if robot.tip_site is None:
        words = f"the policy reaches for points with a tip, but robot {robot.name!r} has no tip_site"
        yield fault("static", "kinematic chain", words, "name the tip in robot.toml", weight=44.0)
        return
    try:
        own = chain_from_mjcf(robot.model_path, robot.tip_site)
    except (IsthmusError, OSError, ET.ParseError) as error:
        words = f"model.xml gives no chain to the tip: {error}"
        yield fault("static", "kinematic chain", words, "repair model.xml", weight=44.0)
        return
    if own.joint_names != trained.joint_names:
        words = f"the chain to the tip has joints {list(own.joint_names)} in model.xml, {list(trained.joint_names)} in training"
        yield fault("static", "kinematic chain", words, _REMEDY, weight=44.0)
        return
    odd = [*_odd_parts(trained, own)]
    if not odd:
        return
    default = {joint.name: joint.default_pos for joint in contract.joints}
    pose = np.array([default[name] for name in own.joint_names])
    off = float(np.linalg.norm(tip_position(own, pose) - tip_position(trained, pose)))
    yield fault(
        "static", "kinematic chain", f"model.xml's chain to the tip is not the one of training: {'; '.join(odd)}",
        _REMEDY, numbers={"tip is off in the default pose [m]": off}, weight=44.0,
    )  # fmt: skip


def _odd_parts(trained: KinematicChain, own: KinematicChain) -> Iterator[str]:
    for ours, theirs in zip(own.links, trained.links, strict=True):
        for what, unit, now, then in (
            ("place", " m", ours.pos, theirs.pos),
            ("orientation", "", _one_sign(ours.quat), _one_sign(theirs.quat)),
            ("axis", "", ours.axis, theirs.axis),
        ):
            if not np.allclose(now, then, rtol=0.0, atol=_SAME):
                yield f"the {what} of {ours.joint} is {_numbers(now)}{unit}, trained with {_numbers(then)}{unit}"
    if not np.allclose(own.tip_pos, trained.tip_pos, rtol=0.0, atol=_SAME):
        yield f"the place of the tip is {_numbers(own.tip_pos)} m, trained with {_numbers(trained.tip_pos)} m"


def _one_sign(quat: tuple[float, ...]) -> np.ndarray:
    """Q and -q are the same orientation."""
    largest = quat[int(np.argmax(np.abs(quat)))]
    return np.array(quat) * np.sign(largest)


def _numbers(values: object) -> str:
    return np.array2string(np.asarray(values), precision=6, separator=", ", suppress_small=True)
