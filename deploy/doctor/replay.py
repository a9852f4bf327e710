"""The policy run on a log, commanding nothing: what it would have asked for, against what was asked for and what may be.

It ends at the first tick at which no policy should go on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from isthmus.hardware.robot import RobotSpec
from isthmus.policies.bundle import Bundle, target_output

from .findings import Finding, fault, note
from .observe import compare, observations
from .orders import structured_orders
from .signal_log import SignalLog
from .units import signal_unit
from .view import OF_JOINTS

_STILL_THE_SAME = 2e-3  # share of the largest target by which two computers may differ


@dataclass(frozen=True, kw_only=True, eq=False)
class DryRun:
    """Of the ticks from the first on."""

    targets: np.ndarray  # (T, w), NaN after the end; the contract's order
    actions: np.ndarray  # (T, a)
    seen: np.ndarray  # (T, d)
    stopped: int | None  # tick at which it ended early
    why: str


def in_contract_order(log: SignalLog, bundle: Bundle) -> dict[str, np.ndarray] | str:
    """Raw signals as the graph takes them, (T, w); or which are missing."""
    contract, names = bundle.manifest.contract, log.metadata.joint_names
    missing = [name for name in contract.signals if name not in log.signals]
    if missing:
        return f"the log lacks {', '.join(missing)}"
    strange = [name for name in contract.joint_names if name not in names]
    if strange:
        return f"the log lacks joints {', '.join(strange)}"
    order = [names.index(name) for name in contract.joint_names]
    rows = {}
    for name in contract.signals:
        values = log.signals[name]
        values = values[:, order] if name in OF_JOINTS and values.shape[1] == len(names) else values
        if values.shape[1] != contract.signal_width(name):
            return f"{name} has {values.shape[1]} values, the policy takes {contract.signal_width(name)}"
        rows[name] = values
    return rows


def dry_run(bundle: Bundle, rows: Mapping[str, np.ndarray], begin: np.ndarray, robot: RobotSpec) -> DryRun:
    """Run the graph on recorded signals; ends where a value is not finite, or nothing in training looked like it."""
    contract = bundle.manifest.contract
    policy, target = bundle.policy(), target_output(contract)
    count = len(begin)
    targets: list[np.ndarray] = []
    actions: list[np.ndarray] = []
    seen: list[np.ndarray] = []
    why, stopped = "", None
    guard = _Guard(bundle, robot)
    for tick in range(count):
        signals = {name: values[tick] for name, values in rows.items()}
        if begin[tick]:
            policy.reset()
        why = guard.signals(signals)
        if not why:
            out = policy.run(signals)
            why = guard.output(out[target])
            targets.append(out[target].astype(np.float64))
            actions.append(out["base_action"].astype(np.float64))
            seen.append(out["observation"].astype(np.float64))
        if why:
            stopped = tick
            break
    return DryRun(targets=_rows(targets), actions=_rows(actions), seen=_rows(seen), stopped=stopped, why=why)


def _rows(values: list[np.ndarray]) -> np.ndarray:
    return np.stack(values) if values else np.zeros((0, 0))


class _Guard:
    """What stops a dry run: a few ticks in a row of what training never had anything near."""

    def __init__(self, bundle: Bundle, robot: RobotSpec) -> None:
        known = bundle.manifest.distribution
        self._bounds, self._units = {}, {}
        contract = bundle.manifest.contract
        if known is not None:
            for signal in known.signals:
                table = np.array(signal.quantiles)
                width = table[:, -1] - table[:, 0]
                room = 2.0 * width + 0.5 * np.abs(table).max(1) + 0.05
                if signal.name.startswith("command."):
                    continue  # judged by the contract's range
                self._bounds[signal.name] = (table[:, 0] - room, table[:, -1] + room)
                units = [signal_unit(contract, robot, signal.name, k) for k in range(len(table))]
                self._units[signal.name] = ["" if unit == "1" else f" {unit}" for unit in units]
        self._beyond = 0

    def signals(self, signals: Mapping[str, np.ndarray]) -> str:
        for name, value in signals.items():
            if not np.isfinite(value).all():
                return f"{name} is not finite"
        far = ""
        for name, (low, high) in self._bounds.items():
            value = signals.get(name)
            if value is not None and ((value < low) | (value > high)).any():
                at = int(np.argmax((value < low) | (value > high)))
                unit = self._units[name][at]
                far = f"{name}, value {at + 1}, is {value[at]:.4g}{unit}; training had {low[at]:.4g} .. {high[at]:.4g} at most"
        self._beyond = self._beyond + 1 if far else 0
        return far if self._beyond >= 3 else ""

    def output(self, target: np.ndarray) -> str:
        return "" if np.isfinite(target).all() else "the policy's target is not finite"


def replay(bundle: Bundle, log: SignalLog, robot: RobotSpec) -> tuple[list[Finding], DryRun | None]:
    """Findings of a dry run over the log."""
    rows = in_contract_order(log, bundle)
    if isinstance(rows, str):
        return [fault("dry run", "signals", rows, "log every signal that the policy takes", weight=30.0)], None
    run = dry_run(bundle, rows, log.begin, robot)
    found = []
    if run.stopped is not None:
        seconds = run.stopped * bundle.manifest.contract.period_ns * 1e-9
        found.append(
            fault(
                "dry run",
                "signals",
                f"the dry run was stopped: {run.why}",
                "look at this signal first",
                numbers={"after [s]": seconds},
                weight=2.0,
            )
        )
    found += _shown(bundle, log, rows, run)
    found += _asked(bundle, log, run)
    return found, run


def _shown(bundle: Bundle, log: SignalLog, rows: Mapping[str, np.ndarray], run: DryRun) -> list[Finding]:
    """What the network was shown when the log was recorded."""
    count = len(run.seen)
    episode = int(np.argmax(log.begin[1:])) + 1 if log.begin[1:].any() else len(log)
    count = min(count, episode)
    if log.observation is None or count < 10:
        return []
    contract = bundle.manifest.contract
    actions = run.actions if log.action is None else log.action
    expected = observations(contract, {n: v[:count] for n, v in rows.items()}, actions[:count])
    if expected is None:
        return []
    words = compare(contract, expected, log.observation[:count])
    if not words:
        return []
    return [
        fault(
            "replay",
            "observation",
            f"what the network was shown is not what the contract makes of the signals: {words}",
            "let the bundle's graph make the observation; it takes raw signals",
            weight=25.0,
        )
    ]


def _asked(bundle: Bundle, log: SignalLog, run: DryRun) -> list[Finding]:
    """What the log's policy proposed, and what was executed, against what this bundle asks for."""
    count = len(run.targets)
    contract, names = bundle.manifest.contract, log.metadata.joint_names
    if count < 20:
        return []
    found = []
    own = log.metadata.policy_id in ("", bundle.sha256)
    for name, given in (("proposed", log.proposed), ("executed", log.executed)):
        if given is None or not own:
            continue
        if contract.action.target in OF_JOINTS and given.shape[1] == len(names):
            given = given[:, [names.index(joint) for joint in contract.joint_names]]
        given = given[:count]
        usable = np.isfinite(given).all(axis=-1)
        if usable.sum() < 20 or given.shape != run.targets.shape:
            continue
        words, share = relation(run.targets[usable], given[usable], contract.joint_names)
        if share > 0.9:
            continue
        if words:
            found.append(
                fault(
                    "replay",
                    f"{name} target",
                    f"the {name} target is not what the policy asks for: {words}",
                    "hand the bundle's target to the drives as it is",
                    numbers={"share of ticks that agree [1]": share},
                    weight=22.0,
                )
            )
            break
        if log.metadata.policy_id == bundle.sha256 and name == "proposed":
            found.append(
                fault(
                    "replay",
                    "policy",
                    "the log says that this bundle proposed, but on the same signals it proposes something else: other states, an older "
                    "sample, or another graph",
                    "record the signals that the policy is given, at the tick at which it is",
                    numbers={"share of ticks that agree [1]": share},
                    weight=3.0,
                )
            )
    if not own:
        found.append(note("replay", "policy", "the log was recorded under another policy; proposals are not compared"))
    return found


