"""What a run's form may say, or the `conf` of a run that REST or the command line starts; refused before anything runs.
Not here: the form itself (the DAG files), what it makes a run do (`steps.py`)."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from strata.errors import Usage
from strata.fields import nearest
from strata.gtid.sets import GtidSet
from strata.jobs.run.specs import to_micros
from strata.schema.model.patterns import can_match

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?([Zz]|[+-][0-9]{2}:?[0-9]{2})$"
"""A time with a zone, for a form's JSON schema; `micros_of` says whether there is such a day."""
_FORMER = {"gtid_range": "gtid_set"}


def check_form(given: Mapping[str, Any], known: Iterable[str]) -> None:
    """Refuses what would be passed over, and what no step could use.

    Args:
        given: What was filled in, with the defaults of the rest.
        known: The names of the form's fields.

    Raises:
        Usage: There is no such field, or a value has no meaning.
        InvalidGtidSetError: What should be a GTID set is none.
    """
    fields = list(known)
    for name in given:
        if name in _FORMER and _FORMER[name] in fields:
            raise Usage(f"{name} is called {_FORMER[name]} now", remedy="Start the run again with that name.")
        if name not in fields:
            raise Usage(f"{name} is no field of this form{nearest(name, fields)}", remedy="Start the run again.")
    start, end = micros_of(given.get("start")), micros_of(given.get("end"))
    if start is not None and end is not None and start >= end:
        raise Usage(f"there is no time between {given['start']} and {given['end']}")
    if given.get("gtid_set"):
        GtidSet.parse(given["gtid_set"])
        if start is not None or end is not None:
            raise Usage("a run takes a GTID set or a span of time, not both")
    _check_tables(given.get("tables"))


def _check_tables(patterns: list[str] | None) -> None:
    if patterns == []:
        raise Usage("tables is an empty list", remedy="Leave it out for all tables of the settings.")
    for pattern in patterns or ():
        if not can_match(pattern):
            raise Usage(
                f'"{pattern}" matches no table: it has no dot', remedy=f'Write database.table, as in "{pattern}.*".'
            )


def micros_of(time: str | None) -> int | None:
    """A time as text, as microseconds UTC. Airflow's own times come this way too: their differences cannot be divided.

    Raises:
        Usage: The text is no time, or has no zone.
    """
    try:
        return to_micros(datetime.fromisoformat(time)) if time else None
    except ValueError:
        raise Usage(f"{time} is no time with a zone", remedy="Write it as 2026-11-21T03:30:00Z.") from None
