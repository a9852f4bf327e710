"""`isthmus run`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
from tyro.conf import Positional, arg

from ..attempt import EpisodeRunner, StoppedByOperator
from ..operators.operator import OperatorFactory
from ..operators.registry import OPERATORS, OperatorOptions, Setting, operator_factory
from ..realtime import remedies_of
from ..snapshot import Scene
from .arm import Arm, ArmOptions, open_arm
from .attempts import ATTEMPT_S, CORRECTED_S, AttemptRow, Attempts, random_targets, save_attempts
from .checks import OptionError, check_output, check_range

if TYPE_CHECKING:
    from isthmus.policies.bundle import Bundle
    from isthmus.policies.contract import CommandSpec

    from .run_session import RunSetup

_AROUND_S = 60.0  # of arming and parking, in the log too
_MOST_S = 3600.0 * 24.0


@dataclass(frozen=True, kw_only=True)
class Run:
    """Run a policy on an arm at its control rate, target after target, with limits, recording and takeover.

    Nothing moves before it has said what it will do: it checks options, bundles, disk, lock, bus and targets, then switches torque on,
    goes slowly to the start pose, and only then lets the policy drive. One runtime drives a robot; a second one is refused.
    """

    bundles: Annotated[tuple[Path, ...], Positional, arg(metavar="BUNDLES", help_behavior_hint="(required)")]
    """Policies to load; the first one runs."""
    arm: ArmOptions = field(default_factory=ArmOptions)
    target: tuple[float, float, float] | None = None
    """One target in the robot's base frame, m; without it, random reachable ones."""
    targets: int = 10
    """How many random targets."""
    seconds: float | None = None
    """End after so many seconds of driving, even in the midst of an attempt."""
    seed: int = 0
    """Of the random targets."""
    operator: str = "none"
    """Who may take over: none, keyboard, gamepad, spacemouse, leader, pedal, ros2, several of these joined by + such as leader+pedal, or
    scripted, who watches a virtual arm. Keyboard: space takes over and gives back, arrows, page up and down, or w s a d e q move the
    tip, after a takeover Enter says done and g gives up, x stops the command."""
    devices: OperatorOptions = field(default_factory=OperatorOptions)
    dry_run: bool = False
    """Read the arm and let the policy run, but write nothing to the arm: torque stays as it is. Says what would have been commanded."""
    log: Path = Path("run.mcap")
    """Recording to write; one that is already there is kept under another name."""
    out: Path | None = None
    """Also write the results as JSON."""

    def run(self) -> int:
        """Check, arm, attempt, report; the arm is limp afterwards."""
        from .run_session import run_session

        self._check()
        bundles = load_bundles(self.bundles, self.arm.spec().name)
        rows: list[AttemptRow] = []
        stop: StoppedByOperator | None = None
        try:
            print("starting the arm", flush=True)
            with open_arm(self.arm) as arm:
                targets = self._targets(arm)
                command = bundles[0].manifest.contract.command
                operator = operator_for(arm, self.operator, self.seed, self.devices, command)
                with run_session(arm, self._setup(bundles, len(targets))) as session:
                    stop = self._attempt(session, arm, bundles, targets, operator, rows)
                    status = session.status()
                    judged = arm.referee is not None
        finally:
            self._keep(Attempts(policy_id=bundles[0].sha256, rows=tuple(rows)))
        if self.dry_run:
            self._tell_dry_run()
        elif not judged:
            print("judged by the arm's own joint angles: touch off first if the tip is not where they say")
        print(f"{status.missed} of {status.tick + status.missed} control ticks missed; recorded in {self.log}")
        if stop is not None:
            raise stop
        return 0

    def _attempt(
        self,
        session: EpisodeRunner,
        arm: Arm,
        bundles: "list[Bundle]",
        targets: np.ndarray,
        operator: OperatorFactory | None,
        rows: list[AttemptRow],
    ) -> StoppedByOperator | None:
        """Everything that moves; returns how the operator stopped it, where they did. The arm holds afterwards."""
        from .drive import TimeIsUp, drive
        from .run_session import common_period, plan_lines

        session.prepare(targets, operator=operator)
        for line in (
            *(f"going on without {remedy}" for remedy in remedies_of(session.status().granted)),
            *plan_lines(session, arm.spec, dry_run=self.dry_run),
            f"then {len(targets)} targets by {self.bundles[0]}; Ctrl-C holds the arm and ends",
        ):
            print(line, flush=True)
        scene = Scene(
            spec=arm.spec,
            robot=f"{arm.spec.name} at {arm.port}",
            policies=tuple(path.name for path in self.bundles),
            episodes=len(targets),
            period_ns=common_period([bundle.manifest.contract.period_ns for bundle in bundles]),
            dry_run=self.dry_run,
        )
        try:
            drive(
                session,
                targets,
                title="targets",
                policy_id=bundles[0].sha256,
                referee=arm.referee,
                operator=operator,
                rows=rows,
                scene=scene,
                seconds=self.seconds,
            )
        except TimeIsUp:
            session.hold()
            print(f"{self.seconds:g} s have passed")
        except StoppedByOperator as error:  # an orderly end: the arm parks
            return error
        return None

    def _check(self) -> None:
        if not self.bundles:
            raise OptionError("no bundle is given; name the policy to run, e.g. isthmus run policy.onnx --arm soft")
        check_range("--targets", self.targets, 1)
        check_range("--seed", self.seed, 0)
        check_range("--seconds", self.seconds, 0.1, _MOST_S)
        unknown = [name for name in self.operator.split("+") if name not in OPERATORS]
        if unknown:
            raise OptionError(
                f"--operator {self.operator}: {unknown[0]!r} is unknown; expected one of {', '.join(OPERATORS)}, or devices joined by +"
            )
        if self.out is not None:
            check_output("--out", self.out)

    def _setup(self, bundles: "list[Bundle]", targets: int) -> "RunSetup":
        from .run_session import RunSetup, common_period

        each = ATTEMPT_S if self.operator == "none" else CORRECTED_S
        most = targets * each if self.seconds is None else min(self.seconds, targets * each)
        return RunSetup(
            bundles=self.bundles,
            period_ns=common_period([bundle.manifest.contract.period_ns for bundle in bundles]),
            calibration=self.arm.calibration(),
            log=self.log,
            seconds=_AROUND_S + most,
            dry_run=self.dry_run,
        )

    def _targets(self, arm: Arm) -> np.ndarray:
        if self.target is not None:
            return np.array([self.target])
        return random_targets(arm.spec, self.targets, self.seed)

    def _tell_dry_run(self) -> None:
        from ..dry_run import dry_run_report
        from ..log import read_log

        log = read_log(self.log)
        for line in dry_run_report(log, self.arm.spec(), log.metadata.period_ns * 1e-9).lines():
            print(line)

    def _keep(self, attempts: Attempts) -> None:
        """Tell and write the attempts that ended, however the command ends; none leaves nothing."""
        if attempts.rows and not self.dry_run:
            print(attempts.line())
            if self.out is not None:
                save_attempts(self.out, attempts)
                print(f"{len(attempts.rows)} results written to {self.out}")


def load_bundles(paths: tuple[Path, ...], robot: str) -> "list[Bundle]":
    """Policies for a robot.

    Raises:
        OptionError: one is for another robot; says which and what to do with it.
        BundleError: one cannot be read.
    """
    from isthmus.policies.bundle import load_bundle

    bundles = [load_bundle(path) for path in paths]
    for path, bundle in zip(paths, bundles, strict=True):
        made_for = bundle.manifest.contract.robot
        if made_for != robot:
            raise OptionError(
                f"{path} is a policy for robot {made_for!r}, and this command drives {robot!r}: see it in simulation by isthmus play {path}"
            )
    return bundles


def operator_for(
    arm: Arm,
    name: str,
    seed: int,
    options: OperatorOptions | None = None,
    command: "CommandSpec | None" = None,
) -> OperatorFactory | None:
    """The operator that a command asks for; None where nobody may take over.

    Raises:
        OperatorError: an unknown one, one without its options, or one who watches a virtual arm where there is none.
    """
    if name == "none":
        return None
    setting = Setting(
        spec=arm.spec,
        command=command,
        options=OperatorOptions() if options is None else options,
        control_path=None if arm.virtual is None else Path(arm.virtual.control_path),
        seed=seed,
    )
    return operator_factory(name, setting)
