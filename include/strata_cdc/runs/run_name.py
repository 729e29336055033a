"""The name of a run: its time span, its source, its kind and a digest, as in
`20261121T033000Z-20261121T033500Z-shop-rows-0f1e2d3c4b`.
Not here: what is in its folder (`run_folder.py`), what it does (`run_plan.py`)."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from msgspec import Struct

from strata_cdc.clock import from_micros, to_micros

_MOMENT: Final = "%Y%m%dT%H%M%S"
# A source's name may have hyphens. The names of older runs have only their span and a digest, and times with a
# fraction.
_FORM: Final = re.compile(
    r"(?P<start>\d{8}T\d{6})(?:\.\d{6})?Z-(?P<end>\d{8}T\d{6})(?:\.\d{6})?Z"
    r"(?:-(?P<source>.+)-(?P<kind>rows|notes|nothing))?-(?P<digest>[0-9a-f]+)"
)


class RunKind(StrEnum):
    """What a run holds. The name does not say who requested the run: the same plan always has the same name."""

    ROWS = "rows"
    """It has rows to decode, to check and to publish."""
    NOTES = "notes"
    """It has no rows to decode, but tables that are blocked, or whose rows were removed or changed without row
    events."""
    NOTHING = "nothing"
    """No table has anything there: nothing is stored of such a run, and a step that gets its name has nothing to do."""


class RunName(Struct, frozen=True):
    """The parts of a run's name; runs sort by time."""

    start: int
    """Start of its first interval, microseconds UTC; the name has whole seconds."""
    end: int
    source: str
    """Empty for a run of an older version."""
    kind: RunKind
    digest: str
    """Digest of all that the run does: another plan has another name."""

    @classmethod
    def parse(cls, text: str) -> RunName | None:
        """The parts of a run's name, of this version or an older one; None if the text is no such name."""
        match = _FORM.fullmatch(text)
        if match is None:
            return None
        start, end = _micros(match["start"]), _micros(match["end"])
        if start is None or end is None:
            return None
        return cls(start, end, match["source"] or "", RunKind(match["kind"] or RunKind.ROWS), match["digest"])

    def __str__(self) -> str:
        return f"{_moment(self.start)}-{_moment(self.end)}-{self.source}-{self.kind}-{self.digest}"


def _moment(micros: int) -> str:
    moment = from_micros(micros)
    # The year by itself: glibc does not fill it up to four digits, and a span may begin in the year 1.
    return f"{moment.year:04}{moment:%m%dT%H%M%S}Z"


def _micros(text: str) -> int | None:
    try:
        return to_micros(datetime.strptime(text, _MOMENT).replace(tzinfo=UTC))
    except ValueError:
        return None
