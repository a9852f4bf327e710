"""`isthmus doctor`."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

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
        from isthmus.hardware.errors import IsthmusError
        from isthmus.hardware.robot import load_robot
        from isthmus.policies.bundle import load_bundle

        from ..doctor.diagnose import diagnose
        from ..doctor.signal_log import read_signals

        if self.out is not None:
            check_output("--out", self.out)
        if not self.probe and (self.port or self.arm or self.joints or self.lockstep):
            raise OptionError("--port, --arm, --joints and --lockstep are for --probe; add it")
        log = None if self.log is None else read_signals(self.log)
        name = self.robot
        if name is None:
            try:
                name = load_bundle(self.bundle).manifest.contract.robot
            except IsthmusError as error:
                raise OptionError(
                    f"--robot is needed: the bundle does not say which robot it is for ({error})"
                ) from None
        spec = load_robot(name)
        diagnosis = diagnose(self.bundle, spec, log)
        if self.probe and diagnosis.healthy:
            diagnosis = self._probed(diagnosis)
        show(diagnosis, probed=self.probe)
        if self.out is not None:
            save(self.out, diagnosis)
        return 0 if diagnosis.healthy else EXIT_FINDINGS

    def _probed(self, diagnosis: "Diagnosis") -> "Diagnosis":
        from isthmus.hardware.drivers import open_robot
        from isthmus.policies.bundle import load_bundle

        from ..clock import LockstepClock, RealClock
        from ..doctor.findings import Diagnosis
        from ..doctor.probe import judge, probe
        from ..doctor.rigid_body import ModelUnread, read_model
        from .arm import BUS_TIMEOUT_S, LOCKSTEP_TIMEOUT_S, ArmOptions, open_arm

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

    console = Console(highlight=False)
    for finding in diagnosis.findings:
        mark = "[red]fault[/]" if finding.severity == "fault" else "[yellow]note[/] "
        console.print(f"{mark} [bold]{finding.link}[/] ({finding.stage}): ", end="")
        console.print(f"{finding.cause}. ", markup=False, end="")
        console.print(f"{_numbers(finding)}{finding.remedy}.", markup=False)
    if diagnosis.healthy:
        console.print(f"nothing speaks against it; {len(diagnosis.checked)} checks: {', '.join(diagnosis.checked)}")
    elif probed and "probe" not in diagnosis.checked:
        console.print("not probed: nothing moves before these are settled")


def _numbers(finding: "Finding") -> str:
    return "".join(f"{name} {value:.4g}. " for name, value in finding.numbers.items())


def save(path: Path, diagnosis: "Diagnosis") -> None:
    """The findings as JSON."""
    rows = [asdict(finding) for finding in diagnosis.findings]
    text = {"healthy": diagnosis.healthy, "checked": list(diagnosis.checked), "findings": rows}
    path.write_text(json.dumps(text, indent=2) + "\n")