def relation(asked: np.ndarray, given: np.ndarray, names: tuple[str, ...]) -> tuple[str, float]:
    """How what was given follows from what was asked for, in words; "" for no simple way. And the share of ticks that agree.

    Args:
        asked: (T, w).
        given: (T, w).
        names: of the joints, for words.
    """
    size = np.maximum(np.abs(asked).max(0), 0.05)
    agree = float((np.abs(asked - given) <= _STILL_THE_SAME * size + 1e-3).all(axis=-1).mean())
    if agree > 0.9:
        return "", agree

    width = asked.shape[1]
    labels = names if len(names) == width else tuple(str(k + 1) for k in range(width))
    candidates: list[tuple[float, str]] = []
    for i, j in combinations(range(width), 2):
        order = list(range(width))
        order[i], order[j] = j, i
        words = f"joints {i + 1} and {j + 1} ({labels[i]} and {labels[j]}) are swapped"
        candidates.append((_explained(asked[:, order], given), words))
    if len(names) == width:
        candidates += [(_explained(asked[:, order], given), what) for order, what in structured_orders(names)]
    candidates.append((_explained(np.vstack([asked[:1], asked[:-1]]), given), "it is one tick late"))
    scaled = _scaled(asked, given, labels)
    if scaled is None:
        return "", agree
    clipped = np.clip(asked, given.min(0), given.max(0))
    candidates += scaled
    candidates.append((_explained(clipped, given) - 0.002, "it is clipped, so that it never leaves a narrower range"))
    for share in (0.1, 0.15, 0.2, 0.3, 0.5):
        words = "it is smoothed by a filter that training did not have"
        candidates.append((_explained(_smoothed(asked, share), given) - 0.002, words))
    score, said = max(candidates, key=lambda entry: entry[0])
    best = _explained(asked, given)
    return (said if score > 0.99 and score > best + 0.3 * (1.0 - best) else ""), agree


