"""Encoder offsets from touch-offs: poses in which the tip stands on a known point, or a joint on its stop.

A reading is angle + offset, so tip(reading - offset) = point. Offsets are the maximum a posteriori of Gaussian priors and a
robust likelihood (Tukey's biweight, Beaton and Tukey 1974, by iteratively reweighted Gauss-Newton), so that a mistaken
point does not count. An offset moves the tip by its lever: what wrist_roll does to a tip 12 mm from its axis is hardly seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isthmus.hardware.errors import IsthmusError
from isthmus.hardware.kinematics import KinematicChain, tip_jacobian, tip_position
from isthmus.hardware.robot import RobotSpec
from isthmus.policies.episode import Episode

from .identified import JointOffset

MIN_POINTS = 4
IDENTIFIABLE_SHARE = 0.4  # of the prior's standard deviation
BIWEIGHT = 7.0  # distance in standard deviations per axis at which a point stops counting


class TouchOffError(IsthmusError, ValueError):
    """Touch-off points that cannot be used; the text says why."""


@dataclass(frozen=True, kw_only=True)
class OffsetFit:
    """Encoder offsets of m joints, reading = angle + offset, and how well they are known."""

    joint_names: tuple[str, ...]
    offset_rad: np.ndarray  # (m,)
    std_rad: np.ndarray  # (m,) posterior
    identifiable: np.ndarray  # (m,) bool: posterior well below the prior
    residual_mm: np.ndarray  # (p,) distance left at each point
    used: np.ndarray  # (p,) bool; False: an outlier

    def joint_offsets(self) -> tuple[JointOffset, ...]:
        """For `Identified.with_offsets` and the joint calibration, which subtracts them."""
        return tuple(
            JointOffset(joint=name, offset_rad=float(offset), std_rad=float(std), identifiable=bool(known))
            for name, offset, std, known in zip(
                self.joint_names, self.offset_rad, self.std_rad, self.identifiable, strict=True
            )
        )


def fit_offsets(
    chain: KinematicChain,
    joint_pos: np.ndarray,
    tip_points: np.ndarray,
    *,
    noise_m: float,
    prior_std_rad: float | np.ndarray,
    prior_mean_rad: float | np.ndarray = 0.0,
) -> OffsetFit:
    """Fit offsets to p points.

    Args:
        chain: m joints.
        joint_pos: (p, m) rad, readings in the chain's order.
        tip_points: (p, 3) m, base frame, where the tip stood.
        noise_m: standard deviation of a point, per axis.
        prior_std_rad: what is believed before, scalar or (m,).
        prior_mean_rad: likewise, e.g. from `fit_offsets_at_stops`.

    Raises:
        TouchOffError: shapes, values that are not finite, fewer than MIN_POINTS points, or no agreement between them.
    """
    joints = len(chain.links)
    _check_points(joint_pos, tip_points, joints)
    if not noise_m > 0 or not np.all(np.asarray(prior_std_rad) > 0):
        raise TouchOffError(f"noise and prior must be positive, got {noise_m} m and {prior_std_rad} rad")
    std, mean = np.broadcast_to(prior_std_rad, joints), np.broadcast_to(prior_mean_rad, joints)
    offset = _robust_fit(chain, joint_pos, tip_points, noise_m, std, mean)
    distance = np.linalg.norm(tip_position(chain, joint_pos - offset) - tip_points, axis=1)
    used = distance < BIWEIGHT * noise_m
    if used.sum() < max(MIN_POINTS, len(used) / 2):
        raise TouchOffError(
            f"only {used.sum()} of {len(used)} points agree to {1e3 * BIWEIGHT * noise_m:.1f} mm (median miss "
            f"{1e3 * np.median(distance):.1f} mm); check the frame of the points and noise_m"
        )
    posterior = np.sqrt(np.diag(np.linalg.inv(_information(chain, joint_pos[used] - offset, noise_m, std))))
    # Points that scatter more than they should make the offsets as much less certain.
    excess = max(1.0, float(np.sqrt(np.mean(distance[used] ** 2) / 3.0) / noise_m))
    posterior = np.minimum(posterior * excess, std)
    return OffsetFit(
        joint_names=chain.joint_names,
        offset_rad=offset,
        std_rad=posterior,
        identifiable=posterior < IDENTIFIABLE_SHARE * std,
        residual_mm=1e3 * distance,
        used=used,
    )


def fit_offsets_at_stops(
    robot: RobotSpec, lower_reading: np.ndarray, upper_reading: np.ndarray, *, stop_std_rad: float = 0.005
) -> OffsetFit:
    """Offsets from readings at the joint stops, whose angles the model knows.

    Args:
        robot: n joints.
        lower_reading: (n,) rad at the lower stop; NaN where a joint was not driven there.
        upper_reading: (n,) rad at the upper stop, likewise.
        stop_std_rad: how well the stops are where the model says.

    Raises:
        TouchOffError: wrong shapes, a joint with no reading, or two stops further apart or closer than the model's.
    """
    difference = np.stack([lower_reading - robot.array("lower"), upper_reading - robot.array("upper")])
    count = np.isfinite(difference).sum(axis=0)
    for joint, known, (low, high) in zip(robot.joints, count, difference.T, strict=True):
        if known == 0:
            raise TouchOffError(f"{joint.name}: no reading at either stop")
        if known == 2 and abs(high - low) > 8 * stop_std_rad:
            raise TouchOffError(
                f"{joint.name}: measured travel differs from the model's by {np.rad2deg(high - low):+.1f} deg; "
                "did it reach both stops?"
            )
    return OffsetFit(
        joint_names=robot.joint_names,
        offset_rad=np.nanmean(difference, axis=0),
        std_rad=stop_std_rad / np.sqrt(count),
        identifiable=np.ones(len(count), dtype=bool),
        residual_mm=np.zeros(0),
        used=np.zeros(0, dtype=bool),
    )


def points_from_episodes(
    episodes: Sequence[Episode], chain: KinematicChain, *, window_s: float = 0.3
) -> tuple[np.ndarray, np.ndarray]:
    """Touch-offs from corrected episodes that succeeded: they end with the tip on the target, to about 3 mm.

    Returns:
        joint_pos: (p, m) rad in the chain's order, mean of the last `window_s`.
        tip_points: (p, 3) m, the targets.

    Raises:
        TouchOffError: no episode was corrected and succeeded.
    """
    poses, points = [], []
    for episode in episodes:
        ticks = episode.ticks
        if not episode.success or not ticks["intervention"].any():
            continue
        index = [episode.joint_names.index(name) for name in chain.joint_names]
        last = ticks[ticks["monotonic_ns"] > ticks["monotonic_ns"][-1] - window_s * 1e9]
        poses.append(last["joint_pos"][:, index].mean(axis=0))
        points.append(last["target"][-1])
    if not poses:
        raise TouchOffError(f"none of {len(episodes)} episodes was corrected by a person and succeeded")
    return np.array(poses), np.array(points)


def _robust_fit(
    chain: KinematicChain, joint_pos: np.ndarray, points: np.ndarray, noise: float, std: np.ndarray, mean: np.ndarray
) -> np.ndarray:
    """Gauss-Newton with biweights whose width shrinks from the scatter seen to the noise expected. Returns (m,) rad."""
    offset = mean.copy()
    for _ in range(60):
        error = tip_position(chain, joint_pos - offset) - points
        distance = np.linalg.norm(error, axis=1)
        scale = max(noise, 1.4826 * float(np.median(distance)) / np.sqrt(3.0))
        weight = np.clip(1.0 - (distance / (BIWEIGHT * scale)) ** 2, 0.0, None) ** 2
        jacobian = -tip_jacobian(chain, joint_pos - offset)
        square = np.einsum("p,pai,paj->ij", weight, jacobian, jacobian) / scale**2 + np.diag(std**-2)
        slope = np.einsum("p,pai,pa->i", weight, jacobian, error) / scale**2 + (offset - mean) / std**2
        step = np.linalg.solve(square, slope)
        offset = offset - step
        if np.abs(step).max() < 1e-9:
            break
    return offset


def _information(chain: KinematicChain, joint_pos: np.ndarray, noise: float, std: np.ndarray) -> np.ndarray:
    jacobian = tip_jacobian(chain, joint_pos).reshape(-1, len(std))
    return jacobian.T @ jacobian / noise**2 + np.diag(std**-2)


def _check_points(joint_pos: np.ndarray, tip_points: np.ndarray, joints: int) -> None:
    count = len(tip_points)
    if joint_pos.shape != (count, joints) or tip_points.shape != (count, 3):
        raise TouchOffError(
            f"joint_pos has shape {joint_pos.shape} and tip_points {tip_points.shape}, expected (p, {joints}) and (p, 3)"
        )
    if count < MIN_POINTS:
        raise TouchOffError(f"{count} points; at least {MIN_POINTS} are needed, and 8 or more are better")
    if not (np.isfinite(joint_pos).all() and np.isfinite(tip_points).all()):
        raise TouchOffError("joint_pos or tip_points is not finite")
