"""Which arm a command speaks to: a real one at a port, or a virtual one that is started for it."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from isthmus.hardware.drivers import open_robot
from isthmus.hardware.errors import IsthmusError
from isthmus.hardware.joint_calibration import ArmCalibration
from isthmus.hardware.robot import RobotSpec, load_robot
from isthmus.hardware.virtual.client import VirtualArm

from ..attempt import EpisodeRunner, Referee
from ..modes import Mode
from ..operators.operator import OperatorFactory
from ..robot_lock import check_free
from ..rt_process import load_policies
from ..session import LockstepSession, open_session
from .checks import check_output, keep_existing

LOCKSTEP_TIMEOUT_S = 2.0  # without a wall clock a slow answer is only a busy computer


class ArmError(IsthmusError):
    """The arm that a command asks for is not described well enough."""


@dataclass(frozen=True, kw_only=True)
class ArmOptions:
    """Which arm, and how."""

    robot: str = "so101"
    """Robot name, see `isthmus robots`, or the path of a robot.toml."""
    port: str | None = None
    """Serial port of a real arm, best under /dev/serial/by-id/."""
    arm: str | None = None
    """Start a virtual arm instead: soft, worn, hard or the path of a file of hidden parameters."""
    joints: Path | None = None
    """Joint calibration file, isthmus' own or LeRobot's. Required with --port; a virtual arm starts from the nominal one."""
    lockstep: bool = False
    """Virtual arm only: no wall clock, the same bytes on the same bus, as fast as the machine can."""

    def spec(self) -> RobotSpec:
        """The robot's description."""
        return load_robot(self.robot)

    def check(self) -> None:
        """Raises ArmError: neither or both of --port and --arm, or --lockstep with a real arm."""
        if (self.port is None) == (self.arm is None):
            given = "give one of --port and --arm, not both" if self.port is not None else "say which arm"
            raise ArmError(f"{given}: --port DEVICE for a real one, or --arm soft|worn|hard for a virtual one")
        if self.port is not None and self.lockstep:
            raise ArmError("a real arm cannot wait: --lockstep goes with --arm only")

    def calibration(self) -> ArmCalibration:
        """The joint calibration; raises ArmError where a real arm comes without."""
        self.check()
        if self.joints is not None:
            return read_calibration(self.joints, self.spec())
        if self.port is not None:
            raise ArmError(
                "a real arm needs --joints FILE, its joint calibration (LeRobot's calibration JSON of this arm will do); "
                "without it every angle would be a guess"
            )
        return ArmCalibration.nominal(self.spec())


def read_calibration(path: Path, spec: RobotSpec) -> ArmCalibration:
    """A calibration file of isthmus or of LeRobot; told apart by isthmus' `schema` key."""
    try:
        own = '"offset_rad"' in path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ArmError(f"{path}: cannot be read as a joint calibration: {error}") from None
    return ArmCalibration.load(path, spec) if own else ArmCalibration.from_lerobot(path, spec)


@dataclass(frozen=True, kw_only=True)
class Arm:
    """An arm that is switched on: a port, and for a virtual arm its second socket."""

    options: ArmOptions
    spec: RobotSpec
    port: str
    virtual: VirtualArm | None

    @property
    def referee(self) -> Referee | None:
        """The true tip of a virtual arm; None on a real one."""
        virtual = self.virtual
        return None if virtual is None else lambda: virtual.truth().tip_pos

    @contextlib.contextmanager
    def session(self, bundles: Sequence[Path], calibration: ArmCalibration, log_path: Path) -> Iterator[EpisodeRunner]:
        """The runtime with these policies; the arm is limp and not armed yet.

        Afterwards the arm is folded and limp; after an error or an interruption it is left as the runtime has it: holding its pose, or
        limp where a fault demanded that.
        """
        check_output("--log", log_path)
        check_free(self.port)
        keep_existing(log_path)
        if self.options.lockstep and self.virtual is not None:
            policies = load_policies(bundles, self.spec)
            robot = open_robot(self.spec, port=self.port, calibration=calibration, timeout_s=LOCKSTEP_TIMEOUT_S)
            session: EpisodeRunner = LockstepSession(robot, policies, self.virtual.advance, log_path=log_path)
        else:
            session = open_session(
                self.spec, port=self.port, calibration=calibration, bundles=list(bundles), log_path=log_path
            )
        damp = False
        try:
            yield session
            if session.status().mode in (Mode.READY, Mode.HOLD):
                session.park()
            damp = True
        finally:
            session.close(damp=damp)

    def scripted_operator(self, seed: int) -> OperatorFactory:
        """The scripted operator, who watches a virtual arm."""
        from ..operators.scripted import scripted_on_virtual_arm

        if self.virtual is None:
            raise ArmError("the scripted operator can only watch a virtual arm; use --operator keyboard")
        return partial(scripted_on_virtual_arm, control_path=Path(self.virtual.control_path), seed=seed)


@contextlib.contextmanager
def open_arm(options: ArmOptions) -> Iterator[Arm]:
    """Find the real arm or start a virtual one; ends it afterwards.

    Raises:
        ArmError: see `ArmOptions.check`.
    """
    options.check()
    if options.port is not None:
        yield Arm(options=options, spec=options.spec(), port=options.port, virtual=None)
        return
    with VirtualArm(options.arm or "", lockstep=options.lockstep) as virtual:
        yield Arm(options=options, spec=options.spec(), port=virtual.port, virtual=virtual)
