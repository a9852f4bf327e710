"""Tiny guarded motions, joint by joint, on the robot itself: which joint moves, which way, how far, how late, how stiffly.

Every target goes through the limits of `safety.py`. A joint that does not move as it was asked to ends its motion at once.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from isthmus.hardware.interface import Robot
from isthmus.hardware.robot import RobotSpec
from isthmus.policies.contract import Contract

from ..clock import Clock
from ..safety import NOTHING_WRITTEN, Limiter, out_of_range, robot_limits
from .findings import Finding, fault, note
from .hypotheses import UNITS
from .rigid_body import Motion, RigidModel, inverse_dynamics
from .signal_log import SignalLog, SignalMetadata

_SEEN = 0.3  # share of the amplitude from which on a joint counts as having moved


@dataclass(frozen=True, kw_only=True)
class ProbeConfig:
    """How far and how fast."""

    amplitude: float = 0.08  # rad
    speed: float = 0.6  # rad/s of the target
    hold: float = 0.4  # s at each end
    settle: float = 0.6  # s at the start
    guard: float = 2.5  # amplitudes that any joint may move


@dataclass(frozen=True, kw_only=True, eq=False)
class ProbeResult:
    """What was done and what came of it."""

    log: SignalLog
    response: np.ndarray  # (n, n): movement of joint i for a movement of target j
    lead: np.ndarray  # (n,) rad, mean of target - position at both ends of a joint's own motion
    pose: np.ndarray  # (n,) rad at the start
    delay: np.ndarray  # (n,) s by which a joint follows its target; NaN where it does not
    stopped: tuple[str, ...]  # joints whose motion was ended by the guard, or why nothing was moved


class _Prober:
    def __init__(self, robot: Robot, clock: Clock, period_ns: int, config: ProbeConfig) -> None:
        self.robot, self.clock, self.period_ns, self.config = robot, clock, period_ns, config
        self.limiter = Limiter(robot_limits(robot.spec, period_s=period_ns * 1e-9, torque_factor=1.0))
        self.rows: list[tuple[int, np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []
        self.deadline = clock.now_ns()
        self.pos, self.vel = self._read()
        self.target = np.clip(self.pos, robot.spec.array("lower"), robot.spec.array("upper"))

    def _read(self) -> tuple[np.ndarray, np.ndarray]:
        state = self.robot.read()
        return state.joint_pos.copy(), state.joint_vel.copy()

    def tick(self, wanted: np.ndarray) -> None:
        """Write a target, limited, and read what it has become a period later."""
        safe, flags = self.limiter.apply(wanted, self.target, self.pos, self.vel)
        safe, before = safe.copy(), self.target
        if not flags & NOTHING_WRITTEN:
            self.robot.write(safe)
        self.rows.append((self.clock.now_ns(), self.pos, self.vel, before, safe))
        self.target = safe
        self.deadline += self.period_ns
        self.clock.sleep_until(self.deadline)
        self.pos, self.vel = self._read()

    def stay(self, config: ProbeConfig, first: np.ndarray) -> bool:
        """Hold the pose; False as soon as that moves a joint: then reading and target are not of one kind."""
        for _ in range(round(config.settle / (self.period_ns * 1e-9))):
            self.tick(self.target)
            if np.abs(self.pos - first).max() > config.amplitude:
                return False
        return True

    def go(self, end: np.ndarray, hold: float, ok: Callable[[], bool]) -> bool:
        """Move the target straight to an end and stay; False where `ok` ended it."""
        step = self.config.speed * self.period_ns * 1e-9
        left = 2 * round(np.abs(end - self.target).max() / step) + 10  # ticks; limits may hold it back for good
        while np.abs(end - self.target).max() > 1e-9:
            self.tick(self.target + np.clip(end - self.target, -step, step))
            left -= 1
            if left < 0 or not ok():
                return False
        for _ in range(round(hold / (self.period_ns * 1e-9))):
            self.tick(end)
            if not ok():
                return False
        return True


def probe(robot: Robot, clock: Clock, *, period_ns: int, config: ProbeConfig | None = None) -> ProbeResult:
    """Move each joint a little to both sides of where it is, and back.

    Args:
        robot: connected; its torque comes on. It is left holding its first pose.
        clock: that passes on the robot.
        period_ns: of the loop.
        config: how far and how fast.
    """
    config = ProbeConfig() if config is None else config
    run, spec = _Prober(robot, clock, period_ns, config), robot.spec
    far = out_of_range(spec, run.pos)
    home, count = run.target.copy(), len(spec.joints)
    if far:
        return _empty(run, far)
    first_pos = run.pos.copy()
    if not run.go(home, 0.0, lambda: True) or not run.stay(config, first_pos):
        robot.damp()  # whatever is wrong, taking hold must not move it
        jump = run.pos - first_pos
        return _empty(run, _jumped(spec, first_pos, jump), jump=jump)
    rest = run.pos.copy()
    response, lead = np.full((count, count), np.nan), np.full(count, np.nan)
    delay, stopped = np.full(count, np.nan), []
    for joint in range(count):
        low, high = spec.joints[joint].lower, spec.joints[joint].upper
        middle = float(np.clip(home[joint], low + config.amplitude, high - config.amplitude))
        ends, first = [], len(run.rows)

        def kept(joint: int = joint) -> bool:
            moved = np.abs(run.pos - rest)
            asked = abs(run.target[joint] - home[joint])
            others = np.delete(moved, joint).max(initial=0.0)
            return bool(moved.max() < asked + config.guard * config.amplitude and others < 1.5 * config.amplitude)

        fine = True
        for sign in (1.0, -1.0):
            end = home.copy()
            end[joint] = middle + sign * config.amplitude
            fine = fine and run.go(end, config.hold, kept)
            ends.append((run.target.copy(), run.pos.copy()))
            if not fine:
                stopped.append(spec.joints[joint].name)
                break
        if len(ends) == 2:
            asked = ends[0][0][joint] - ends[1][0][joint]
            response[:, joint] = (ends[0][1] - ends[1][1]) / asked
            lead[joint] = 0.5 * sum(target[joint] - pos[joint] for target, pos in ends)
        else:
            asked = ends[0][0][joint] - home[joint]
            response[:, joint] = (ends[0][1] - rest) / (asked if abs(asked) > 1e-6 else config.amplitude)
        delay[joint] = _delay(run.rows[first:], joint, period_ns * 1e-9)
        run.go(home, 0.2, lambda: True)
    return ProbeResult(log=_log(run), response=response, lead=lead, pose=rest, delay=delay, stopped=tuple(stopped))


def _empty(run: _Prober, why: str, *, jump: np.ndarray | None = None) -> ProbeResult:
    count = len(run.robot.spec.joints)
    nothing = np.full(count, np.nan)
    if not run.rows:
        run.rows.append((run.clock.now_ns(), run.pos, run.vel, run.target, run.target))
    response = np.full((count, count), np.nan)
    return ProbeResult(
        log=_log(run),
        response=response,
        lead=nothing if jump is None else -jump,
        pose=run.pos,
        delay=nothing,
        stopped=(why,),
    )


def _jumped(spec: RobotSpec, pose: np.ndarray, jump: np.ndarray) -> str:
    """What a robot that moved when it was told to stay where it is says of its driver."""
    names = spec.joint_names
    moved = np.flatnonzero(np.abs(jump) > 0.35 * np.abs(jump).max())
    said = f"told to stay where it is, the arm moved {', '.join(f'{names[k]} by {jump[k]:.2f} rad' for k in moved)}"
    if len(moved) == 2:
        i, j = moved
        return f"{said}: joints {i + 1} and {j + 1} ({names[i]} and {names[j]}) are swapped between what is read and what is written"
    if len(moved) == 1:
        k = int(moved[0])
        back = jump[k] * pose[k] < 0
        return (
            f"{said}: joint {k + 1} has its {'sign turned round' if back else 'sign or unit turned'} between reading and writing, or its "
            "zero is another"
        )
    return f"{said}: the order of joints, or a unit, differs between what is read and what is written"


def _delay(rows: list, joint: int, period: float) -> float:  # pyright: ignore[reportMissingTypeArgument]
    """By how much the position trails its target, least squares over whole and half ticks, s."""
    if len(rows) < 20:
        return float("nan")
    pos, target = np.array([row[1][joint] for row in rows]), np.array([row[4][joint] for row in rows])
    best = (np.inf, 0.0)
    for half in range(30):
        shift = half / 2.0
        time = np.arange(15, len(rows))
        past = np.interp(time - shift, np.arange(len(rows)), target)
        x, y = past - past.mean(), pos[15:] - pos[15:].mean()
        if x @ x < 1e-9:
            return float("nan")
        slope = float(np.clip((x @ y) / (x @ x), 0.2, 1.5))
        best = min(best, (float(np.square(y - slope * x).sum()), shift))
    return best[1] * period


def _log(run: _Prober) -> SignalLog:
    stamps, pos, vel, before, after = (np.array(column) for column in zip(*run.rows, strict=True))
    begin = np.zeros(len(stamps), dtype=bool)
    begin[0] = True
    spec = run.robot.spec
    return SignalLog(
        metadata=SignalMetadata(
            robot=spec.name,
            joint_names=spec.joint_names,
            period_ns=run.period_ns,
            target="joint_target",
            policy_id="",
            source="probe",
        ),
        stamps=stamps.astype(np.int64),
        begin=begin,
        signals={"joint_pos": pos, "joint_vel": vel, "joint_target": before},
        executed=after,
    )


def judge(result: ProbeResult, spec: RobotSpec, contract: Contract | None, model: RigidModel | None) -> list[Finding]:
    """What a probe says of order, sign, unit, delay and gain."""
    if np.isnan(result.response).all():
        return [fault("probe", "joint_pos", result.stopped[0], "correct it, then probe again", weight=60.0)]
    found = [*_moves(result, spec)]
    if not found:
        found += _delays(result, spec, contract)
        found += _stiffness(result, spec, model)
    return found


def _moves(result: ProbeResult, spec: RobotSpec) -> list[Finding]:
    found: list[Finding] = []
    names, moved = spec.joint_names, result.response
    answers = {j: int(np.argmax(np.abs(moved[:, j]))) for j in range(len(names))}
    told: set[int] = set()
    for joint, name in enumerate(names):
        own, other = moved[joint, joint], answers[joint]
        if np.abs(moved[:, joint]).max() < _SEEN:
            found.append(
                _fault(joint, name, "does not move when its target does: no torque, a loose cable, or blocked", moved)
            )
        elif other != joint and abs(own) < 0.5 * abs(moved[other, joint]):
            if joint in told:
                continue
            mutual = answers[other] == joint
            words = (
                f"joints {joint + 1} and {other + 1} ({name} and {names[other]}) are swapped"
                if mutual
                else (
                    f"joint {other + 1} ({names[other]}) answers to the target of joint {joint + 1} ({name}): the order is wrong"
                )
            )
            told |= {joint, other} if mutual else {joint}
            found.append(fault("probe", "joint order", words, "bind joints by name in the driver", weight=60.0))
        elif own < -_SEEN:
            found.append(
                _fault(joint, name, "moves the wrong way: the sign of reading or target is turned round", moved)
            )
        elif not 0.4 <= own <= 1.35:
            words = next(
                (w for f, w, _ in UNITS if abs(np.log(own / f)) < 0.2), f"moves {own:.2f} times as far as asked"
            )
            found.append(_fault(joint, name, f"answers in another unit or gear: its movement {words}", moved))
    return found


def _fault(joint: int, name: str, words: str, moved: np.ndarray) -> Finding:
    return fault(
        "probe",
        "joint_pos",
        f"joint {joint + 1} ({name}) {words}",
        "check the driver's calibration, direction and wiring of this joint",
        numbers={"movement over target [1]": float(moved[joint, joint])},
        weight=60.0,
    )


def _delays(result: ProbeResult, spec: RobotSpec, contract: Contract | None) -> list[Finding]:
    if contract is None:
        return []
    most = contract.latency_s[1] + 0.12  # what a servo's own friction adds to the way of the command
    late = [n for n, d in zip(spec.joint_names, result.delay, strict=True) if d > most]
    if len(late) * 2 <= len(spec.joints):
        return []
    return [
        fault(
            "probe",
            "latency",
            f"joints follow {np.nanmedian(result.delay):.3f} s behind their targets; trained for commands that take up to "
            f"{contract.latency_s[1]:.3f} s",
            "find what delays commands or readings, or train with this delay",
            weight=30.0,
        )
    ]


def _stiffness(result: ProbeResult, spec: RobotSpec, model: RigidModel | None) -> list[Finding]:
    """How far joints hang below their targets against the weight that the model gives them."""
    if model is None or spec.floating:
        return [note("probe", "gains", "not checked: without a model of a robot that is fixed to the world")]
    pose = result.pose[None]
    rest = np.zeros_like(pose)
    weight = inverse_dynamics(model, Motion(pos=pose, vel=rest, acc=rest))[0][0]
    kp = spec.array("kp")
    loaded = (np.abs(weight) > 0.05 * spec.array("effort_limit")) & np.isfinite(result.lead) & (kp > 0)
    if not loaded.any():
        return [
            note("probe", "gains", "not checked: no joint carries weight in this pose", "probe in a stretched pose")
        ]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = weight / (kp * result.lead)
    found = []
    for joint in np.flatnonzero(loaded):
        slack = 0.3 * abs(weight[joint]) + 0.05 + 0.02 * kp[joint]  # of payload, friction and gear play
        expected = weight[joint] / kp[joint]
        if abs(result.lead[joint] * kp[joint] - weight[joint]) < slack or 0.35 < ratio[joint] < 2.5:
            continue
        found.append(
            fault(
                "probe",
                "gains",
                f"joint {joint + 1} ({spec.joint_names[joint]}) hangs {result.lead[joint]:.4f} rad below its target, "
                f"{expected:.4f} by robot.toml's kp "
                "and the model's weight: gain, zero or weight differs",
                "check the servo's gain registers, its zero and the payload",
                numbers={"gain over robot.toml's [1]": float(ratio[joint])},
                weight=40.0,
            )
        )
    return found
