"""A running robot on a terminal of any size: a pure function from a snapshot to lines of text."""

import math
from collections.abc import Mapping
from types import MappingProxyType

from rich.console import Group, RenderableType
from rich.text import Text

from .dashboard_rows import (
    LABEL_COLUMNS,
    NEAR_RAD,
    NO_LABELS_BELOW,
    STRAINED,
    Row,
    clean,
    number_text,
    status_rows,
    time_text,
)
from .snapshot import JointView, Snapshot
from .sparkline import LATENESS_EDGES_US

MODE_COLOURS: Mapping[str, str] = MappingProxyType(
    {
        "IDLE": "white",
        "DAMP": "blue",
        "READY": "cyan",
        "POLICY": "green",
        "TELEOP": "magenta",
        "HOLD": "yellow",
        "ESTOP": "red",
        "REWIND": "bright_magenta",
        "HELP": "bright_yellow",
    }
)
_TWO_COLUMNS_FROM = 120  # columns


def render(snapshot: Snapshot, width: int, height: int, *, ascii_only: bool = False) -> RenderableType:
    """Draw a snapshot.

    Args:
        snapshot: what there is to show.
        width: columns; no line is longer.
        height: lines; there are no more.
        ascii_only: for terminals that know nothing else.

    Returns:
        Something that rich prints line by line without wrapping.
    """
    return Group(*lines(snapshot, width, height, ascii_only=ascii_only))


def lines(snapshot: Snapshot, width: int, height: int, *, ascii_only: bool = False) -> list[Text]:
    """The lines of `render`."""
    if width < 1 or height < 1:
        return []
    wide = width >= _TWO_COLUMNS_FROM
    column = width // 2 - 1 if wide else width
    rows, bar = status_rows(snapshot, column, ascii_only), _bar(snapshot, width)
    kept = _most_important(rows, height - 1)
    tall = height - len(kept) >= 5
    head = [_blank(bar), bar, _blank(bar), Text()] if tall else [bar]
    room = height - len(head)
    body = [_line(row, column, ascii_only) for row in kept]
    joints = _joint_lines(snapshot, width - column - 2 if wide else width, ascii_only)
    if wide:
        body = _with(body, _histogram(snapshot, column, ascii_only), room)
        body = _beside(body, joints[:room], column)
    else:
        body = _with(body, joints, room)
        body = _with(body, _histogram(snapshot, column, ascii_only), room)
    return [_cut(line, width, ascii_only) for line in (head + body)[:height]]


def plain_line(snapshot: Snapshot) -> str:
    """One line for whoever reads a file: everything that is not as it should be, and the little that always matters."""
    parts = [
        snapshot.mode.name,
        *(row.forms[-1] for row in status_rows(snapshot, _ENDLESS, True) if row.label in _PLAIN),
    ]
    return "  ".join(part for part in (clean(part) for part in parts) if part)


_PLAIN, _ENDLESS = ("attempt", "rate", "fault"), 1 << 20


def _bar(s: Snapshot, width: int) -> Text:
    colour = MODE_COLOURS.get(s.mode.name, "white")
    dry = "DRY RUN, nothing is written  " if s.dry_run and width >= 60 else "DRY " if s.dry_run else ""
    name = f" {dry}{s.mode.name}"
    right = f"{clean(s.robot)} "
    text = f"{name}{right:>{width - len(name)}}" if len(name) + len(right) + 2 <= width else name
    return Text(f"{text:<{width}}"[:width], style=f"bold reverse {colour}")


def _blank(bar: Text) -> Text:
    return Text(" " * bar.cell_len, style=bar.style)


def _most_important(rows: list[Row], count: int) -> list[Row]:
    ranked = sorted(range(len(rows)), key=lambda index: (rows[index].rank, index))
    return [rows[index] for index in sorted(ranked[: max(count, 0)])]


def _line(row: Row, width: int, ascii_only: bool) -> Text:
    label = "" if width < NO_LABELS_BELOW else f"{row.label:<{LABEL_COLUMNS}}"
    room = width - len(label)
    forms = [clean(form) for form in row.forms]
    chosen = next((form for form in forms if Text(form).cell_len <= room), forms[-1])
    line = Text(label, style="dim")
    line.append(chosen, style=row.style or "not dim")
    return _cut(line, width, ascii_only)


def _joint_lines(snapshot: Snapshot, width: int, ascii_only: bool) -> list[Text]:
    """Where each joint is in its range, and how much torque its target asks for."""
    names = max((len(joint.name) for joint in snapshot.joints), default=0)
    bar = width - names - 24
    if bar < 10:
        return []
    head = Text(f"{'joint':<{names}}  {'lower .. upper':^{bar}}  {'angle':>8}  {'torque':>7}", style="dim")
    return [head, *(_joint_line(joint, names, bar, ascii_only) for joint in snapshot.joints)] if names else []


def _joint_line(joint: JointView, names: int, bar: int, ascii_only: bool) -> Text:
    worried = not joint.margin >= NEAR_RAD or joint.lead > STRAINED
    track, dot = ("-", "o") if ascii_only else ("─", "●")
    cells = [track] * (bar - 2)
    place = (joint.pos - joint.lower) / (joint.upper - joint.lower) if joint.upper > joint.lower else math.nan
    if math.isfinite(place):
        cells[round(min(max(place, 0.0), 1.0) * (len(cells) - 1))] = dot
    angle, lead = number_text(math.degrees(joint.pos), ".1f"), number_text(100 * min(joint.lead, 99.0), ".0f")
    text = f"{clean(joint.name):<{names}}  [{''.join(cells)}]  {angle:>8}  {lead:>5} %"
    return Text(text, style="yellow" if worried else "")


def _histogram(snapshot: Snapshot, width: int, ascii_only: bool) -> list[Text]:
    """How many ticks woke up how late; bars are logarithms, as in `sparkline`."""
    counts, room = snapshot.lateness_counts, width - 24
    if not any(counts) or room < 10:
        return []
    edges = [time_text(edge) for edge in LATENESS_EDGES_US]
    names = [*(f"< {edge}" for edge in edges[:-1]), f">= {edges[-2]}"]
    full = math.log1p(max(counts))
    found = [Text("lateness of ticks", style="dim")]
    for name, count in zip(names, counts, strict=True):
        bar = ("#" if ascii_only else "█") * math.ceil(room * math.log1p(count) / full)
        found.append(Text(f"{name:>10}  {count:>9}  {bar}"))
    return found


def _with(body: list[Text], more: list[Text], room: int) -> list[Text]:
    """More below, where all of it has room."""
    return [*body, Text(), *more] if more and len(body) + 1 + len(more) <= room else body


def _beside(left: list[Text], right: list[Text], column: int) -> list[Text]:
    """Two columns; each line of the left one is at most `column` wide."""
    joined: list[Text] = []
    for index in range(max(len(left), len(right))):
        line = left[index].copy() if index < len(left) else Text()
        line.append(" " * (column + 2 - line.cell_len))
        joined.append(line.append_text(right[index]) if index < len(right) else line)
    return joined


def _cut(line: Text, width: int, ascii_only: bool) -> Text:
    line.truncate(width, overflow="crop" if ascii_only or width < 2 else "ellipsis")
    line.no_wrap, line.overflow = True, "crop"
    return line
