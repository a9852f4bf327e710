"""What could be wrong with a log, as transformations that would make it right again: orders, signs, units, frames, times, gains.

Nothing here knows of cases. Each family is generated for whatever signals and joints a log has, and laws decide which member fits.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from .laws import signed_axes
from .orders import structured_orders
from .rigid_body import matrix
from .turns import axes_words, between, turn_words
from .view import EXECUTED, View

DEGREES = 180.0 / np.pi
UNITS: tuple[tuple[float, str, str], ...] = (  # factor, words, and of what kind: any, angle, rate, length, acceleration
    (DEGREES, "is in degrees, not in rad", "angle"),
    (1.0 / DEGREES, "was turned from degrees to rad twice, or is too small by 57.3", "angle"),
    (2.0 * np.pi, "is larger by 2 pi: rad where turns are meant", "angle"),
    (1.0 / (2.0 * np.pi), "is in turns, not in rad", "angle"),
    (60.0 / (2.0 * np.pi), "is in turns a minute, not in rad/s", "rate"),
    (1000.0, "is in thousandths (mm, mrad, milli-g)", "any"),
    (0.001, "is a thousandth of what it should be", "any"),
    (100.0, "is in hundredths (cm, percent)", "length"),
    (9.81, "is larger by 9.81: m/s^2 where g are meant", "acceleration"),
    (1.0 / 9.81, "is in g, not in m/s^2", "acceleration"),
    (2.0, "is twice what it should be", "any"),
    (0.5, "is half of what it should be", "any"),
    (10.0, "is ten times what it should be", "any"),
    (0.1, "is a tenth of what it should be", "any"),
)
_KINDS = {
    "gyro": ("angle", "rate"), "joint_vel": ("angle", "rate", "length"), "joint_pos": ("angle", "length"),
    "joint_target": ("angle", "length"), EXECUTED: ("angle", "rate", "length"), "joint_velocity_target": ("angle", "rate"),
    "rotor_speed_target": ("angle", "rate"), "gravity": ("acceleration",), "accelerometer": ("acceleration",),
    "joint_effort_target": (),
}  # fmt: skip
READ, VELOCITY, BOTH, WRITTEN = ("joint_pos",), ("joint_vel",), ("joint_pos", "joint_vel"), (EXECUTED, "joint_target")
DRIVER = (*BOTH, *WRITTEN)
GROUPS: tuple[tuple[tuple[str, ...], str, float], ...] = (  # what is wrong together, in words, and how unlikely
    (BOTH, "in what the driver reads", 0.0),
    (DRIVER, "in the driver, read and written", 0.05),
    (READ, "in joint_pos alone", 0.1),
    (VELOCITY, "in joint_vel alone", 0.1),
    (WRITTEN, "in what the driver writes", 0.1),
)
IMU = ("gyro", "gravity", "accelerometer")
VECTORS = ("gyro", "gravity", "accelerometer", "base_lin_vel", "base_pos")


@dataclass(frozen=True, kw_only=True, eq=False)
class Hypothesis:
    """Something that may have happened to the log."""

    cause: str
    link: str
    changes: frozenset[str]  # signals that it changes; "rate" and "gains" beside
    undo: Callable[[View], View]
    cost: float  # how much better than nothing it must be, and how it ranks among those that fit alike


def of_whole_signals(view: View) -> Iterator[Hypothesis]:
    """Families about signals as they are, or about time and gains; few, so they are tried first."""
    if view.has("joint_pos"):
        yield from _whole_orders(view)
    yield from _units(view)
    yield from _axes(view)
    yield from _tilts(view)
    yield from _attitudes(view)
    yield from _frames(view)
    yield from _late(view)
    yield from _rates(view)
    yield from _gains(view)


def of_single_joints(view: View, suspects: np.ndarray) -> Iterator[Hypothesis]:
    """Families about one or two joints, of those that are suspected, (n,) bool."""
    if view.has("joint_pos") and suspects.any():
        yield from _swaps(view, suspects)
        yield from _signs(view, suspects)
        yield from _joint_offsets(view, suspects)
        yield from _joint_factors(view, suspects)


def _map(view: View, names: tuple[str, ...], change: Callable[[np.ndarray], np.ndarray]) -> View:
    return view.with_data({name: change(view.data[name]) for name in names if name in view.data})


def _make(
    cause: str,
    link: str,
    names: tuple[str, ...],
    change: Callable[[np.ndarray], np.ndarray],
    *,
    cost: float,
) -> Hypothesis:
    return Hypothesis(
        cause=cause, link=link, changes=frozenset(names), undo=lambda view: _map(view, names, change), cost=cost
    )


def _groups(view: View) -> Iterator[tuple[tuple[str, ...], str, float]]:
    """The groups whose members the log has, each set of signals once."""
    seen: set[frozenset[str]] = set()
    for names, words, cost in GROUPS:
        held = tuple(n for n in names if n in view.data and view.data[n].shape[1] == len(view.robot.joints))
        if held and frozenset(held) not in seen:
            seen.add(frozenset(held))
            yield held, words, cost


def _whole_orders(view: View) -> Iterator[Hypothesis]:
    default = view.robot.array("default_pos")
    for held, words, cost in _groups(view):
        for order, what in structured_orders(view.robot.joint_names):
            yield _make(f"{what} {words}", _link(held), held, lambda v, o=order: v[:, o], cost=0.1 + cost)
        yield _make(f"every joint's sign is turned round {words}", _link(held), held, lambda v: -v, cost=0.1 + cost)
        if held == VELOCITY:
            continue
        of_pos = tuple(name for name in held if name != "joint_vel")
        for size, what in (
            (-default, "are given relative to the default pose"),
            (default, "have the default pose added"),
        ):
            yield _make(f"joint angles {what} {words}", _link(of_pos), of_pos, lambda v, s=size: v - s, cost=0.1 + cost)


def _swaps(view: View, suspects: np.ndarray) -> Iterator[Hypothesis]:
    names, count = view.robot.joint_names, len(view.robot.joints)
    for held, words, cost in _groups(view):
        for i, j in combinations(np.flatnonzero(suspects).tolist(), 2):
            order = np.arange(count)
            order[[i, j]] = j, i
            yield _make(
                f"joints {i + 1} and {j + 1} ({names[i]} and {names[j]}) are swapped {words}",
                _link(held),
                held,
                lambda v, o=order: v[:, o],
                cost=0.15 + cost,
            )


def _signs(view: View, suspects: np.ndarray) -> Iterator[Hypothesis]:
    names, count = view.robot.joint_names, len(view.robot.joints)
    for held, words, cost in _groups(view):
        for joint in np.flatnonzero(suspects):
            flip = np.where(np.arange(count) == joint, -1.0, 1.0)
            yield _make(
                f"the sign of joint {joint + 1} ({names[joint]}) is turned round {words}",
                _link(held),
                held,
                lambda v, f=flip: v * f,
                cost=0.15 + cost,
            )


def _joint_offsets(view: View, suspects: np.ndarray) -> Iterator[Hypothesis]:
    names = view.robot.joint_names
    known = view.trained.ranges.get("joint_pos")
    pos = view.data["joint_pos"]
    whole = [(np.pi, "pi"), (-np.pi, "-pi"), (np.pi / 2, "pi/2"), (-np.pi / 2, "-pi/2"), (2 * np.pi, "a turn")]
    whole.append((-2 * np.pi, "a turn"))
    lead = np.zeros(len(names))
    if view.has(EXECUTED) and view.data[EXECUTED].shape == pos.shape and known is not None:
        target = view.trained.ranges.get("joint_target")
        lead = (pos - view.data[EXECUTED]).mean(0) - (0.0 if target is None else known.mean - target.mean)
    for held, words, cost in _groups(view):
        if held == VELOCITY:
            continue
        of_pos = tuple(name for name in held if name != "joint_vel")
        shift = np.zeros(len(names)) if known is None else np.median(pos, axis=0) - known.middle
        for joint, name in ((k, names[k]) for k in np.flatnonzero(suspects)):
            sign = -1.0 if "joint_pos" not in held else 1.0
            guesses = [(sign * lead[joint], ""), (shift[joint], ""), *((s, "") for s in (0.2, -0.2, 0.1, -0.1))]
            guesses += whole if abs(shift[joint]) > 1.0 or known is None or not view.robot.floating else []
            for off, what in guesses:
                if abs(off) < 0.06:
                    continue
                size = np.where(np.arange(len(names)) == joint, off, 0.0)
                yield _make(
                    f"joint {joint + 1} ({name}) is off by {what or f'{off:.2f} rad'} {words}: its zero is not the model's",
                    _link(of_pos),
                    of_pos,
                    lambda v, s=size: v - s,
                    cost=0.2 + cost,
                )


def _joint_factors(view: View, suspects: np.ndarray) -> Iterator[Hypothesis]:
    names, count = view.robot.joint_names, len(view.robot.joints)
    for held, words, cost in _groups(view):
        of_kind = {
            kind: [(f, w) for f, w, k in UNITS if k == unit or f in (2.0, 0.5) or (f == 1000.0 and kind == "slide")]
            for kind, unit in (("hinge", "angle"), ("slide", "length"))
        }
        chosen = [(j, entry) for j in np.flatnonzero(suspects).tolist() for entry in of_kind[view.robot.joints[j].kind]]
        for joint, (factor, what) in chosen:
            if not _plausible(view, held[0], factor, joint):
                continue
            size = np.where(np.arange(count) == joint, 1.0 / factor, 1.0)
            yield _make(
                f"joint {joint + 1} ({names[joint]}) {what} {words}",
                _link(held),
                held,
                lambda v, s=size: v * s,
                cost=0.3 + cost,
            )


def _plausible(view: View, name: str, factor: float, joint: int | None = None) -> bool:
    """Whether a signal moves so much, or so little, against training that a large factor can be: else nothing would be left of it."""
    known = view.trained.ranges.get(name)
    if known is None or abs(np.log(factor)) < np.log(3.0) or view.data[name].shape[1] != len(known.spread):
        return True
    lively = known.spread > 1e-6
    if not lively.any() or (joint is not None and not lively[joint]):
        return True
    ratio = np.maximum(view.data[name].std(0), 1e-12) / np.maximum(known.spread, 1e-9)
    here = float(ratio[joint]) if joint is not None else float(np.median(ratio[lively]))
    return abs(np.log(here / factor)) < np.log(7.0)


def _units(view: View) -> Iterator[Hypothesis]:
    for name in view.data:
        kinds = ("any", *_KINDS.get(name, ("angle", "length")))
        for factor, what in ((f, w) for f, w, kind in UNITS if kind in kinds and _plausible(view, name, f)):
            plain = 0.15 if factor in (2.0, 0.5, 10.0, 0.1) else 0.0  # nobody's unit
            yield _make(f"{name} {what}", name, (name,), lambda v, f=factor: v / f, cost=0.05 + plain)
    for held, words, cost in _groups(view):
        if len(held) < 2:
            continue
        for factor, what in ((factor, what) for factor, what, kind in UNITS if kind in ("any", "angle", "length")):
            yield _make(f"every joint {what} {words}", _link(held), held, lambda v, f=factor: v / f, cost=0.1 + cost)
    if view.has("gyro"):
        bias = view.data["gyro"].mean(0)
        yield _make("the gyro has a bias", "gyro", ("gyro",), lambda v: v - bias, cost=0.3)


def _axes(view: View) -> Iterator[Hypothesis]:
    imu = tuple(name for name in IMU if name in view.data)
    for turn in signed_axes():
        proper = np.linalg.det(turn) > 0
        if len(imu) > 1 and proper:
            yield _make(
                f"the IMU sits turned by {turn_words(turn)} from the body's axes",
                "IMU mount",
                imu,
                lambda v, t=turn: v @ t.T,
                cost=0.1,
            )
        for name in VECTORS:
            if name in view.data:
                yield _make(
                    f"{name}: {axes_words(turn)}",
                    name,
                    (name,),
                    lambda v, t=turn: v @ t.T,
                    cost=0.1 + 0.05 * (not proper),
                )


def _tilts(view: View) -> Iterator[Hypothesis]:
    """Any rotation that brings the mean direction of gravity to where training had it."""
    known, imu = view.trained.ranges.get("gravity"), tuple(name for name in IMU if name in view.data)
    if known is None or "gravity" not in view.data:
        return
    here, there = view.data["gravity"].mean(0), known.mean
    if min(np.linalg.norm(here), np.linalg.norm(there)) < 0.3:
        return
    turn = between(here / np.linalg.norm(here), there / np.linalg.norm(there))
    for names, words in ((imu, "the IMU sits turned"), (("gravity",), "gravity alone is turned")):
        yield _make(
            f"{words} by {turn_words(turn.T)}" if not np.allclose(turn, np.eye(3), atol=0.02) else f"{words} a little",
            "IMU mount" if len(names) > 1 else "gravity",
            names,
            lambda v, t=turn: v @ t.T,
            cost=0.4,
        )


def _attitudes(view: View) -> Iterator[Hypothesis]:
    if "base_quat" not in view.data:
        return
    conjugate = np.array([1.0, -1.0, -1.0, -1.0])
    forms: list[tuple[str, Callable[[np.ndarray], np.ndarray], float]] = [
        ("comes as xyzw, wxyz is expected", lambda q: q[:, [3, 0, 1, 2]], 0.0),
        ("was turned from xyzw to wxyz once too often", lambda q: q[:, [1, 2, 3, 0]], 0.05),
        ("is that of world -> body, the inverse is expected", lambda q: q * conjugate, 0.05),
        ("comes as xyzw and of world -> body", lambda q: q[:, [3, 0, 1, 2]] * conjugate, 0.1),
        ("has its axes x, y, z in another order", lambda q: q[:, [0, 2, 1, 3]], 0.15),
    ]
    for axis in range(3):
        flip = np.ones(4)
        flip[1 + axis] = -1.0
        forms.append((f"has the sign of {'xyz'[axis]} turned round", lambda q, f=flip: q * f, 0.15))
        double = np.ones(4)
        double[[1 + (axis + 1) % 3, 1 + (axis + 2) % 3]] = -1.0
        forms.append((f"is seen in a frame turned by 180 degrees about {'xyz'[axis]}", lambda q, f=double: q * f, 0.15))
    for what, change, cost in forms:
        yield _make(f"base_quat {what}", "base_quat", ("base_quat",), change, cost=0.1 + cost)


def _frames(view: View) -> Iterator[Hypothesis]:
    if "base_quat" not in view.data:
        return
    for name in ("base_lin_vel", "gyro"):
        if name not in view.data:
            continue
        for backwards, what in ((False, "is in the world's frame, the body's is expected"), (True, "was turned twice")):

            def undo(now: View, name: str = name, backwards: bool = backwards) -> View:
                form = "tij,tj->ti" if backwards else "tji,tj->ti"
                return now.with_data({name: np.einsum(form, matrix(now.data["base_quat"]), now.data[name])})

            yield Hypothesis(
                cause=f"{name} {what}", link=name, changes=frozenset((name,)), undo=undo, cost=0.1 + 0.1 * backwards
            )


def _late(view: View) -> Iterator[Hypothesis]:
    groups = [((name,), name) for name in view.data if not name.startswith("command.")]
    groups += [(BOTH, "joint_pos and joint_vel"), (IMU, "the IMU"), (WRITTEN, "what is written")]
    for (names, words), ticks in product(groups, (2, 4, 7)):
        held = tuple(name for name in names if name in view.data)
        if held and ticks < len(view) // 4:

            def change(values: np.ndarray, ticks: int = ticks) -> np.ndarray:
                return np.vstack([values[ticks:], np.repeat(values[-1:], ticks, axis=0)])

            seconds = ticks * view.dt
            yield _make(
                f"{words} is about {seconds:.3g} s old (stale or filtered)", _link(held), held, change, cost=0.3
            )


def _rates(view: View) -> Iterator[Hypothesis]:
    for factor, words in (
        (2.0, "twice"), (0.5, "half"), (4.0, "four times"), (0.25, "a quarter of"), (10.0, "ten times"),
        (0.1, "a tenth of"), (2.5, "2.5 times"), (0.4, "0.4 times"), (1.5, "1.5 times"), (0.67, "two thirds of"),
    ):  # fmt: skip
        yield Hypothesis(
            cause=f"ticks really come at {words} the rate that stamps say: the control rate differs from training's",
            link="control rate",
            changes=frozenset(("rate",)),
            undo=lambda now, f=factor: now.changed(rate=now.rate / f),
            cost=0.1 if factor in (2.0, 0.5) else 0.6,
        )


def _gains(view: View) -> Iterator[Hypothesis]:
    if EXECUTED not in view.data:
        return
    for factor in (2.0, 0.5, 4.0, 0.25, 1.5, 0.67, 10.0, 0.1, -1.0):
        yield Hypothesis(
            cause=f"the drives' gains are about {factor:g} times those of training"
            if factor > 0
            else "the drives push the wrong way: torque has the wrong sign",
            link="gains",
            changes=frozenset(("gains",)),
            undo=lambda now, f=factor: now.changed(kp_scale=now.kp_scale * f),
            cost=0.15,
        )


def _link(names: tuple[str, ...]) -> str:
    known = {
        frozenset(group): words for group, words in ((BOTH, "joint signals"), (DRIVER, "joint order of the driver"))
    }
    shown = ["executed target" if name == EXECUTED else name for name in names]
    return known.get(frozenset(names), " and ".join(dict.fromkeys(shown)))
