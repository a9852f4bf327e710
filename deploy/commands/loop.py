"""The whole loop, stage by stage: train, run, identify, correct, learn, run again. `demo` and `bench` are made of it."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from isthmus.hardware.joint_calibration import ArmCalibration
from isthmus.hardware.structure import write_json
from isthmus.policies.episode import Episode, recalibrated

from ..attempt import EpisodeRunner
from ..log import read_log
from .arm import Arm
from .attempts import CORRECTED_S, Attempts, attempt_all, random_targets
from .calibrate import describe
from .learn import learn_bundle
from .touch import describe_offsets, offsets_by_joint, offsets_from_corrections, with_added_offsets

if TYPE_CHECKING:
    from isthmus.calibration.identified import Identified
    from isthmus.sim.randomization import RandomTerm

EVALUATION_SEED, CORRECTION_SEED = 1, 2  # targets of evaluations and of corrections come from different streams
LOG_NAMES = (
    "1-zero-shot.mcap",
    "2-calibrated.mcap",
    "3-corrected.mcap",
    "4-residual.mcap",
)  # the last only where one was learned


@dataclass(frozen=True, kw_only=True)
class LoopConfig:
    """How big each stage is."""

    arm: str  # virtual arm
    seed: int
    lockstep: bool
    targets: int  # of each evaluation on the arm
    corrections: tuple[int, int]  # episodes with the operator: before the offsets are known, and after
    train_iterations: int
    train_seconds: float | None
    retrain_iterations: int
    simulated_episodes: int = 1000
    excitation_s: float = 20.0


@dataclass(frozen=True, kw_only=True)
class StageTime:
    """How long a stage took."""

    stage: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Successes in simulation."""

    successes: int
    episodes: int


@dataclass(frozen=True, kw_only=True)
class LoopResults:
    """What every stage came to; the report is made from this and the files beside it."""

    config: LoopConfig
    simulation: Rate
    zero_shot: Attempts
    calibrated: Attempts
    corrected: Attempts  # offsets from the corrections, no residual
    residual: Attempts | None  # None where the corrections left nothing to learn
    promoted: str  # which policy won: "offsets" or "residual"
    verdict: str
    offsets_rad: dict[str, float]
    offset_std_rad: dict[str, float]
    interventions: tuple[int, int]  # corrected episodes of each round in which the operator took over
    ticks: int
    missed: int
    rate_error: float  # relative error of the achieved rate
    times: tuple[StageTime, ...]

    @property
    def final(self) -> Attempts:
        """The evaluation of the promoted policy."""
        return self.residual if self.promoted == "residual" and self.residual is not None else self.corrected


