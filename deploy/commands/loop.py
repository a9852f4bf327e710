"""The whole loop, stage by stage: train, run, identify, correct, learn, run again. `demo` and `bench` are made of it."""

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from isthmus.hardware.joint_calibration import ArmCalibration
from isthmus.hardware.structure import write_json
from isthmus.hardware.virtual.hidden import hidden_path
from isthmus.policies.episode import Episode, recalibrated

from ..attempt import EpisodeRunner
from ..log import read_log
from ..loop_results import ARM_FILE, LOG_NAMES, LoopConfig, LoopResults, Rate, StageTime
from ..status import Status
from .arm import Arm
from .attempts import CORRECTED_S, Attempts, attempt_all, random_targets
from .calibrate import describe
from .compare import compare_attempts
from .learn import learn_bundle
from .touch import describe_offsets, offsets_by_joint, offsets_from_corrections, with_added_offsets

if TYPE_CHECKING:
    from isthmus.calibration.identified import Identified
    from isthmus.sim.randomization import RandomTerm

GOOD_ENOUGH = 0.985  # success in the identified simulator at which retraining ends
RETRAIN_CHUNK = 15  # iterations between evaluations
EVALUATION_SEED, CORRECTION_SEED = 1, 2  # targets of evaluations and of corrections come from different streams


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


@dataclass(kw_only=True)
class _Loop:
    """One pass over one arm; each method is a session with it, in order."""

    config: LoopConfig
    arm: Arm
    out: Path
    watch: Stopwatch
    targets: np.ndarray  # (k, 3) m, of every evaluation
    teach: np.ndarray  # (c, 3) m, of the corrections; none of them is a target of an evaluation
    calibration: ArmCalibration
    logs: list[Path] = field(default_factory=list)
    ends: list[Status] = field(default_factory=list)

    @contextmanager
    def session(self, *bundles: Path) -> Iterator[EpisodeRunner]:
        """An armed session with these policies, recorded under the next of LOG_NAMES."""
        self.logs.append(self.out / LOG_NAMES[len(self.logs)])
        with self.arm.session(list(bundles), self.calibration, self.logs[-1]) as session:
            session.prepare(np.concatenate([self.targets, self.teach]))
            session.arm()
            yield session
            self.ends.append(session.status())

    def zero_shot(self, base: Path) -> tuple[Attempts, "Identified"]:
        """The base as trained, then the excitation that identifies the arm."""
        with self.session(base) as session:
            with self.watch("zero-shot on the arm"):
                attempts = _evaluate(session, self, "base")
            with self.watch("excitation for calibration"):
                excitation = _excite(session, self)
        with self.watch("identification"):
            return attempts, _identify(excitation, self)

    def calibrated(self, tuned: Path) -> tuple[Attempts, list[Episode]]:
        """After identification and retraining, then the first round of corrections."""
        with self.session(tuned) as session:
            with self.watch("after calibration"):
                attempts = _evaluate(session, self, "calibrated")
            with self.watch("corrections by the operator"):
                episodes = _correct(session, self, self.teach[: self.config.corrections[0]], self.config.seed)
        return attempts, episodes

    def corrected(self, tuned: Path) -> tuple[Attempts, list[Episode]]:
        """With the offsets that the corrections showed, then the second round of corrections."""
        with self.session(tuned) as session:
            with self.watch("with the offsets"):
                attempts = _evaluate(session, self, "offsets")
            with self.watch("more corrections by the operator"):
                episodes = _correct(session, self, self.teach[self.config.corrections[0] :], self.config.seed + 1)
        return attempts, episodes

    def residual(self, tuned: Path, learned: Path) -> Attempts:
        """Base, residual and gate in one bundle."""
        with self.session(tuned, learned) as session, self.watch("with the residual"):
            return _evaluate(session, self, "residual", policy_index=1)


