"""`isthmus bench gap`."""

import time
from dataclasses import dataclass
from pathlib import Path

from isthmus.hardware.joint_calibration import ArmCalibration
from isthmus.hardware.structure import write_json

from .arm import ArmOptions, open_arm

TOUCH_POINTS = 24  # at 1 mm each, enough for 0.3 deg on every joint but the wrist's roll


@dataclass(frozen=True, kw_only=True)
class GapRow:
    """One seed on one arm: successes over the bench's targets, and how well calibration did."""

    arm: str
    seed: int
    simulation: float
    zero_shot: float
    calibrated: float
    corrected: float
    final: float
    promoted: str
    takeovers: int
    heldout_before_deg: float
    heldout_after_deg: float
    latency_error_ms: float
    touch_off_error_deg: float  # largest over the joints that touch-off says it can tell
    touch_off_joints: int  # how many those are
    missed: int
    ticks: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class GapTable:
    """The whole bench."""

    targets: int
    rows: tuple[GapRow, ...]


@dataclass(frozen=True, kw_only=True)
class BenchGap:
    """Measure the whole loop over seeds and arms, in lockstep: how much of the sim-to-real gap each step closes."""

    out: Path = Path("runs/bench")
    """Directory for runs and gap.json."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds; each trains its own base."""
    arms: tuple[str, ...] = ("soft", "worn", "hard")
    """Virtual arms."""
    targets: int = 100
    """Targets of each evaluation."""
    iterations: int = 110
    """PPO iterations of the base."""

    def run(self) -> int:
        """Run, print a line a row, write the table."""
        from rich.console import Console

        from isthmus.hardware.virtual.hidden import load_hidden

        from .checks import check_folder, check_range
        from .loop import LoopConfig, Stopwatch, train_base

        check_range("--targets", self.targets, 1)
        check_range("--iterations", self.iterations, 1)
        check_range("--seeds", min(self.seeds, default=-1), 0)
        check_folder("--out", self.out)
        for arm in self.arms:
            load_hidden(arm)  # said now, not after minutes of training
        console = Console()
        rows: list[GapRow] = []
        for seed in self.seeds:
            config = LoopConfig(
                arm="",
                seed=seed,
                lockstep=True,
                targets=self.targets,
                corrections=(12, 8),
                train_iterations=self.iterations,
                train_seconds=None,
                retrain_iterations=45,
            )
            folder = self.out / f"seed-{seed}"
            folder.mkdir(parents=True, exist_ok=True)
            base, simulation = train_base(config, folder, Stopwatch(say=console.print))
            for arm in self.arms:
                rows.append(_row(config, arm, base, simulation, folder, console))
                write_json(self.out / "gap.json", GapTable(targets=self.targets, rows=tuple(rows)))
        _print_table(rows, self.targets, console)
        return 0


def _row(config, arm_name: str, base: Path, simulation, folder: Path, console) -> GapRow:  # noqa: ANN001
    from dataclasses import replace

    import numpy as np

    from isthmus.calibration.identified import load_identified
    from isthmus.hardware.virtual.hidden import load_hidden

    from .loop import Stopwatch, run_loop
    from .touch import touch_off

    out = folder / Path(arm_name).stem
    out.mkdir(exist_ok=True)
    start = time.perf_counter()
    with open_arm(ArmOptions(arm=arm_name, lockstep=True)) as arm:
        results = run_loop(replace(config, arm=arm_name), arm, base, simulation, out, Stopwatch(say=console.print))
    with open_arm(ArmOptions(arm=arm_name, lockstep=True)) as arm:
        fit = touch_off(arm, ArmCalibration.nominal(arm.spec), TOUCH_POINTS, None, config.seed)
    hidden = load_hidden(arm_name)  # the truth, read for this comparison only
    names = arm.spec.joint_names
    offsets = dict(zip(names, hidden.per_joint("encoder_offset_deg", names), strict=True))
    truth = np.array([offsets[name] for name in fit.joint_names])
    identified = load_identified(out / "identified.json")
    return GapRow(
        arm=arm_name,
        seed=config.seed,
        simulation=simulation.successes / simulation.episodes,
        zero_shot=results.zero_shot.rate,
        calibrated=results.calibrated.rate,
        corrected=results.corrected.rate,
        final=results.final.rate,
        promoted=results.promoted,
        takeovers=sum(results.interventions),
        heldout_before_deg=float(np.degrees(identified.heldout_before_rad)),
        heldout_after_deg=float(np.degrees(identified.heldout_after_rad)),
        latency_error_ms=1e3 * identified.latency_s.value - hidden.latency_ms,
        touch_off_error_deg=float(np.degrees(np.abs(fit.offset_rad - truth)[fit.identifiable].max())),
        touch_off_joints=int(fit.identifiable.sum()),
        missed=results.missed,
        ticks=results.ticks,
        seconds=time.perf_counter() - start,
    )


def _print_table(rows, targets: int, console) -> None:  # noqa: ANN001
    from rich.console import Console
    from rich.table import Table

    table = Table(
        "arm", "seed", "simulation", "zero-shot", "calibrated", "corrected", "final", "takeovers", "held-out deg",
        "latency error ms", "touch-off error deg", title=f"success over {targets} targets, lockstep",
    )  # fmt: skip
    for row in rows:
        rates = (row.simulation, row.zero_shot, row.calibrated, row.corrected, row.final)
        table.add_row(
            row.arm,
            str(row.seed),
            *(f"{100 * rate:.1f} %" for rate in rates),
            str(row.takeovers),
            f"{row.heldout_before_deg:.2f} -> {row.heldout_after_deg:.2f}",
            f"{row.latency_error_ms:+.1f}",
            f"{row.touch_off_error_deg:.2f} ({row.touch_off_joints} joints)",
        )
    Console(width=max(console.width, 150)).print(table)
