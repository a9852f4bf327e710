"""Rows of attempts: evaluating a policy on targets, and collecting corrections."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from isthmus.hardware.kinematics import chain_from_mjcf
from isthmus.hardware.robot import RobotSpec
from isthmus.hardware.structure import read_json, write_json
from isthmus.hardware.workspace import sample_reachable
from isthmus.policies.interval import wilson_interval

from ..attempt import EpisodeResult, EpisodeRunner, OnTick, Referee, StoppedByOperator
from ..operators.operator import OperatorFactory

ATTEMPT_S = 3.0  # time for one target, as in training
CORRECTED_S = 12.0  # with somebody who may take over


@dataclass(frozen=True, kw_only=True)
class AttemptRow:
    """One target and what came of it."""

    target: tuple[float, float, float]  # m, base frame
    success: bool
    final_error_m: float
    seconds: float
    intervened: bool


@dataclass(frozen=True, kw_only=True)
class Attempts:
    """An evaluation."""

    policy_id: str
    rows: tuple[AttemptRow, ...]

    @property
    def successes(self) -> int:
        """How many targets were reached."""
        return sum(row.success for row in self.rows)

    @property
    def rate(self) -> float:
        """Share of successes."""
        return self.successes / len(self.rows)

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the rate (Wilson)."""
        return wilson_interval(self.successes, len(self.rows))

    @property
    def median_error_m(self) -> float:
        """Median distance of tip and target at the end, m."""
        return float(np.median([row.final_error_m for row in self.rows]))

    def line(self) -> str:
        """One line for people."""
        low, high = self.interval
        return (
            f"{self.successes} of {len(self.rows)} targets reached ({100 * self.rate:.0f} %, 95 % interval "
            f"{100 * low:.0f}-{100 * high:.0f} %), median miss {1e3 * self.median_error_m:.1f} mm"
        )


def save_attempts(path: Path, attempts: Attempts) -> None:
    """Write an evaluation as JSON."""
    write_json(path, attempts)


def load_attempts(path: Path) -> Attempts:
    """Read an evaluation; raises FormatError."""
    return read_json(path, Attempts)


def random_targets(spec: RobotSpec, count: int, seed: int) -> np.ndarray:
    """Reachable targets (count, 3) m; the same for the same seed."""
    chain = chain_from_mjcf(spec.model_path, spec.reach_site())
    return sample_reachable(spec, chain, np.random.default_rng(seed), count)[1]


def attempt_all(
    session: EpisodeRunner,
    targets: np.ndarray,
    *,
    policy_id: str,
    policy_index: int = 0,
    referee: Referee | None,
    operator: OperatorFactory | None = None,
    on_result: Callable[[int, EpisodeResult], None] | None = None,
    on_tick: OnTick | None = None,
) -> Attempts:
    """One attempt at each target, from wherever the last one ended.

    Raises:
        StoppedByOperator: says after how many; `on_result` has had those. Nothing is attempted any more, the arm holds.
        SessionError: see `EpisodeRunner.run_episode`.
    """
    rows: list[AttemptRow] = []
    timeout = ATTEMPT_S if operator is None else CORRECTED_S
    for index, target in enumerate(targets):
        try:
            result = session.run_episode(
                target, timeout, operator=operator, policy_index=policy_index, referee=referee, on_tick=on_tick
            )
        except StoppedByOperator as stop:
            raise StoppedByOperator(
                f"stopped by the operator after {index} of {len(targets)} targets", episode=stop.episode
            ) from None
        rows.append(row_of(target, result))
        if on_result is not None:
            on_result(index, result)
    return Attempts(policy_id=policy_id, rows=tuple(rows))


def row_of(target: Sequence[float] | np.ndarray, result: EpisodeResult) -> AttemptRow:
    """The part of a result that is kept."""
    x, y, z = (float(v) for v in target)
    return AttemptRow(
        target=(x, y, z),
        success=result.success,
        final_error_m=result.final_error_m,
        seconds=result.seconds,
        intervened=result.intervened,
    )
