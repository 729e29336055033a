"""The fields of a run's form, or of the `conf` of a run that REST or the command line starts, and their checks before
anything runs. Not here: which fields a DAG has (the DAG files), what the fields make a run do (`steps.py`)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param, get_parsing_context

from strata_cdc.clock import from_micros
from strata_cdc.config.engines import ENGINES
from strata_cdc.config.settings import are_given, load_settings
from strata_cdc.errors import StrataError, UnknownSourceError, Usage
from strata_cdc.fields import nearest
from strata_cdc.runs.form_fields import CHECKS, COUNT, GTID_SET, SWITCH, TABLES, TIME, micros_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk.definitions.param import ParamsDict

_FORMER = {"gtid_range": "gtid_set"}
_OF_A_REQUEST = ("tables", "start", "end", "gtid_set", "engine", "failed")
"""The fields of `run_form` that are about one source; the others are read by `list_sources`."""


def source_field(sources: Sequence[str] = ()) -> Param:
    """A source; empty: all that can be chosen.

    Args:
        sources: The sources of the DAG; empty: those of the settings.
    """
    if len(sources) == 1:
        (alone,) = sources
        return Param(alone, type="string", enum=[alone], title="Source", description="This DAG has only this source.")
    known = sources or known_sources()
    every = "all of this DAG" if sources else "all of the settings"
    only: dict[str, Any] = {"enum": [None, *known], "values_display": {"null": every}} if known else {}
    return Param(None, type=["null", "string"], title="Source", description=f"Empty: {every}.", **only)


def tables_field(otherwise: str = "all of the settings") -> Param:
    """Patterns of tables.

    Args:
        otherwise: Which tables are meant if there is no pattern.
    """
    return Param(
        None,
        type=["null", "array"],
        items={"type": "string"},
        title="Tables",
        description=f"Patterns of database.table, one a line, as in shop.orders or shop.*; empty: {otherwise}.",
        **_in_words(TABLES),
    )


def switch_field(title: str, description: str) -> Param:
    """A switch that is off by default."""
    return Param(default=False, type="boolean", title=title, description=description, **_in_words(SWITCH))


def count_field(title: str, description: str) -> Param:
    """A number of rows; empty: all."""
    return Param(None, type=["null", "integer"], title=title, description=description, **_in_words(COUNT))


def _in_words(kind: str) -> dict[str, Any]:
    """Makes Airflow say in words what is wrong with a field; the schema's own `format` decides how the page shows
    it."""
    return {"allOf": [{"format": kind}]}


def run_form(sources: Sequence[str] = ()) -> dict[str, Param]:
    """The form of `ingest_binlog`; left empty, it requests everything that is pending.

    Args:
        sources: As for `source_field`.
    """
    time: dict[str, Any] = {"type": ["null", "string"], "format": "date-time", **_in_words(TIME)}
    return {
        "source": source_field(sources),
        "tables": tables_field(),
        "start": Param(
            None,
            title="From",
            description="Commit time, as in 2026-11-21T03:30:00Z. Empty: the stream's beginning; if the end is empty "
            "too, everything that is pending since the last run.",
            **time,
        ),
        "end": Param(None, title="Until", description="Exclusive, in the same form. Empty: now.", **time),
        "gtid_set": Param(
            None,
            type=["null", "string"],
            title="GTID set",
            description="Instead of a span of time, as in 3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5.",
            **_in_words(GTID_SET),
        ),
        "engine": Param(
            None,
            type=["null", "string"],
            enum=[None, *ENGINES],
            title="Engine",
            description="What decodes: the task itself (local), a Spark job, or either by the run's size (auto). "
            "Empty: as the settings have it.",
        ),
        "failed": switch_field(
            "Also what failed", "Without a span: what failed its checks, or is blocked, is tried again."
        ),
        "dry_run": switch_field(
            "Only say what would be done", "The log of list_sources has it; nothing is written anywhere."
        ),
    }


def request_fields() -> dict[str, Param]:
    """The fields of `run_form` for a DAG whose author has chosen the source."""
    form = run_form()
    return {name: form[name] for name in _OF_A_REQUEST}


def request_of(params: Mapping[str, Any], now: int) -> dict[str, Any]:
    """What a run's parameters request of a source; fields that its DAG does not have are empty.

    Args:
        params: The run's parameters.

    Raises:
        Usage: Two fields contradict each other.
    """
    request = {**dict.fromkeys(_OF_A_REQUEST), **{name: params[name] for name in _OF_A_REQUEST if name in params}}
    _check_together(request, now)
    return request


def known_sources() -> list[str]:
    """Names of the settings' sources; none if the settings cannot be read here: the first step reports why.

    None, too, where a file is read for a task: the settings may have lost a source since its run was requested. The
    first step says so, once; Airflow would end the task's process before it, and start it again three times.
    """
    if not are_given(os.environ) or get_parsing_context().task_id is not None:
        return []
    try:
        return sorted(load_settings(os.environ).sources)
    except StrataError:
        return []


def check_sources(names: Sequence[str], argument: str) -> None:
    """Refuses sources that no run would find, unless the settings cannot be read here.

    Args:
        names: The names that a user gave, as in `("shop",)`.
        argument: Where they were given.

    Raises:
        UnknownSourceError: The settings have no such source.
    """
    known = known_sources()
    for source in names:
        if known and source not in known:
            raise UnknownSourceError(
                f"the settings have no source {source!r}{nearest(str(source), known)}",
                source=source,
                remedy=f"Correct its name in {argument}, or add it to the settings.",
            )


def check_form(given: Mapping[str, Any], form: ParamsDict, now: int) -> None:
    """Refuses fields that would be ignored, and values that no step could use.

    Args:
        given: The values that were filled in, with the defaults of the others.
        form: Its fields.

    Raises:
        Usage: There is no such field, or a value has no meaning.
    """
    fields = list(form)
    for name, value in given.items():
        if name in _FORMER and _FORMER[name] in fields:
            raise Usage(f"{name} is now called {_FORMER[name]}", remedy="Start the run again with that name.")
        if name not in fields:
            raise Usage(f"{name} is no field of this form{nearest(name, fields)}", remedy="Start the run again.")
        for kind in form.get_param(name).schema.get("allOf", ()):
            CHECKS[kind["format"]](value)
    _check_together(given, now)


def _check_together(given: Mapping[str, Any], now: int) -> None:
    has_span = _check_span(given.get("start"), given.get("end"), now)
    if given.get("gtid_set") and has_span:
        raise Usage("a run takes a GTID set or a span of time, not both", remedy="Leave one of them empty.")


def _check_span(start: str | None, end: str | None, now: int) -> bool:
    """Whether there is a span; refuses an empty span, and one that ends in the future."""
    first, last = micros_of(start), micros_of(end)
    if last is not None and last > now:
        raise Usage(f"{end} is in the future", remedy="Leave it out: a run takes everything up to now.")
    if first is not None and first >= (now if last is None else last):
        raise Usage(f"there is no time between {start} and {end or 'now'}", remedy="Let the span end after it begins.")
    return first is not None or last is not None


def describe_request(source: str, params: Mapping[str, Any], start: int | None, end: int | None) -> str:
    """The request of a run, in a line.

    Args:
        params: The form.
        start: Begin of its span, microseconds UTC.
        end: Its end, likewise.
    """
    tables = f", of {', '.join(params['tables'])} only" if params.get("tables") else ""
    if params.get("gtid_set"):
        return f"plan of {source} the transactions {params['gtid_set']}{tables}"
    times = [f"{word} {from_micros(time)}" for word, time in (("from", start), ("until", end)) if time is not None]
    failed = ", also what failed or is blocked" if params.get("failed") else ""
    return f"plan {' '.join([source, *times]) if times else f'what is pending of {source}'}{tables}{failed}"
