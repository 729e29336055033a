"""What a comparison requests, and what the server has returned of a table.
Not here: reading it (`server_rows.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.quality.reconcile.server_rows import Pace
from strata_cdc.tables.layout import column_name

HELD_BYTES = 96 << 20

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    import pyarrow as pa

    from strata_cdc.position.binlog_position import ServerPosition
    from strata_cdc.position.port import Executed
    from strata_cdc.quality.reconcile.parts import PartedRows
    from strata_cdc.schema.model.definition import TableDefinition, TableName


class ComparisonRequest(Struct, frozen=True):
    """What is to be compared, and how."""

    tables: tuple[str, ...] = ()
    """Patterns of `database.table`, on top of the settings'."""
    names: frozenset[TableName] | None = None
    """Only these; None: no limit."""
    keys: int | None = None
    """How many rows of each table; None for all of them."""
    differences: int = 20
    """How many of each table are shown."""
    held_bytes: int = HELD_BYTES
    """Of rows of the server that wait in memory for the lake to come to where they were read; a table of which there
    are more, here or in the lake, is put into files and compared in parts of so many."""
    pace: Pace = Pace()
    sensitive: Callable[[TableName], Collection[str]] = lambda _: ()
    """The columns of a table whose values nobody may see; called when its history is known."""


class ServerReading(Struct, frozen=True):
    """What the server has returned of a table."""

    name: TableName
    definition: TableDefinition | None
    """None: there is no such table."""
    rows: pa.Table | PartedRows | None
    """In parts where they are many."""
    queried: pa.Table | None
    """Keys whose rows were read; None if all were."""
    begin: ServerPosition
    """Where the binlog ended before the reading began: what has no GTID before it is in the rows."""
    seen: Executed
    """What it had certainly executed."""
    end: ServerPosition
    """Nothing that lies after it in the binlog can be in the rows."""
    seconds: float


def hidden_of(wanted: ComparisonRequest, table: TableName) -> frozenset[str]:
    """The columns of a table, as the lake calls them, whose values nobody may see."""
    return frozenset(map(column_name, wanted.sensitive(table)))
