"""`isthmus calibrate`."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .arm import ArmOptions, open_arm
from .checks import OptionError, check_not_input, check_output, check_range, keep_existing
from .touch import describe_change, known_points, offsets_by_joint, touch_off, with_added_offsets

if TYPE_CHECKING:
    from isthmus.calibration.identified import Identified


MIN_TOUCHES = 6  # fewer leave joints unknown


@dataclass(frozen=True, kw_only=True)
class Calibrate:
    """Find out how an arm differs from its model: friction, gain, payload and latency from 20 s of safe motion.

    Encoder offsets do not show in joint logs. With --touch-off the tip is put on known points and they are found too.
    Result files that are already there are kept under another name: joints.json becomes joints-1.json.
    """

    arm: ArmOptions = field(default_factory=ArmOptions)
    out: Path = Path("identified.json")
    """Identified parameters to write; `isthmus train --calibration` starts from them."""
    joints_out: Path = Path("joints.json")
    """With --touch-off: joint calibration to write, offsets included; give it to other commands as --joints."""
    touch_off: int = 0
    """How many known points to touch, 6 or more; 0 for none."""
    points: Path | None = None
    """Real arm: text file with the points to touch, one `x y z` in m a line; printed marks, say."""
    seconds: float = 20.0
    """Length of the motion, 10 to 120."""
    seed: int = 0
    """Of the motion, and of the points on a virtual arm."""
    log: Path = Path("calibrate.mcap")
    """Recording to write; one that is already there is kept under another name."""

    def run(self) -> int:
        """Move, fit, touch, write."""
        from isthmus.calibration.excitation import excitation
        from isthmus.calibration.identify import identify
        from isthmus.calibration.log import from_ticks
        from isthmus.calibration.plot import calibration_png

        self._check()
        calibration = self.arm.calibration()
        with open_arm(self.arm) as arm:
            motion = excitation(arm.spec, duration_s=self.seconds, seed=self.seed)
            with arm.session([], calibration, self.log) as session:
                session.arm()
                print(f"moving for {self.seconds:.0f} s; keep clear")
                episode = session.run_trajectory(motion)
            log = from_ticks(episode.ticks, episode.joint_names)
            identified = identify(log, arm.spec)
            changed = None
            if self.touch_off:
                fit = touch_off(arm, calibration, self.touch_off, self.points, self.seed)
                identified = identified.with_offsets(fit.joint_offsets())
                changed = with_added_offsets(calibration, offsets_by_joint(fit))
                keep_existing(self.joints_out)
                changed.save(self.joints_out)
        keep_existing(self.out)
        identified.save(self.out)
        picture = self.out.with_suffix(".png")
        keep_existing(picture)
        picture.write_bytes(calibration_png(log, self.arm.spec(), identified))
        print(describe(identified))
        if changed is not None:
            print(describe_change(calibration, changed))
        print(f"written to {self.out}" + (f" and {self.joints_out}" if self.touch_off else ""))
        print(f"measured and simulated joints: {picture}")
        print(self._next())
        return 0

    def _next(self) -> str:
        train = f"next: isthmus train --calibration {self.out} --out runs/calibrated"
        return train + (f"\nand give other commands for this arm --joints {self.joints_out}" if self.touch_off else "")

    def _check(self) -> None:
        check_range("--seconds", self.seconds, 10, 120)
        check_range("--seed", self.seed, 0)
        check_output("--out", self.out)
        if self.out.suffix == ".png":
            raise OptionError(
                f"--out {self.out} is the name of the picture beside it; choose another ending, .json say"
            )
        if self.touch_off == 0:
            return
        if self.touch_off < MIN_TOUCHES:
            raise OptionError(
                f"--touch-off is {self.touch_off}, expected 0 for none or at least {MIN_TOUCHES} points to touch"
            )
        check_output("--joints-out", self.joints_out)
        check_not_input("--joints-out", self.joints_out, self.arm.joints, "the joint calibration that --joints reads")
        if self.joints_out.resolve() == self.out.resolve():
            raise OptionError(f"--out and --joints-out are both {self.out}; choose two names")
        if self.arm.port is None:
            return
        known_points(self.points, self.touch_off)
        if not sys.stdin.isatty():
            raise OptionError("--touch-off on a real arm needs a terminal: somebody guides the arm and presses Enter")


def describe(identified: "Identified") -> str:
    """The result for people."""
    lines = []
    for name, unit, factor in (
        ("friction_scale", "of the model's", 1.0),
        ("gain_scale", "of the nominal", 1.0),
        ("payload_kg", "g", 1e3),
        ("latency_s", "ms", 1e3),
    ):
        estimate = getattr(identified, name)
        interval = f"{estimate.value * factor:.3g} {unit} (95 % interval {estimate.lower * factor:.3g}-{estimate.upper * factor:.3g})"
        lines.append(
            f"{name.rsplit('_', 1)[0]}: {interval if estimate.identifiable else 'not identifiable from this log'}"
        )
    if identified.payload_per_gain is not None:
        lines.append(f"payload per gain: {1e3 * identified.payload_per_gain.value:.0f} g")
    before, after = (np.degrees(v) for v in (identified.heldout_before_rad, identified.heldout_after_rad))
    lines.append(f"held-out joint error: {before:.2f} deg before, {after:.2f} deg after")
    lines.append(f"encoder offsets: {identified.encoder_offset_text}")
    return "\n".join(lines)
