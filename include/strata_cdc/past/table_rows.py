"""The rows of a query's tables as an engine gets them: columns c0, c1 and so on, file by file.
Not here: the tables (`table_at.py`, `row_versions.py`), the engines (`duckdb_engine.py`, `spark_jobs/past_queries.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from msgspec import Struct

from strata_cdc.arrow_columns import no_rows
from strata_cdc.dialects.queries.collations import quoted
from strata_cdc.dialects.queries.columns import kind_of, loaded_as
from strata_cdc.mirrors.data_files import names_of, read_file_rows
from strata_cdc.tables.layout import column_name
from strata_cdc.tables.verbatim import INVALID_COLUMN, verbatim_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.mirrors.table import Mirror
    from strata_cdc.past.needed_rows import NeededRows

NOT_IN_LAKE: Final = "the lake has no column for a value of"
_OF: Final = "column"
"""The key of a field's metadata: the column whose values the field has as texts."""
NO_COLUMN: Final = pa.field("n", pa.bool_())
"""COUNT(*) needs rows, and no column."""


class MirrorRows(Struct, frozen=True):
    """The columns of a mirror that a query reads, in the types that DuckDB gets.

    For a column with values that it does not hold, such as zero dates, there is a column i0, i1 and so on, with the
    text of the value.
    """

    mirror: Mirror
    needed: NeededRows
    """The columns, and values outside which rows may be skipped."""

    @property
    def schema(self) -> pa.Schema:
        """The columns; a single column of NULLs if none is read."""
        return pa.schema(list(self._fields().values()) or [NO_COLUMN])

    def _fields(self) -> dict[str, pa.Field]:
        """The columns by their names in the mirror."""
        definition = self.mirror.definition
        texts = verbatim_names(definition) if INVALID_COLUMN in self.mirror.schema.names else {}
        fields = {}
        for number in self.needed.numbers:
            column = definition.columns[number]
            fields[column_name(column.name)] = pa.field(f"c{number}", loaded_as(kind_of(column)))
            if column.name in texts:
                fields[texts[column.name]] = pa.field(f"i{number}", pa.string(), metadata={_OF: column.name})
        return fields

    @property
    def files(self) -> tuple[str, ...]:
        """The data files, each of bounded size."""
        return tuple(self.mirror.snapshot.files)

    def batches(self, file: str) -> Iterator[pa.Table]:
        """The rows of a data file, a batch at a time.

        Raises:
            DamagedFileError: The file is gone or damaged.
            LakeUnavailableError: The storage does not answer.
        """
        live, fields = self.mirror.snapshot.files[file], self._fields()
        if not fields:
            yield pa.table([pa.nulls(live.live_rows, NO_COLUMN.type)], schema=self.schema)
            return
        wanted, schema = names_of(self.mirror.exact_schema, list(fields)), self.schema
        within = self.needed.within(self.mirror.definition)
        for rows in read_file_rows(self.mirror.url, live, wanted, self.mirror.dead_rows(live), within=within):
            columns = [column.cast(field.type) for column, field in zip(rows.columns, schema, strict=True)]
            yield pa.table(columns, schema=schema)

    def table(self) -> pa.Table:
        """All rows."""
        return pa.concat_tables([no_rows(self.schema), *(batch for file in self.files for batch in self.batches(file))])


class LoadedRows(Struct, frozen=True):
    """Rows that are in memory."""

    rows: pa.Table

    def table(self) -> pa.Table:
        """All rows."""
        return self.rows


QueryRows = MirrorRows | LoadedRows


def view_of(name: str, schema: pa.Schema) -> str:
    """A table as a query reads it, from its rows in `<name>_rows`, in DuckDB's SQL: a value that its column does not
    hold is an error where it is read."""
    shown = []
    for column in schema.names:
        text = f"i{column[1:]}"
        if column.startswith("i"):
            continue
        if text in schema.names:
            kind = "DATE" if pa.types.is_date(schema.field(column).type) else "TIMESTAMP"
            kind = "VARCHAR" if pa.types.is_string(schema.field(column).type) else kind
            of = (schema.field(text).metadata or {}).get(_OF.encode(), b"the table").decode()
            fail = f"CAST(error({quoted(f'{NOT_IN_LAKE} {of}: ')} || {text}) AS {kind})"
            shown.append(f"CASE WHEN {text} IS NOT NULL THEN {fail} ELSE {column} END AS {column}")
        else:
            shown.append(column)
    # Names are t0, t1, c0, c1 and so on.
    return f"SELECT {', '.join(shown)} FROM {name}_rows"  # noqa: S608  see above
