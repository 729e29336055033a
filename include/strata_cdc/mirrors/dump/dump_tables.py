"""Dumps tables of a source, several at once: the chunks of each, then its mirror.
Not here: one table (`dump_table.py`), which tables there are (`selection/wanted.py`)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from strata_cdc.counted import counted
from strata_cdc.errors import BadData, StrataError, Usage
from strata_cdc.mirrors.dump.dump_table import NotWantedError, TableDump, TableDumped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strata_cdc.errors import ErrorFacts
    from strata_cdc.mirrors.dump.dump_table import DumpProgress, DumpSettings
    from strata_cdc.mirrors.dump.finish import DumpSource
    from strata_cdc.schema.model.definition import TableName


class DumpReport(Struct, frozen=True):
    """What happened to the tables."""

    source: str
    tables: tuple[TableDumped, ...]
    failed: tuple[ErrorFacts, ...]
    """Why the other tables were not dumped; what was read of them stays, and the next dump continues from there."""

    @classmethod
    def from_outcomes(cls, source: str, outcomes: Sequence[TableDumped | StrataError | None]) -> Self:
        """The report of what became of each table; None of one that is not wanted.

        Raises:
            StrataError: The only table failed.
        """
        errors = [outcome for outcome in outcomes if isinstance(outcome, StrataError)]
        if errors and len(outcomes) == 1:
            raise errors[0]
        dumped = tuple(outcome for outcome in outcomes if isinstance(outcome, TableDumped))
        return cls(source, dumped, tuple(error.facts() for error in errors))

    def raise_if_wrong(self) -> None:
        """Raises an error if a table was not dumped.

        Raises:
            BadData: It has the reason of the first table.
        """
        if self.failed:
            first = self.failed[0]
            raise BadData(
                f"{counted(len(self.failed), 'table')} could not be dumped; {first.message}",
                source=self.source,
                table=first.table,
                remedy=first.remedy,
            )

    def sums(self) -> DumpSums:
        """The report in numbers."""
        return DumpSums(
            self.source,
            tables=len(self.tables),
            rows=sum(table.rows for table in self.tables),
            failed=len(self.failed),
        )


class DumpSums(Struct, frozen=True):
    """A report in numbers."""

    source: str
    tables: int
    rows: int
    failed: int


def dump_tables(
    source: DumpSource,
    tables: Sequence[TableName],
    settings: DumpSettings,
    *,
    parallel: int = 1,
    tell: Callable[[DumpProgress], None] = lambda _: None,
) -> DumpReport:
    """Dumps tables; if one fails, the others are still dumped.

    Args:
        source: The source to read, and where its mirrors are.
        tables: The tables.
        settings: How each table is read.
        parallel: How many tables are dumped at once, each over its own connection.
        tell: Called after each chunk, from several threads.

    Raises:
        Usage: There is no table to dump.
        StrataError: The only table failed.
    """
    if not tables:
        raise Usage(
            "there is no table to dump",
            source=source.name,
            remedy="`strata schema show` lists the tables; `mirrors` in the settings, or --table, chooses among them.",
        )
    with ThreadPoolExecutor(max(1, parallel), thread_name_prefix="dump") as pool:
        outcomes = list(pool.map(lambda table: _dump(source, table, settings, tell), tables))
    return DumpReport.from_outcomes(source.name, outcomes)


def _dump(
    source: DumpSource, table: TableName, settings: DumpSettings, tell: Callable[[DumpProgress], None]
) -> TableDumped | StrataError | None:
    try:
        return TableDump(source, table, settings, tell).run()
    except NotWantedError:
        return None
    except StrataError as error:
        return error.located(source=source.name, table=str(table))