def run_loop(config: LoopConfig, arm: Arm, base: Path, simulation: Rate, out: Path, watch: Stopwatch) -> LoopResults:
    """Everything after training, on one virtual arm."""
    loop = _Loop(
        config=config,
        arm=arm,
        out=out,
        watch=watch,
        targets=random_targets(arm.spec, config.targets, _seed(config, EVALUATION_SEED)),
        teach=random_targets(arm.spec, sum(config.corrections), _seed(config, CORRECTION_SEED)),
        calibration=ArmCalibration.nominal(arm.spec),
    )
    shutil.copyfile(hidden_path(config.arm), out / ARM_FILE)
    zero_shot, identified = loop.zero_shot(base)
    with watch("retraining in the identified simulator"):
        tuned = _retrain(loop, base, identified)
    calibrated, first = loop.calibrated(tuned)
    with watch("encoder offsets from where the corrections ended"):
        offsets, deviations = _offsets(loop, first)
    corrected, second = loop.corrected(tuned)
    with watch("learning a residual and a gate"):
        episodes = [*(recalibrated(episode, offsets) for episode in first), *second]
        _save_dataset(out / "corrections", episodes, loop.calibration)
        learned = _learn(loop, tuned, episodes)
    residual, promoted, verdict = None, "offsets", "nothing was left to learn"
    if learned is not None:
        residual = loop.residual(tuned, learned)
        promoted, verdict = _promote(loop, corrected, residual)
    shutil.copyfile(learned if learned is not None and promoted == "residual" else tuned, out / "promoted.onnx")
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
        ticks=sum(status.tick for status in loop.ends),
        missed=sum(status.missed for status in loop.ends),
        rate_error=_rate_error(loop.logs),
        times=tuple(watch.times),
    )
    write_json(out / "results.json", results)
    return results


def _seed(config: LoopConfig, stream: int) -> int:
    return 1000 * config.seed + stream


def _evaluate(session: EpisodeRunner, loop: _Loop, name: str, policy_index: int = 0) -> Attempts:
    from ..progress import attempts_progress

    with attempts_progress(name, len(loop.targets)) as show:
        attempts = attempt_all(
            session,
            loop.targets,
            policy_id=name,
            policy_index=policy_index,
            referee=loop.arm.referee,
            on_result=show,
        )
    loop.watch.say(attempts.line())
    return attempts


def _excite(session: EpisodeRunner, loop: _Loop) -> Episode:
    from isthmus.calibration.excitation import excitation

    motion = excitation(loop.arm.spec, duration_s=loop.config.excitation_s, seed=loop.config.seed)
    return session.run_trajectory(motion)


def _identify(episode: Episode, loop: _Loop) -> "Identified":
    from isthmus.calibration.identify import identify
    from isthmus.calibration.log import from_ticks

    identified = identify(from_ticks(episode.ticks, episode.joint_names), loop.arm.spec)
    identified.save(loop.out / "identified.json")
    loop.watch.say(describe(identified))
    return identified


def _retrain(loop: _Loop, base: Path, identified: "Identified") -> Path:
    """Train on in the identified simulator until the policy is good enough there; keeps the base where that does not help."""
    from isthmus.policies.learning.recipe import Run, TrainConfig

    from ..progress import training_progress

    config = loop.config
    run = Run(
        loop.out / "retrain",
        TrainConfig(
            task="so101-reach",
            seed=config.seed + 1,
            iterations=config.retrain_iterations,
            randomization=random_terms(identified),
        ),
    )
    run.start_from(base.parent / "train")
    before = now = run.evaluate(config.simulated_episodes).rate
    with training_progress("retraining", None) as show:
        while now < GOOD_ENOUGH and run.trainer.iteration < config.retrain_iterations:
            run.train(iterations=run.trainer.iteration + RETRAIN_CHUNK, on_progress=show)
            now = run.evaluate(config.simulated_episodes).rate
    loop.watch.say(
        f"in the identified simulator {100 * before:.1f} % before, {100 * now:.1f} % after {run.trainer.iteration} iterations"
    )
    if now <= before:
        loop.watch.say("the base is kept")
        return base
    run.export(loop.out / "retrained.onnx", simulated_success=now)
    return loop.out / "retrained.onnx"


