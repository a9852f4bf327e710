"""What the dashboard says of a snapshot, line by line, each in a long and in shorter forms."""

import math
import textwrap
from dataclasses import dataclass

from .snapshot import Snapshot
from .sparkline import sparkline

LABEL_COLUMNS = 10
NO_LABELS_BELOW = 44  # columns
NEAR_RAD, STRAINED = math.radians(3.0), 0.9  # of a limit, of a joint's torque: from here on in yellow
_FAULT_LINES = 4
_HOT_C = 60.0


@dataclass(frozen=True, kw_only=True)
class Row:
    """A line: the first form that fits is shown; where lines are few, those with low ranks stay."""

    rank: int
    label: str
    forms: tuple[str, ...]  # longest first
    style: str = ""


def status_rows(snapshot: Snapshot, width: int, ascii_only: bool) -> list[Row]:
    """Every line below the mode, in the order of display; without those that have nothing to say."""
    rows = [
        _attempt(snapshot),
        _gap(snapshot),
        _policy(snapshot),
        _rate(snapshot),
        _lateness(snapshot, ascii_only),
        _margin(snapshot),
        _health(snapshot),
        Row(rank=7, label="operator", forms=(snapshot.operator,)),
        _realtime_text(snapshot),
        Row(rank=8, label="last", forms=(snapshot.last_result,)),
        *_fault(snapshot, width),
        _keys(snapshot),
    ]
    return [row for row in rows if row.forms[0]]


def _attempt(s: Snapshot) -> Row:
    if s.episode < 0 and not s.episodes:
        return Row(rank=3, label="attempt", forms=("",))
    count, left = f"{s.episode + 1} of {s.episodes}", _seconds(s.left_s)
    return Row(rank=3, label="attempt", forms=(f"{count}   {left} left", f"{s.episode + 1}/{s.episodes} {left}"))


def _gap(s: Snapshot) -> Row:
    if s.gap is None or not all(map(math.isfinite, s.gap)):
        return Row(rank=4, label="to target", forms=("",))
    x, y, z = (100 * value for value in s.gap)
    far = f"{1e3 * math.hypot(*s.gap):.0f} mm"
    forms = (
        f"{far:>7}   x (forward) {x:+6.1f}  y (left) {y:+6.1f}  z (up) {z:+6.1f} cm",
        f"{far} x {x:+.1f} y {y:+.1f} z {z:+.1f} cm",
        f"{far} {x:+.1f} {y:+.1f} {z:+.1f} cm",
        far,
    )
    return Row(rank=4, label="to target", forms=forms)


def _policy(s: Snapshot) -> Row:
    if not s.policy and not s.source:
        return Row(rank=7, label="policy", forms=("",))
    which = f" ({s.policy_index + 1} of {s.policies})" if s.policies > 1 else ""
    by = f"   targets by {s.source}" if s.source else ""
    return Row(rank=7, label="policy", forms=(f"{s.policy}{which}{by}", f"{s.policy}{which}", s.policy or s.source))


def _rate(s: Snapshot) -> Row:
    achieved, asked = number_text(s.achieved_hz, ".2f"), number_text(s.asked_hz, ".0f")
    forms = (
        f"{achieved} Hz of {asked}   {s.missed} ticks missed   {s.dropped} records dropped",
        f"{achieved}/{asked} Hz  missed {s.missed}  dropped {s.dropped}",
        f"{achieved} Hz miss {s.missed}",
    )
    return Row(rank=5, label="rate", forms=forms, style="yellow" if s.missed or s.dropped else "")


def _lateness(s: Snapshot, ascii_only: bool) -> Row:
    figures = (
        f"p50 {time_text(s.lateness_p50_us)}  p99 {time_text(s.lateness_p99_us)}  max {time_text(s.lateness_max_us)}"
    )
    short = f"late {time_text(s.lateness_p50_us)} {time_text(s.lateness_p99_us)}"
    if not any(s.lateness_counts):
        return Row(rank=6, label="lateness", forms=(figures, short))
    drawn = sparkline(s.lateness_counts, ascii_only=ascii_only)
    return Row(
        rank=6, label="lateness", forms=(f"1 us [{drawn}] 65 ms   {figures}", f"[{drawn}]  {figures}", figures, short)
    )


def _margin(s: Snapshot) -> Row:
    near, strained = s.nearest, s.strained
    if near is None:
        return Row(rank=8, label="margin", forms=("",))
    angle = f"{math.degrees(near.margin):.1f} deg"
    lead = "" if strained is None else f"{100 * min(strained.lead, 99.0):.0f} %"
    long, middle = f"{near.name} {angle} from its limit", f"{near.name} {angle}"
    if strained is not None:
        long += f"   {strained.name} asks for {lead} of its torque"
        middle += f"  {strained.name} {lead}"
    short = f"margin {angle} {lead}".rstrip()
    worried = near.margin < NEAR_RAD or (strained is not None and strained.lead > STRAINED)
    return Row(rank=8, label="margin", forms=(long, middle, short), style="yellow" if worried else "")


def _health(s: Snapshot) -> Row:
    heat = f"{number_text(s.temperature, '.0f')} deg C"
    errors = "-" if s.bus_errors is None else f"{s.bus_errors}"
    named = f" ({s.hottest})" if s.hottest else ""
    forms = (
        f"hottest joint {heat}{named}   {errors} bus errors",
        f"{heat}  bus errors {errors}",
        f"{heat} bus {errors}",
    )
    return Row(rank=8, label="health", forms=forms, style="yellow" if s.bus_errors or s.temperature > _HOT_C else "")


def _realtime_text(s: Snapshot) -> Row:
    _, _, refused = s.granted.partition("refused: ")
    short = f"refused: {refused}" if refused != "none" else "all granted"
    worried = refused not in ("", "none")
    return Row(rank=9, label="real time", forms=(s.granted, short), style="yellow" if worried else "")


def _fault(s: Snapshot, width: int) -> list[Row]:
    """Cause and remedy over some lines; where there are few, the beginning stays."""
    room = max(width - (0 if width < NO_LABELS_BELOW else LABEL_COLUMNS), 1)
    parts = textwrap.wrap(clean(s.fault), room)[:_FAULT_LINES] if room < len(s.fault) else [s.fault]
    return [
        Row(rank=6 if index else 1, label="" if index else "fault", forms=(part,), style="bold red")
        for index, part in enumerate(parts)
    ]


def _keys(s: Snapshot) -> Row:
    """As many keys as fit, the most useful first."""
    said = [f"{key.key}: {key.does}" for key in s.keys]
    forms = tuple("   ".join(said[:count]) for count in range(len(said), 0, -1))
    return Row(rank=2, label="keys", forms=forms or ("",), style="bold")


def clean(text: str) -> str:
    """In one line, whatever another program has put into it."""
    return "".join(c if c.isprintable() else " " for c in text)


def number_text(value: float, form: str) -> str:
    """A number in a format, "-" where it is not known."""
    return f"{value:{form}}" if math.isfinite(value) else "-"


def _seconds(value: float) -> str:
    return f"{max(value, 0.0):.1f} s" if math.isfinite(value) else "- s"


def time_text(value_us: float) -> str:
    """Three digits and the unit that suits them."""
    for unit, scale in (("us", 1.0), ("ms", 1e3)):
        if value_us < 999.5 * scale:
            return f"{value_us / scale:.3g} {unit}"
    return f"{value_us * 1e-6:.3g} s" if math.isfinite(value_us) else "-"
