"""`isthmus run`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from tyro.conf import Positional, arg

from ..operators.operator import OperatorFactory
from .arm import Arm, ArmOptions, open_arm
from .checks import check_output, check_range

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
    """Who may take over: keyboard, or a scripted operator who watches a virtual arm."""
    log: Path = Path("run.mcap")
    """Recording to write; one that is already there is kept under another name."""
    out: Path | None = None
    """Also write the results as JSON."""

    def run(self) -> int:
        """Arm, attempt, report; the arm is limp afterwards."""
        from isthmus.policies.bundle import load_bundle

        from ..progress import attempts_progress
        from .attempts import attempt_all, random_targets, save_attempts

        check_range("--targets", self.targets, 1)
        check_range("--seed", self.seed, 0)
        if self.out is not None:
            check_output("--out", self.out)
        bundle = load_bundle(self.bundle)
        with open_arm(self.arm) as arm:
            if self.target is not None:
                targets = np.array([self.target])
            else:
                targets = random_targets(arm.spec, self.targets, self.seed)
            operator = operator_for(arm, self.operator, self.seed)
            with arm.session([self.bundle], self.arm.calibration(), self.log) as session:
                session.prepare(targets, operator=operator)
                session.arm()
                with attempts_progress("targets", len(targets)) as show:
                    attempts = attempt_all(
                        session,
                        targets,
                        policy_id=bundle.sha256,
                        referee=arm.referee,
                        operator=operator,
                        on_result=show,
                    )
                status = session.status()
        print(attempts.line())
        if arm.referee is None:
            print("judged by the arm's own joint angles: touch off first if the tip is not where they say")
        print(f"{status.tick} ticks, {status.missed} missed; recorded in {self.log}")
        if self.out is not None:
            save_attempts(self.out, attempts)
        return 0


def operator_for(arm: Arm, name: OperatorName, seed: int) -> OperatorFactory | None:
    """The operator that a command asks for."""
    if name == "scripted":
        return arm.scripted_operator(seed)
    if name == "keyboard":
        from ..operators.keyboard import KeyboardOperator

        return KeyboardOperator
    return None
