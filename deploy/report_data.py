"""What a report is made of: everything that the loop left in its directory, typed."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from isthmus.calibration.identified import Identified, load_identified
from isthmus.hardware.errors import IsthmusError
from isthmus.hardware.structure import read_json
from isthmus.policies.bundle import load_bundle
from isthmus.policies.curve import Curve
from isthmus.policies.interval import wilson_interval

from .commands.attempts import Attempts
from .log import Log, LogError, read_log
from .loop_results import LOG_NAMES, LoopResults


class ReportError(IsthmusError):
    """A directory holds no finished run of the loop."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One evaluation on the way from simulation to the corrected arm."""

    name: str
    successes: int
    trials: int
    error_m: np.ndarray | None  # (trials,) final distance of tip and target; None where it was not kept
    gained: float | None  # rate less that of the step before; None where there is no step before on the arm

    @property
    def rate(self) -> float:
        """Share of successes."""
        return self.successes / self.trials

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the rate (Wilson)."""
        return wilson_interval(self.successes, self.trials)


@dataclass(frozen=True, kw_only=True)
class RunData:
    """A run of the loop."""

    directory: Path
    results: LoopResults
    logs: dict[str, Log]  # by file name, in the order of recording
    curves: dict[str, Curve]  # by name of the training stage
    identified: Identified | None
    trainer: str | None  # what trained the base, from the bundle; None where the bundle lies elsewhere


def load_run(directory: Path) -> RunData:
    """Read a run of the loop.

    Raises:
        ReportError: no results, or a log is missing; says what to run.
        FormatError: a file of another form.
    """
    path = directory / "results.json"
    if not path.is_file():
        raise ReportError(
            f"{directory} holds no results.json, so no finished run; `isthmus demo` makes one, "
            "and a report is made from the directory that it names"
        )
    results = read_json(path, LoopResults)
    for name, attempts in evaluations(results):
        if not attempts.rows:
            raise ReportError(f"{path}: the evaluation {name!r} has no rows; expected one for each target")
    return RunData(
        results=results,
        directory=directory,
        logs=_logs(directory, len(LOG_NAMES) if results.residual is not None else len(LOG_NAMES) - 1),
        curves=_curves(directory),
        identified=load_identified(directory / "identified.json")
        if (directory / "identified.json").is_file()
        else None,
        trainer=_trainer(directory / "base.onnx"),
    )


def evaluations(results: LoopResults) -> list[tuple[str, Attempts]]:
    """The evaluations on the arm by name, in order."""
    named = [
        ("zero-shot on the arm", results.zero_shot),
        ("after calibration from joint logs", results.calibrated),
        ("after corrections (encoder offsets)", results.corrected),
    ]
    if results.residual is not None:
        promoted = "promoted" if results.promoted == "residual" else "not promoted"
        named.append((f"with the residual ({promoted})", results.residual))
    return named


def steps(results: LoopResults) -> list[Step]:
    """Simulation first, then every evaluation on the arm."""
    simulation = results.simulation
    found = [
        Step(
            name="in simulation",
            successes=simulation.successes,
            trials=simulation.episodes,
            error_m=None,
            gained=None,
        )
    ]
    before: float | None = None
    for name, attempts in evaluations(results):
        found.append(
            Step(
                name=name,
                successes=attempts.successes,
                trials=len(attempts.rows),
                error_m=np.array([row.final_error_m for row in attempts.rows]),
                gained=None if before is None else attempts.rate - before,
            )
        )
        before = attempts.rate
    return found


def gap(results: LoopResults) -> float:
    """What the same policy loses between simulation and arm, as a difference of rates."""
    return results.simulation.successes / results.simulation.episodes - results.zero_shot.rate


def rate_error(log: Log) -> float | None:
    """Relative error of the control rate, time passed against ticks passed; None below two ticks."""
    ticks = log.ticks
    if len(ticks) < 2:
        return None
    expected = int(ticks["tick"][-1] - ticks["tick"][0]) * log.metadata.period_ns
    return int(ticks["monotonic_ns"][-1] - ticks["monotonic_ns"][0]) / expected - 1.0


def _logs(directory: Path, count: int) -> dict[str, Log]:
    logs: dict[str, Log] = {}
    for name in LOG_NAMES[:count]:
        try:
            logs[name] = read_log(directory / name)
        except LogError as error:
            raise ReportError(
                f"{error}; results.json speaks of this recording: restore it, or run the loop again"
            ) from None
    return logs


def _curves(directory: Path) -> dict[str, Curve]:
    named = {"training": directory / "train/curve.json", "retraining": directory / "retrain/curve.json"}
    curves = {name: read_json(path, Curve) for name, path in named.items() if path.is_file()}
    return {name: curve for name, curve in curves.items() if curve.points}


def _trainer(bundle: Path) -> str | None:
    return load_bundle(bundle).manifest.provenance.trainer if bundle.is_file() else None
