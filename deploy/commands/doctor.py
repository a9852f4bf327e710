"""`isthmus doctor`."""

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from isthmus.hardware.files import write_whole

from .checks import OptionError, check_output

if TYPE_CHECKING:
    from ..doctor.findings import Diagnosis, Finding

EXIT_FINDINGS = 1


@dataclass(frozen=True, kw_only=True)
class Doctor:
    """Hold a policy, a robot's description and a recording against each other before anything moves: what differs, by how much, and why.

    Ends with 0 where nothing speaks against running the policy, and with 1 where something does.
    """

    bundle: Annotated[Path, Positional, arg(metavar="BUNDLE")]
    """Policy to look at."""
    robot: str | None = None
    """Robot name, see `isthmus robots`, or the path of a robot.toml; without it the one the policy names."""
    log: Path | None = None
    """Recording of this robot (.mcap): of `isthmus run`, or a signal log."""
    probe: bool = False
    """Also move each joint of the arm by a few degrees, to both sides of where it is, and back."""
    port: str | None = None
    """With --probe: serial port of a real arm, best under /dev/serial/by-id/."""
    arm: str | None = None
    """With --probe: a virtual arm instead: soft, worn, hard or the path of a file of hidden parameters."""
    joints: Path | None = None
    """With --probe: joint calibration file, isthmus' own or LeRobot's. Required with --port."""
    lockstep: bool = False
    """With --probe, virtual arm only: no wall clock."""
    out: Path | None = None
    """Also write the findings as JSON."""

    def run(self) -> int:
        """Look, say what was found."""
        self._check_options()
        diagnosis = self._diagnosis()
        if self.probe and diagnosis.healthy:
            diagnosis = self._probed(diagnosis)
        show(diagnosis, probed=self.probe)
        if self.out is not None:
            save(self.out, diagnosis)
        return 0 if diagnosis.healthy else EXIT_FINDINGS

    def _check_options(self) -> None:
        if self.out is not None:
            check_output("--out", self.out)
            if self.out.suffix != ".json":
                raise OptionError(
                    f"--out {self.out} must end with .json, so that a report never replaces a bundle or a log"
                )
        if not self.probe and (self.port or self.arm or self.joints or self.lockstep):
            raise OptionError("--port, --arm, --joints and --lockstep are for --probe; add it")

    def _diagnosis(self) -> "Diagnosis":
        from isthmus.hardware.robot import load_robot

        from ..doctor.diagnose import examine, opened
        from ..doctor.findings import Diagnosis
        from ..doctor.signal_file import read_signals

        log = None if self.log is None else read_signals(self.log)
        spec = None if self.robot is None else load_robot(self.robot)
        bundle = opened(self.bundle)
        if isinstance(bundle, Diagnosis):
            return bundle
        return examine(bundle, spec or load_robot(bundle.manifest.contract.robot), log)

    def _probed(self, diagnosis: "Diagnosis") -> "Diagnosis":
        from isthmus.hardware.drivers import open_robot
        from isthmus.policies.bundle import load_bundle

        from ..clock import LockstepClock, RealClock
        from ..doctor.findings import Diagnosis
        from ..doctor.probe import judge, probe
        from ..doctor.rigid_body import ModelUnread, read_model
        from ..session import BUS_TIMEOUT_S
        from .arm import LOCKSTEP_TIMEOUT_S, ArmOptions, open_arm

        contract = load_bundle(self.bundle).manifest.contract
        options = ArmOptions(
            robot=self.robot or contract.robot, port=self.port, arm=self.arm, joints=self.joints, lockstep=self.lockstep
        )
        with open_arm(options) as arm:
            timeout = LOCKSTEP_TIMEOUT_S if self.lockstep else BUS_TIMEOUT_S
            robot = open_robot(arm.spec, port=arm.port, calibration=options.calibration(), timeout_s=timeout)
            lockstep = self.lockstep and arm.virtual is not None
            clock = LockstepClock(arm.virtual.advance, start_ns=1) if lockstep and arm.virtual else RealClock()
            robot.connect()
            try:
                result = probe(robot, clock, period_ns=contract.period_ns)
                robot.damp()  # where it was limp before
            finally:
                robot.close()
            try:
                model = read_model(arm.spec.model_path, arm.spec.joint_names, arm.spec.base_body)
            except ModelUnread:
                model = None
            found = judge(result, arm.spec, contract, model)
        return Diagnosis(findings=(*found, *diagnosis.findings), checked=(*diagnosis.checked, "probe"))


def show(diagnosis: "Diagnosis", *, probed: bool) -> None:
    """What was found, the surest first."""
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False)
    for finding in diagnosis.findings:
        mark = "[red]fault[/]" if finding.severity == "fault" else "[yellow]note[/] "
        words = f"{mark} [bold]{escape(finding.link)}[/] ({finding.stage}): {escape(finding.sentence())}"
        console.print(words, soft_wrap=True)
    if diagnosis.healthy:
        checks = f"{len(diagnosis.checked)} checks: {', '.join(diagnosis.checked)}"
        console.print(f"nothing speaks against it; {checks}", markup=False, soft_wrap=True)
    elif probed and "probe" not in diagnosis.checked:
        console.print("not probed: nothing moves before these are settled")


def save(path: Path, diagnosis: "Diagnosis") -> None:
    """The findings as JSON, whole or not at all; numbers that are not finite as null."""
    rows = [{**asdict(finding), "numbers": _finite(finding)} for finding in diagnosis.findings]
    text = {"healthy": diagnosis.healthy, "checked": list(diagnosis.checked), "findings": rows}
    write_whole(path, (json.dumps(text, indent=2, allow_nan=False) + "\n").encode())


def _finite(finding: "Finding") -> dict[str, float | None]:
    return {name: float(value) if math.isfinite(value) else None for name, value in finding.numbers.items()}