def _explained(value: np.ndarray, given: np.ndarray) -> float:
    """Share of the variance of what was given."""
    left = np.square(given - value).sum()
    return 1.0 - left / max(np.square(given - given.mean(0)).sum(), 1e-9)


def _scaled(asked: np.ndarray, given: np.ndarray, labels: tuple[str, ...]) -> list[tuple[float, str]] | None:
    """Scales and shifts; None where the one is the other but for little, as of another policy of the same kind."""
    a0, g0 = asked - asked.mean(0), given - given.mean(0)
    slopes = (a0 * g0).sum(0) / np.maximum(np.square(a0).sum(0), 1e-9)
    moving = a0.std(0) > 1e-3
    share = _explained(given.mean(0) + slopes * a0, given)
    if not moving.any() or share <= 0.98:
        return []
    slope, shift = slopes[moving], (given.mean(0) - asked.mean(0))[moving]
    if np.abs(slope - 1.0).max() < 0.15:
        size = np.maximum(np.abs(asked).max(0), 0.05)[moving]
        if (np.abs(shift) < 0.05 * size + 0.03).all():
            return None
        return [(share, f"it is shifted by up to {np.abs(shift).max():.3g}: another default pose")]
    if np.ptp(slope) < 0.1 * np.abs(slope).max():
        return [(share, f"it moves {float(np.median(slope)):.3g} times as far: another action scale, unit or sign")]
    at = int(np.argmax(np.where(moving, np.abs(slopes - 1.0), 0.0)))
    if 0.7 < slopes[at] < 1.4:
        return None
    return [(share, f"{labels[at]} moves {slopes[at]:.3g} times as far: its scale or sign differs")]


def _smoothed(values: np.ndarray, share: float) -> np.ndarray:
    out, now = np.empty_like(values), values[0]
    for tick, value in enumerate(values):
        now = now + share * (value - now)
        out[tick] = now
    return out
