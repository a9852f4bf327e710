"""Laws over a log: which are broken, and which one thing that may have happened to it explains that best."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from .efforts import EFFORT_LAWS
from .findings import Finding, fault
from .hypotheses import Hypothesis, of_single_joints, of_whole_signals
from .laws import LAWS, Law, stream_laws
from .legs import LEG_LAWS, encoder_offsets
from .view import EXECUTED, View

BROKEN = 1.4  # misfit from which on a law counts as broken
_SLOW = {law.name for law in (*LEG_LAWS, *EFFORT_LAWS)}
_EFFORT, _DOUBTFUL = "motion takes what drives give", 0.6
_PART = 320  # ticks that hypotheses are tried on where they show what the whole log shows
_SHORTLIST = 15  # hypotheses that slow laws are asked about
_OFFSET, _OFFSET_SURE = (
    0.13,
    7.5,
)  # rad, and squared standard deviations explained, from which on an encoder counts as off
Misfits = Mapping[str, np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Test:
    """Laws that a log can be held against, and how well the trainer's own rows keep them."""

    laws: tuple[Law, ...]
    usual: Misfits

    def misfits(self, view: View, only: frozenset[str] | None = None) -> dict[str, np.ndarray]:
        """By law, those that depend on the named signals; against what the trainer's rows show where they fit worse than usual."""
        found = {}
        for law in self.laws:
            if only is not None and not self.concerned(law, only):
                continue
            values = law.check(view)
            usual = self.usual.get(law.name)
            if usual is not None and usual.shape == values.shape:
                values = values / np.maximum(1.0, 1.25 * usual)
            if values.size:
                found[law.name] = np.where(np.isfinite(values), values, 99.0)
        return found

    def concerned(self, law: Law, only: frozenset[str]) -> bool:
        """Whether a law depends on any of these signals; "rate" and "gains" beside."""
        timed = "rate" in only and "as in training" not in law.name and "length" not in law.name
        driven = "gains" in only and law.name in _SLOW
        return timed or driven or bool(only & set(law.signals))


def make_test(view: View, golden: View | None) -> Test:
    """The laws whose signals the log has."""
    laws = tuple(law for law in (*LAWS, *LEG_LAWS, *EFFORT_LAWS, *stream_laws(view)) if view.has(*law.signals))
    usual = {}
    for law in laws:
        if golden is not None and golden.has(*law.signals) and "as in training" not in law.name:
            usual[law.name] = law.check(golden)
    return Test(laws=laws, usual=usual)


def cost(misfits: Misfits) -> float:
    """How badly a log keeps laws: what is usual hardly counts, and no law counts for everything."""
    return float(
        sum(
            (3.0 if name in _SLOW else 1.0) * np.log1p(np.maximum(m - 0.2, 0.0) ** 2).sum()
            + 0.02 * np.minimum(m, 1.0).sum()
            for name, m in misfits.items()
        )
    )


def broken(misfits: Misfits) -> dict[str, float]:
    """Laws that are broken, and by how much."""
    return {name: float(m.max()) for name, m in misfits.items() if m.max() > BROKEN}


def physics(view: View, test: Test) -> list[Finding]:
    """Findings about a log; empty where every law is kept."""
    now = test.misfits(view)
    found: list[Finding] = []
    if broken(now) and len(view) > _PART:  # a part says the same, and sooner
        part = view.shown(_PART)
        seen = test.misfits(part)
        view, now = (part, seen) if broken(now).keys() <= broken(seen).keys() else (view, now)
    for _ in range(2):  # two things at once, the second in what the first leaves
        if not broken(now):
            break
        best = explain(view, test, now)
        if best is None:
            found.append(_unexplained(view, now))
            break
        hypothesis, after, gain = best
        found.append(
            fault(
                "physics" if set(broken(now)) - {n for n in now if "as in training" in n} else "stream",
                hypothesis.link,
                hypothesis.cause,
                "correct it in the driver or the robot's description, and record again",
                weight=10.0 + gain,
                numbers={f"misfit of '{name}' [1]": value for name, value in _worst(now)},
            )
        )
        view, now = hypothesis.undo(view), after
    return found or _doubts(view, test, now) or _offsets(view)


def _doubts(view: View, test: Test, now: Misfits) -> list[Finding]:
    """A law that is kept so badly that something else may be true: a fault only where that other thing keeps it far better.

    Of robots that touch nothing: there the model says all of what their drives have to give.
    """
    values = now.get(_EFFORT)
    if values is None or view.robot.contact_bodies or values.max() <= _DOUBTFUL:
        return []
    best = explain(view, test, now, {_EFFORT: float(values.max())})
    if best is None:
        return []
    hypothesis, after, gain = best
    if hypothesis.link == "gains" or gain < 0.4 or after[_EFFORT].max() > 0.55 * values.max():
        return []
    return [
        fault(
            "physics",
            hypothesis.link,
            hypothesis.cause,
            "correct it in the driver or the robot's description, and record again",
            weight=9.0,
            numbers={
                f"misfit of '{_EFFORT}' [1]": float(values.max()),
                "misfit otherwise [1]": float(after[_EFFORT].max()),
            },
        )
    ]


