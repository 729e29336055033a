"""The first page: each source, how far it is, and what needs attention, the most urgent first.
Not here: single tables (`table_page.py`), reading the numbers that the lake has (`numbers.py`)."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa
from msgspec import Struct

from strata_cdc.counted import counted
from strata_cdc.errors import StrataError
from strata_cdc.progress.compared import server_comparison
from strata_cdc.schema.answers.catalogue import unknown_tables
from strata_cdc.schema.history.cascades import unlogged_cascades
from strata_cdc.schema.history.shell_words import pattern_word
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.store.database import reading
from strata_cdc.store.ledgers import IntervalLedger
from strata_cdc.store.read_again import ReadAgainLedger
from strata_cdc.store.rows_in_time import waiting_rows
from strata_cdc.store.table_intervals import IntervalState
from strata_cdc.store.tables import schema_version
from strata_cdc.store.verdicts import VerdictLedger

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from strata_cdc.progress.compared import ServerComparison
    from strata_cdc.schema.answers.catalogue import TableSummary
    from strata_cdc.schema.history.versions import TrackedPosition
    from strata_cdc.serve.numbers import Numbers, SourceNumbers
    from strata_cdc.serve.sources import Sources
    from strata_cdc.store.read_again import TableToRead
    from strata_cdc.store.rows_in_time import UnpublishedRows
    from strata_cdc.store.verdicts import IntervalOutcome

_SHOWN_GAPS: Final = 20
_MOST_GAPS: Final = 1000
# As in `monitoring/alerts.yaml`.
_PURGE_SECONDS: Final = 21600
_STILL_SECONDS: Final = 1800
_MIRROR_SECONDS: Final = 7200


class Urgency(IntEnum):
    """What comes first."""

    LOSS = 0
    """The server may delete what is not here; what was here is gone."""
    STILL = 1
    """Nothing runs, or it is not known."""
    WITHHELD = 2
    UNKNOWN = 3
    """A table whose schema is not known."""
    WAITING = 4
    """The next run does it."""
    UNLOGGED = 5
    """Changes that no binlog has, as long as the server is as it is."""


class Attention(Struct, frozen=True):
    """Something that somebody has to look at, and what to run."""

    text: str
    command: str | None = None
    table: tuple[str, str] | None = None
    """Database and table that it is about."""
    urgency: Urgency = Urgency.STILL
    seconds: float | None = None
    """A span of time that the page puts after the text."""


class SourceView(Struct, frozen=True):
    """A source on the first page."""

    name: str
    position: TrackedPosition | None = None
    """How far its stream is tracked; None: not at all."""
    published_until: int = 0
    """End of the newest interval, microseconds UTC."""
    versions: int = 0
    attention: tuple[Attention, ...] = ()
    """The most urgent first."""
    checked: IntervalOutcome | None = None
    """What the checks found in the newest interval that has been judged."""
    withheld_rows: int = 0
    """In quarantine, or blocked."""
    gaps: int = 0
    """Tables whose schema is not known."""
    compared: ServerComparison | None = None
    """How the tables compare with their server; None: nothing is published."""
    has_server: bool = True
    reading: SourceNumbers | None = None
    """The numbers that the lake has a part in; None: they are being read for the first time."""


def overview(sources: Sources, numbers: Numbers | None) -> list[SourceView]:
    """All sources, those first that somebody has to look at. A source whose store does not answer is shown as that.

    Raises:
        SettingsError: The settings cannot be read.
    """
    names = sources.names()
    readings = numbers.numbers_of(names) if numbers is not None else {}
    views = [_view(sources, name, readings.get(name)) for name in names]
    return sorted(
        views, key=lambda view: (not view.attention, *(problem.urgency for problem in view.attention[:1]), view.name)
    )


def _view(sources: Sources, name: str, reading: SourceNumbers | None) -> SourceView:
    try:
        engine = sources.store(name)
        if engine is None:
            return SourceView(name, attention=(_nothing_yet(name),))
        return _of_store(engine, name, reading, has_server=sources.has_server(name))
    except StrataError as error:
        return SourceView(name, attention=(Attention(error.message, error.remedy),))


def _of_store(engine: sa.Engine, name: str, read: SourceNumbers | None, *, has_server: bool) -> SourceView:
    position = SchemaStore(engine).position(name)
    last = IntervalLedger(engine).last(name)
    if position is None:
        return SourceView(name, attention=(_nothing_yet(name),))
    waiting, gaps = waiting_rows(engine, name), unknown_tables(engine, name, _MOST_GAPS)
    attention = [
        *_of_numbers(name, read),
        *(_waiting(name, unpublished) for unpublished in waiting),
        *(_read_again(name, table, has_server=has_server) for table in ReadAgainLedger(engine).all(name)[:_SHOWN_GAPS]),
        *(_gap(name, gap, has_server=has_server) for gap in gaps[:_SHOWN_GAPS]),
        *_unlogged(engine, name),
    ]
    return SourceView(
        name,
        position,
        published_until=last.end if last else 0,
        versions=_count_versions(engine, name),
        attention=tuple(sorted(attention, key=lambda problem: problem.urgency)),
        checked=next(iter(VerdictLedger(engine).outcomes(name, limit=1)), None),
        withheld_rows=sum(
            unpublished.rows for unpublished in waiting if unpublished.state is not IntervalState.PENDING
        ),
        gaps=len(gaps),
        compared=server_comparison(engine, name) if has_server else None,
        has_server=has_server,
        reading=read,
    )


def _nothing_yet(name: str) -> Attention:
    return Attention("nothing has been tracked yet", f"strata run --source {name}", urgency=Urgency.WAITING)


def _count_versions(engine: sa.Engine, name: str) -> int:
    query = sa.select(sa.func.count()).where(schema_version.c.source == name)
    with reading(engine) as connection:
        return int(connection.execute(query).scalar_one())


def _of_numbers(name: str, read: SourceNumbers | None) -> Iterator[Attention]:
    if read is None:
        return
    if read.error is not None:
        yield Attention(f"its numbers cannot be read: {read.error}", f"strata status --source {name}")
    yield from _of_times(name, read.numbers)
    crossed = int(read.numbers.get("crossed_rows") or 0)
    if crossed:
        text = f"{counted(crossed, 'row')} were written under another schema than the one valid where they are"
        yield Attention(text, f"strata status --source {name}", urgency=Urgency.UNLOGGED)


def _of_times(name: str, numbers: Mapping[str, float | None]) -> Iterator[Attention]:
    lost = int(numbers.get("lost_count") or 0)
    if lost:
        text = f"{counted(lost, 'change table')} {'lacks' if lost == 1 else 'lack'} what was published: somebody has "
        yield Attention(f"{text}deleted of it", f"strata status --source {name}", None, Urgency.LOSS)
    left = numbers.get("purge_distance_seconds")
    if left is not None and left <= 0:
        text = "the server may have purged transactions that have not landed, since"
        yield Attention(text, f"strata land --source {name}", None, Urgency.LOSS, -left)
    elif left is not None and left < _PURGE_SECONDS:
        text = "the server may purge transactions that have not landed, in"
        yield Attention(text, f"strata land --source {name}", None, Urgency.LOSS, left)
    still = numbers.get("progress_age_seconds")
    if still is not None and still > _STILL_SECONDS:
        text = "no landing has looked and no run has stored anything for"
        yield Attention(text, f"strata run --source {name}", None, Urgency.STILL, still)
    lag = numbers.get("mirror_lag_seconds")
    if lag is not None and lag > _MIRROR_SECONDS:
        yield Attention("a mirror is late by", f"strata mirror update --source {name}", None, Urgency.STILL, lag)
    elif lag is None and numbers.get("mirror_count"):
        yield Attention("a mirror cannot be read", f"strata mirror update --source {name}")


def _waiting(name: str, unpublished: UnpublishedRows) -> Attention:
    rows = (
        f"{counted(unpublished.rows, 'row')} of {_tables(unpublished)} in {counted(unpublished.intervals, 'interval')}"
    )
    if unpublished.state is IntervalState.PENDING:
        return Attention(f"{rows} wait for the next run", f"strata run --source {name}", urgency=Urgency.WAITING)
    if unpublished.state is IntervalState.FAILED:
        text, command = f"{rows} failed their checks or could not be decoded", f"strata run --source {name} --failed"
    else:
        text, command = f"{rows} are held back", f"strata status --source {name}"
    return Attention(text, command, urgency=Urgency.WITHHELD)


def _read_again(name: str, table: TableToRead, *, has_server: bool) -> Attention:
    text = f"the mirror of {table.name} is to be read again: {table.reason}"
    command = f"strata dump --source {name} --table {pattern_word(table.name)}"
    if not has_server:  # the reason says what can be done instead
        text, command = f"the mirror of {table.name} is blocked: {table.reason}", f"strata mirror list --source {name}"
    return Attention(text, command, (table.database_name, table.table_name), Urgency.STILL)


def _tables(unpublished: UnpublishedRows) -> str:
    return unpublished.table if unpublished.tables == 1 else counted(unpublished.tables, "table")


def _unlogged(engine: sa.Engine, name: str) -> Iterator[Attention]:
    tables = [str(unlogged_cascade.name) for unlogged_cascade in unlogged_cascades(engine, name)]
    if tables:
        more = f" and {counted(len(tables) - _SHOWN_GAPS, 'other')}" if len(tables) > _SHOWN_GAPS else ""
        text = f"foreign keys change rows of {', '.join(tables[:_SHOWN_GAPS])}{more} without row events"
        yield Attention(text, f"strata reconcile --source {name}", urgency=Urgency.UNLOGGED)


def _gap(name: str, summary: TableSummary, *, has_server: bool) -> Attention:
    text = f"the schema of {summary.name} is not known: {summary.gap}"
    command = f"strata snapshot --source {name}" if has_server else None
    return Attention(text, command, (summary.name.database, summary.name.table), Urgency.UNKNOWN)
