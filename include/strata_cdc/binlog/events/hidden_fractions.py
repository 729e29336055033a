"""DATETIME, TIMESTAMP and TIME in the format of MariaDB 5.3: no TABLE_MAP has the digits of their fractions, and so the
lengths of their cells.
Not here: lengths by a schema version (`changes/old_times.py`), the format (`binlog/kernels/temporal.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from strata_cdc.binlog.bytes.codes import FieldType
from strata_cdc.binlog.events.cell_widths import CellWidths
from strata_cdc.binlog.kernels.widths import UNSIZED
from strata_cdc.flavour import Vendor

if TYPE_CHECKING:
    from strata_cdc.binlog.events.model import TableMap

OLD_TIMES: Final = frozenset({FieldType.DATETIME, FieldType.TIMESTAMP, FieldType.TIME})


def has_hidden_fractions(table_map: TableMap) -> bool:
    """Whether a TABLE_MAP has columns whose cells have a length that it does not say."""
    return table_map.vendor is Vendor.MARIADB and not OLD_TIMES.isdisjoint(table_map.types)


def cell_widths(table_map: TableMap) -> CellWidths:
    """The widths of a table's cells as its TABLE_MAP has them; `UNSIZED` if it does not have all of them.

    Raises:
        CorruptEventError: A column has a type that no server writes.
    """
    cells = CellWidths.from_table_map(table_map)
    return replace(cells, json_columns=UNSIZED) if has_hidden_fractions(table_map) else cells
