"""Storage engines: which of them keep the rows that are inserted into their tables.
Not here: what a change of the engine does to rows (`schema/history/effects.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from strata_cdc.schema.model.definition import TableDefinition

BLACKHOLE: Final = "BLACKHOLE"
ENGINES_WITH_ROWS: Final = frozenset(
    {"INNODB", "MYISAM", "MEMORY", "HEAP", "ARCHIVE", "CSV", "NDB", "NDBCLUSTER", "ARIA", "ROCKSDB", "TOKUDB"}
)

KEEPS_NO_ROWS: Final = "the server logs what is inserted into a BLACKHOLE table, and keeps none of it"
"""Why its changes do not give its rows."""


def discards_rows(table: TableDefinition) -> bool:
    """Whether the server logs rows that are inserted into a table, but keeps none of them (BLACKHOLE)."""
    return (table.engine or "").upper() == BLACKHOLE


CASCADES_LOGGED_SINCE: Final = (9, 6)
"""Since this version the server carries out cascades itself and logs them, unless `innodb_native_foreign_keys` is ON:
then row events lack the flag USE_SQL_FOREIGN_KEY_F (measured with 9.7.4). Before this version InnoDB carries them out,
and no binlog has them."""
