"""The sections of a report: what was run, the steps, the takeover, the figures. Each takes data and gives HTML."""

import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from . import report_plots
from .report_data import RunData, Step, gap, rate_error, steps
from .report_html import NOTHING, Markup, figure, inline_svg, markup, paragraph, rate_bar, section, table
from .report_takeover import CommandStep, Takeover

PACKAGES = ("isthmus", "numpy", "onnxruntime", "mujoco", "torch", "rsl-rl-lib")


def header(run: RunData) -> Markup:
    """Title, what was run, and the verdict."""
    config, results = run.results.config, run.results
    facts = {
        "arm": f"virtual SO-101 {config.arm!r}, over its serial protocol",
        "time": "lockstep: no wall clock, the same bytes on the same bus" if config.lockstep else "real time",
        "seed": config.seed,
        "targets": f"{config.targets} an evaluation; those of the corrections are others, from another random stream",
        "corrections": f"{sum(config.corrections)} episodes with the operator, who took over in {sum(results.interventions)}",
        "date": _date(run),
        "base policy": run.trainer or "trained elsewhere, its bundle is not in this directory",
        "report written with": _versions(),
    }
    items = "".join(f"<dt>{markup(name)}</dt><dd>{markup(value)}</dd>" for name, value in facts.items())
    return Markup(f"<h1>{markup(title(run))}</h1>\n{paragraph(verdict(run), kind='verdict')}<dl>{items}</dl>\n")


def title(run: RunData) -> str:
    """Title of the page."""
    arm = run.results.config.arm
    return f"isthmus: from simulation to the arm {Path(arm).stem if arm.endswith('.toml') else arm!r}"


def verdict(run: RunData) -> str:
    """What came of it, in one sentence."""
    results = run.results
    first, last, simulation = results.zero_shot, results.final, results.simulation
    change = last.successes - first.successes
    outcome = "more" if change > 0 else "no more" if change == 0 else "fewer"
    return (
        f"The policy that succeeds in {_percent(simulation.successes / simulation.episodes)} of simulated episodes reached "
        f"{first.successes} of {len(first.rows)} targets on the arm as it came, and {last.successes} of {len(last.rows)} after "
        f"calibration and {sum(results.config.corrections)} corrected episodes, {outcome} than before; in use at the end: "
        f"{'offsets and residual' if results.final is results.residual else 'offsets without a residual'}."
    )


def steps_section(run: RunData) -> Markup:
    """The table of steps."""
    found, missing = steps(run.results), gap(run.results)
    rows = [_step_row(step, missing) for step in found]
    text = (
        f"Zero-shot, the arm falls {100 * missing:.1f} percentage points short of simulation. A step's share is its own change of the "
        "success rate divided by that; a negative share means that the step cost successes, more than 100 % in sum that the arm "
        "ends above simulation."
        if missing > 0
        else "Zero-shot, the arm does no worse than simulation, so there is no gap whose share could be given."
    )
    final = run.results.final.rate - run.results.zero_shot.rate
    closed = (
        f"From zero-shot to the policy in use, {100 * final / missing:.0f} % of the gap is closed."
        if missing > 0
        else ""
    )
    head = (
        "",
        "successes",
        "rate",
        "95 % interval (Wilson)",
        Markup("<span>0 to 100 %</span>"),
        "median miss, mm",
        "90th percentile, mm",
    )
    return section(
        "What each step brought",
        table(
            (*head, "share of the gap closed"),
            rows,
            caption="Success: the true tip within 10 mm of the target for 0.5 s.",
        ),
        paragraph(text, closed),
        paragraph(
            "All evaluations on the arm use the same targets; those in simulation are others, in randomised worlds, and their misses "
            "are not kept. Where intervals overlap, a difference may be chance.",
            kind="note",
        ),
        paragraph(
            f"Residual: {run.results.verdict}."
            if run.results.residual is None
            else f"Promotion: {run.results.verdict}."
        ),
    )


def _step_row(step: Step, missing: float) -> tuple[object, ...]:
    low, high = step.interval
    miss = (NOTHING, NOTHING)
    if step.error_m is not None:
        miss = tuple(f"{1e3 * value:.1f}" for value in np.percentile(step.error_m, (50, 90)))
    share = NOTHING if step.gained is None or missing <= 0 else f"{100 * step.gained / missing:+.0f} %"
    return (
        step.name,
        f"{step.successes} of {step.trials}",
        _percent(step.rate),
        f"{100 * low:.1f} to {100 * high:.1f} %",
        rate_bar(step.successes, step.trials),
        *miss,
        share,
    )


def curves_section(run: RunData) -> Markup:
    """Learning curves."""
    if not run.curves:
        return section("Learning", paragraph("No learning curve: the base policy was not trained in this directory."))
    ends = "; ".join(
        f"{name}: {curve.points[-1].steps / 1e6:.2f} million steps in {curve.points[-1].seconds:.0f} s"
        for name, curve in run.curves.items()
    )
    sentences = {
        "training": "The base policy was not trained in this directory.",
        "retraining": "There was no retraining after calibration.",
    }
    absent = [paragraph(sentence) for name, sentence in sentences.items() if name not in run.curves]
    picture = inline_svg(
        report_plots.learning_curves(run.curves),
        name="curves",
        alt=f"Success rate and reward against environment steps and training time. {ends}.",
    )
    return section(
        "Learning",
        figure(
            picture,
            f"{ends[0].upper()}{ends[1:]}. Success is that of the episodes which ended in the same "
            "iteration, where any did, with exploration noise.",
        ),
        *absent,
    )


