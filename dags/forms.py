"""What a run's form may say, or the `conf` of a run that REST or the command line starts; refused before anything runs.
Not here: which of its fields a DAG has (the DAG files), what it makes a run do (`steps.py`)."""

from __future__ import annotations

import os
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param

from strata.config.settings import SETTINGS_VARIABLE, load_settings
from strata.errors import StrataError, Usage
from strata.fields import nearest
from strata.gtid.sets import GtidSet
from strata.jobs.run.specs import from_micros, to_micros
from strata.schema.model.patterns import require_matchable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?([Zz]|[+-][0-9]{2}:?[0-9]{2})$"
"""A time with a zone, for a form's JSON schema; `micros_of` says whether there is such a day."""
GTID_SET = r"^\s*$|^[\s,]*\{?[0-9A-Fa-f]{8}(-?[0-9A-Fa-f]{4}){3}-?[0-9A-Fa-f]{12}\}?\s*:[\s\S]+$"
"""What every GTID set begins with, likewise; `GtidSet.parse` reads the rest."""
_FORMER = {"gtid_range": "gtid_set"}


def source_field(alone: str | None = None) -> Param:
    """A source, chosen from those of the settings; nothing for all of them.

    Args:
        alone: The only one, of a DAG that is for one source.
    """
    if alone is not None:
        return Param(alone, type="string", enum=[alone], title="Source", description="This DAG is for no other.")
    known = _sources()
    only: dict[str, Any] = {"enum": [None, *known], "values_display": {"null": "all of the settings"}} if known else {}
    return Param(None, type=["null", "string"], title="Source", description="Empty: all of the settings.", **only)


def tables_field(otherwise: str = "all of the settings") -> Param:
    """Patterns of tables.

    Args:
        otherwise: Which tables are meant if there is none.
    """
    return Param(
        None,
        type=["null", "array"],
        items={"type": "string", "pattern": "[.]"},
        minItems=1,
        title="Tables",
        description=f"Patterns of database.table, one a line, as in shop.orders or shop.*; empty: {otherwise}.",
    )


def run_form(alone: str | None = None) -> dict[str, Param]:
    """The form of `ingest_binlog`; left empty it asks for all that is owed.

    Args:
        alone: As for `source_field`.
    """
    time: dict[str, Any] = {"type": ["null", "string"], "format": "date-time", "pattern": TIME}
    return {
        "source": source_field(alone),
        "tables": tables_field(),
        "start": Param(
            None,
            title="From",
            description="Commit time, as in 2026-11-21T03:30:00Z. Empty: the stream's beginning, or with no end either "
            "all that is owed since the last run.",
            **time,
        ),
        "end": Param(None, title="Until", description="Exclusive, in the same form. Empty: now.", **time),
        "gtid_set": Param(
            None,
            type=["null", "string"],
            pattern=GTID_SET,
            title="GTID set",
            description="Instead of a span of time, as in 3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5.",
        ),
        "failed": Param(
            default=False,
            type="boolean",
            title="Also what failed",
            description="Without a span: what failed its checks, or is held back, is tried once more.",
        ),
        "dry_run": Param(
            default=False,
            type="boolean",
            title="Only say what would be done",
            description="The log of list_sources has it; nothing is written anywhere.",
        ),
    }


def _sources() -> list[str]:
    """Names of the settings' sources; none if they cannot be read here: the first step says why."""
    if SETTINGS_VARIABLE not in os.environ:
        return []
    try:
        return sorted(load_settings(os.environ).sources)
    except StrataError:
        return []


def check_form(given: Mapping[str, Any], known: Iterable[str], now: int) -> None:
    """Refuses what would be passed over, and what no step could use.

    Args:
        given: What was filled in, with the defaults of the rest.
        known: The names of the form's fields.
        now: Microseconds UTC.

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
    has_span = _check_span(given.get("start"), given.get("end"), now)
    if given.get("gtid_set"):
        GtidSet.parse(given["gtid_set"])
        if has_span:
            raise Usage("a run takes a GTID set or a span of time, not both")
    _check_tables(given.get("tables"))


def _check_span(start: str | None, end: str | None, now: int) -> bool:
    """Whether there is one; there is time in it, and all of it is past."""
    first, last = micros_of(start), micros_of(end)
    if last is not None and last > now:
        raise Usage(f"{end} is in the future", remedy="Leave it out: a run takes all there is by now.")
    if first is not None and first >= (now if last is None else last):
        raise Usage(f"there is no time between {start} and {end or 'now'}")
    return first is not None or last is not None


def _check_tables(patterns: list[str] | None) -> None:
    if patterns == []:
        raise Usage("tables is an empty list", remedy="Leave it out for all tables of the settings.")
    require_matchable(patterns or ())


def asked_of(source: str, params: Mapping[str, Any], start: int | None, end: int | None) -> str:
    """What a run is asked for, in a line.

    Args:
        source: The source's name.
        params: The form.
        start: Begin of its span, microseconds UTC.
        end: Its end, likewise.
    """
    tables = f", of {', '.join(params['tables'])} only" if params.get("tables") else ""
    if params.get("gtid_set"):
        return f"plan of {source} the transactions {params['gtid_set']}{tables}"
    times = [f"{word} {from_micros(time)}" for word, time in (("from", start), ("until", end)) if time is not None]
    failed = ", also what failed or is held" if params.get("failed") else ""
    return f"plan {' '.join([source, *times]) if times else f'what is owed of {source}'}{tables}{failed}"


def micros_of(time: str | None) -> int | None:
    """A time as text, as microseconds UTC. Airflow's own times come this way too: their differences cannot be divided.

    Raises:
        Usage: The text is no time, or has no zone.
    """
    try:
        return to_micros(datetime.fromisoformat(time)) if time else None
    except ValueError:
        raise Usage(f"{time} is no time with a zone", remedy="Write it as 2026-11-21T03:30:00Z.") from None
