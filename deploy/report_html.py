"""The few pieces of HTML that a report is made of. Text is escaped unless it is `Markup`."""

import base64
import html
import re
from collections.abc import Sequence

from isthmus.policies.interval import wilson_interval

NOTHING = "\N{EN DASH}"  # in a cell that has no value


class Markup(str):
    """HTML that needs no escaping."""

    __slots__ = ()


def markup(value: object) -> Markup:
    """A value as HTML."""
    return value if isinstance(value, Markup) else Markup(html.escape(str(value)))


def paragraph(*parts: object, kind: str = "") -> Markup:
    """A paragraph; `kind` is its class."""
    attribute = f' class="{html.escape(kind)}"' if kind else ""
    return Markup(f"<p{attribute}>{' '.join(map(markup, parts))}</p>\n")


def section(title: str, *parts: Markup) -> Markup:
    """A section with a heading."""
    return Markup(f"<section>\n<h2>{markup(title)}</h2>\n{''.join(parts)}</section>\n")


def table(head: Sequence[object], rows: Sequence[Sequence[object]], *, caption: str) -> Markup:
    """A table; the first column names the row."""
    columns = "".join(f'<th scope="col">{markup(cell)}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row">{markup(row[0])}</th>{"".join(f"<td>{markup(cell)}</td>" for cell in row[1:])}</tr>\n'
        for row in rows
    )
    return Markup(
        f'<div class="wide" role="region" tabindex="0" aria-label="{markup(caption)}"><table>\n<caption>{markup(caption)}</caption>\n'
        f"<thead><tr>{columns}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>\n"
    )


def figure(picture: Markup, caption: str) -> Markup:
    """A picture with its caption below."""
    return Markup(f'<figure><div class="wide">{picture}</div><figcaption>{markup(caption)}</figcaption></figure>\n')


def inline_svg(svg: str, *, name: str, alt: str) -> Markup:
    """An SVG document as an element of a page: without prolog, its ids made unique by `name`, described by `alt`."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r"<style.*?</style>", "", body, flags=re.DOTALL)
    body = re.sub(r' xmlns(:\w+)?="[^"]*"', "", body).replace("xlink:href", "href")
    body = re.sub(r'( id="|url\(#|href="#)', rf"\g<1>{name}-", body)
    body = re.sub(r' (?:width|height)="[\d.]+pt"', "", body, count=2)
    return Markup(body.replace("<svg", f'<svg role="img" aria-label="{html.escape(alt)}"', 1).strip())


def inline_png(png: bytes, *, alt: str) -> Markup:
    """A PNG as an element of a page."""
    return Markup(f'<img src="data:image/png;base64,{base64.b64encode(png).decode()}" alt="{html.escape(alt)}">')


def rate_bar(successes: int, trials: int) -> Markup:
    """A small bar of a success rate with its 95 % interval as whiskers."""
    rate, (low, high) = 100 * successes / trials, (100 * bound for bound in wilson_interval(successes, trials))
    alt = f"{rate:.0f} %, 95 % interval {low:.0f} to {high:.0f} %"
    whiskers = f"M{low:.2f} 8H{high:.2f}M{low:.2f} 4V12M{high:.2f} 4V12"
    return Markup(
        f'<svg class="bar" role="img" aria-label="{alt}" viewBox="-1 0 102 16">'
        f'<rect class="track" x="0" y="2" width="100" height="12"/><rect class="fill" x="0" y="2" width="{rate:.2f}" height="12"/>'
        f'<path class="whisker" d="{whiskers}"/></svg>'
    )


def page(title: str, css: str, body: Sequence[Markup]) -> str:
    """A whole document that needs nothing outside itself."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="color-scheme" content="light dark">\n<title>{markup(title)}</title>\n<style>\n{css}</style>\n</head>\n'
        f"<body>\n<main>\n{''.join(body)}</main>\n</body>\n</html>\n"
    )
