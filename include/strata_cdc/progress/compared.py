"""How the tables of a source compare with their server, in numbers and as a line for people.
Not here: comparing (`quality/reconcile/`), what is stored of it (`store/comparisons.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from strata_cdc.clock import from_micros
from strata_cdc.counted import counted
from strata_cdc.schema.history.historian import History
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.stream_positions import AtSeq
from strata_cdc.store.comparisons import ComparisonLedger, TableComparison
from strata_cdc.store.database import open_store
from strata_cdc.store.store_threads import StoreThreads
from strata_cdc.store.table_intervals import IntervalState, TableIntervalLedger

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import sqlalchemy as sa

    from strata_cdc.config.settings import Source
    from strata_cdc.schema.history.historian import Gap
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.store.table_intervals import StateTotal

_INCONCLUSIVE: Final = "inconclusive"
_MISMATCH: Final = "mismatch"
_SHOWN: Final = 3
"""Names of tables in a line."""


class ServerComparison(Struct, frozen=True):
    """What the newest comparison of each table with the server came to. Tables that are dropped do not count."""

    tables: int
    """Tables of which rows were compared."""
    rows: int
    """Rows that were compared, of all tables."""
    different_rows: int
    different_tables: tuple[str, ...]
    """Tables whose rows or definitions differ."""
    inconclusive_tables: tuple[str, ...]
    """Tables of which nothing could be compared."""
    never_tables: tuple[str, ...]
    """Tables with published rows that were never compared."""
    sampled_tables: int
    """Tables of which only some rows were compared."""
    oldest_at: int
    newest_at: int
    """When the first and the last of these tables were compared, microseconds UTC; 0 if there is none."""

    def line(self, source: str) -> str:
        """All of it as a sentence."""
        again = f"`strata reconcile --source {source}`"
        left = "".join(
            [*_named("cannot be compared", self.inconclusive_tables), *_named("never compared", self.never_tables)]
        )
        if not self.tables:
            return f"compared with the server: no table yet{left if self.inconclusive_tables else ''}: {again}"
        different = "none differs"
        if self.different_tables:
            different = f"{self.different_rows:,} differ, of {_names(self.different_tables)}"
        some = f", of {counted(self.sampled_tables, 'table')} a sample" if self.sampled_tables else ""
        text = f"compared with the server: {counted(self.rows, 'row')} of {counted(self.tables, 'table')}{some}"
        text += f", {different} ({_times(self.oldest_at, self.newest_at)})"
        return f"{text}{left}: {again}" if left or self.different_tables else text


class TablesAtEnd(Struct, frozen=True):
    """The tables of a source at the end of its stream, and the sums of their intervals."""

    tables: Mapping[TableName, Gap | None]
    """With the reason why one is not known; of none it is known that it is dropped."""
    totals: Sequence[StateTotal]

    @classmethod
    def from_store(cls, engine: sa.Engine, source: str) -> TablesAtEnd:
        """From the store, in which the source need not be."""
        store = SchemaStore(engine)
        position = store.position(source)
        with StoreThreads(engine) as threads:
            totals = threads.begin(TableIntervalLedger(engine).totals, source)
            tables = {} if position is None else dict(History(store, source).names(AtSeq(position.seq)))
            return cls(tables, totals())

    def published(self) -> set[str]:
        """The tables that have published rows."""
        is_published = (total for total in self.totals if total.state is IntervalState.PUBLISHED)
        return {total.name for total in is_published if total.published_rows}


def server_comparison(engine: sa.Engine, source: str, *, known: TablesAtEnd | None = None) -> ServerComparison | None:
    """The comparisons of a source's tables; None if nothing is published and nothing was compared.

    Args:
        known: What the caller has read of the store.
    """
    known = known or TablesAtEnd.from_store(engine, source)
    there = {str(name) for name in known.tables}
    compared = [table for table in ComparisonLedger(engine).all(source) if table.name in there]
    never = tuple(sorted((known.published() & there) - {table.name for table in compared}))
    return _numbers(compared, never) if compared or never else None


def compared_line(source: Source) -> str | None:
    """What the end of a run says of comparisons with the server; None if nothing is published or no server is there."""
    compared = None if source.is_sink else server_comparison(open_store(source.store_url), source.name)
    return None if compared is None else compared.line(source.name)


def _numbers(comparisons: Sequence[TableComparison], never: tuple[str, ...]) -> ServerComparison:
    known = [table for table in comparisons if table.outcome != _INCONCLUSIVE]
    times = [table.compared_at for table in known]
    return ServerComparison(
        tables=len(known),
        rows=sum(table.compared for table in known),
        different_rows=sum(table.different for table in known),
        different_tables=tuple(table.name for table in known if table.outcome == _MISMATCH),
        inconclusive_tables=tuple(table.name for table in comparisons if table.outcome == _INCONCLUSIVE),
        never_tables=never,
        sampled_tables=sum(table.is_sample for table in known),
        oldest_at=min(times, default=0),
        newest_at=max(times, default=0),
    )


def _named(what: str, tables: tuple[str, ...]) -> list[str]:
    return [f"; {what}: {_names(tables)}"] if tables else []


def _names(tables: tuple[str, ...]) -> str:
    more = f" and {counted(len(tables) - _SHOWN, 'other')}" if len(tables) > _SHOWN else ""
    return f"{', '.join(tables[:_SHOWN])}{more}"


def _times(oldest: int, newest: int) -> str:
    first, last = (f"{from_micros(time):%Y-%m-%d %H:%M}" for time in (oldest, newest))
    return f"{first} UTC" if first == last else f"{first} to {last} UTC"
