"""DATETIME, TIMESTAMP and TIME in the format of MariaDB 5.3, with fractions that only the schema has: tables made while
`mysql56_temporal_format` is off have it until they are rebuilt.
Not here: the format (`binlog/kernels/temporal.py`), cells without a version (`binlog/events/hidden_fractions.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from strata_cdc.binlog.events.cell_widths import CellWidths
from strata_cdc.binlog.events.hidden_fractions import OLD_TIMES, has_hidden_fractions
from strata_cdc.binlog.kernels.widths import UNSIZED
from strata_cdc.schema.model.types import parse_column_type

if TYPE_CHECKING:
    from strata_cdc.binlog.events.model import TableMap
    from strata_cdc.schema.model.definition import TableDefinition


def with_fractions(table_map: TableMap, definition: TableDefinition) -> TableMap:
    """A TABLE_MAP that has the digits of these columns' fractions as metadata, as it has them for newer formats.

    Args:
        table_map: It agrees with the definition.
        definition: The version that decodes its rows.
    """
    if not has_hidden_fractions(table_map):
        return table_map
    metadata = list(table_map.metadata)
    for at, column in enumerate(definition.columns[: len(metadata)]):
        if table_map.types[at] in OLD_TIMES:
            metadata[at] = parse_column_type(column.column_type).length or 0
    return replace(table_map, metadata=tuple(metadata))


def sized(table_map: TableMap, complete: TableMap) -> CellWidths:
    """The widths of a table's cells.

    Args:
        table_map: As the log has it: whether rows are numbered by their bytes depends on it alone.
        complete: The same, from `with_fractions`.
    """
    cells = CellWidths.from_table_map(complete)
    return replace(cells, json_columns=UNSIZED) if has_hidden_fractions(table_map) else cells
