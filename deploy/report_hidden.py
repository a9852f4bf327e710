"""What was identified beside what the virtual arm really is. The only reader of the hidden parameters outside the arm itself."""

import numpy as np

from isthmus.calibration.identified import Estimate, Identified
from isthmus.hardware.virtual.hidden import HiddenParameters, load_hidden

from .loop_results import ARM_FILE
from .report_data import RunData
from .report_html import NOTHING, Markup, paragraph, section, table


def identified_section(run: RunData) -> Markup:
    """Identified parameters, held-out error and encoder offsets beside the truth."""
    hidden = _hidden(run)
    truth = (
        "The hidden values were read from a copy of the arm's own file for this comparison; nothing else reads them."
        if hidden is not None
        else f"No copy of the file of arm {run.results.config.arm!r} lies here, so there is no truth to compare with."
    )
    joint_logs = (
        [_parameters(run.identified, hidden), _heldout(run.identified)]
        if run.identified is not None
        else [paragraph("No identified.json: nothing was identified from joint logs.")]
    )
    return section(
        "What was identified",
        paragraph(truth),
        *joint_logs,
        _offsets(run, hidden),
        paragraph(
            "Encoder offsets cannot be seen in joint logs: a constant error of a reading looks the same as another pose. They follow "
            "from where the tip was when corrections ended on known targets. Where the std is large, that fixes what several offsets do "
            "to the tip together, not each one alone. A joint without an entry does not move the tip.",
            kind="note",
        ),
    )


def _hidden(run: RunData) -> HiddenParameters | None:
    path = run.directory / ARM_FILE
    return load_hidden(path) if path.is_file() else None


def _parameters(identified: Identified, hidden: HiddenParameters | None) -> Markup:
    rows = [
        _row(
            "friction, of the model's",
            identified.friction_scale,
            1.0,
            None if hidden is None else hidden.friction_scale,
            3,
        ),
        _row("gain, of the model's", identified.gain_scale, 1.0, None if hidden is None else hidden.gain_scale, 3),
        _row(
            "payload at the tip, g", identified.payload_kg, 1e3, None if hidden is None else 1e3 * hidden.payload_kg, 1
        ),
        _row("latency, ms", identified.latency_s, 1e3, None if hidden is None else hidden.latency_ms, 1),
    ]
    if identified.payload_per_gain is not None:
        ratio = None if hidden is None else 1e3 * hidden.payload_kg / hidden.gain_scale
        rows.append(_row("payload per gain, g", identified.payload_per_gain, 1e3, ratio, 1))
    return table(
        ("", "identified", "95 % interval", "hidden truth", "truth inside the interval"),
        rows,
        caption="Parameters from the joint log of the excitation.",
    )


def _row(name: str, estimate: Estimate, scale: float, truth: float | None, digits: int) -> tuple[str, ...]:
    value, low, high = (scale * number for number in (estimate.value, estimate.lower, estimate.upper))
    note = "" if estimate.identifiable else " (not identifiable: prior)"
    inside = NOTHING if truth is None else "yes" if low <= truth <= high else "no"
    return (
        name,
        f"{value:.{digits}f}{note}",
        f"{low:.{digits}f} to {high:.{digits}f}",
        NOTHING if truth is None else f"{truth:.{digits}f}",
        inside,
    )


def _heldout(identified: Identified) -> Markup:
    named = [(error.joint, error.before_rad, error.after_rad) for error in identified.heldout]
    rows = [
        (name, f"{np.rad2deg(before):.3f}", f"{np.rad2deg(after):.3f}", f"{after / before:.2f}" if before else NOTHING)
        for name, before, after in (*named, ("all joints", identified.heldout_before_rad, identified.heldout_after_rad))
    ]
    return table(
        ("", "model as written, deg", "identified, deg", "ratio"),
        rows,
        caption="Held-out joint error: measured against simulated angle, root mean square, on motion that was not fitted.",
    )


def _offsets(run: RunData, hidden: HiddenParameters | None) -> Markup:
    names = next(iter(run.logs.values())).metadata.joint_names
    truth = {} if hidden is None else hidden.encoder_offset_deg
    rows = [_offset_row(run, name, truth.get(name)) for name in names]
    return table(
        ("", "found, deg", "std, deg", "hidden truth, deg", "found less truth, deg"),
        rows,
        caption="Encoder offsets found from the corrections.",
    )


def _offset_row(run: RunData, name: str, truth: float | None) -> tuple[str, ...]:
    hidden = NOTHING if truth is None else f"{truth:+.2f}"
    if name not in run.results.offsets_rad:
        return (name, "not identifiable", NOTHING, hidden, NOTHING)
    found = float(np.rad2deg(run.results.offsets_rad[name]))
    deviation = run.results.offset_std_rad.get(name)
    return (
        name,
        f"{found:+.2f}",
        NOTHING if deviation is None else f"{np.rad2deg(deviation):.2f}",
        hidden,
        NOTHING if truth is None else f"{round(found - truth, 2) + 0.0:+.2f}",
    )
