"""Which rows of a large table are compared when not all are: rows from some keys on, and rows of some keys.

Ranges of the server's rows show what the lake lacks and what differs; keys of the lake show what the server lacks.
Not here: reading them (`server_rows.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from msgspec import Struct

from strata_cdc.changes.arrow import arrow_type
from strata_cdc.changes.select.keys import select_key
from strata_cdc.errors import Usage
from strata_cdc.mirrors.table import Mirror
from strata_cdc.tables.layout import column_name
from strata_cdc.tables.read import read_changes
from strata_cdc.tables.state import row_codes
from strata_cdc.tables.verbatim import column_of_verbatim, exact_names

if TYPE_CHECKING:
    from strata_cdc.quality.reconcile.literals import Key
    from strata_cdc.schema.model.definition import TableDefinition, TableName

_RANGES = 16


class Sample(Struct, frozen=True):
    """What is read of a table; nothing given: all of it."""

    keys: pa.Table | None = None
    """Keys of the lake that the server is queried for."""
    starts: tuple[Key | None, ...] = ()
    """Where ranges begin; None for the table's beginning."""
    rows: int = 0
    """Of each range."""

    @property
    def asked(self) -> list[Key]:
        """The keys as Python has them."""
        names = (
            [] if self.keys is None else [name for name in self.keys.schema.names if column_of_verbatim(name) is None]
        )
        return [] if self.keys is None else _as_keys(self.keys.select(names))


def draw(lake: str, source: str, name: TableName, definition: TableDefinition, size: int) -> Sample:
    """Half of the rows by ranges that begin at keys drawn from the lake, half by keys drawn from it.

    Without a primary key all rows are read, since nothing else shows which are missing; so they are where it has a
    prefix of a column, by which the server finds no row.

    Raises:
        LakeUnavailableError: The storage does not answer.
    """
    names = [column_name(name) for name in definition.primary_key]
    key = select_key(definition)
    if key is None or key.columns != definition.primary_key:
        return Sample()
    columns = [definition.column(name) for name in definition.primary_key]
    fields = [pa.field(of, arrow_type(column)) for of, column in zip(names, columns, strict=True) if column is not None]
    mirror = Mirror.open(lake, source, name)
    try:
        rows = read_changes(lake, source, name, columns=names) if mirror is None else mirror.to_arrow(names)
    except Usage:
        # Nothing is published, or the key has had types without a common one.
        rows = pa.schema(fields).empty_table()
    # Ranges contain days that no calendar has; keys that are queried are values of columns.
    keys = rows.select(names).drop_null().cast(pa.schema(fields))
    _, first = np.unique(row_codes(keys), return_index=True)
    drawn = np.random.default_rng().permutation(first)[: max(size // 2, _RANGES)]
    starts = keys.take(pa.array(drawn[: _RANGES - 1]))
    requested = keys.take(pa.array(drawn[: max(size // 2, 1)]))
    for text in exact_names(definition, names)[len(names) :]:
        requested = requested.append_column(text, pa.nulls(requested.num_rows, pa.string()))
    return Sample(
        keys=requested,
        starts=(None, *_as_keys(starts)),
        rows=max(size // 2 // _RANGES, 1),
    )


def _as_keys(keys: pa.Table) -> list[Key]:
    return list(zip(*(column.to_pylist() for column in keys.columns), strict=True))
