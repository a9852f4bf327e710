"""Laws that hold between a robot's signals whatever its policy does. Each gives misfits: 1 is the most that good logs show.

They need no model, only time and geometry: velocities are the change of positions, gyros turn the direction of gravity and attitudes,
positions move by velocities, joints follow their targets.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations, product

import numpy as np

from isthmus.policies.contract import Contract

from .rigid_body import GRAVITY, matrix
from .trained import Range
from .view import EXECUTED, View, misfit, roughness

Check = Callable[[View], np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Law:
    """A law and what it is about."""

    name: str
    signals: tuple[str, ...]  # that it needs
    check: Check  # -> (k,) misfits, empty where the log does not say
    floor: float = (
        1.0  # what misfits are divided by at least, where the trainer's own rows show how well the law is kept
    )


def velocity_is_change(view: View) -> np.ndarray:
    """joint_vel, summed over a tenth of a second, against what joint_pos changed by. (n,)."""
    k = view.window(0.1)
    at = view.pairs(k)
    if len(at) < 20:
        return np.zeros(0)
    pos, vel = view.data["joint_pos"], view.data["joint_vel"]
    summed = np.cumsum(np.vstack([np.zeros(vel.shape[1]), vel]), axis=0) * view.step
    moved, predicted = pos[at + k] - pos[at], summed[at + k + 1] - summed[at + 1]
    noise = 3.0 * resolution(view) + view.step * np.sqrt(k) * roughness(vel, view.begin)
    found = misfit(moved - predicted, moved, noise + 2e-3, 0.45)
    # A factor between them, where they otherwise go together.
    both, own = (moved * predicted).sum(0), np.square(predicted).sum(0)
    slope = both / np.maximum(own, 1e-12)
    together = both**2 > 0.8 * own * np.square(moved).sum(0)
    clear = together & (slope > 0) & (np.square(moved).mean(0) > 9.0 * np.square(noise + 2e-3))
    return np.where(clear, np.maximum(found, 1.4 * np.abs(np.log(np.maximum(slope, 1e-3))) / np.log(1.7)), found)


def joints_follow_targets(view: View) -> np.ndarray:
    """What joint_pos changed by in a fifth of a second against what its target did, at the delay that fits all joints best. (n,)."""
    k, best, at_best = view.window(0.2), None, (np.zeros((1, 1)), np.zeros((1, 1)))
    pos, target = view.data["joint_pos"], view.data[EXECUTED]
    driven = driven_joints(view)
    if view.contract.action.target != "joint_target" or target.shape != pos.shape:
        return np.zeros(0)
    for lag in range(6):
        at = view.pairs(k + lag)
        if len(at) < 20:
            break
        moved = pos[at + k + lag] - pos[at + lag]
        asked = target[at + k] - target[at]
        slope = np.clip((moved * asked).sum(0) / np.maximum(np.square(asked).sum(0), 1e-9), 0.3, 1.3)
        found = misfit(moved - slope * asked, np.abs(moved) + 0.3 * np.abs(asked), 0.03, 0.7)
        if best is None or np.log1p(found**2)[driven].sum() < np.log1p(best**2)[driven].sum():
            best, at_best = found, (moved, asked)
    if best is None:
        return np.zeros(0)
    return np.where(driven, np.maximum(best, better_targets(*at_best)), 0.0)


def better_targets(moved: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """How much better another joint's target, or its own turned round, explains each joint's movement than its own, (n,).

    0 where nothing does, 1.6 where what is left is five times as small.
    """
    together, size, given = moved.T @ asked, np.square(moved).sum(0), np.square(asked).sum(0)

    def left(sign: float) -> np.ndarray:
        slope = np.clip(sign * together / np.maximum(given, 1e-9), 0.3, 1.3) * sign
        return size[:, None] - 2.0 * slope * together + slope**2 * given

    own, turned = left(1.0), np.diag(left(-1.0))
    others = np.minimum(np.where(np.eye(len(size), dtype=bool), np.inf, own).min(1), turned)
    floor = len(moved) * 0.01**2 + 0.05 * size
    better = 0.4 * ((np.diag(own) + floor) / (others + floor) - 1.0)
    return np.where(size > len(moved) * 0.03**2, np.maximum(better, 0.0), 0.0)


def lead_as_trained(view: View) -> np.ndarray:
    """Mean distance from joint to target against that of training. (n,)."""
    ranges, pos = view.trained.ranges, view.data["joint_pos"]
    if not {"joint_pos", "joint_target"} <= ranges.keys() or view.data[EXECUTED].shape != pos.shape:
        return np.zeros(0)
    if view.contract.action.target != "joint_target":
        return np.zeros(0)
    lead = (view.data[EXECUTED] - pos).mean(0)
    usual = ranges["joint_target"].mean - ranges["joint_pos"].mean
    return np.where(driven_joints(view), np.abs(lead - usual) / (0.1 + np.abs(usual)), 0.0)


def gyro_turns_gravity(view: View) -> np.ndarray:
    """The gyro, summed over a fifth of a second, against how gravity's direction moved. (3,)."""
    return _turns(view, view.data["gravity"])


