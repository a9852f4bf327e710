"""`isthmus learn`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

if TYPE_CHECKING:
    from collections.abc import Sequence

    from isthmus.policies.episode import Episode

from .arm import read_calibration
from .checks import OptionError, check_output, check_range
from .touch import describe_offsets, offsets_by_joint, offsets_from_corrections, with_added_offsets


@dataclass(frozen=True, kw_only=True)
class Learn:
    """Learn from corrections: first the encoder offsets that explain where they ended, then a residual and a gate on what is left.

    Run the result beside the base on the same targets (`isthmus run`) before you trust it: a residual can make a good policy worse.
    """

    dataset: Annotated[Path, Positional, arg(metavar="DATASET")]
    """Corrected episodes, from `isthmus correct`."""
    base: Path
    """The policy that was corrected."""
    out: Path
    """Bundle of base, residual and gate to write."""
    joints: Path | None = None
    """Joint calibration the corrections were recorded with; the nominal one if not given."""
    joints_out: Path = Path("joints.json")
    """Joint calibration to write, with the offsets found: give it to `isthmus run` as --joints."""
    offsets: bool = True
    """Whether to fit encoder offsets first."""
    seed: int = 0
    """Of the networks."""

    def run(self) -> int:
        """Fit, learn, compose, verify."""
        from isthmus.hardware.joint_calibration import ArmCalibration
        from isthmus.hardware.robot import load_robot
        from isthmus.policies.bundle import load_bundle
        from isthmus.policies.episode import recalibrated
        from isthmus.policies.learning.dataset import read_dataset

        self._check()
        episodes = read_dataset(self.dataset)
        spec = load_robot(load_bundle(self.base).manifest.contract.robot)
        known = ArmCalibration.nominal(spec) if self.joints is None else read_calibration(self.joints, spec)
        if self.offsets:
            fit = offsets_from_corrections(spec, episodes)
            print(describe_offsets(fit))
            offsets = offsets_by_joint(fit)
            with_added_offsets(known, offsets).save(self.joints_out)
            print(f"joint calibration with these offsets written to {self.joints_out}")
            episodes = [recalibrated(episode, offsets) for episode in episodes]
        print(learn_bundle(self.base, episodes, self.out, seed=self.seed))
        joints = self.joints_out if self.offsets else self.joints
        option = "" if joints is None else f" --joints {joints}"
        print(f"next: isthmus run {self.out}{option} --targets 30, and the same for {self.base}")
        return 0

    def _check(self) -> None:
        check_range("--seed", self.seed, 0)
        check_output("--out", self.out)
        if self.out.absolute() == self.base.absolute():
            raise OptionError(f"--out {self.out} would replace the base; choose another name")
        if not self.offsets:
            return
        check_output("--joints-out", self.joints_out)
        if self.joints is not None and self.joints.absolute() == self.joints_out.absolute():
            raise OptionError(
                f"--joints-out {self.joints_out} would replace the calibration that the corrections were recorded with; "
                "choose another name"
            )


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
    export_composed_bundle(out, base, learned, provenance(seed, 0, None))
    loss, without = learned.residual_curve.best_loss, learned.zero_loss
    return (
        f"{out}: residual of at most {learned.alpha:.2f} action units from {learned.correcting_rows} corrected ticks; "
        f"loss on held-out episodes {loss:.4f} against {without:.4f} without; gate right in {100 * learned.gate_accuracy:.0f} %"
    )
