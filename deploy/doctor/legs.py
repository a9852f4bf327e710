"""Laws of robots that stand: feet that carry weight stay where they are, and what the legs push adds up to the weight.

They tie joints to the IMU by the robot's model, so that legs that are swapped, encoders that are off, gains that are not the drives' own
and IMUs that sit turned show, however the policy behaves.
"""

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from .laws import Law, signed_axes
from .rigid_body import GRAVITY, Motion, RigidModel, inverse_dynamics, jacobian, poses
from .view import EXECUTED, View, misfit

_MOST = 360  # ticks that are looked at


@dataclass(frozen=True, kw_only=True, eq=False)
class Stance:
    """What the legs say, T ticks and m feet."""

    feet: np.ndarray  # (T, m, 3) m, base frame
    force: np.ndarray  # (T, m, 3) N that the ground pushes, base frame
    down: np.ndarray  # (T, 3)
    gyro: np.ndarray  # (T, 3) rad/s
    carries: np.ndarray  # (T, m) bool
    weight: float  # N
    moment: np.ndarray  # (T, 3) N m that gravity has about the base's origin


def foot_bodies(view: View) -> list[int]:
    """Bodies that end a chain of joints and are named as touching the ground."""
    model = view.model
    if model is None or not view.robot.floating:
        return []
    places = [model.index(name) for name in view.robot.contact_bodies if name in [b.name for b in model.bodies]]
    return [place for place in places if model.leaf(place) and len(model.chain(place)) >= 3]


def stance(view: View) -> Stance | None:
    """None where the robot does not stand on legs, or the log does not hold what it takes."""
    view = view.shown(_MOST)
    feet = foot_bodies(view)
    model = view.model
    if model is None or len(feet) < 3 or not view.has("joint_pos", "gravity", "gyro", EXECUTED):
        return None
    if view.contract.action.target != "joint_target" or view.data[EXECUTED].shape != view.data["joint_pos"].shape:
        return None
    pos, down = view.data["joint_pos"], view.data["gravity"]
    torque = motor_torque(view)
    vel = np.gradient(pos, view.step, axis=0)
    acc = np.gradient(vel, view.step, axis=0)
    motion = Motion(pos=pos, vel=vel, acc=acc, up=-GRAVITY * down, ang_vel=view.data["gyro"])
    load, base = inverse_dynamics(model, motion)
    found = poses(model, pos)
    force = np.stack([_push(model, found, foot, load - torque) for foot in feet], axis=1)
    up = -np.einsum("tmi,ti->tm", force, down)
    weight = model.mass * GRAVITY
    return Stance(
        feet=np.stack([found.pos[foot] for foot in feet], axis=1),
        force=force,
        down=down,
        gyro=view.data["gyro"],
        carries=up > 0.3 * weight / len(feet),
        weight=weight,
        moment=-base[:, 3:],
    )


def motor_torque(view: View) -> np.ndarray:
    """Kp (target - q) - kd dq, within limits, (T, n) N m; the target as it was half a tick before the reading."""
    robot = view.robot
    kp, kd, limit = (robot.array(name) for name in ("kp", "kd", "effort_limit"))
    pos, target = view.data["joint_pos"], view.data[EXECUTED]
    vel = np.gradient(pos, view.step, axis=0) if len(pos) > 1 else np.zeros_like(pos)
    before = np.vstack([target[:1], target[:-1]])
    return np.clip(view.kp_scale * kp * (before - pos) - kd * vel, -limit, limit)


def _push(model: RigidModel, found: object, foot: int, missing: np.ndarray) -> np.ndarray:
    """Force on a foot that makes up for the torque that is missing, least squares, (T, 3)."""
    joints, columns = jacobian(model, found, foot)  # pyright: ignore[reportArgumentType]
    transposed = np.swapaxes(columns, 1, 2)
    damped = columns @ transposed + 1e-4 * np.eye(3)
    return np.linalg.solve(damped, (columns @ missing[:, joints, None]))[..., 0]


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """What does not fit in what the legs say."""

    stay: np.ndarray  # (P, 3) m, of pairs of feet over a window
    size: np.ndarray  # (P, 3) m, how far they moved or should have
    turns: np.ndarray  # (P, 3) rad that the gyro turned meanwhile
    apart: np.ndarray  # (P, 3) m from one foot to the other
    aside: np.ndarray  # (3,) mean push on top of the weight, in weights, base frame
    moment: np.ndarray  # (3,) N m, mean about the base's origin, over weight in m
    down: np.ndarray  # (3,) mean
    grounded: float  # mean share of the feet that carry weight
    push_error: np.ndarray  # (3,) standard error of `aside`
    moment_error: np.ndarray  # (3,)


