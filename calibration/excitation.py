"""Joint trajectories that show friction, gain, payload and latency, and are safe on every robot of the prior range.

Slow triangles show Coulomb friction and gravity droop, a multisine and small steps show latency and damping. The last
quarter is a waveform of another kind (chirps), kept out of the fit to measure the error on motion that was not fitted.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from isthmus.hardware.errors import IsthmusError
from isthmus.hardware.kinematics import KinematicChain, chain_from_mjcf, tip_jacobian, tip_position
from isthmus.hardware.robot import RobotSpec

from .prior import Prior
from .rollout import ServoRollout, Targets

PERIOD_S = 0.02
HELD_OUT = 0.25  # share of the duration, at the end
MIN_DURATION_S = 10.0
REDUCTIONS = (1.0, 0.85, 0.7)  # of the amplitude, tried in turn
FADE_S = 1.0
RAISED = 0.85  # the motion's middle lies above the ready pose by this share of its amplitude

# (time (K,) s, number of joints, rng) -> (K, n) in [-1, 1]
Waveform = Callable[[np.ndarray, int, np.random.Generator], np.ndarray]


class ExcitationError(IsthmusError, ValueError):
    """A trajectory that may hit something or exceed a limit; the text says where."""


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """What an excitation must stay within."""

    min_tip_height: float = 0.04  # m above the base plane, simulated
    commanded_margin: float = 0.01  # m more than that for the commanded pose
    joint_margin: float = 0.05  # rad from the joint limits
    velocity_share: float = 0.8  # of each joint's velocity limit


def excitation(
    robot: RobotSpec, *, duration_s: float = 20.0, seed: int, amplitude: float = 1.0, prior: Prior | None = None
) -> np.ndarray:
    """Joint targets at 50 Hz that start and end at rest in the ready pose.

    Args:
        robot: the ready pose is its joints' default_pos.
        duration_s: at least MIN_DURATION_S.
        seed: of phases and step times.
        amplitude: scale of the motion, at most 1.
        prior: robots on which the motion must be safe.

    Returns:
        (T, n) rad; tick k at k * 0.02 s.

    Raises:
        ExcitationError: the arguments are out of range, or the motion is not safe.
    """
    if duration_s < MIN_DURATION_S or not 0.0 < amplitude <= 1.0:
        raise ExcitationError(
            f"need at least {MIN_DURATION_S:g} s and 0 < amplitude <= 1, got {duration_s:g} s and {amplitude:g}"
        )
    rng = np.random.default_rng(seed)
    length, joints = round(duration_s / PERIOD_S), len(robot.joints)
    shares = (_triangles, 0.3), (_multisine, 0.28), (_steps, 0.17), (_chirps, HELD_OUT)
    ends = np.round(np.cumsum([0.0] + [share for _, share in shares]) * length).astype(int)
    parts = [
        _windowed(shape, np.arange(stop - start) * PERIOD_S, joints, rng)
        for (shape, _), start, stop in zip(shares, ends[:-1], ends[1:], strict=True)
    ]
    raised = RAISED * _window(np.arange(length) * PERIOD_S)[:, None]
    motion = _amplitudes(robot) * (raised + np.concatenate(parts))
    for factor in REDUCTIONS:
        targets = robot.array("default_pos") + factor * amplitude * motion
        try:
            check_excitation(robot, targets, prior=prior or Prior(), samples=64, seed=seed)
        except ExcitationError:
            if factor == REDUCTIONS[-1]:
                raise
        else:
            return targets
    raise AssertionError("unreachable: the last reduction returns or raises")


def check_excitation(
    robot: RobotSpec, targets: np.ndarray, *, prior: Prior, samples: int, seed: int, envelope: Envelope | None = None
) -> float:
    """Check limits, speed and height of targets (T, n), as commanded and on `samples` simulated robots of the prior.

    Returns:
        The lowest simulated height of the tip, m.

    Raises:
        ExcitationError: names the joint or the height that is exceeded.
    """
    envelope = envelope or Envelope()
    chain = chain_from_mjcf(robot.model_path, robot.reach_site())
    _check_commanded(robot, chain, targets, envelope)
    rng = np.random.default_rng(seed)
    times = np.arange(len(targets)) * PERIOD_S
    shift = rng.uniform(-prior.encoder_offset_rad, prior.encoder_offset_rad, size=(samples, targets.shape[1]))
    rollout, lowest = ServoRollout(robot), np.inf
    for start in range(0, samples, 64):
        part = shift[start : start + 64]
        parameters = prior.sample(len(part), rng)
        settled = np.concatenate([[-1.0], times])  # from 1 s earlier: the arm hangs at rest in its ready pose
        read = rollout.shifted(parameters, Targets(times, targets), part, targets[0], settled)[:, 1:]
        lowest = min(lowest, _check_simulated(robot, chain, read - part[:, None, :], envelope))
    return lowest


def _check_commanded(robot: RobotSpec, chain: KinematicChain, targets: np.ndarray, envelope: Envelope) -> None:
    speed = np.abs(np.diff(targets, axis=0)).max(axis=0) / PERIOD_S
    for index, joint in enumerate(robot.joints):
        low, high = targets[:, index].min(), targets[:, index].max()
        if low < joint.lower + envelope.joint_margin or high > joint.upper - envelope.joint_margin:
            raise ExcitationError(
                f"{joint.name}: commanded {low:.3f} .. {high:.3f} rad, limits {joint.lower:.3f} .. "
                f"{joint.upper:.3f} rad less {envelope.joint_margin:g}; lower the amplitude"
            )
        if speed[index] > envelope.velocity_share * joint.velocity_limit:
            raise ExcitationError(
                f"{joint.name}: commanded {speed[index]:.2f} rad/s, more than {envelope.velocity_share:.0%} of "
                f"the limit {joint.velocity_limit:g} rad/s; lower the amplitude"
            )
    height = tip_height(robot, chain, targets).min()
    needed = envelope.min_tip_height + envelope.commanded_margin
    if height < needed:
        raise ExcitationError(
            f"the commanded tip comes down to {height:.3f} m, at least {needed:.3f} m is "
            "needed; raise default_pos or lower the amplitude"
        )


def _check_simulated(robot: RobotSpec, chain: KinematicChain, joint_pos: np.ndarray, envelope: Envelope) -> float:
    if not np.isfinite(joint_pos).all():
        raise ExcitationError("a simulated robot of the prior range became unstable; narrow the prior")
    low, high = joint_pos.min(axis=(0, 1)), joint_pos.max(axis=(0, 1))
    for index, joint in enumerate(robot.joints):
        if low[index] < joint.lower or high[index] > joint.upper:
            raise ExcitationError(
                f"{joint.name}: a robot of the prior range reaches {low[index]:.3f} .. {high[index]:.3f} rad, limits "
                f"{joint.lower:.3f} .. {joint.upper:.3f} rad; lower the amplitude"
            )
    height = float(tip_height(robot, chain, joint_pos).min())
    if height < envelope.min_tip_height:
        raise ExcitationError(
            f"on a robot of the prior range the tip comes down to {height:.3f} m, at least "
            f"{envelope.min_tip_height:g} m is needed; raise default_pos or lower the amplitude"
        )
    return height


def tip_height(robot: RobotSpec, chain: KinematicChain, joint_pos: np.ndarray) -> np.ndarray:
    """Height of the tip above the base plane. joint_pos (..., n) rad in robot order -> (...) m."""
    index = [robot.joint_names.index(name) for name in chain.joint_names]
    return tip_position(chain, joint_pos[..., index])[..., 2]


def _amplitudes(robot: RobotSpec) -> np.ndarray:
    """Deflection that raises the tip, (n,) rad: at most 0.35 rad, 6 cm of height, and the room to the limits."""
    chain = chain_from_mjcf(robot.model_path, robot.reach_site())
    index = [robot.joint_names.index(name) for name in chain.joint_names]
    ready = robot.array("default_pos")
    climb = np.zeros(len(ready))  # m/rad
    climb[index] = tip_jacobian(chain, ready[index])[2]
    room = np.minimum(robot.array("upper") - ready, ready - robot.array("lower")) - 0.1
    size = np.minimum(0.35, np.minimum(0.06 / np.maximum(np.abs(climb), 1e-6), np.maximum(room, 0.0) / (1.0 + RAISED)))
    return np.where(climb < 0.0, -size, size)


def _windowed(shape: Waveform, time: np.ndarray, joints: int, rng: np.random.Generator) -> np.ndarray:
    """A waveform in [-1, 1] that fades in and out. time (K,) s -> (K, n)."""
    return _window(time)[:, None] * shape(time, joints, rng)


def _window(time: np.ndarray) -> np.ndarray:
    """0 at both ends and 1 between them, with FADE_S of smooth transition. time (K,) s -> (K,)."""
    edge = np.minimum(time - time[0], time[-1] - time) / FADE_S
    return np.sin(0.5 * np.pi * np.clip(edge, 0.0, 1.0)) ** 2


def _triangles(time: np.ndarray, joints: int, rng: np.random.Generator) -> np.ndarray:
    period = rng.permutation(np.linspace(0.4, 0.8, joints)) * time[-1]
    phase = time[:, None] / period + rng.uniform(size=joints)
    return 4.0 * np.abs((phase % 1.0) - 0.5) - 1.0


def _multisine(time: np.ndarray, joints: int, rng: np.random.Generator) -> np.ndarray:
    frequency = rng.permuted(np.geomspace(0.3, 2.2, 8)[:, None] * rng.uniform(0.9, 1.1, size=(8, joints)), axis=1)
    phase = rng.uniform(0.0, 2.0 * np.pi, size=(8, joints))
    wave = (np.sin(2.0 * np.pi * frequency * time[:, None, None] + phase) / frequency).sum(axis=1)
    return 0.7 * wave / np.abs(wave).max(axis=0)


def _steps(time: np.ndarray, joints: int, rng: np.random.Generator) -> np.ndarray:
    """Small steps of alternating sign, each joint at its own times; one takes three ticks."""
    count = max(int(time[-1] / 0.45), 1)
    wave = np.empty((len(time), joints))
    for joint in range(joints):
        times = np.sort(rng.uniform(time[0], time[-1], size=count))
        level = 0.13 * np.where(np.arange(count + 1) % 2, 1.0, -1.0)
        wave[:, joint] = level[np.searchsorted(times, time)]
    earlier = np.vstack([wave[:1], wave[:1], wave[:-2]])
    return (wave + np.vstack([wave[:1], wave[:-1]]) + earlier) / 3.0


def _chirps(time: np.ndarray, joints: int, rng: np.random.Generator) -> np.ndarray:
    start = rng.uniform(0.15, 0.4, size=joints)
    stop = rng.permutation(np.linspace(1.0, 1.8, joints))
    phase = 2.0 * np.pi * (start * time[:, None] + 0.5 * (stop - start) / time[-1] * time[:, None] ** 2)
    return 0.5 * np.sin(phase + rng.uniform(0.0, 2.0 * np.pi, size=joints))
