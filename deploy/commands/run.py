"""`isthmus run`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from tyro.conf import Positional, arg

from ..attempt import StoppedByOperator
from ..operators.operator import OperatorFactory
from .arm import Arm, ArmOptions, open_arm
from .attempts import AttemptRow, Attempts, random_targets, save_attempts
from .checks import OptionError, check_output, check_range

OperatorName = Literal["none", "keyboard", "scripted"]


@dataclass(frozen=True, kw_only=True)
class Run:
    """Run a policy on an arm at its control rate, target after target, with limits, recording and takeover."""

    bundle: Annotated[Path, Positional, arg(metavar="BUNDLE")]
    """Policy to run."""
    arm: ArmOptions = field(default_factory=ArmOptions)
    target: tuple[float, float, float] | None = None
    """One target in the robot's base frame, m; without it, random reachable ones."""
    targets: int = 10
    """How many random targets."""
    seed: int = 0
    """Of the random targets."""
    operator: OperatorName = "none"
    """Who may take over: a scripted operator who watches a virtual arm, or keyboard: space takes over and gives back, arrows, page up
    and down, or w s a d e q move the tip, after a takeover Enter says done and g gives up, x stops the command."""
    log: Path = Path("run.mcap")
    """Recording to write; one that is already there is kept under another name."""
    out: Path | None = None
    """Also write the results as JSON."""

    def run(self) -> int:
        """Arm, attempt, report; the arm is limp afterwards."""
        from isthmus.policies.bundle import load_bundle

        from .drive import drive

        self._check()
        bundle = load_bundle(self.bundle)
        robot = self.arm.spec().name
        if bundle.manifest.contract.robot != robot:
            raise OptionError(
                f"{self.bundle} is a policy for robot {bundle.manifest.contract.robot!r}, and this command drives {robot!r}: "
                f"see it in simulation by isthmus play {self.bundle}"
            )
        rows: list[AttemptRow] = []
        stop: StoppedByOperator | None = None
        try:
            print("starting the arm", flush=True)
            with open_arm(self.arm) as arm:
                targets = self._targets(arm)
                operator = operator_for(arm, self.operator, self.seed)
                with arm.session([self.bundle], self.arm.calibration(), self.log) as session:
                    session.prepare(targets, operator=operator)
                    try:
                        drive(
                            session,
                            targets,
                            title="targets",
                            policy_id=bundle.sha256,
                            referee=arm.referee,
                            operator=operator,
                            rows=rows,
                        )
                    except StoppedByOperator as error:  # an orderly end: the arm parks
                        stop = error
                    status = session.status()
                    judged = arm.referee is not None
        finally:
            self._keep(Attempts(policy_id=bundle.sha256, rows=tuple(rows)))
        if not judged:
            print("judged by the arm's own joint angles: touch off first if the tip is not where they say")
        print(f"{status.missed} of {status.tick + status.missed} control ticks missed; recorded in {self.log}")
        if stop is not None:
            raise stop
        return 0

    def _check(self) -> None:
        check_range("--targets", self.targets, 1)
        check_range("--seed", self.seed, 0)
        if self.out is not None:
            check_output("--out", self.out)

    def _targets(self, arm: Arm) -> np.ndarray:
        if self.target is not None:
            return np.array([self.target])
        return random_targets(arm.spec, self.targets, self.seed)

    def _keep(self, attempts: Attempts) -> None:
        """Tell and write the attempts that ended, however the command ends; none leaves nothing."""
        if attempts.rows:
            print(attempts.line())
            if self.out is not None:
                save_attempts(self.out, attempts)
                print(f"{len(attempts.rows)} results written to {self.out}")


def operator_for(arm: Arm, name: OperatorName, seed: int) -> OperatorFactory | None:
    """The operator that a command asks for."""
    if name == "scripted":
        return arm.scripted_operator(seed)
    if name == "keyboard":
        from ..operators.keyboard import KeyboardOperator

        return KeyboardOperator
    return None