def gyro_turns_attitude(view: View) -> np.ndarray:
    """The same for the world's three axes by base_quat. (3,)."""
    world = matrix(view.data["base_quat"])  # rows: the world's axes in the body
    return np.max([_turns(view, world[:, row]) for row in range(3)], axis=0)


def _turns(view: View, axis: np.ndarray) -> np.ndarray:
    k = view.window(0.2, 3)
    at = view.pairs(k)
    if len(at) < 20:
        return np.zeros(0)
    moved = axis[at + k] - axis[at]
    products = (view.data["gyro"][:, :, None] * axis[:, None, :]).reshape(-1, 9) * view.step
    summed = np.cumsum(np.vstack([np.zeros(9), products]), axis=0)
    turned = (summed[at + k] - summed[at]).reshape(-1, 3, 3)  # sums of gyro_i axis_j
    now = moved - _crossed(turned)
    noise = 2.0 * np.max(roughness(axis, view.begin)) + 0.03
    found = misfit(now, moved, noise, 0.45)
    # However noisy: axes in another order or sense must not explain what is seen much better.
    others = np.square(moved - _crossed(np.einsum("sij,tjk->stik", _SIGNED, turned))).sum((1, 2))
    better = float(np.square(now).sum()) / max(float(others.min()), 1e-12)
    return np.maximum(found, 1.5 * (better - 1.0))


def _crossed(sums: np.ndarray) -> np.ndarray:
    """-gyro x axis from their products (..., 3, 3) -> (..., 3)."""
    return -np.stack([sums[..., i, j] - sums[..., j, i] for i, j in ((1, 2), (2, 0), (0, 1))], axis=-1)


def signed_axes() -> list[np.ndarray]:
    """Every way in which three axes can be exchanged and turned round, but for none."""
    found = []
    for order, signs in product(permutations(range(3)), product((1.0, -1.0), repeat=3)):
        turn = np.zeros((3, 3))
        turn[range(3), order] = signs
        if not np.allclose(turn, np.eye(3)):
            found.append(turn)
    return found


def gravity_is_down(view: View) -> np.ndarray:
    """Gravity's direction against base_quat's. (3,)."""
    down = -matrix(view.data["base_quat"])[:, 2]
    return misfit(view.data["gravity"] - down, down * 0, 0.12, 0.0)


def velocity_moves_base(view: View) -> np.ndarray:
    """base_lin_vel turned into the world by base_quat, summed over half a second, against what base_pos changed by. (3,)."""
    k = view.window(0.3)
    at = view.pairs(k)
    if len(at) < 20:
        return np.zeros(0)
    turn = matrix(view.data["base_quat"])
    velocity = np.einsum("tij,tj->ti", turn, view.data["base_lin_vel"]) * view.step
    summed = np.cumsum(np.vstack([np.zeros(3), velocity]), axis=0)
    pos = view.data["base_pos"]
    moved, predicted = pos[at + k] - pos[at], summed[at + k] - summed[at]
    noise = 1.5 * np.max(roughness(pos, view.begin)) + 0.015
    return misfit(moved - predicted, moved, noise, 0.4)


def specific_force_is_up(view: View) -> np.ndarray:
    """The accelerometer's mean over a second against gravity's direction. (3,)."""
    k = view.window(1.0)
    count = len(view) // k
    if count < 1:
        return np.zeros(0)
    blocks = [v[: count * k].reshape(count, k, 3).mean(1) for v in (view.data["accelerometer"], view.data["gravity"])]
    return misfit(blocks[0] + GRAVITY * blocks[1], blocks[0] * 0, 3.0, 0.0)


