"""The plots of a report, as SVG text whose colours are the page's own (CSS variables), so that they follow light and dark."""

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import numpy as np

from isthmus.policies.curve import Curve

from .report_takeover import Takeover
from .settled import TOLERANCE_M

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.typing import RcKeyType

Share = bool | Literal["none", "all", "row", "col"]
WIDTH_IN = 6.6
# Stand-ins, replaced by the CSS variable of the same role. The four hues keep apart for every common colour blindness.
INK, MUTED, RULE, SPAN = "#101010", "#606060", "#d0d0d0", "#e0a030"
BLUE, ORANGE, GREEN, PURPLE = "#0072b2", "#d55e00", "#009e73", "#cc79a7"
VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    RULE: "--rule",
    SPAN: "--span",
    BLUE: "--c1",
    ORANGE: "--c2",
    GREEN: "--c3",
    PURPLE: "--c4",
}
SERIES = ((ORANGE, ":"), (PURPLE, "--"), (BLUE, "-"), (GREEN, "-."))


def learning_curves(curves: Mapping[str, Curve]) -> str:
    """Success and reward against steps and time."""
    with _figure(3.7, rows=2, columns=2, sharex="col", sharey="row") as (figure, axes):
        success_steps, success_time, reward_steps, reward_time = axes
        for (name, curve), color in zip(curves.items(), (BLUE, ORANGE), strict=False):
            steps = np.array([point.steps / 1e6 for point in curve.points])
            seconds = np.array([point.seconds for point in curve.points])
            success = np.array([np.nan if point.success is None else 100 * point.success for point in curve.points])
            reward = np.array([point.reward for point in curve.points])
            ended = np.isfinite(success)  # in other iterations no episode came to its end
            for ax, x, y in (
                (success_steps, steps[ended], success[ended]),
                (success_time, seconds[ended], success[ended]),
                (reward_steps, steps, reward),
                (reward_time, seconds, reward),
            ):
                ax.plot(x, y, color=color, linewidth=1.6, marker="." if len(x) < 30 else "", label=name)
        success_steps.set(ylabel="success, % of episodes", ylim=(0, 104))
        reward_steps.set(ylabel="reward per control step", xlabel="environment steps, millions")
        reward_time.set(xlabel="training time, s")
        for ax in axes:
            ax.set_xlim(left=0)
        if len(curves) > 1:
            figure.legend(*reward_steps.get_legend_handles_labels(), loc="outside upper left", ncols=2)
    return _svg(figure)


def error_distributions(errors_m: Mapping[str, np.ndarray]) -> str:
    """Empirical distribution of the final error of each evaluation, with the tolerance."""
    from matplotlib.ticker import LogLocator

    with _figure(3.3) as (figure, (ax,)):
        right = 1.3e3 * max(TOLERANCE_M, *(float(errors.max()) for errors in errors_m.values()))
        for (name, errors), (color, style) in zip(errors_m.items(), SERIES, strict=False):
            ordered = np.sort(1e3 * np.maximum(errors, 1e-5))
            share = 100 * np.arange(1, len(ordered) + 1) / len(ordered)
            x, y = np.concatenate([ordered[:1], ordered, [right]]), np.concatenate([[0.0], share, [100.0]])
            ax.step(x, y, where="post", color=color, linestyle=style, linewidth=1.8, label=name)
        ax.set(xscale="log", xlabel="distance of tip and target at the end, mm (log)", ylabel="% of targets")
        ax.set(xlim=(None, right), ylim=(0, 104))
        tolerance = 1e3 * TOLERANCE_M
        ax.axvline(tolerance, color=MUTED, linewidth=1)
        ax.annotate(
            f"{tolerance:.0f} mm",
            (tolerance, 0.03),
            (4, 0),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            color=MUTED,
        )
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.xaxis.set_major_formatter("{x:g}")
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2)
    return _svg(figure)


