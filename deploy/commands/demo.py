"""`isthmus demo`."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Demo:
    """The whole loop on a virtual SO-101 in real time: train, run, miss, identify, correct, learn, run again; ends with a report."""

    arm: str = "hard"
    """Hidden parameters of the arm: soft, worn, hard or the path of a file."""
    seed: int = 0
    """Of everything random."""
    quick: bool = False
    """Smaller in every stage and in lockstep: under three minutes, and fails if the loop does not close the gap."""
    lockstep: bool = False
    """No wall clock: the same bytes on the same bus, as fast as the machine can."""
    out: Path | None = None
    """Run directory; runs/<time> if not given."""

    def run(self) -> int:
        """Run all stages and write the report."""
        from rich.console import Console

        from isthmus.hardware.virtual.hidden import load_hidden

        from ..report import write_report
        from .arm import ArmOptions, open_arm
        from .checks import check_folder, check_range
        from .loop import LoopConfig, Stopwatch, run_loop, train_base

        check_range("--seed", self.seed, 0)
        load_hidden(self.arm)  # said now, not after minutes of training
        out = self.out or Path("runs") / datetime.now().strftime("%Y-%m-%d-%H%M%S")
        check_folder("--out", out)
        config = LoopConfig(
            arm=self.arm,
            seed=self.seed,
            lockstep=self.lockstep or self.quick,
            targets=15 if self.quick else 30,
            corrections=(8, 2) if self.quick else (12, 8),
            train_iterations=45 if self.quick else 110,
            train_seconds=60.0 if self.quick else 110.0,
            retrain_iterations=15 if self.quick else 45,
            simulated_episodes=300 if self.quick else 500,
        )
        console = Console()
        watch = Stopwatch(say=console.print)
        base, simulation = train_base(config, out, watch)
        with open_arm(ArmOptions(arm=self.arm, lockstep=config.lockstep)) as arm:
            results = run_loop(config, arm, base, simulation, out, watch)
        report = write_report(out)
        total = sum(stage.seconds for stage in results.times)
        console.print(
            f"\nzero-shot {100 * results.zero_shot.rate:.0f} %, after calibration {100 * results.calibrated.rate:.0f} %, "
            f"after corrections {100 * results.final.rate:.0f} %; {total:.0f} s\nreport: {report}"
        )
        if self.quick and not results.final.rate > results.zero_shot.rate + 0.5:
            console.print("the loop did not close the gap: final success should exceed zero-shot by more than half")
            return 1
        return 0
