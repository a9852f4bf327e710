"""Encoder offsets: from points that the tip is put on, and from where corrected episodes ended."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from isthmus.hardware.drivers import open_robot
from isthmus.hardware.errors import IsthmusError
from isthmus.hardware.joint_calibration import ArmCalibration
from isthmus.hardware.kinematics import chain_from_mjcf
from isthmus.hardware.robot import RobotSpec
from isthmus.policies.episode import Episode

from ..session import BUS_TIMEOUT_S
from .arm import LOCKSTEP_TIMEOUT_S, Arm

if TYPE_CHECKING:
    from isthmus.calibration.touchoff import OffsetFit

TOUCH_NOISE_M = 0.001  # how well a tip is put on a known point
CORRECTION_NOISE_M = 0.003  # how well a person stops on a target
OFFSET_PRIOR_RAD = 0.03  # encoder offsets are seldom beyond two or three degrees
_SETTLE_S = 0.3  # for torque off to act, and for readings to come to rest


def offsets_from_corrections(spec: RobotSpec, episodes: Sequence[Episode]) -> "OffsetFit":
    """Fit offsets to the ends of successful corrected episodes; raises TouchOffError where there are too few."""
    from isthmus.calibration.touchoff import TouchOffError, fit_offsets, points_from_episodes

    chain = chain_from_mjcf(spec.model_path, spec.reach_site())
    try:
        joint_pos, points = points_from_episodes(episodes, chain)
        return fit_offsets(chain, joint_pos, points, noise_m=CORRECTION_NOISE_M, prior_std_rad=OFFSET_PRIOR_RAD)
    except TouchOffError as error:
        raise TouchOffError(
            f"no encoder offsets from where the corrections ended: {error}; {describe_ends(episodes)}; "
            "correct more episodes with `isthmus correct`"
        ) from None


def describe_ends(episodes: Sequence[Episode]) -> str:
    """How far from their targets the corrected episodes ended, for people; those judged a success are marked."""

    def text(episode: Episode) -> str:
        error = episode.info.get("final_error_m")
        return ("?" if error is None else f"{1e3 * error:.1f}") + ("*" if episode.success else "")

    corrected = [episode for episode in episodes if episode.ticks["intervention"].any()]
    if not corrected:
        return "nobody took over in any of them"
    distances = ", ".join(text(episode) for episode in corrected)
    return f"the corrected ones ended {distances} mm from their targets (* judged a success, the others are not learned from)"


def touch_off(arm: Arm, calibration: ArmCalibration, count: int, points: Path | None, seed: int) -> "OffsetFit":
    """Put the tip on `count` known points with the arm limp, and fit the offsets.

    On a virtual arm the points are chosen and the arm is guided to them, off by 1 mm as a person would be; on a real one they come
    from a file and a person guides the arm and confirms each.
    """
    from isthmus.calibration.touchoff import fit_offsets

    chain = chain_from_mjcf(arm.spec.model_path, arm.spec.reach_site())
    timeout = LOCKSTEP_TIMEOUT_S if arm.options.lockstep else BUS_TIMEOUT_S
    robot = open_robot(arm.spec, port=arm.port, calibration=calibration, timeout_s=timeout)
    robot.connect()  # torque is off
    index = [arm.spec.joint_names.index(name) for name in chain.joint_names]

    def reading() -> np.ndarray:
        return np.mean([robot.read().joint_pos[index] for _ in range(10)], axis=0)

    try:
        if arm.virtual is not None:
            touched = _guided_virtual(arm, count, seed, reading)
        else:
            touched = _guided_by_hand(count, points, reading)
    finally:
        robot.close()
    readings, known = (np.array(values) for values in touched)
    return fit_offsets(chain, readings, known, noise_m=TOUCH_NOISE_M, prior_std_rad=OFFSET_PRIOR_RAD)


def known_points(path: Path | None, count: int) -> np.ndarray:
    """The first `count` points of a file, shape (count, 3), m, base frame; raises IsthmusError saying what is wrong."""
    if path is None:
        raise IsthmusError("touching off a real arm needs --points FILE, one known point `x y z` in m a line")
    try:
        known = np.loadtxt(path, ndmin=2)
    except (OSError, ValueError) as error:
        raise IsthmusError(f"{path}: cannot be read as lines of `x y z` in m: {error}") from None
    if known.shape[1:] != (3,) or len(known) < count or not np.isfinite(known).all():
        raise IsthmusError(
            f"{path}: expected at least {count} lines of finite `x y z`, got an array of shape {known.shape}"
        )
    return known[:count]


def with_added_offsets(calibration: ArmCalibration, offset_rad: Mapping[str, float]) -> ArmCalibration:
    """The calibration with further offsets on top of those it has."""
    return calibration.with_offsets({n: calibration.joints[n].offset_rad + value for n, value in offset_rad.items()})


def offsets_by_joint(fit: "OffsetFit") -> dict[str, float]:
    """The fitted offsets, rad, by joint name."""
    return dict(zip(fit.joint_names, (float(v) for v in fit.offset_rad), strict=True))


def describe_offsets(fit: "OffsetFit") -> str:
    """One line for people."""
    offsets = "; ".join(joint.text for joint in fit.joint_offsets())
    return f"encoder offsets from {int(fit.used.sum())} points: {offsets}; median residual {np.median(fit.residual_mm):.1f} mm"


def describe_change(before: ArmCalibration, after: ArmCalibration) -> str:
    """One line for people: the offsets that a calibration has in all, and by how much they changed."""

    def text(name: str) -> str:
        total, old = (np.degrees(c.joints[name].offset_rad) for c in (after, before))
        return f"{name} {total:+.2f} deg (change {total - old:+.2f})"

    changed = [name for name in after.joints if after.joints[name].offset_rad != before.joints[name].offset_rad]
    return f"total offsets: {'; '.join(map(text, changed))}" if changed else "total offsets: unchanged"


def _guided_virtual(arm: Arm, count: int, seed: int, reading):  # noqa: ANN001, ANN202
    from isthmus.calibration.touchoff_plan import touch_off_points

    virtual = arm.virtual
    assert virtual is not None
    rng = np.random.default_rng(seed)
    chain = chain_from_mjcf(arm.spec.model_path, arm.spec.reach_site())
    plan = touch_off_points(chain, arm.spec, count, seed)
    index = [arm.spec.joint_names.index(name) for name in chain.joint_names]
    readings, known = [], []
    for pose in plan.joint_pos:
        full = arm.spec.array("default_pos")
        full[index] = pose
        _wait(arm)
        virtual.guide(full)
        _wait(arm)
        readings.append(reading())
        known.append(virtual.truth().tip_pos + rng.normal(0.0, TOUCH_NOISE_M, 3))
    virtual.release()
    return readings, known


def _guided_by_hand(count: int, points: Path | None, reading):  # noqa: ANN001, ANN202
    known = known_points(points, count)
    readings = []
    for x, y, z in known:
        try:
            input(f"put the tip on ({x:.3f}, {y:.3f}, {z:.3f}) m, hold it still and press Enter ")
        except EOFError:
            raise IsthmusError("touching off needs a terminal: somebody has to guide the arm and press Enter") from None
        readings.append(reading())
    return readings, known


def _wait(arm: Arm) -> None:
    import time

    if arm.options.lockstep and arm.virtual is not None:
        arm.virtual.advance(_SETTLE_S)
    else:
        time.sleep(_SETTLE_S)
