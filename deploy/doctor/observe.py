"""The observation by the contract's plan in numpy: a third hand beside torch and the graph, to find where one of them differs."""

from collections.abc import Mapping

import numpy as np

from isthmus.hardware.kinematics import joint_frames, tip_error
from isthmus.policies import plan
from isthmus.policies.contract import Contract, sample_width
from isthmus.policies.plan import observation_plan

from .rigid_body import matrix

Rows = Mapping[str, np.ndarray]  # (T, width) by signal


def observations(contract: Contract, signals: Rows, actions: np.ndarray) -> np.ndarray | None:
    """What the policy should see at each of T consecutive ticks from an episode's first on.

    Args:
        contract: of the policy.
        signals: in the contract's order, (T, width).
        actions: (T, a) that the network gave at each.

    Returns:
        (T, d), NaN where this reader does not know a term; None for terms that a graph of its own computes.
    """
    seen = observation_plan(contract)
    count = len(next(iter(signals.values())))
    before = np.vstack([np.zeros((1, actions.shape[1])), actions[:-1]])
    parts = []
    for block, term in zip(seen.blocks, contract.observation, strict=True):
        width = sample_width(term, contract)
        value = _source(contract, block.source, block.constant, signals, before, count)
        parts.append(np.full((count, width), np.nan) if value is None else value[:, list(block.columns) or slice(None)])
    sample = np.clip(np.concatenate(parts, axis=-1) - seen.offset, seen.lower, seen.upper) * seen.scale
    return _with_past(contract, sample)


def _source(
    contract: Contract, source: str, constant: tuple[float, ...], signals: Rows, before: np.ndarray, count: int
) -> np.ndarray | None:
    if source in signals:
        return signals[source]
    if source == "":
        return np.tile(np.array(constant), (count, 1))
    if source == f"state.{plan.LAST_ACTION}":
        done = plan.action_plan(contract)
        return np.clip(before, done.clip_low, done.clip_high) * (np.arange(count) > 0)[:, None]
    if source == f"state.{plan.LAST_ACTION_RAW}":
        return before
    if source == "joint_lead":
        return signals["joint_target"] - signals["joint_pos"]
    if source in ("base_rotation",):
        return matrix(signals["base_quat"]).reshape(count, 9)
    if source == "base_pos_error":
        return signals["command.position"] - signals["base_pos"]
    if source == "time":
        return np.arange(count)[:, None] * contract.period_ns * 1e-9
    if source in ("tip_error", "tip_rotation"):
        return _tip(contract, source, signals)
    if source.startswith("phase") and contract.clock is not None and contract.clock.still_below is None:
        cycles = np.array(contract.clock.start) + np.arange(count)[:, None] * (
            contract.clock.frequency * contract.period_ns * 1e-9
        )
        turn = 2.0 * np.pi * cycles
        return {"phase_sin": np.sin(turn), "phase_cos": np.cos(turn), "phase": cycles % 1.0}.get(source)
    return None


def _tip(contract: Contract, source: str, signals: Rows) -> np.ndarray:
    chain = contract.reach_chain()
    order = [contract.joint_names.index(name) for name in chain.joint_names]
    pos = signals["joint_pos"][:, order].astype(np.float64)
    if source == "tip_error":
        return tip_error(chain, pos, signals[contract.need_command().signal])
    return joint_frames(chain, pos)[0][-1].reshape(len(pos), 9)


def _with_past(contract: Contract, sample: np.ndarray) -> np.ndarray:
    seen = observation_plan(contract)
    if seen.frames == 1:
        return sample[:, seen.pick]
    kept = sample[:, seen.kept]
    fill = np.where(seen.zero_filled, 0.0, kept[0])
    padded = np.vstack([np.tile(fill, (seen.frames - 1, 1)), kept])
    past = [padded[lag : lag + len(sample)] for lag in range(seen.frames - 1)]  # oldest first
    return np.concatenate([*past, sample], axis=-1)[:, seen.pick]


