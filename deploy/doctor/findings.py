"""What the doctor says: which link of the chain from training to robot differs, by which numbers, why, and what to do."""

from dataclasses import dataclass, field
from typing import Literal

Severity = Literal["fault", "note"]
Stage = Literal["load", "static", "timing", "stream", "physics", "replay", "dry run", "probe"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that differs, or that could not be checked."""

    severity: Severity  # fault: do not run it; note: nothing wrong was seen
    stage: Stage  # which check found it
    link: str  # what of the chain it is about, such as "joint_pos" or "gyro"
    cause: str  # in words
    remedy: str
    numbers: dict[str, float] = field(
        default_factory=dict
    )  # by name and unit, such as "mean period [s]"; [1] where it has none
    weight: float = 0.0  # how sure; the surest comes first

    def line(self) -> str:
        """In one line."""
        return f"{self.link}: {self.sentence()}"

    def sentence(self) -> str:
        """Cause, numbers with their units, remedy."""
        numbers = ", ".join(_told(name, value) for name, value in self.numbers.items())
        return f"{self.cause}" + (f" ({numbers})" if numbers else "") + f"; {self.remedy}"


def _told(name: str, value: float) -> str:
    what, _, unit = name.removesuffix("]").partition(" [")
    return f"{what} {value:.4g}" + ("" if unit in ("", "1") else f" {unit}")


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """Everything that was found, the surest first."""

    findings: tuple[Finding, ...]
    checked: tuple[str, ...]  # laws and checks that were applied

    @property
    def faults(self) -> tuple[Finding, ...]:
        """What keeps the policy from running."""
        return tuple(finding for finding in self.findings if finding.severity == "fault")

    @property
    def healthy(self) -> bool:
        """Whether nothing speaks against running it."""
        return not self.faults


def fault(
    stage: Stage, link: str, cause: str, remedy: str, *, weight: float = 1.0, numbers: dict[str, float] | None = None
) -> Finding:
    """A finding that keeps the policy from running."""
    return Finding(
        severity="fault", stage=stage, link=link, cause=cause, remedy=remedy, numbers=numbers or {}, weight=weight
    )


def note(stage: Stage, link: str, cause: str, remedy: str = "nothing to do") -> Finding:
    """A finding that keeps nothing from running."""
    return Finding(severity="note", stage=stage, link=link, cause=cause, remedy=remedy)
