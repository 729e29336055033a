"""The DDL of some transactions of a stream, as events for a reader.
Not here: reading DDL (`schema/ddl/`), the versions that it makes (`versions.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.streams.events import Ddl

if TYPE_CHECKING:
    from strata_cdc.changes.port import SchemaChange
    from strata_cdc.streams.filter import StreamFilter
    from strata_cdc.streams.port import ChosenTransactions


def statements_of(chosen: ChosenTransactions, wanted: StreamFilter) -> list[Ddl]:
    """Returns the statements that the reader wants and does not have, in order.

    Args:
        chosen: The transactions.
        wanted: The tables and databases that the reader wants.

    Raises:
        CorruptEventError: A statement cannot be read.
    """
    places, given = chosen.places, chosen.given
    return [
        Ddl(
            places[schema_change.seq],
            schema_change.statement,
            schema_change.number,
            tuple(sorted(map(str, schema_change.tables))),
            schema_change.version,
            schema_change.tables,
        )
        for schema_change in chosen.changes.schema_changes()
        if schema_change.number > given.get(schema_change.seq, 0) and _is_wanted(schema_change, wanted)
    ]


def _is_wanted(change: SchemaChange, wanted: StreamFilter) -> bool:
    if not any(map(wanted.database, change.databases)):
        return False
    return wanted.everything or any(map(wanted.table, change.tables))
