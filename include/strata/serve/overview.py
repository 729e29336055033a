"""The first page: each source, how far it is, and what somebody has to look at.
Not here: single tables (`table_page.py`), the lake, which a page does not open (`strata status` does)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import sqlalchemy as sa
from msgspec import Struct

from strata.counted import counted
from strata.errors import StrataError
from strata.schema.answers.catalogue import unknown_tables
from strata.schema.history.sql_store import SchemaStore
from strata.store.database import reading
from strata.store.ledgers import IntervalLedger
from strata.store.rows_in_time import waiting_rows
from strata.store.table_intervals import State
from strata.store.tables import schema_version

if TYPE_CHECKING:
    from strata.schema.history.versions import TrackedPosition
    from strata.serve.sources import Sources
    from strata.store.rows_in_time import Waiting

_SHOWN_GAPS: Final = 20


class Attention(Struct, frozen=True):
    """Something that somebody has to look at, and what to run."""

    text: str
    command: str | None = None
    table: tuple[str, str] | None = None
    """Database and table that it is about."""


class SourceView(Struct, frozen=True):
    """A source on the first page."""

    name: str
    position: TrackedPosition | None = None
    """How far its stream is tracked; None: not at all."""
    published_until: int = 0
    """End of the newest interval, microseconds UTC."""
    versions: int = 0
    attention: tuple[Attention, ...] = ()


def overview(sources: Sources) -> list[SourceView]:
    """All sources, those first that somebody has to look at. A source whose store does not answer is shown as that.

    Raises:
        SettingsError: The settings cannot be read.
    """
    views = [_view(sources, name) for name in sources.names()]
    return sorted(views, key=lambda view: (not view.attention, view.name))


def _view(sources: Sources, name: str) -> SourceView:
    try:
        engine = sources.store(name)
        return SourceView(name, attention=(_nothing_yet(name),)) if engine is None else _of_store(engine, name)
    except StrataError as error:
        return SourceView(name, attention=(Attention(error.message, error.remedy),))


def _of_store(engine: sa.Engine, name: str) -> SourceView:
    position = SchemaStore(engine).position(name)
    last = IntervalLedger(engine).last(name)
    if position is None:
        return SourceView(name, attention=(_nothing_yet(name),))
    attention = [*(_waiting(name, one) for one in waiting_rows(engine, name)), *_gaps(engine, name)]
    return SourceView(name, position, last.end if last else 0, _count_versions(engine, name), tuple(attention))


def _nothing_yet(name: str) -> Attention:
    return Attention("nothing has been tracked yet", f"strata run --source {name}")


def _count_versions(engine: sa.Engine, name: str) -> int:
    query = sa.select(sa.func.count()).where(schema_version.c.source == name)
    with reading(engine) as connection:
        return int(connection.execute(query).scalar_one())


def _waiting(name: str, one: Waiting) -> Attention:
    rows = f"{counted(one.rows, 'row')} of {_tables(one)} in {counted(one.intervals, 'interval')}"
    if one.state is State.OWED:
        return Attention(f"{rows} wait for the next run", f"strata run --source {name}")
    if one.state is State.FAILED:
        return Attention(f"{rows} failed their checks or could not be decoded", f"strata run --source {name} --failed")
    return Attention(f"{rows} are held back", f"strata status --source {name}")


def _tables(one: Waiting) -> str:
    return one.table if one.tables == 1 else counted(one.tables, "table")


def _gaps(engine: sa.Engine, name: str) -> list[Attention]:
    return [
        Attention(
            f"the schema of {one.name} is not known: {one.gap}",
            f"strata snapshot --source {name}",
            (one.name.database, one.name.table),
        )
        for one in unknown_tables(engine, name, _SHOWN_GAPS)
    ]