def errors_section(run: RunData) -> Markup:
    """Distributions of the final error."""
    errors = {step.name: step.error_m for step in steps(run.results) if step.error_m is not None}
    medians = "; ".join(f"{name} {1e3 * np.median(error):.1f} mm" for name, error in errors.items())
    picture = inline_svg(
        report_plots.error_distributions(errors),
        name="errors",
        alt=f"Empirical distribution of the final distance of tip and target for each evaluation. Medians: {medians}.",
    )
    return section(
        "Where the attempts ended",
        figure(
            picture,
            "Share of targets that ended within a distance. Being within 10 mm at the end is necessary for success, not sufficient: "
            "the tip must stay there for 0.5 s.",
        ),
    )


def takeover_section(view: Takeover | None, picture: Markup) -> Markup:
    """One takeover in detail; `picture` shows the arm at its end."""
    if view is None:
        return section("A takeover", paragraph("Nobody took over in any recorded attempt."))
    names = ", ".join(view.episode.joint_names[joint] for joint in view.joints)
    spans = ", ".join(f"{start:.2f} to {end:.2f} s" for start, end in view.spans_s)
    plot = inline_svg(
        report_plots.takeover(view),
        name="takeover",
        alt=f"Proposal of the policy, target of the person, executed target and measured angle of {names} against time; "
        f"a person drove from {spans}. Below, the distance of the measured tip to the target.",
    )
    final = view.episode.info.get("final_error_m")
    really = "" if final is None else f" Its true distance at the end, as the referee saw it: {1e3 * final:.1f} mm."
    return section(
        "A takeover",
        paragraph(
            f"Attempt {int(view.episode.ticks['episode'][0])} of {view.log}; it ended "
            f"{'on' if view.episode.success else 'off'} the target. Shaded: a person drove, {spans}. "
            "The policy went on proposing meanwhile."
        ),
        figure(
            plot,
            "The joints that moved most, from half a second before. Measured and executed angle differ at rest by what gravity "
            "and friction take from the position loop. The measured tip follows from the joint readings: where encoder offsets are "
            f"not known yet, it may leave the target while the true tip gets there.{really}",
        ),
        _command_steps(view),
        picture,
    )


def _command_steps(view: Takeover) -> Markup:
    def row(when: str, step: CommandStep) -> tuple[str, ...]:
        share = f"{100 * step.share:.0f} %"
        return (when, step.joint, f"{1e3 * step.step_rad:.2f}", f"{1e3 * step.limit_rad:.2f}", share)

    rows = [row("in the whole attempt", view.largest), row("when the person takes over", view.entry)]
    if view.exit is not None:
        rows.append(
            row("when the policy has it back" if view.gave_back else "when the arm holds after the person", view.exit)
        )
    return table(
        ("largest step of a target in one tick", "joint", "step, mrad", "rate limit of one tick, mrad", "share"),
        rows,
        caption="A change of hands must not jump: no step may exceed the rate limit of one tick.",
    )


def timing_section(run: RunData) -> Markup:
    """Stages, ticks, lateness, inference, bus."""
    results = run.results
    stages = [(time.stage, time.seconds) for time in results.times]
    total = sum(seconds for _, seconds in stages)
    parts = []
    if stages:
        longest = max(stages, key=lambda stage: stage[1])
        alt = f"Seconds per stage; together {total:.0f} s, the longest is {longest[0]} with {longest[1]:.0f} s."
        parts.append(
            figure(
                inline_svg(report_plots.timings(stages), name="timings", alt=alt),
                f"All stages together: {total:.0f} s.",
            )
        )
    lockstep = "In lockstep time stands still between ticks: lateness and rate are exact by construction and say nothing of a real clock. "
    return section(
        "Time",
        *parts,
        table(
            (
                *("recording", "ticks", "missed", "rate error", "late p50, ms", "late p99, ms"),
                *("inference p50, ms", "inference p99, ms", "bus errors repaired"),
            ),
            [_log_row(run, name) for name in run.logs],
            caption=f"{lockstep if results.config.lockstep else ''}Lateness is the time from a tick's deadline to its waking up.",
        ),
        paragraph(
            f"In all {results.ticks} ticks, {results.missed} missed ({_share(results.missed, results.ticks + results.missed)}); "
            f"error of the achieved rate {100 * results.rate_error:+.4f} %."
        ),
    )


def _log_row(run: RunData, name: str) -> tuple[object, ...]:
    log = run.logs[name]
    ticks, error = log.ticks, rate_error(log)
    if not len(ticks):
        return (f"{name}, empty", *[NOTHING] * 8)
    inference = ticks["inference_us"][ticks["inference_us"] > 0]
    return (
        name if log.complete else f"{name}, cut off",
        len(ticks),
        int(ticks["missed"].max()),
        NOTHING if error is None else f"{100 * error:+.4f} %",
        *(f"{value:.3f}" for value in 1e-3 * np.percentile(ticks["lateness_us"], (50, 99))),
        *((f"{v:.3f}" for v in 1e-3 * np.percentile(inference, (50, 99))) if len(inference) else (NOTHING, NOTHING)),
        int(ticks["bus_errors"].max()),
    )


def _percent(rate: float) -> str:
    return f"{100 * rate:.1f} %"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.3f} %" if whole else NOTHING


def _date(run: RunData) -> str:
    stamps = [int(log.ticks["wall_ns"][0]) for log in run.logs.values() if len(log.ticks)]
    return datetime.fromtimestamp(min(stamps) * 1e-9, UTC).strftime("%Y-%m-%d %H:%M UTC") if stamps else "not recorded"


def _versions() -> str:
    found = [f"Python {platform.python_version()}"]
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)