@dataclass(kw_only=True)
class Stopwatch:
    """Times of stages."""

    say: Callable[[str], None]
    times: list[StageTime] = field(default_factory=list)

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Time a stage."""
        self.say(f"\n[bold]{stage}[/]")
        start = time.perf_counter()
        yield
        self.times.append(StageTime(stage=stage, seconds=time.perf_counter() - start))


def train_base(config: LoopConfig, out: Path, watch: Stopwatch) -> tuple[Path, Rate]:
    """Train and export the base; returns the bundle and its success in simulation."""
    from isthmus.policies.learning.recipe import Run, TrainConfig

    from ..progress import training_progress

    with watch("training in parallel randomised simulation"):
        run = Run(out / "train", TrainConfig(task="so101-reach", seed=config.seed, iterations=config.train_iterations))
        with training_progress("training", config.train_seconds) as show:
            run.train(time_limit=config.train_seconds, on_progress=show)
    with watch("evaluation in simulation and export"):
        result = run.evaluate(config.simulated_episodes)
        rate = Rate(successes=int(result.success.sum()), episodes=config.simulated_episodes)
        path = out / "base.onnx"
        run.export(path, simulated_success=result.rate)
        watch.say(f"in simulation {rate.successes} of {rate.episodes} episodes succeed; exported {path.name}")
    return path, rate


def run_loop(config: LoopConfig, arm: Arm, base: Path, simulation: Rate, out: Path, watch: Stopwatch) -> LoopResults:
    """Everything after training, on one arm."""
    targets = random_targets(arm.spec, config.targets, _seed(config, EVALUATION_SEED))
    teach = random_targets(arm.spec, sum(config.corrections), _seed(config, CORRECTION_SEED))
    nominal = ArmCalibration.nominal(arm.spec)
    logs = [out / name for name in LOG_NAMES]
    ticks = []

    with arm.session([base], nominal, logs[0]) as session:
        session.arm()
        with watch("zero-shot on the arm"):
            zero_shot = _evaluate(session, arm, targets, "base", watch)
        with watch("excitation for calibration"):
            excitation = _excite(session, config)
        ticks.append(session.status())
    with watch("identification"):
        identified = _identify(excitation, arm, out, watch)
    with watch("retraining in the identified simulator"):
        tuned = _retrain(config, base, identified, out, watch)

    with arm.session([tuned], nominal, logs[1]) as session:
        session.arm()
        with watch("after calibration"):
            calibrated = _evaluate(session, arm, targets, "calibrated", watch)
        with watch("corrections by the operator"):
            first = _correct(session, arm, teach[: config.corrections[0]], config.seed, watch)
        ticks.append(session.status())
    with watch("encoder offsets from where the corrections ended"):
        offsets, deviations, calibration = _offsets(first, arm, nominal, out, watch)

    with arm.session([tuned], calibration, logs[2]) as session:
        session.arm()
        with watch("with the offsets"):
            corrected = _evaluate(session, arm, targets, "offsets", watch)
        with watch("more corrections by the operator"):
            second = _correct(session, arm, teach[config.corrections[0] :], config.seed + 1, watch)
        ticks.append(session.status())
    with watch("learning a residual and a gate"):
        episodes = [*(recalibrated(episode, offsets) for episode in first), *second]
        _save_dataset(out / "corrections", episodes)
        learned = _learn(tuned, episodes, config.seed, out, watch)

    residual, promoted, verdict = None, "offsets", "nothing was left to learn"
    if learned is not None:
        with arm.session([tuned, learned], calibration, logs[3]) as session:
            session.arm()
            with watch("with the residual"):
                residual = _evaluate(session, arm, targets, "residual", watch, policy_index=1)
            ticks.append(session.status())
        promoted, verdict = _promote(targets, corrected, residual, watch)
    results = LoopResults(
        config=config,
        simulation=simulation,
        zero_shot=zero_shot,
        calibrated=calibrated,
        corrected=corrected,
        residual=residual,
        promoted=promoted,
        verdict=verdict,
        offsets_rad=offsets,
        offset_std_rad=deviations,
        interventions=(_interventions(first), _interventions(second)),
        ticks=sum(status.tick for status in ticks),
        missed=sum(status.missed for status in ticks),
        rate_error=_rate_error([log for log in logs if log.exists()]),
        times=tuple(watch.times),
    )
    write_json(out / "results.json", results)
    return results


def _seed(config: LoopConfig, stream: int) -> int:
    return 1000 * config.seed + stream


def _evaluate(
    session: EpisodeRunner, arm: Arm, targets: np.ndarray, name: str, watch: Stopwatch, policy_index: int = 0
) -> Attempts:
    from ..progress import attempts_progress

    with attempts_progress(name, len(targets)) as show:
        attempts = attempt_all(
            session, targets, policy_id=name, policy_index=policy_index, referee=arm.referee, on_result=show
        )
    watch.say(attempts.line())
    return attempts


def _excite(session: EpisodeRunner, config: LoopConfig) -> Episode:
    from isthmus.calibration.excitation import excitation
    from isthmus.hardware.robot import load_robot

    return session.run_trajectory(excitation(load_robot("so101"), duration_s=config.excitation_s, seed=config.seed))


def _identify(episode: Episode, arm: Arm, out: Path, watch: Stopwatch) -> "Identified":
    from isthmus.calibration.identify import identify
    from isthmus.calibration.log import from_ticks

    identified = identify(from_ticks(episode.ticks, episode.joint_names), arm.spec)
    identified.save(out / "identified.json")
    watch.say(describe(identified))
    return identified


def _retrain(config: LoopConfig, base: Path, identified: "Identified", out: Path, watch: Stopwatch) -> Path:
    """Train on in the identified simulator; keeps the base where that does not win there."""
    from isthmus.policies.learning.recipe import Run, TrainConfig

    from ..progress import training_progress

    run = Run(
        out / "retrain",
        TrainConfig(
            task="so101-reach",
            seed=config.seed + 1,
            iterations=config.retrain_iterations,
            randomization=random_terms(identified),
        ),
    )
    run.start_from(out / "train" if (out / "train").is_dir() else base.parent / "train")
    before = run.evaluate(config.simulated_episodes)
    with training_progress("retraining", None) as show:
        run.train(on_progress=show)
    after = run.evaluate(config.simulated_episodes)
    watch.say(
        f"in the identified simulator {100 * before.rate:.1f} % before, {100 * after.rate:.1f} % after retraining"
    )
    better = (after.rate, -float(after.final_distance.median())) > (before.rate, -float(before.final_distance.median()))
    if not better:
        watch.say("the base is kept")
        return base
    path = out / "retrained.onnx"
    run.export(path, simulated_success=after.rate)
    return path


def random_terms(identified: "Identified") -> "tuple[RandomTerm, ...]":
    """Randomisation around what was identified."""
    from isthmus.sim.randomization import RandomTerm, Uniform

    return tuple(
        RandomTerm(parameter=s.parameter, distribution=Uniform(low=s.lower, high=s.upper))
        for s in identified.randomization()
    )


def _correct(session: EpisodeRunner, arm: Arm, targets: np.ndarray, seed: int, watch: Stopwatch) -> list[Episode]:
    from ..progress import attempts_progress

    operator = arm.scripted_operator(seed)
    episodes: list[Episode] = []
    with attempts_progress("corrections", len(targets)) as show:
        for index, target in enumerate(targets):
            result = session.run_episode(target, CORRECTED_S, operator=operator, referee=arm.referee)
            episodes.append(session.recorded(result.episode))
            show(index, result)
    watch.say(
        f"the operator took over in {_interventions(episodes)} of {len(episodes)} episodes; "
        f"{sum(e.success for e in episodes)} ended on the target"
    )
    return episodes


def _interventions(episodes: Sequence[Episode]) -> int:
    return sum(bool(episode.ticks["intervention"].any()) for episode in episodes)


def _offsets(
    episodes: Sequence[Episode], arm: Arm, nominal: ArmCalibration, out: Path, watch: Stopwatch
) -> tuple[dict[str, float], dict[str, float], ArmCalibration]:
    fit = offsets_from_corrections(arm.spec, episodes)
    offsets = offsets_by_joint(fit)
    calibration = with_added_offsets(nominal, offsets)
    calibration.save(out / "joints.json")
    watch.say(describe_offsets(fit))
    return offsets, dict(zip(fit.joint_names, (float(v) for v in fit.std_rad), strict=True)), calibration


def _save_dataset(root: Path, episodes: Sequence[Episode]) -> None:
    from isthmus.policies.learning.dataset import write_dataset

    write_dataset(root, episodes, fps=50, repo_id="isthmus/corrections", task="so101-reach")


def _learn(base: Path, episodes: Sequence[Episode], seed: int, out: Path, watch: Stopwatch) -> Path | None:
    """Residual bundle, or None where there are too few corrections to learn from."""
    from isthmus.policies.learning.correction_rows import CorrectionError

    try:
        learned = learn_bundle(base, episodes, out / "residual.onnx", seed=seed)
    except CorrectionError as error:
        watch.say(f"no residual: {error}")
        return None
    watch.say(learned)
    return out / "residual.onnx"


def _promote(targets: np.ndarray, corrected: Attempts, residual: Attempts, watch: Stopwatch) -> tuple[str, str]:
    from isthmus.policies.learning.promote import EvaluationResults, compare

    def results(attempts: Attempts) -> EvaluationResults:
        return EvaluationResults(
            policy_id=attempts.policy_id,
            targets=targets,
            success=np.array([row.success for row in attempts.rows]),
            final_error_m=np.array([row.final_error_m for row in attempts.rows]),
        )

    verdict = compare(results(corrected), results(residual))
    promoted = "residual" if verdict.promote else "offsets"
    watch.say(f"{'promoted' if verdict.promote else 'not promoted'}: {verdict.reason}")
    return promoted, verdict.reason


def _rate_error(logs: Sequence[Path]) -> float:
    """Relative error of the control rate, from the ticks' own stamps: time passed against ticks passed."""
    passed = expected = 0.0
    for path in logs:
        log = read_log(path)
        ticks = log.ticks
        passed += float(ticks["monotonic_ns"][-1] - ticks["monotonic_ns"][0])
        expected += float(ticks["tick"][-1] - ticks["tick"][0]) * log.metadata.period_ns
    return passed / expected - 1.0