def compare(contract: Contract, expected: np.ndarray, shown: np.ndarray) -> str:
    """In words how what a network was shown differs from what the contract says; "" where it does not.

    Args:
        contract: of the policy.
        expected: (T, d) by `observations`.
        shown: (T, d).
    """
    if expected.shape != shown.shape:
        return f"the observation has {shown.shape[-1]} values, the contract says {expected.shape[-1]}: a history or a term is missing"
    known = np.isfinite(expected)
    size = np.maximum(1.0, np.abs(np.where(known, expected, 0.0)).max(0))
    off = np.where(known, np.abs(expected - shown), 0.0).max(0) / size > 1e-3
    if not off.any():
        return ""
    return _blame(contract, expected, shown, off)


def _blame(contract: Contract, expected: np.ndarray, shown: np.ndarray, off: np.ndarray) -> str:
    if contract.layout == "term":
        start = 0
        said: dict[str, list[str]] = {}  # names of terms by what is the matter with them
        for term in contract.observation:
            width = sample_width(term, contract) * len(term.lags)
            part = slice(start, start + width)
            start += width
            if off[part].any():
                shape = (len(expected), len(term.lags), -1)
                words = _term_words(expected[:, part].reshape(shape), shown[:, part].reshape(shape))
                said.setdefault(words, []).append(repr(term.name))
        if (
            sum(map(len, said.values())) > 1
            and not all("history" in words for words in said)
            and _same(np.sort(expected, axis=1), np.sort(shown, axis=1))
        ):
            return "the observation holds the right numbers in another order: terms are exchanged, or histories go by time, not by term"
        return "; ".join(f"term {', '.join(dict.fromkeys(names))} {words}" for words, names in said.items())
    if _same(np.sort(expected, axis=1), np.sort(shown, axis=1)):
        return "the observation holds the right numbers in another order: its history goes the other way, or by term instead of by time"
    return "the observation differs from what the contract says"


def _term_words(expected: np.ndarray, shown: np.ndarray) -> str:
    """Of one term, (T, lags, w) each."""
    late = len(expected) - 1
    if not np.any(shown) and np.any(np.nan_to_num(expected)):
        return "is scaled by 0: the network is shown nothing of it"
    if expected.shape[1] > 1 and _same(expected[:, ::-1], shown):
        return "has its history reversed: newest first where oldest first is meant, or the other way"
    if expected.shape[1] > 1 and _same(expected[expected.shape[1] :], shown[expected.shape[1] :]):
        return (
            "fills its history otherwise at an episode's start: zeros where the first sample is meant, or the other way"
        )
    if _same(expected[:late], shown[1:]):
        return "is one tick late"
    for i in range(expected.shape[-1]):
        for j in range(i + 1, expected.shape[-1]):
            order = list(range(expected.shape[-1]))
            order[i], order[j] = j, i
            if _same(expected[..., order], shown):
                return f"has values {i + 1} and {j + 1} swapped"
    if _same(np.sort(expected, axis=-1), np.sort(shown, axis=-1)):
        return "has its values in another order"
    x, y = expected.reshape(-1, expected.shape[-1]), shown.reshape(-1, shown.shape[-1])
    x0, y0 = x - x.mean(0), y - y.mean(0)
    slope = (x0 * y0).sum(0) / np.maximum(np.square(x0).sum(0), 1e-12)
    moving = x0.std(0) > 1e-4
    if moving.any() and np.square(y0 - slope * x0).sum() < 1e-4 * max(np.square(y0).sum(), 1e-12):
        shift = (y.mean(0) - slope * x.mean(0))[moving]
        slope = slope[moving]
        if np.abs(slope - 1.0).max() > 0.01:
            which = (
                f"scaled by {np.median(slope):.4g}"
                if np.ptp(slope) <= 0.02 * np.abs(slope).max()
                else "scaled otherwise"
            )
            return f"is {which} (unit, scale, or sign)"
        return f"is shifted by up to {np.abs(shift).max():.3g}: an offset such as the default pose is missing or added twice"
    return "is clipped or computed otherwise"


def _same(left: np.ndarray, right: np.ndarray) -> bool:
    known = np.isfinite(left) & np.isfinite(right)
    if left.shape != right.shape or not known.any():
        return False
    size = max(1.0, float(np.abs(left[known]).max()))
    return float(np.abs(left - right)[known].max()) < 2e-3 * size
