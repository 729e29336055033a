"""Pictures of time as SVG: versions of a table as bands, its rows as bars, changes of many tables as a heat map. No
text is drawn, so that a picture can have any width; the words are beside it. Its looks are in `static/strata.css`.
Not here: which versions and rows there are (`table_page.py`, `tables_page.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from markupsafe import Markup
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

WIDTH: Final = 1000
_LEAST_BAND: Final = 3.0
"""Of a thousandth each; a narrower band could be neither seen nor hit."""
_BAND_HEIGHT: Final = 34
_BAR_HEIGHT: Final = 40
CELLS: Final = 48
_SHADES: Final = (1, 2, 4, 8)
"""Least number of changes for each shade of a cell."""


class Period(Struct, frozen=True):
    """Half-open span of time, microseconds UTC."""

    start: int
    end: int


class Band(Struct, frozen=True):
    """A part of a table's lifetime."""

    start: int
    """Microseconds UTC."""
    kind: str
    """Class of its colour: `version`, `gap`, `absent`, `moved`: the table has another name, `copy` or `partition`."""
    title: str
    """What a pointer that rests on it shows, and a screen reader reads."""
    href: str | None = None


def bands(given: Sequence[Band], span: Period) -> Markup:
    """Bands along the time. One that would be too narrow to be seen is drawn wider, and pushes those after it.

    Args:
        given: In order of time; each ends where the next begins, and the last at the end of the span.
        span: What the picture shows.
    """
    spans = _places([band.start for band in given], span)
    drawn = [_band(band, x, until - x) for band, (x, until) in zip(given, spans, strict=True) if until > x]
    return _svg(_BAND_HEIGHT, f"timeline of {len(given)} versions", drawn)


def marks(given: Sequence[Band], span: Period) -> Markup:
    """The same as narrow marks: what happened at a moment and lasts no longer.

    Args:
        given: In order of time.
        span: What the picture shows.
    """
    starts = _places([band.start for band in given], span)
    drawn = [_band(band, x, _LEAST_BAND + 1) for band, (x, _) in zip(given, starts, strict=True)]
    return _svg(_BAND_HEIGHT, f"{len(given)} moments", drawn)


def bars(values: Sequence[int]) -> Markup:
    """Bars of equal width, the highest as high as the picture."""
    most, width = max(values, default=0), WIDTH / max(len(values), 1)
    drawn = []
    for at, value in enumerate(values):
        if value:
            height = max(value / most * _BAR_HEIGHT, 1.0)
            drawn.append(
                Markup('<rect class="bar" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>').format(
                    f"{at * width:.1f}",
                    f"{_BAR_HEIGHT - height:.1f}",
                    f"{width * 0.9:.1f}",
                    f"{height:.1f}",
                    f"{value:,} rows",
                )
            )
    return _svg(_BAR_HEIGHT, f"rows along the same time, at most {most:,} in one bar", drawn)


def heat(times: Iterable[int], span: Period) -> Markup:
    """How often something changed in each of `CELLS` parts of a span, as shades."""
    counts = [0] * CELLS
    length = max(span.end - span.start, 1)
    for time in times:
        if span.start <= time <= span.end:
            counts[min((time - span.start) * CELLS // length, CELLS - 1)] += 1
    width = WIDTH / CELLS
    drawn = [
        Markup('<rect class="heat{}" x="{}" y="0" width="{}" height="20"><title>{}</title></rect>').format(
            sum(count >= least for least in _SHADES), f"{at * width:.1f}", f"{width:.1f}", f"{count} versions"
        )
        for at, count in enumerate(counts)
        if count
    ]
    return _svg(20, f"{sum(counts)} versions in this time", drawn)


def _places(starts: Sequence[int], span: Period) -> list[tuple[float, float]]:
    """Where each band begins and ends, from 0 to `WIDTH`."""
    length = max(span.end - span.start, 1)
    least = min(_LEAST_BAND, WIDTH / max(len(starts), 1))
    edges = [max((start - span.start) / length, 0.0) * WIDTH for start in starts]
    for at in range(1, len(edges)):
        edges[at] = max(edges[at], edges[at - 1] + least)
    # From the end back, so that the last ones have their width, too.
    limit = WIDTH - least
    for at in range(len(edges) - 1, -1, -1):
        edges[at] = min(edges[at], limit)
        limit = edges[at] - least
    return list(zip(edges, [*edges[1:], float(WIDTH)], strict=True))


def _band(band: Band, x: float, width: float) -> Markup:
    drawn = Markup('<rect class="band {}" x="{}" y="0" width="{}" height="{}" rx="2"><title>{}</title></rect>').format(
        band.kind, f"{x:.1f}", f"{max(width - 1, 1):.1f}", _BAND_HEIGHT, band.title
    )
    return drawn if band.href is None else Markup('<a href="{}">{}</a>').format(band.href, drawn)


def _svg(height: int, label: str, drawn: Iterable[Markup]) -> Markup:
    return Markup('<svg viewBox="0 0 {} {}" preserveAspectRatio="none" role="group" aria-label="{}">{}</svg>').format(
        WIDTH, height, label, Markup("").join(drawn)
    )