def evidence(view: View, carries: np.ndarray | None = None) -> Evidence | None:
    """Of feet that carry weight from a tick to a fifth of a second later, and of the mean push; `carries` instead of what the view says."""
    legs = stance(view)
    if legs is None:
        return None
    legs = legs if carries is None else replace(legs, carries=carries)
    short = view.shown(_MOST)
    k = short.window(0.2, 3)
    stay, size, turns, apart = _feet_motion(legs, short.pairs(k), k, view.step)
    push = _unturned(legs.force.sum(1) / legs.weight + legs.down, legs, view.step)
    moment = (np.cross(legs.feet, legs.force).sum(1) + legs.moment) / legs.weight
    down = legs.down.mean(0)
    block = short.window(0.5)
    return Evidence(
        stay=stay,
        size=size,
        turns=turns,
        apart=apart,
        aside=push.mean(0),
        moment=moment.mean(0),
        down=down / max(float(np.linalg.norm(down)), 1e-9),
        grounded=float(legs.carries.mean()),
        push_error=_error(push, block),
        moment_error=_error(moment, block),
    )


def _unturned(push: np.ndarray, legs: Stance, step: float) -> np.ndarray:
    """As seen in the heading of the middle tick: a robot that walks a curve pushes sideways all the time."""
    heading = np.cumsum(-np.einsum("ti,ti->t", legs.gyro, legs.down)) * step
    heading = heading - heading[len(heading) // 2]
    c, s = np.cos(heading), np.sin(heading)
    return np.stack([c * push[:, 0] - s * push[:, 1], s * push[:, 0] + c * push[:, 1], push[:, 2]], axis=-1)


def _feet_motion(legs: Stance, at: np.ndarray, k: int, step: float) -> tuple[np.ndarray, ...]:
    """Over all pairs of feet that carry weight from t to t + k, (P, 3) each.

    What is not explained, m; how far they moved, m; how far the gyro turned, rad; from one foot to the other, m.
    """
    summed = np.cumsum(np.vstack([np.zeros(3), legs.gyro]), axis=0) * step
    turn = summed[at + k + 1] - summed[at + 1]  # (A, 3) small
    held = np.cumsum(np.vstack([np.zeros(legs.carries.shape[1], dtype=int), legs.carries]), axis=0)
    stays = held[at + k + 1] - held[at] == k + 1  # (A, m)
    rows, sizes, turns, between = [], [], [], []
    for i, j in combinations(range(legs.feet.shape[1]), 2):
        both = stays[:, i] & stays[:, j]
        apart, later = (legs.feet[t[both], i] - legs.feet[t[both], j] for t in (at, at + k))
        between.append(0.5 * (apart + later))
        turns.append(turn[both])
        predicted = -np.cross(turns[-1], between[-1])
        rows.append(later - apart - predicted)
        sizes.append(np.maximum(np.abs(later - apart), np.abs(predicted)))
    return np.concatenate(rows), np.concatenate(sizes), np.concatenate(turns), np.concatenate(between)


def legs_hold(view: View) -> np.ndarray:
    """Feet that carry weight stay, and together carry what the robot weighs. (8,).

    Misfit of the feet's places along three axes; of how much is carried; of how far aside, forwards and sideways; of moments in roll and
    pitch.
    """
    found = evidence(view)
    if found is None:
        return np.zeros(0)
    stay = np.zeros(3)
    if len(found.stay) >= 150:
        stay = np.maximum(misfit(*_without_slips(found), 0.006, 0.5), 1.5 * (_better_axes(found) - 1.2))
    along = float(found.aside @ found.down)  # 0 as it should be, 1 where nothing is carried
    aside = found.aside - along * found.down
    loose = 0.06 + 0.25 * max(0.0, 0.9 - found.grounded)  # legs that swing push on more than their feet
    push, tilt = found.push_error, found.moment_error
    carried = abs(np.log(max(1.0 - along, 1e-2))) / np.hypot(0.4, 2.0 * push[2])
    aside, moment = (
        np.abs(aside[:2]) / np.hypot(loose, 2.0 * push[:2]),
        np.abs(found.moment[:2]) / np.hypot(0.045, 2.0 * tilt[:2]),
    )
    return np.concatenate([stay, [carried], aside, moment])


def _better_axes(found: Evidence) -> float:
    """How many times more is left unexplained than were the gyro's axes others, at least 1."""
    keep = np.linalg.norm(found.stay, axis=-1)
    kept = keep <= np.quantile(keep, 0.8)
    moved, apart = (found.stay - np.cross(found.turns, found.apart))[kept], found.apart[kept]
    now = np.square(found.stay[kept]).sum()
    turned = np.einsum("sij,pj->spi", np.stack(signed_axes()), found.turns[kept])
    others = np.square(moved + np.cross(turned, apart)).sum((1, 2))
    return max(1.0, float(now / max(float(others.min()), 1e-12)))


def _without_slips(found: Evidence) -> tuple[np.ndarray, np.ndarray]:
    """All but the fifth of the windows that fit worst: there a foot was set down, lifted or slipped."""
    size = np.linalg.norm(found.stay, axis=-1)
    kept = size <= np.quantile(size, 0.8)
    return found.stay[kept], found.size[kept]


def _error(values: np.ndarray, ticks: int) -> np.ndarray:
    """Standard error of the mean of (T, 3), by means over blocks of so many ticks."""
    count = len(values) // ticks
    if count < 3:
        return np.zeros(values.shape[1])
    return values[: count * ticks].reshape(count, ticks, -1).mean(1).std(0, ddof=1) / np.sqrt(count)


_PROBE = 0.02  # rad


def encoder_offsets(view: View) -> tuple[np.ndarray, np.ndarray] | None:
    """How far each encoder would be off were it the only one, by the feet's places and the legs' push, least squares.

    Returns:
        Offset (n,) rad and what it would explain (n,), in squared standard deviations.
    """
    legs = stance(view)
    if legs is None or legs.carries.mean() < 0.75:
        return None
    here = evidence(view, legs.carries)
    weight = 0.0 if here is None or len(here.stay) < 150 else 1.0 / (0.012 * np.sqrt(len(here.stay) / 12.0))

    def stacked(found: Evidence | None) -> np.ndarray:
        assert found is not None
        along = found.aside @ found.down
        rest = [(found.aside - along * found.down)[:2] / 0.012, found.moment[:2] / 0.01]
        return np.concatenate([(found.stay * weight).flatten(), *rest])

    now, count = stacked(here), len(view.robot.joints)
    offsets, explained = np.zeros(count), np.zeros(count)
    for joint in range(count):
        ends = [stacked(evidence(_turned(view, joint, end), legs.carries)) for end in (_PROBE, -_PROBE)]
        slope = (ends[0] - ends[1]) / (2.0 * _PROBE)
        offsets[joint] = (slope @ now) / (slope @ slope + 1.0 / 0.5**2)
        left = now - slope * offsets[joint]
        explained[joint] = now @ now - left @ left
    return offsets, explained


def _turned(view: View, joint: int, angle: float) -> View:
    changed = {}
    for name in ("joint_pos", "joint_target", EXECUTED):
        if name in view.data:
            moved = view.data[name].copy()
            moved[:, joint] += angle
            changed[name] = moved
    return view.with_data(changed)


LEG_NEEDS = ("joint_pos", "gravity", "gyro", EXECUTED)
LEG_LAWS: tuple[Law, ...] = (Law(name="legs hold the robot", signals=LEG_NEEDS, check=legs_hold),)