def takeover(view: Takeover) -> str:
    """Proposal, person, executed and measured angle of the joints that moved most; below, the tip's distance to the target.

    From half a second before the person takes over: the way there is longer and would hide what a person changes.
    """
    rows = len(view.joints) + 1
    with _figure(1.45 * rows + 0.7, rows=rows, sharex=True) as (figure, axes):
        shown = view.time_s >= view.spans_s[0][0] - 0.5
        time_s, ticks = view.time_s[shown], view.episode.ticks[shown]
        for ax, joint in zip(axes, view.joints, strict=False):
            for field, label, color, style, width in (
                ("joint_pos", "measured", MUTED, "-", 1.0),
                ("executed_target", "executed", BLUE, "-", 2.2),
                ("human_target", "person", ORANGE, "--", 1.6),
                ("policy_target", "policy's proposal", GREEN, ":", 1.6),
            ):
                ax.plot(
                    time_s,
                    np.rad2deg(ticks[field][:, joint]),
                    color=color,
                    linestyle=style,
                    linewidth=width,
                    label=label,
                )
            ax.set_ylabel(f"{view.episode.joint_names[joint]}\ndeg")
        last = axes[-1]
        last.plot(time_s, 1e3 * view.tip_error_m[shown], color=BLUE, linewidth=1.8)
        last.axhline(1e3 * TOLERANCE_M, color=MUTED, linewidth=1)
        last.annotate(
            f"{1e3 * TOLERANCE_M:.0f} mm",
            (1.0, 1e3 * TOLERANCE_M),
            (-2, 3),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            ha="right",
            color=MUTED,
        )
        last.set(xlabel="time from the beginning of the attempt, s", ylabel="measured tip\nto target, mm")
        last.set_ylim(bottom=0)
        last.set_xlim(float(time_s[0]), float(time_s[-1]))
        for ax in axes:
            _shade(ax, view.spans_s)
        _name_span(axes[0], view, float(time_s[-1] - time_s[0]))
        axes[0].legend(loc="lower left", bbox_to_anchor=(-0.02, 1.1), ncols=4)
    return _svg(figure)


def timings(stages: Sequence[tuple[str, float]]) -> str:
    """Seconds per stage as bars."""
    with _figure(0.27 * len(stages) + 0.75) as (figure, (ax,)):
        names, seconds = [name for name, _ in stages], [value for _, value in stages]
        bars = ax.barh(range(len(names)), seconds, color=BLUE, height=0.62)
        ax.bar_label(
            bars, labels=[f"{value:.1f} s" if value >= 0.05 else "< 0.1 s" for value in seconds], padding=4, color=INK
        )
        ax.set_yticks(range(len(names)), names)
        ax.tick_params(axis="y", length=0)
        ax.invert_yaxis()
        ax.grid(visible=False)
        ax.spines["left"].set_visible(False)
        ax.set(xlabel="seconds", xlim=(0, 1.15 * max(seconds)))
    return _svg(figure)


def _shade(ax: "Axes", spans: Sequence[tuple[float, float]]) -> None:
    for start, end in spans:
        ax.axvspan(start, end, color=SPAN, alpha=0.16, linewidth=0)
        for edge in (start, end):
            ax.axvline(edge, color=SPAN, linewidth=1)


def _name_span(ax: "Axes", view: Takeover, width_s: float) -> None:
    """Entry and exit in words, above the first and last span."""
    start, end = view.spans_s[0][0], view.spans_s[-1][1]
    narrow = end - start < 0.35 * width_s
    leaves = "gives back" if view.gave_back else "until the end"
    for x, words, align in (
        (start, "takes over", "right" if narrow else "left"),
        (end, leaves, "left" if narrow else "right"),
    ):
        ax.annotate(
            words,
            (x, 1.0),
            (0, 3),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            ha=align,
            color=MUTED,
        )


@contextmanager
def _figure(
    height_in: float, *, rows: int = 1, columns: int = 1, sharex: Share = False, sharey: Share = False
) -> Iterator[tuple["Figure", list["Axes"]]]:
    """A figure of the report's style and its axes in reading order; laid out when the block ends."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_style()):
        figure = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
        grid = figure.subplots(rows, columns, sharex=sharex, sharey=sharey, squeeze=False)
        yield figure, list(grid.flat)


def _style() -> "dict[RcKeyType, object]":
    return {
        "font.size": 8.5,
        "font.family": ["DejaVu Sans"],
        "svg.fonttype": "none",
        "svg.hashsalt": "isthmus",
        "text.color": INK,
        "axes.labelcolor": INK,
        "axes.edgecolor": MUTED,
        "axes.linewidth": 0.8,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.facecolor": "none",
        "axes.axisbelow": True,
        "axes.grid": True,
        "grid.color": RULE,
        "grid.linewidth": 0.6,
        "xtick.color": MUTED,
        "ytick.color": MUTED,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "figure.facecolor": "none",
        "legend.frameon": False,
        "legend.handlelength": 2.6,
        "legend.borderaxespad": 0.2,
    }


def _svg(figure: "Figure") -> str:
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context(_style()):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    for color, variable in VARIABLES.items():
        text = text.replace(color, f"var({variable})")
    return text.replace("'DejaVu Sans'", "system-ui, 'DejaVu Sans', sans-serif")
