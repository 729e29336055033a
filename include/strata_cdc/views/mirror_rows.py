"""The rows of a table as its mirror has them, as a view.
Not here: the rows that follow from changes (`make_views.py`), histories (`make_histories.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.dialects.engines import Dialect
from strata_cdc.dialects.mirror_rows import ROW_NUMBER, RowsColumn, RowsPart, numbered_file, rows_view
from strata_cdc.dialects.relations import Through, escaped, relation_of, schema_of
from strata_cdc.errors import Usage
from strata_cdc.mirrors.data_files import names_in
from strata_cdc.mirrors.renames import name_in_files
from strata_cdc.mirrors.table import Mirror
from strata_cdc.schema.model.definition import TableName
from strata_cdc.tables.column_sources import view_columns
from strata_cdc.tables.layout import column_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from strata_cdc.dialects.relations import ViewName
    from strata_cdc.schema.model.definition import TableDefinition


class Standing(Struct, frozen=True):
    """Whether a mirror's rows are those of a table that is there."""

    mirror: Mirror | None = None
    why_not: str | None = None
    """Of a mirror that there is."""


def standing_mirror(lake: str, source: str, name: TableName, definition: TableDefinition) -> Standing:
    """The mirror of a table, if its rows are the table's at the mirror's position.

    Args:
        definition: As the table is now.
    """
    mirror = Mirror.open(lake, source, name)
    if mirror is None or mirror.is_dropped:
        return Standing()
    if mirror.stopped:
        return Standing(why_not=f"the mirror is blocked: {mirror.stopped}")
    if mirror.definition != definition:
        return Standing(why_not="the mirror has not applied a DDL yet: `strata mirror update`, then make the view anew")
    return Standing(mirror)


def rows_of_mirror(mirror: Mirror, view: ViewName, dialect: Dialect, through: Through) -> tuple[str, ...]:
    """Statements that make the view of a mirror's rows.

    Args:
        mirror: As it is now.
        view: What it is called.
        dialect: For which engine.
        through: How it reads. The mirror's files may have dead rows among the others: with `files`, the view has their
            numbers.

    Raises:
        Usage: Dead rows cannot be excluded, because a column hides the numbers of rows.
        LakeUnavailableError: The storage does not answer.
    """
    columns = view_columns(mirror.definition, ())
    fields = [mirror.schema.field(column_name(column.name)) for column in columns]
    if through is Through.DELTA:
        relation, preludes = relation_of(dialect, through, mirror.table, mirror.url, ())
        parts = [RowsPart(relation, tuple(field.name for field in fields))]
    else:
        preludes, parts = _parts_of_files(mirror, fields, dialect)
    shown = [RowsColumn(column.name, column.kind) for column in columns]
    return (*schema_of(view, dialect), *preludes, rows_view(view, shown, parts, dialect))


def _parts_of_files(mirror: Mirror, fields: Sequence[pa.Field], dialect: Dialect) -> tuple[list[str], list[RowsPart]]:
    """The files without dead rows are read together, each of the others by itself."""
    files = mirror.snapshot.files
    whole = sorted(path for path, file in files.items() if file.vector is None)
    names = [name_in_files(field) for field in fields]
    preludes: list[str] = []
    parts: list[RowsPart] = []
    if whole:
        its_name = TableName(mirror.table.database, f"{mirror.table.table}__{mirror.source}__mirror")
        relation, preludes = relation_of(dialect, Through.FILES, its_name, mirror.url, whole)
        parts.append(RowsPart(relation, _there(mirror, whole, names)))
    for path, file in sorted(files.items()):
        if file.vector is not None:
            url = f"{mirror.url}/{path}"
            relation = numbered_file(dialect, escaped(url) if dialect is Dialect.SPARK else url)
            parts.append(RowsPart(relation, _numbered(mirror, path, names, dialect), mirror.dead_rows(file).tolist()))
    return preludes, parts


def _numbered(mirror: Mirror, path: str, names: Sequence[str], dialect: Dialect) -> tuple[str | None, ...]:
    hides = ROW_NUMBER[dialect]
    if hides in {name.lower() for name in names}:
        raise Usage(
            f"its mirror's files have dead rows, and a column called {hides} hides the numbers of rows: "
            "`--through delta` leaves dead rows out",
            table=str(mirror.table),
        )
    return _there(mirror, [path], names)


def _there(mirror: Mirror, files: Sequence[str], names: Sequence[str]) -> tuple[str | None, ...]:
    """The names of the columns that are in any of the files: a column that was added may be in none of them, and is
    NULL in their rows."""
    inside = set(names_in([f"{mirror.url}/{path}" for path in files]))
    return tuple(name if name in inside else None for name in names)
