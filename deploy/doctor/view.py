"""A log as the doctor looks at it: joints in the robot's order, time in s, and helpers over windows that stay within an episode."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from isthmus.hardware.robot import RobotSpec
from isthmus.hardware.signals import SIGNALS
from isthmus.policies.contract import Contract

from .rigid_body import RigidModel
from .signal_log import SignalLog
from .trained import Trained

OF_JOINTS = tuple(spec.name for spec in SIGNALS if spec.width == "joints")
EXECUTED = "executed"


@dataclass(frozen=True, kw_only=True, eq=False)
class View:
    """What laws are tested on."""

    robot: RobotSpec
    contract: Contract
    model: RigidModel | None
    trained: Trained
    dt: float  # s between ticks, by the log's own stamps
    begin: np.ndarray  # (T,) bool
    data: Mapping[str, np.ndarray]  # signals (T, width), and "executed" where targets were recorded
    kp_scale: float = 1.0  # of all gains against robot.toml, as a hypothesis
    rate: float = 1.0  # true time between ticks over `dt`, as a hypothesis

    def __len__(self) -> int:
        return len(self.begin)

    @property
    def step(self) -> float:
        """Time between ticks, s."""
        return self.dt * self.rate

    def has(self, *names: str) -> bool:
        """Whether the log holds these signals."""
        return all(name in self.data for name in names)

    def changed(self, **values: object) -> "View":
        """With other fields."""
        return replace(self, **values)  # pyright: ignore[reportArgumentType]

    def with_data(self, changed: Mapping[str, np.ndarray]) -> "View":
        """With some signals replaced."""
        return replace(self, data={**self.data, **changed})

    def window(self, seconds: float, least: int = 2) -> int:
        """A time in ticks; the log's own time, so that hypotheses about the rate are tested on the same ticks."""
        return max(least, round(seconds / self.dt))

    def pairs(self, ticks: int) -> np.ndarray:
        """First ticks t of windows t .. t + ticks that lie within one episode."""
        episode = np.cumsum(self.begin)
        return np.flatnonzero(episode[:-ticks] == episode[ticks:]) if ticks < len(self) else np.zeros(0, dtype=int)

    def shown(self, most: int) -> "View":
        """At most so many ticks, the middle ones."""
        if len(self) <= most:
            return self
        start = (len(self) - most) // 2
        part = slice(start, start + most)
        return replace(self, begin=self.begin[part], data={name: value[part] for name, value in self.data.items()})


def make_view(log: SignalLog, robot: RobotSpec, contract: Contract, model: RigidModel | None, trained: Trained) -> View:
    """A log in the robot's joint order, at the rate that its stamps say."""
    names = log.metadata.joint_names
    order = [names.index(name) for name in robot.joint_names]
    data = {
        name: (values[:, order] if name in OF_JOINTS and values.shape[1] == len(order) else values)
        for name, values in log.signals.items()
    }
    if log.executed is not None:
        of_joints = log.metadata.target in OF_JOINTS and log.executed.shape[1] == len(order)
        data[EXECUTED] = log.executed[:, order] if of_joints else log.executed
    finite = np.all([np.isfinite(values).all(axis=-1) for values in data.values()], axis=0)
    begin = log.begin | np.concatenate([[False], ~finite[:-1]])
    steps = np.diff(log.stamps)[~log.begin[1:]] * 1e-9
    good = steps[np.isfinite(steps) & (steps > 0)]
    dt = float(np.median(good)) if len(good) else contract.period_ns * 1e-9
    return View(
        robot=robot,
        contract=contract,
        model=model,
        trained=trained,
        dt=dt,
        begin=begin[finite],
        data={name: values[finite] for name, values in data.items()},
    )


def misfit(residual: np.ndarray, size: np.ndarray, noise: np.ndarray | float, share: float) -> np.ndarray:
    """Root of residual^2 over what noise and a share of the motion explain, of each column; 1 is the most that is usual.

    Args:
        residual: (T, n).
        size: (T, n) of the motion.
        noise: standard deviation, one or (n,).
        share: of the motion.
    """
    expected = len(residual) * np.square(noise) + share**2 * np.square(size).sum(axis=0)
    return np.sqrt(np.square(residual).sum(axis=0) / np.maximum(expected, 1e-12))


def roughness(values: np.ndarray, begin: np.ndarray) -> np.ndarray:
    """Standard deviation of what differs from one tick to the next without going on, of each column (n,)."""
    second = values[2:] - 2.0 * values[1:-1] + values[:-2]
    second = second[~(begin[2:] | begin[1:-1])]
    return 1.4826 * np.median(np.abs(second), axis=0) / np.sqrt(6.0) if len(second) else np.zeros(values.shape[1])
