"""A run of the loop as one HTML page that needs nothing outside itself."""

import subprocess
import tempfile
from pathlib import Path

from isthmus.hardware.virtual.client import VirtualArmError, render_pose

from .report_data import load_run
from .report_hidden import identified_section
from .report_html import Markup, figure, inline_png, page, paragraph
from .report_sections import (
    curves_section,
    errors_section,
    header,
    steps_section,
    takeover_section,
    timing_section,
    title,
)
from .report_takeover import Takeover, find_takeover

CSS_FILE = Path(__file__).with_suffix(".css")


def write_report(directory: Path) -> Path:
    """Write `directory`/report.html from the results, curves, logs and identified parameters beside it.

    Raises:
        ReportError: the directory holds no finished run, or a log is missing.
        FormatError: a file has another form.
    """
    run = load_run(directory)
    view = find_takeover(run.logs)
    body = (
        header(run),
        steps_section(run),
        curves_section(run),
        errors_section(run),
        identified_section(run),
        takeover_section(view, Markup() if view is None else _picture(view)),
        timing_section(run),
    )
    path = directory / "report.html"
    path.write_text(page(title(run), CSS_FILE.read_text(), body), encoding="utf-8")
    return path


def _picture(view: Takeover) -> Markup:
    """The arm at the end of the takeover, or why there is no picture of it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "arm.png"
        try:
            render_pose(path, view.end_pose, view.target, width=960, height=640)
        except (VirtualArmError, subprocess.TimeoutExpired) as error:
            return paragraph(f"No picture of the arm: {error}", kind="note")
        x, y, z = view.target
        caption = (
            "The arm in the measured pose at the end of this attempt; the ball is the target, "
            f"at {x:.3f}, {y:.3f}, {z:.3f} m in the base frame."
        )
        return figure(inline_png(path.read_bytes(), alt=f"Rendering of the arm. {caption}"), caption)
