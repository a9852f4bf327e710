"""The session of `isthmus run`: a robot that is ours alone, a bus that carries the rate, room for the log, and `--dry-run`."""

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from isthmus.hardware.joint_calibration import ArmCalibration
from isthmus.hardware.robot import RobotSpec

from ..attempt import EpisodeRunner
from ..dry_run import dry_config, measured_pose
from ..guarded_robot import GuardedRobot, open_guarded
from ..log_space import check_space, log_bytes
from ..modes import Mode
from ..ports import RuntimeConfig
from ..record import metadata_of
from ..robot_lock import check_free
from ..rt_process import load_policies
from ..session import BUS_TIMEOUT_S, LockstepSession, Session
from .arm import LOCKSTEP_TIMEOUT_S, Arm
from .checks import check_output, keep_existing


@dataclass(frozen=True, kw_only=True)
class RunSetup:
    """What a session is made of."""

    bundles: tuple[Path, ...]
    period_ns: int  # of the runtime
    calibration: ArmCalibration
    log: Path
    seconds: float  # how long it may take at most, for the room of the log
    dry_run: bool


def common_period(periods_ns: Sequence[int]) -> int:
    """The longest period of which each policy's own is a whole multiple."""
    return math.gcd(*periods_ns)


@contextlib.contextmanager
def run_session(arm: Arm, setup: RunSetup) -> Iterator[EpisodeRunner]:
    """The runtime with these policies; nothing has moved, and nothing is armed yet.

    Afterwards the arm is folded and limp, or, after a dry run, as it was found; after an error or an interruption it is left as the
    runtime has it: holding its pose, or limp where a fault demanded that.

    Raises:
        OptionError, NoSpaceError: the log.
        HardwareError, SessionError: the robot, its lock or its bus.
        ValueError: a policy that does not fit.
    """
    check_output("--log", setup.log)
    check_free(arm.port)
    lockstep = arm.options.lockstep and arm.virtual is not None
    make = partial(
        open_guarded,
        arm.spec,
        port=arm.port,
        calibration=setup.calibration,
        timeout_s=LOCKSTEP_TIMEOUT_S if lockstep else BUS_TIMEOUT_S,
        period_ns=None if lockstep else setup.period_ns,
        read_only=setup.dry_run,
    )
    config = RuntimeConfig(period_ns=setup.period_ns, supervisor_timeout_s=None if lockstep else 1.0)
    if setup.dry_run:
        config = dry_config(config, arm.spec, measured_pose(make))
    policies = load_policies(setup.bundles, arm.spec)
    metadata = metadata_of(make(), policies, period_ns=setup.period_ns, calibration="", lockstep=lockstep)
    check_space("--log", setup.log, log_bytes(metadata, setup.seconds))
    keep_existing(setup.log)
    session = _lockstep(arm, setup, make(), config) if lockstep else _real_time(arm, setup, make, config)
    damp = False
    try:
        yield session
        if session.status().mode in (Mode.READY, Mode.HOLD) and not setup.dry_run:
            session.park()
        damp = True
    finally:
        session.close(damp=damp)


def _lockstep(arm: Arm, setup: RunSetup, robot: GuardedRobot, config: RuntimeConfig) -> EpisodeRunner:
    assert arm.virtual is not None
    policies = load_policies(setup.bundles, arm.spec)
    return LockstepSession(robot, policies, arm.virtual.advance, log_path=setup.log, config=config)


def _real_time(arm: Arm, setup: RunSetup, make: "partial[GuardedRobot]", config: RuntimeConfig) -> EpisodeRunner:
    return Session(
        arm.spec,
        make_robot=make,
        make_policies=partial(load_policies, setup.bundles, arm.spec),
        log_path=setup.log,
        config=config,
    )


def plan_lines(session: EpisodeRunner, spec: RobotSpec, *, dry_run: bool) -> list[str]:
    """What arming will do, from where the arm is now; nothing for a dry run but that."""
    if dry_run:
        return ["dry run: the arm is read, the policy runs, and nothing is written; torque stays as it is"]
    joint_pos = session.status().joint_pos
    way = np.abs(spec.array("default_pos") - joint_pos)
    if not np.isfinite(way).all():
        return []
    farthest, speed = int(np.argmax(way)), RuntimeConfig().ready_speed
    return [
        f"torque comes on, and the arm goes to its start pose: {spec.joint_names[farthest]} the farthest, "
        f"by {np.rad2deg(way[farthest]):.0f} deg in {way[farthest] / speed:.1f} s; keep clear of it"
    ]
