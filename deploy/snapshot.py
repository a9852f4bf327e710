"""What a person is shown of a running robot, in one value: the dashboard draws it and knows nothing else."""

import math
from dataclasses import dataclass, field

import numpy as np

from isthmus.hardware.robot import RobotSpec

from .key_help import Key, keys_now
from .modes import Mode
from .status import Status


@dataclass(frozen=True, kw_only=True)
class JointView:
    """One joint; angles in rad."""

    name: str
    pos: float
    target: float
    lower: float
    upper: float
    lead: float  # share of its effort limit that the distance from angle to target asks for; NaN where its loop has no stiffness

    @property
    def margin(self) -> float:
        """Distance to the nearer limit, rad; negative beyond it."""
        return min(self.pos - self.lower, self.upper - self.pos)


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A robot and its runtime at one moment. A number that is not known is NaN, a text that is not known empty."""

    robot: str
    mode: Mode
    source: str = ""  # who gave the last target
    policy: str = ""
    policy_index: int = 0
    policies: int = 1  # preloaded
    episode: int = -1  # counted from 0; -1 between attempts
    episodes: int = 0
    gap: tuple[float, float, float] | None = None  # target - tip, m, base frame
    left_s: float = math.nan
    last_result: str = ""
    asked_hz: float = math.nan
    achieved_hz: float = math.nan
    missed: int = 0
    lateness_p50_us: float = math.nan
    lateness_p99_us: float = math.nan
    lateness_max_us: float = math.nan
    lateness_counts: tuple[int, ...] = ()  # ticks in each bin of `sparkline.LATENESS_EDGES_US`
    joints: tuple[JointView, ...] = ()
    temperature: float = math.nan  # deg C, of the hottest joint
    hottest: str = ""  # its name
    bus_errors: int | None = None  # repaired by a retry
    dropped: int = 0  # records that the recorder was too slow for
    faults: int = 0
    fault: str = ""  # the last one
    granted: str = ""  # `realtime.Granted.line`
    keys: tuple[Key, ...] = ()
    operator: str = ""  # what somebody with another device than the keyboard must know
    dry_run: bool = False

    @property
    def nearest(self) -> JointView | None:
        """The joint that is nearest to a limit of its range."""
        known = [joint for joint in self.joints if math.isfinite(joint.margin)]
        return min(known, key=lambda joint: joint.margin, default=None)

    @property
    def strained(self) -> JointView | None:
        """The joint that is asked for the largest share of its torque."""
        known = [joint for joint in self.joints if math.isfinite(joint.lead)]
        return max(known, key=lambda joint: joint.lead, default=None)


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What does not change while a row of attempts runs."""

    spec: RobotSpec | None  # None: nothing is shown of the joints
    robot: str
    policies: tuple[str, ...]
    episodes: int
    period_ns: int | None
    keyboard: bool = False  # somebody at the keyboard may take over
    operator_lines: tuple[str, ...] = ()  # what they must know before anything moves
    dry_run: bool = False


def joint_views(spec: RobotSpec, joint_pos: np.ndarray, target: np.ndarray) -> tuple[JointView, ...]:
    """Each joint of a robot; angles (n,), rad."""
    with np.errstate(divide="ignore", invalid="ignore"):
        lead = np.abs(target - joint_pos) * spec.array("kp") / spec.array("effort_limit")
    lead[spec.array("kp") <= 0.0] = np.nan
    return tuple(
        JointView(name=joint.name, pos=pos, target=goal, lower=joint.lower, upper=joint.upper, lead=share)
        for joint, pos, goal, share in zip(spec.joints, joint_pos.tolist(), target.tolist(), lead.tolist(), strict=True)
    )


@dataclass(kw_only=True)
class Watcher:
    """Turns statuses into snapshots; remembers what one status alone does not say: the rate, and the attempts so far."""

    scene: Scene
    attempt: int = 0
    last_result: str = ""
    _since: tuple[int, int] | None = field(default=None, init=False)  # tick, ns
    _achieved_hz: float = field(default=math.nan, init=False)

    def look(self, status: Status, tip: np.ndarray, left_s: float) -> Snapshot:
        """A snapshot; `tip` has shape (3,), m, base frame."""
        scene, names = self.scene, self.scene.policies
        x, y, z = (status.target - tip).tolist()
        index = status.policy_index
        joints = () if scene.spec is None else joint_views(scene.spec, status.joint_pos, status.executed_target)
        return Snapshot(
            robot=scene.robot,
            mode=status.mode,
            source=status.source.name.lower(),
            policy=names[index] if 0 <= index < len(names) else "",
            policy_index=index,
            policies=len(names),
            episode=self.attempt,
            episodes=scene.episodes,
            gap=(x, y, z),
            left_s=left_s,
            last_result=self.last_result,
            asked_hz=math.nan if scene.period_ns is None else 1e9 / scene.period_ns,
            achieved_hz=self._rate(status),
            missed=status.missed,
            lateness_p50_us=status.lateness_p50_us,
            lateness_p99_us=status.lateness_p99_us,
            lateness_max_us=status.lateness_max_us,
            lateness_counts=status.lateness_counts,
            joints=joints,
            temperature=status.max_temperature,
            bus_errors=status.bus_errors,
            dropped=status.dropped,
            faults=status.faults,
            fault=status.fault,
            granted=status.granted,
            keys=keys_now(status.mode, keyboard=scene.keyboard),
            operator="" if scene.keyboard else "; ".join(scene.operator_lines),
            dry_run=scene.dry_run,
        )

    def _rate(self, status: Status) -> float:
        """Ticks a second over the last second or so."""
        now = (status.tick, status.monotonic_ns)
        if self._since is None or now[0] < self._since[0]:
            self._since = now
        span_s = (now[1] - self._since[1]) * 1e-9
        if span_s >= 1.0:
            self._achieved_hz = (now[0] - self._since[0]) / span_s
            self._since = now
        return self._achieved_hz