def random_terms(identified: "Identified") -> "tuple[RandomTerm, ...]":
    """Randomisation around what was identified."""
    from isthmus.sim.randomization import RandomTerm, Uniform

    return tuple(
        RandomTerm(parameter=s.parameter, distribution=Uniform(low=s.lower, high=s.upper))
        for s in identified.randomization()
    )


def _correct(session: EpisodeRunner, loop: _Loop, targets: np.ndarray, seed: int) -> list[Episode]:
    from ..progress import attempts_progress

    operator = loop.arm.scripted_operator(seed)
    episodes: list[Episode] = []
    with attempts_progress("corrections", len(targets)) as show:
        for index, target in enumerate(targets):
            result = session.run_episode(target, CORRECTED_S, operator=operator, referee=loop.arm.referee)
            episodes.append(session.recorded(result.episode))
            show(index, result)
    loop.watch.say(
        f"the operator took over in {_interventions(episodes)} of {len(episodes)} episodes; "
        f"{sum(e.success for e in episodes)} ended on the target"
    )
    return episodes


def _interventions(episodes: Sequence[Episode]) -> int:
    return sum(bool(episode.ticks["intervention"].any()) for episode in episodes)


def _offsets(loop: _Loop, episodes: Sequence[Episode]) -> tuple[dict[str, float], dict[str, float]]:
    """Offsets and their deviations; the loop goes on with a calibration that has them."""
    from isthmus.calibration.touchoff import TouchOffError

    try:
        fit = offsets_from_corrections(loop.arm.spec, episodes)
    except TouchOffError as error:  # the policy was good enough that hardly anybody had to correct it
        loop.watch.say(f"no offsets: {error}")
        return {}, {}
    offsets = offsets_by_joint(fit)
    loop.calibration = with_added_offsets(loop.calibration, offsets)
    loop.calibration.save(loop.out / "joints.json")
    loop.watch.say(describe_offsets(fit))
    return offsets, dict(zip(fit.joint_names, (float(v) for v in fit.std_rad), strict=True))


def _save_dataset(root: Path, episodes: Sequence[Episode], calibration: ArmCalibration) -> None:
    from isthmus.policies.learning.dataset import write_dataset

    write_dataset(root, episodes, fps=50, repo_id="isthmus/corrections", task="so101-reach", calibration=calibration)


def _learn(loop: _Loop, base: Path, episodes: Sequence[Episode]) -> Path | None:
    """Residual bundle, or None where there are too few corrections to learn from."""
    from isthmus.policies.learning.correction_rows import CorrectionError

    path = loop.out / "residual.onnx"
    try:
        loop.watch.say(learn_bundle(base, episodes, path, seed=loop.config.seed))
    except CorrectionError as error:
        loop.watch.say(f"no residual: {error}")
        return None
    return path


def _promote(loop: _Loop, corrected: Attempts, residual: Attempts) -> tuple[str, str]:
    verdict = compare_attempts(corrected, residual)
    loop.watch.say(f"{'promoted' if verdict.promote else 'not promoted'}: {verdict.reason}")
    return ("residual" if verdict.promote else "offsets"), verdict.reason


def _rate_error(logs: Sequence[Path]) -> float:
    """Relative error of the control rate, from the ticks' own stamps: time passed against ticks passed."""
    passed = expected = 0.0
    for path in logs:
        log = read_log(path)
        ticks = log.ticks
        passed += float(ticks["monotonic_ns"][-1] - ticks["monotonic_ns"][0])
        expected += float(ticks["tick"][-1] - ticks["tick"][0]) * log.metadata.period_ns
    return passed / expected - 1.0
