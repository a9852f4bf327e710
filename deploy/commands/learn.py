"""`isthmus learn`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
from tyro.conf import FlagCreatePairsOff, Positional, arg

from .arm import read_calibration
from .checks import OptionError, check_not_input, check_output, check_range, keep_existing
from .touch import (
    describe_change,
    describe_offsets,
    offsets_by_joint,
    offsets_from_corrections,
    with_added_offsets,
)

if TYPE_CHECKING:
    from isthmus.calibration.touchoff import OffsetFit
    from isthmus.hardware.joint_calibration import ArmCalibration
    from isthmus.hardware.robot import RobotSpec
    from isthmus.policies.episode import Episode

FRESH_TARGETS = "--targets 30 --seed 1000"  # that no correction had: these begin at seed 0
EXPLAINED_MM = 5.0  # median residual of the offsets up to which they explain where the corrections ended


@dataclass(frozen=True, kw_only=True)
class Learn:
    """Learn from corrections: the encoder offsets that explain where they ended, written as a joint calibration.

    A residual and a gate are learned on what the offsets leave with --residual, or where the offsets do not explain the corrections. A
    residual can make a good policy worse: run both on the same targets and let `isthmus compare` decide. Results that are already
    there are kept under another name: joints.json becomes joints-1.json.
    """

    dataset: Annotated[Path, Positional, arg(metavar="DATASET")]
    """Corrected episodes, from `isthmus correct`; it knows the joint calibration they were recorded with."""
    base: Path
    """The policy that was corrected."""
    joints_out: Path = Path("joints.json")
    """Joint calibration to write, with the offsets found on top of the dataset's: give it to `isthmus run` as --joints."""
    residual: Annotated[bool, FlagCreatePairsOff] = False
    """Learn a residual and a gate too. Best from corrections made with the offsets in use, where the base still misses."""
    out: Path = Path("better.onnx")
    """With a residual: bundle of base, residual and gate to write."""
    joints: Path | None = None
    """Joint calibration that the corrections should have been recorded with; refused if the dataset says otherwise."""
    offsets: bool = True
    """Whether to fit encoder offsets; without, only a residual is learned."""
    seed: int = 0
    """Of the networks."""

    def run(self) -> int:
        """Fit, and where asked or needed learn, compose, verify."""
        from isthmus.hardware.robot import load_robot
        from isthmus.policies.bundle import load_bundle
        from isthmus.policies.learning.dataset import read_dataset

        self._check()
        episodes: Sequence[Episode] = read_dataset(self.dataset)
        spec = load_robot(load_bundle(self.base).manifest.contract.robot)
        joints, residual = self._calibration(spec), True
        if self.offsets:
            joints, episodes, residual = self._fit(spec, joints, episodes)
        if self._writes_joints:
            keep_existing(self.joints_out)
            joints.save(self.joints_out)
            print(f"joint calibration written to {self.joints_out}")
        if residual:
            print(learn_bundle(self.base, episodes, self.out, seed=self.seed))
        print(self._next_with_residual() if residual else self._next_with_offsets())
        return 0

    def _fit(
        self, spec: "RobotSpec", joints: "ArmCalibration", episodes: "Sequence[Episode]"
    ) -> "tuple[ArmCalibration, Sequence[Episode], bool]":
        """The calibration with offsets, the episodes as it reads them, and whether to learn a residual from these."""
        from isthmus.policies.episode import recalibrated

        fit = offsets_from_corrections(spec, episodes)
        offsets = offsets_by_joint(fit)
        changed = with_added_offsets(joints, offsets)
        explained = float(np.median(fit.residual_mm)) <= EXPLAINED_MM
        print(describe_offsets(fit))
        print(describe_change(joints, changed))
        print(self._verdict(fit, explained))
        return changed, [recalibrated(episode, offsets) for episode in episodes], self.residual or not explained

    def _verdict(self, fit: "OffsetFit", explained: bool) -> str:
        median = (
            f"after the offsets the tip ends within {np.median(fit.residual_mm):.1f} mm (median) of the targets in the "
            "corrected episodes"
        )
        if not explained:
            return f"{median}: the offsets do not explain them (up to {EXPLAINED_MM:g} mm), so a residual is learned"
        advice = f"run {self.base} with {self.joints_out} and correct again where it still misses"
        return f"{median}, so a residual has little to learn: {advice}"

    @property
    def _writes_joints(self) -> bool:
        """Whether the result needs a calibration file that is not there yet."""
        return self.offsets or self.joints is None

    @property
    def _run_with(self) -> Path:
        """The joint calibration that the result is for."""
        return self.joints_out if self.joints is None or self._writes_joints else self.joints

    def _next_with_offsets(self) -> str:
        return (
            "next, each with the --arm or --port of the arm that was corrected:\n"
            f"  isthmus run {self.base} --joints {self.joints_out} {FRESH_TARGETS}\n"
            "and where it still misses, correct again, then learn a residual from that:\n"
            f"  isthmus correct {self.base} --joints {self.joints_out} --out {self.dataset}-again\n"
            f"  isthmus learn {self.dataset}-again --base {self.base} --joints {self.joints_out} --no-offsets"
        )

    def _next_with_residual(self) -> str:
        return (
            "next, the runs with the --arm or --port of the arm that was corrected:\n"
            f"  isthmus run {self.base} --joints {self._run_with} {FRESH_TARGETS} --out champion.json\n"
            f"  isthmus run {self.out} --joints {self._run_with} {FRESH_TARGETS} --out challenger.json\n"
            "  isthmus compare champion.json challenger.json"
        )

    def _calibration(self, spec: "RobotSpec") -> "ArmCalibration":
        """What the dataset was recorded with."""
        from isthmus.policies.learning.dataset import read_info

        known = read_info(self.dataset).calibration
        if known.robot != spec.name:
            raise OptionError(f"{self.dataset} is of robot {known.robot!r}, --base {self.base} is for {spec.name!r}")
        difference = None if self.joints is None else known.difference(read_calibration(self.joints, spec))
        if difference is not None:
            raise OptionError(
                f"--joints {self.joints} is not what {self.dataset} was recorded with: {difference} (the dataset's against the "
                "file's); leave --joints out, the dataset knows its own"
            )
        return known

    def _check(self) -> None:
        check_range("--seed", self.seed, 0)
        check_output("--out", self.out)
        check_not_input("--out", self.out, self.base, "the base")
        check_output("--joints-out", self.joints_out)
        if self._writes_joints:
            check_not_input(
                "--joints-out", self.joints_out, self.joints, "the calibration that the corrections were recorded with"
            )
        if self.joints_out.resolve() == self.out.resolve():
            raise OptionError(f"--out and --joints-out are both {self.out}; choose two names")


def learn_bundle(base_path: Path, episodes: "Sequence[Episode]", out: Path, *, seed: int) -> str:
    """Residual and gate on a base, as one verified bundle; returns what came of it in a line.

    Raises:
        CorrectionError: too few corrected successful episodes, or episodes of another base.
    """
    from isthmus.policies.bundle import load_bundle
    from isthmus.policies.learning.composed_bundle import export_composed_bundle
    from isthmus.policies.learning.corrections import CorrectionConfig, learn_residual
    from isthmus.policies.learning.recipe import provenance

    base = load_bundle(base_path)
    learned = learn_residual(base_path, base.manifest.contract, episodes, CorrectionConfig(seed=seed))
    keep_existing(out)
    export_composed_bundle(out, base, learned, provenance(seed, 0, None))
    loss, without = learned.residual_curve.best_loss, learned.zero_loss
    return (
        f"{out}: residual of at most {learned.alpha:.2f} action units from {learned.correcting_rows} corrected ticks; "
        f"loss on held-out episodes {loss:.4f} against {without:.4f} without; gate right in {100 * learned.gate_accuracy:.0f} %"
    )
