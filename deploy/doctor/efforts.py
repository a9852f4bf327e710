"""What moves a robot against how it moves: joints of a robot that is fixed to the world, and rotors that carry one."""

import xml.etree.ElementTree as ET
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import permutations

import numpy as np

from .laws import Law, driven_joints
from .rigid_body import GRAVITY, Motion, RigidModel, inverse_dynamics, matrix
from .view import EXECUTED, View, misfit, roughness

_MOST = 400  # ticks that are looked at
_LAGS = 6  # half ticks of delay that are tried, from one on: a target that is held for a tick is half a tick late
_HALF = 3  # ticks to each side that derivatives are taken over
_SLOW = 0.08  # rad/s or m/s, below which friction is on its way from one side to the other


@dataclass(frozen=True, kw_only=True, eq=False)
class Balance:
    """Efforts that the motion takes by the model, and what could give them; (T, n) each."""

    taken: np.ndarray
    per_kg: np.ndarray  # what a kilogram at the payload site would take on top
    given: list[np.ndarray]  # by the drive, as robot.toml has its gains; at each delay of a target
    vel: np.ndarray
    weight: np.ndarray  # the part of what is taken that gravity asks for


def local_fit(values: np.ndarray, step: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values that a bell of 2 * _HALF - 1 ticks went over, and their first and second derivatives, (T - 2 * _HALF, n) each.

    Everything that is compared goes through the same bell: what it takes away of fast motion, it takes away of all.
    """
    bell = np.convolve(np.ones(_HALF), np.ones(_HALF)) / _HALF**2
    windows = np.lib.stride_tricks.sliding_window_view(
        values, len(bell), axis=0
    )  # (T - 2 * _HALF + 2, n, 2 * _HALF - 1)
    smooth = windows @ bell
    inner = smooth[1:-1]
    return inner, (smooth[2:] - smooth[:-2]) / (2.0 * step), (smooth[2:] - 2.0 * inner + smooth[:-2]) / step**2


@lru_cache(maxsize=2)  # two laws ask for the same
def balance(view: View) -> Balance | None:
    """None where the robot is not fixed to the world, or the log too short."""
    view = view.shown(_MOST)
    model, target = view.model, view.data.get(EXECUTED)
    if model is None or view.robot.floating or target is None or not view.has("joint_pos"):
        return None
    raw = view.data["joint_pos"]
    if len(raw) < 60 or target.shape != raw.shape:
        return None
    pos, vel, acc = local_fit(raw, view.step)
    motion = Motion(pos=pos, vel=vel, acc=acc)
    taken, _ = inverse_dynamics(model, motion)
    loaded = _with_payload(view)
    heavy = taken if loaded is None else inverse_dynamics(loaded, motion)[0]
    spans = np.any(np.lib.stride_tricks.sliding_window_view(view.begin, 2 * _HALF + _LAGS + 1)[:, 1:], axis=-1)
    keep = np.zeros(len(pos), dtype=bool)
    keep[_LAGS:] = ~np.asarray(spans)[: len(keep) - _LAGS]
    given = [_given(view, lag)[keep] for lag in range(_LAGS)]
    rest = np.zeros_like(pos)
    free = any(joint.drive == "passive" for joint in view.robot.joints)
    weight = inverse_dynamics(model, Motion(pos=pos, vel=rest, acc=rest))[0] if free else taken
    return Balance(taken=taken[keep], per_kg=(heavy - taken)[keep], given=given, vel=vel[keep], weight=weight[keep])


def _given(view: View, lag: int) -> np.ndarray:
    target, robot, raw = view.data[EXECUTED], view.robot, view.data["joint_pos"]
    late = 0.5 * (_shifted(target, (lag + 1) // 2) + _shifted(target, lag // 2 + 1))
    if view.contract.action.target != "joint_target":
        return view.kp_scale * local_fit(late, view.step)[0]
    limit = robot.array("effort_limit")
    damped = robot.array("kd") * np.gradient(raw, view.step, axis=0)
    return local_fit(np.clip(view.kp_scale * robot.array("kp") * (late - raw) - damped, -limit, limit), view.step)[0]


def _shifted(values: np.ndarray, ticks: int) -> np.ndarray:
    """As they were so many ticks ago; the first before that."""
    return np.vstack([np.repeat(values[:1], ticks, axis=0), values[: len(values) - ticks]]) if ticks else values


def _with_payload(view: View) -> RigidModel | None:
    """The model with a kilogram at the payload site."""
    model, name = view.model, view.robot.payload_site
    if model is None or name is None:
        return None
    root = ET.parse(view.robot.model_path).getroot()
    for element in root.iter("body"):
        site = next((s for s in element.findall("site") if s.get("name") == name), None)
        if site is not None and element.get("name") in [body.name for body in model.bodies]:
            place = np.array([float(v) for v in site.get("pos", "0 0 0").split()])
            index = model.index(element.get("name", ""))
            bodies = list(model.bodies)
            body = bodies[index]
            mass = body.mass + 1.0
            com = (body.mass * body.com + place) / mass
            shifts = [(body.mass, body.com - com), (1.0, place - com)]
            inertia = body.inertia + sum(m * (d @ d * np.eye(3) - np.outer(d, d)) for m, d in shifts)
            bodies[index] = replace(body, mass=mass, com=com, inertia=inertia)
            return replace(model, bodies=tuple(bodies))
    return None


@dataclass(frozen=True, kw_only=True, eq=False)
class Gains:
    """Of each joint, (n,)."""

    lag: float  # ticks until a target acts
    payload: float  # kg
    scale: np.ndarray  # of what the drive gives
    scale_if_clean: np.ndarray  # the same where everything is as noisy as it is large; the truth lies between
    error: np.ndarray  # standard error of the scale
    viscous: np.ndarray  # N m s/rad
    coulomb: np.ndarray  # N m
    free: np.ndarray  # bool, whether nothing drives it
    weight: np.ndarray  # (T, n) N m, the part of what is taken that gravity asks for
    rubbed: np.ndarray  # N m, standard deviation of what friction takes
    residual: np.ndarray  # (T, n) N m
    taken: np.ndarray  # (T, n) N m


def fit_gains(view: View, found: Balance, lag: int, payload: float, *, prior: float) -> Gains:
    """Least squares of the drive's scale and friction on each joint; `prior`: how far from 1 a scale usually is.

    With a prior below 1 a scale is kept within 0.45 .. 2.2, so that nothing absurd explains a motion; unless the robot touches
    things, which push too.
    """
    assert view.model is not None
    taken, given = (found.taken + payload * found.per_kg).T, found.given[lag].T  # (n, T)
    features = np.stack([given, -found.vel.T, -np.tanh(found.vel.T / _SLOW)], axis=-1)  # (n, T, 3)
    links = [view.model.of_joint(j) for j in range(len(taken))]
    expected = np.array([[1.0, link.damping, link.friction] for link in links])
    spread = np.array([[prior, link.damping + 1e-3, 1.5 * link.friction + 1e-3] for link in links])
    noise = 0.02 * taken.std(1) + 0.2 * given.std(1) + 1e-6
    scaled = 0.2 / noise[:, None] ** 2  # a fifth of the ticks is independent
    normal = (features.transpose(0, 2, 1) @ features) * scaled[..., None] + _diagonal(1.0 / spread**2)
    rest = taken - (features @ expected[..., None])[..., 0]
    step = np.linalg.solve(normal, ((features.transpose(0, 2, 1) @ rest[..., None])[..., 0] * scaled)[..., None])[
        ..., 0
    ]
    if prior < 1.0 and not view.robot.contact_bodies:
        kept = np.clip(expected[:, 0] + step[:, 0], 0.45, 2.2) - expected[:, 0]
        others = rest - features[..., 0] * kept[:, None]
        inner, push = normal[:, 1:, 1:], features[..., 1:].transpose(0, 2, 1) @ others[..., None] * scaled[..., None]
        step = np.column_stack([kept, np.linalg.solve(inner, push)[..., 0]])
    fitted = expected + step
    residual = rest - (features @ step[..., None])[..., 0]
    error = np.sqrt(np.linalg.inv(normal)[:, 0, 0]) * np.maximum(1.0, residual.std(1) / noise)
    return Gains(
        lag=0.5 * (lag + 1),
        payload=payload,
        scale=fitted[:, 0],
        scale_if_clean=_total_scale(np.concatenate([taken[..., None], features], axis=-1)),
        error=error,
        viscous=fitted[:, 1],
        coulomb=fitted[:, 2],
        free=np.array([joint.drive == "passive" for joint in view.robot.joints]),
        weight=found.weight,
        rubbed=(features[..., 1:] @ fitted[:, 1:, None])[..., 0].std(1),
        residual=residual.T,
        taken=taken.T,
    )


def _diagonal(values: np.ndarray) -> np.ndarray:
    """(n, 3) -> (n, 3, 3)."""
    return values[..., None] * np.eye(values.shape[-1])


def _total_scale(columns: np.ndarray) -> np.ndarray:
    """Second over first coefficient of the line that all columns fit best, each as noisy as it is large (total least squares).

    (n, T, 4) -> (n,).
    """
    sizes = np.maximum(columns.std(1), 1e-9)
    centred = (columns - columns.mean(1, keepdims=True)) / sizes[:, None]
    normal = np.linalg.eigh(centred.transpose(0, 2, 1) @ centred)[1][..., 0] / sizes
    first = np.where(np.abs(normal[:, 0]) > 1e-9, normal[:, 0], np.nan)
    return np.nan_to_num(-normal[:, 1] / first, nan=1e3)


def best_fit(view: View, *, prior: float = 0.35) -> Gains | None:
    """At the delay and the payload that explain most."""
    found = balance(view)
    if found is None or len(found.taken) < 40 or view.model is None:
        return None
    floor = np.square(0.01 * view.robot.array("effort_limit") + 1e-3)

    def cost(gains: Gains) -> float:
        return float(np.log(np.square(gains.residual).mean(0) + floor).sum())

    lag = min((fit_gains(view, found, lag, 0.0, prior=prior) for lag in range(_LAGS)), key=cost).lag
    half = round(2.0 * lag) - 1
    loads = [share * view.model.mass for share in (0.0, 0.08, 0.16, 0.25)] if found.per_kg.any() else [0.0]
    return min((fit_gains(view, found, half, load, prior=prior) for load in loads), key=cost)


def motion_takes_effort(view: View) -> np.ndarray:
    """What each joint's motion takes by the model against what its drive gives, friction and payload fitted. (n,)."""
    gains = best_fit(view)
    if gains is None:
        return np.zeros(0)
    noise = 0.02 * view.robot.array("effort_limit") + roughness(gains.taken, np.zeros(len(gains.taken), dtype=bool))
    size = np.where(
        gains.free, gains.weight, gains.taken
    )  # what a free joint takes is as large as weight and inertia each
    return misfit(gains.residual, size, np.where(gains.free, 2.5 * noise, noise), 0.4)


def gains_as_described(view: View) -> np.ndarray:
    """Scale of what the drives give against robot.toml's gains, where the log shows it. (n,)."""
    gains = best_fit(view, prior=2.0)
    if gains is None:
        return np.zeros(0)
    moved = np.std(gains.taken, axis=0)
    clear = (moved > 0.04 * view.robot.array("effort_limit")) & (np.std(gains.residual, axis=0) < 0.5 * moved)
    clear &= gains.rubbed < 1.2 * moved  # gain and friction together only tell their quotient
    usable = clear & (gains.error < 0.25) & driven_joints(view)
    ends = np.log(np.maximum([gains.scale, gains.scale_if_clean], 0.05))
    low, high = ends.min(0) - 2.0 * gains.error, ends.max(0) + 2.0 * gains.error
    return np.where(usable, np.maximum(0.0, np.maximum(low, -high)) / np.log(1.8), 0.0)


ROTOR_NEEDS = ("base_quat", "base_lin_vel", "gyro", EXECUTED)


def _rotors(view: View) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
    """Specific force and angular acceleration measured (T, 3) each, and what thrust and drag give by the model."""
    robot, model = view.robot, view.model
    if not robot.rotors or model is None or view.data[EXECUTED].shape[1] != len(robot.rotors) or len(view) < 60:
        return None
    turn = matrix(view.data["base_quat"])
    world = np.einsum("tij,tj->ti", turn, view.data["base_lin_vel"])
    _, rising, _ = local_fit(world, view.step)
    rate, turning, _ = local_fit(view.data["gyro"], view.step)
    inner = slice(_HALF, len(view) - _HALF)
    felt = np.einsum("tji,tj->ti", turn[inner], rising + np.array([0.0, 0.0, GRAVITY]))
    speed = _spun_up(view)
    square = local_fit(np.square(speed), view.step)[0]
    arms, axes, thrust, drag, spin = rotor_geometry(view)
    force = (square * thrust) @ axes / model.mass
    torque = np.cross(arms, axes) * thrust[:, None] - axes * (drag * spin)[:, None]
    inertia = _whole_inertia(view)
    given = (square @ torque) @ np.linalg.inv(inertia).T
    free = turning + np.cross(rate, rate @ inertia.T) @ np.linalg.inv(inertia).T
    return felt, free, force, given


def rotor_geometry(view: View) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Places (r, 3) m and axes (r, 3) of rotors in the base, coefficients of thrust and drag, and spins, (r,)."""
    sites = {site.get("name"): site for site in ET.parse(view.robot.model_path).getroot().iter("site")}
    rotors = view.robot.rotors
    places = np.array([[float(v) for v in sites[r.site].get("pos", "0 0 0").split()] for r in rotors])
    quats = np.array([[float(v) for v in sites[r.site].get("quat", "1 0 0 0").split()] for r in rotors])
    thrust, drag, spin = (
        np.array([float(getattr(r, key)) for r in rotors]) for key in ("thrust_coefficient", "drag_coefficient", "spin")
    )
    return places, matrix(quats)[:, :, 2], thrust, drag, spin


def _whole_inertia(view: View) -> np.ndarray:
    assert view.model is not None
    return view.model.bodies[0].inertia


def _spun_up(view: View) -> np.ndarray:
    """Rotor speeds (T, r) rad/s that lag behind what was asked for."""
    asked = np.maximum(view.data[EXECUTED], 0.0)
    share = 1.0 - np.exp(-view.step / np.array([max(r.time_constant, 1e-6) for r in view.robot.rotors]))
    speed, now = np.empty_like(asked), asked[0].copy()
    for tick, target in enumerate(asked):
        now = now + share * (target - now)
        speed[tick] = now
    return speed


def thrust_carries(view: View) -> np.ndarray:
    """Specific force against what thrust gives. (3,), base frame."""
    found = _rotors(view)
    if found is None:
        return np.zeros(0)
    felt, _, force, _ = found
    noise = roughness(view.data["base_lin_vel"], view.begin).max() / view.step * 0.4 + 0.8
    mean = np.abs((felt - force).mean(0)) / (0.3 * GRAVITY)
    return np.maximum(misfit((felt - force), force, noise, 0.3), mean)


def rotors_turn(view: View) -> np.ndarray:
    """Angular acceleration against what thrusts and drags give, less its mean. (3,), base frame."""
    found = _rotors(view)
    if found is None:
        return np.zeros(0)
    _, measured, _, given = found
    noise = roughness(view.data["gyro"], view.begin) / view.step * 0.5 + 0.6
    left = measured - given
    return misfit(left - left.mean(0), measured, noise, 0.65)


def rotor_orders(count: int) -> list[tuple[int, ...]]:
    """Every order of a few rotors."""
    return list(permutations(range(count))) if count <= 4 else []


EFFORT_LAWS: tuple[Law, ...] = (
    Law(name="motion takes what drives give", signals=("joint_pos", EXECUTED), check=motion_takes_effort),
    Law(name="gains as described", signals=("joint_pos", EXECUTED), check=gains_as_described),
    Law(name="thrust carries", signals=ROTOR_NEEDS, check=thrust_carries),
    Law(name="rotors turn the base", signals=ROTOR_NEEDS, check=rotors_turn),
)