def explain(
    view: View, test: Test, now: Misfits, needed: Mapping[str, float] | None = None
) -> tuple[Hypothesis, dict[str, np.ndarray], float] | None:
    """The hypothesis that leaves least to explain, with the misfits that it leaves and what it gains; None where none helps.

    Args:
        view: a log.
        test: laws.
        now: its misfits.
        needed: laws that want an explanation; None: those that are broken.
    """
    needed = broken(now) if needed is None else needed
    fast = Test(laws=tuple(law for law in test.laws if law.name not in _SLOW), usual=test.usual)
    slow = Test(laws=tuple(law for law in test.laws if law.name in _SLOW), usual=test.usual)
    slow_now = {name: m for name, m in now.items() if name in _SLOW}
    before = cost(now)
    ranked: list[tuple[float, Hypothesis, View, dict[str, np.ndarray]]] = []

    def rank(family: Iterable[Hypothesis]) -> None:
        for hypothesis in family:
            if not any(law.name in needed and test.concerned(law, hypothesis.changes) for law in test.laws):
                continue
            changed = hypothesis.undo(view)
            after = {**{n: m for n, m in now.items() if n not in _SLOW}, **fast.misfits(changed, hypothesis.changes)}
            ranked.append((cost(after) + hypothesis.cost, hypothesis, changed, after))

    rank(of_whole_signals(view))
    whole = min(ranked, key=lambda entry: entry[0], default=None)
    elsewhere = whole is not None and "joint_pos" not in whole[1].changes and whole[0] < 0.1 * before + 0.15
    if _SLOW & needed.keys() or not elsewhere:
        rank(of_single_joints(view, suspects(view, {name: now[name] for name in needed})))
    ranked.sort(key=lambda entry: entry[0])
    kept = ranked[: _SHORTLIST if not _SLOW & needed.keys() else 4 * _SHORTLIST]
    best: tuple[float, Hypothesis, dict[str, np.ndarray]] | None = None
    for first, hypothesis, changed, after in kept if slow.laws else ranked[:1]:
        least = first
        if best is not None and least >= best[0]:
            break
        whole = {**after, **slow_now, **slow.misfits(changed, hypothesis.changes)}
        total = cost(whole) + hypothesis.cost
        if best is None or total < best[0]:
            best = (total, hypothesis, whole)
    if best is None or before - best[0] < max(0.25, 0.3 * before):
        return None
    return best[1], best[2], before - best[0]


def suspects(view: View, now: Misfits) -> np.ndarray:
    """Joints that something may be wrong with, (n,) bool: those that fit worse than others, or all where laws tell no joint."""
    count = len(view.robot.joints)
    found = np.zeros(count, dtype=bool)
    for name, values in now.items():
        if len(values) == count and count > 3:
            found |= values > 0.3 * min(BROKEN, values.max())
        elif "joint" in name or "legs" in name or count <= 3:
            found[:] = True
    return found


def _worst(now: Misfits) -> list[tuple[str, float]]:
    return sorted(broken(now).items(), key=lambda item: -item[1])[:3]


def _unexplained(view: View, now: Misfits) -> Finding:
    name = _worst(now)[0][0]
    law = now[name]
    at = int(np.argmax(law))
    joints = view.robot.joint_names
    where = joints[at] if len(law) == len(joints) else f"value {at + 1}"
    return fault(
        "stream" if "as in training" in name else "physics",
        name,
        f"'{name}' does not hold, worst for {where}, and no single exchange of order, sign, unit, frame, time or gain explains it",
        "look at this signal beside a log of the simulator",
        weight=5.0,
        numbers={f"misfit of '{n}' [1]": v for n, v in _worst(now)},
    )


def _offsets(view: View) -> list[Finding]:
    """One encoder that is off, of robots on legs, where nothing else is wrong."""
    if not view.has("joint_pos", "gravity", "gyro", EXECUTED):
        return []
    found = encoder_offsets(view)
    if found is None:
        return []
    offsets, explained = found
    sure = np.where(np.abs(offsets) >= _OFFSET, explained, 0.0)
    joint = int(np.argmax(sure))
    if sure[joint] < _OFFSET_SURE:
        return []
    names = view.robot.joint_names
    alike = [k for k in np.argsort(-sure) if sure[k] > 0.7 * sure[joint]][:3]
    said = ", or ".join(f"joint {k + 1} ({names[k]}) is off by about {offsets[k]:.2f} rad" for k in alike)
    return [
        fault(
            "physics",
            "joint_pos",
            f"{said}: legs and IMU agree when that encoder is moved so",
            "calibrate its zero again",
            weight=10.0,
            numbers={
                "offset [rad]": float(offsets[joint]),
                "explained, in squared standard deviations [1]": float(explained[joint]),
            },
        )
    ]