def unit_length(name: str) -> Check:
    """A direction or attitude has length 1. (1,)."""

    def check(view: View) -> np.ndarray:
        length = np.linalg.norm(view.data[name], axis=-1)
        return np.array([np.median(np.abs(length - 1.0)) / 0.1])

    return check


def as_trained(name: str) -> Check:
    """Values of a signal against the range of training: share outside, how far, and far too small a spread. (w,)."""

    def check(view: View) -> np.ndarray:
        known, values = view.trained.ranges[name], view.data[name]
        if values.shape[1] != len(known.low):
            return np.full(len(known.low), 9.0)
        whole = view.trained.whole
        low, high = asked_range(view.contract, name, known)
        width = np.maximum(high - low, 1e-3)
        room = (0.15 if whole else 1.0) * width + 0.02 * np.maximum(np.abs(high), np.abs(low)) + 5e-3
        beyond = np.maximum(low - room - values, 0.0) + np.maximum(values - high - room, 0.0)
        outside = (beyond > 0).mean(0) / (0.3 if whole else 0.6)
        far = beyond.mean(0) / (0.5 * width + 1e-6) / (1.0 if whole else 3.0)
        found = np.maximum(outside, far)
        if name.startswith("command.") or not whole:
            return found
        # A whole signal that hardly moves where training shook it: another unit.
        share = float(np.median(values.std(0) / np.maximum(known.spread, 1e-9)))
        if share > 0.1:
            return found
        return np.maximum(found, np.log(0.1 / max(share, 1e-6)) / np.log(4.0) * moving(view, name))

    return check


def asked_range(contract: Contract, name: str, known: Range) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest of training; of the command all that the contract allows."""
    command = contract.command
    if command is None or command.signal != name:
        return known.low, known.high
    if command.workspace is not None:
        far, (low, high) = command.workspace.radius[1] + 0.1, command.workspace.height
        return np.minimum(known.low, [-far, -far, low]), np.maximum(known.high, [far, far, high])
    return np.minimum(known.low, command.low), np.maximum(known.high, command.high)


def moving(view: View, name: str) -> bool:
    """Whether anything else in the log moves as much as in training."""
    shares = [
        np.median(view.data[other].std(0) / np.maximum(known.spread, 1e-9))
        for other, known in view.trained.ranges.items()
        if other in view.data and other != name and not other.startswith("command.")
        and view.data[other].shape[1] == len(known.spread)
    ]  # fmt: skip
    return bool(shares) and float(np.max(shares)) > 0.25


def resolution(view: View) -> np.ndarray:
    """Of the encoders, (n,) rad or m."""
    per_unit = np.array([2.0 * np.pi if joint.kind == "hinge" else 1.0 for joint in view.robot.joints])
    return per_unit / view.robot.counts_per_turn


def driven_joints(view: View) -> np.ndarray:
    """Which joints the policy drives, (n,) bool."""
    driven = view.contract.action.joints
    return np.array([name in driven for name in view.robot.joint_names], dtype=bool)


_SIGNED = np.stack(signed_axes())

LAWS: tuple[Law, ...] = (
    Law(name="velocity is change of position", signals=("joint_pos", "joint_vel"), check=velocity_is_change),
    Law(name="joints follow their targets", signals=("joint_pos", EXECUTED), check=joints_follow_targets),
    Law(name="distance to the target as in training", signals=("joint_pos", EXECUTED), check=lead_as_trained),
    Law(name="the gyro turns gravity", signals=("gyro", "gravity"), check=gyro_turns_gravity),
    Law(name="the gyro turns the attitude", signals=("gyro", "base_quat"), check=gyro_turns_attitude),
    Law(name="gravity is down", signals=("gravity", "base_quat"), check=gravity_is_down),
    Law(
        name="velocity moves the base",
        signals=("base_pos", "base_quat", "base_lin_vel"),
        check=velocity_moves_base,
    ),
    Law(name="specific force is up", signals=("accelerometer", "gravity"), check=specific_force_is_up),
    Law(name="gravity has length 1", signals=("gravity",), check=unit_length("gravity")),
    Law(name="attitude has length 1", signals=("base_quat",), check=unit_length("base_quat")),
)


def stream_laws(view: View) -> tuple[Law, ...]:
    """Each raw signal against the range of training."""
    return tuple(
        Law(name=f"{name} as in training", signals=(name,), check=as_trained(name))
        for name in view.trained.ranges
        if name in view.data
    )
