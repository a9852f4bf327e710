"""A noisy operator with a reaction time, who stands in for a person in tests and benchmarks.

Sees the target and the tip, as a person beside the arm would: late and not exactly. Knows no joints, no policy and no parameter.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from isthmus.hardware.virtual.client import ControlClient

from ..messages import OperatorCommand, Verdict
from .operator import ViewSource


@dataclass(frozen=True, kw_only=True)
class ScriptedConfig:
    """What the operator is like. `gain` times all delays must stay well below 1, or the operator oscillates."""

    noise_m: float = 0.002  # standard deviation of each coordinate seen
    reaction_s: float = 0.3  # age of what the operator acts on
    patience_s: float = 1.0  # how long a policy may try
    tolerance_m: float = 0.010  # seen error that makes the operator take over
    gain: float = 1.2  # 1/s, tip velocity for each metre of seen error
    max_speed: float = 0.15  # m/s
    hold_within_m: float = 0.002  # seen error at which the operator holds still
    success_within_m: float = 0.005  # seen error ...
    success_after_s: float = 0.5  # ... for so long: done
    give_up_after_s: float = 10.0  # of driving
    judge_s: float = 0.2  # what is judged is the mean over so long


class ScriptedOperator:
    """Takes over where the policy does not reach the target in time, drives the tip there and holds it."""

    def __init__(
        self,
        view: ViewSource,
        *,
        see: Callable[[], np.ndarray],
        config: ScriptedConfig | None = None,
        seed: int = 0,
        on_close: Callable[[], object] | None = None,
    ) -> None:
        """Create an operator.

        Args:
            view: episode and target.
            see: the tip's position, shape (3,), m, base frame; noise and delay are added here.
            config: what the operator is like; None for the usual one.
            seed: of the noise.
            on_close: gives back what `see` looks through; may be called twice.
        """
        self._view, self._see, self._on_close = view, see, on_close
        self._config = ScriptedConfig() if config is None else config
        self._rng = np.random.default_rng(seed)
        self._sequence = 0
        self._episode = -1
        self._begin_ns = self._engaged_ns = self._good_since_ns = 0
        self._engaged = False
        self._verdict = Verdict.NONE
        self._coming: deque[tuple[int, np.ndarray]] = deque()  # seen, not yet reacted to
        self._recent: deque[tuple[int, np.ndarray]] = deque()  # errors that are being judged

    def poll(self, now_ns: int) -> OperatorCommand:
        """Look, and react to what was seen `reaction_s` ago."""
        view = self._view()
        if view.episode != self._episode:
            self._begin(view.episode, now_ns)
        velocity = np.zeros(3)
        if self._episode >= 0:
            error = self._look(view.target, now_ns)
            if error is not None:
                velocity = self._react(error, now_ns)
        self._sequence += 1
        x, y, z = velocity.tolist()
        return OperatorCommand(
            sequence=self._sequence,
            heartbeat_ns=now_ns,
            engaged=self._engaged,
            values=(x, y, z),
            verdict=self._verdict,
        )

    def filenos(self) -> tuple[int, ...]:
        """None: the operator looks whenever asked."""
        return ()

    def close(self) -> None:
        """Stop looking."""
        if self._on_close is not None:
            self._on_close()

    def _begin(self, episode: int, now_ns: int) -> None:
        self._episode, self._begin_ns = episode, now_ns
        self._engaged, self._verdict = False, Verdict.NONE
        self._coming.clear()
        self._recent.clear()
        self._good_since_ns = now_ns

    def _look(self, target: np.ndarray, now_ns: int) -> np.ndarray | None:
        """See the tip now; returns the error that the operator is aware of, (3,) m, or None where nothing was seen long enough ago."""
        config = self._config
        self._coming.append((now_ns, self._see() + self._rng.normal(0.0, config.noise_m, 3)))
        aware = None
        while self._coming and now_ns - self._coming[0][0] >= config.reaction_s * 1e9:
            aware = target - self._coming.popleft()[1]
            self._recent.append((now_ns, aware))
        while self._recent and now_ns - self._recent[0][0] > config.judge_s * 1e9:
            self._recent.popleft()
        return aware

    def _react(self, error: np.ndarray, now_ns: int) -> np.ndarray:
        config = self._config
        judged = float(np.linalg.norm(np.mean([seen for _, seen in self._recent], axis=0)))
        if not self._engaged and now_ns - self._begin_ns >= config.patience_s * 1e9 and judged > config.tolerance_m:
            self._engaged, self._engaged_ns = True, now_ns
        if not self._engaged:
            return np.zeros(3)
        if judged > config.success_within_m:
            self._good_since_ns = now_ns
        if now_ns - self._good_since_ns >= config.success_after_s * 1e9:
            self._verdict = Verdict.SUCCESS
        elif now_ns - self._engaged_ns >= config.give_up_after_s * 1e9:
            self._verdict = Verdict.GIVE_UP
        if judged < config.hold_within_m or self._verdict is not Verdict.NONE:
            return np.zeros(3)
        velocity = config.gain * error
        return velocity * min(1.0, config.max_speed / float(np.linalg.norm(velocity)))


def scripted_on_virtual_arm(
    view: ViewSource, *, control_path: Path, config: ScriptedConfig | None = None, seed: int = 0
) -> ScriptedOperator:
    """An operator who watches a virtual arm over its control socket; with `functools.partial` a factory for a process of its own."""
    client = ControlClient(control_path)
    return ScriptedOperator(view, see=lambda: client.truth().tip_pos, config=config, seed=seed, on_close=client.close)
