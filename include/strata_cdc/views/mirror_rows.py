"""The rows of a table as its mirror has them, as a view.
Not here: the rows that follow from changes (`make_views.py`), histories (`make_histories.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.dialects.mirror_rows import RowsColumn, rows_view
from strata_cdc.dialects.relations import Through, relation_of, schema_of
from strata_cdc.mirrors.data_files import names_in
from strata_cdc.mirrors.histories.history import history_of
from strata_cdc.mirrors.renames import name_in_files
from strata_cdc.mirrors.table import Mirror
from strata_cdc.schema.model.definition import TableName
from strata_cdc.tables.column_sources import view_columns
from strata_cdc.tables.layout import column_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from strata_cdc.dialects.engines import Dialect
    from strata_cdc.dialects.relations import Relation, ViewName
    from strata_cdc.errors import Usage
    from strata_cdc.schema.history.versions import RowRemoval, TableChange
    from strata_cdc.schema.model.definition import TableDefinition


class StatementsPast(Struct, frozen=True):
    """What DDL did to a source's tables, in stream order."""

    table_changes: Sequence[TableChange]
    removals: Sequence[RowRemoval]
    commits: Mapping[TableName, int]
    """The newest commit of each change table that is known to have been made."""


class Standing(Struct, frozen=True):
    """Whether a mirror's rows are those of a table that is there."""

    mirror: Mirror | None = None
    why_not: str | None = None
    """Of a mirror that there is."""


def standing_mirror(lake: str, source: str, name: TableName, definition: TableDefinition) -> Standing:
    """The mirror of a table, if its rows are the table's at the mirror's position.

    Args:
        lake: Folder or URL of the lake.
        source: The source's name.
        name: The table.
        definition: As the table is now.

    Raises:
        LakeUnavailableError: The storage does not answer.
    """
    mirror = Mirror.open(lake, source, name)
    if mirror is None or mirror.is_dropped:
        return Standing()
    if mirror.stopped:
        return Standing(why_not=f"the mirror is blocked: {mirror.stopped}")
    if mirror.definition != definition:
        return Standing(why_not="the mirror has not applied a DDL yet: `strata mirror update`, then make the view anew")
    return Standing(mirror)


def rows_of_mirror(
    lake: str,
    mirror: Mirror,
    view: ViewName,
    dialect: Dialect,
    through: Through,
    past: StatementsPast,
) -> tuple[str, ...]:
    """Statements that make the view of a mirror's rows.

    Args:
        lake: Folder or URL of the lake.
        mirror: As it is now.
        view: What it is called.
        dialect: For which engine.
        through: How it reads. Files have dead rows among the others, where a mirror marks them: what they hold is then
            put together as its history is, whose files have none.
        past: The source's.

    Raises:
        Usage: Its files have dead rows, and there is no history that could be read in their place.
        LostTableError: Of a change table of that history something was deleted.
        LakeUnavailableError: The storage does not answer.
    """
    if through is Through.FILES and any(file.vector for file in mirror.snapshot.files.values()):
        return history_of(lake, mirror, past.table_changes, past.removals, past.commits).sql_now(view, dialect)
    files = sorted(mirror.snapshot.files)
    its_name = TableName(mirror.table.database, f"{mirror.table.table}__{mirror.source}__mirror")
    inside = set(names_in([f"{mirror.url}/{path}" for path in files])) if through is Through.FILES else set()
    columns = []
    for column in view_columns(mirror.definition, ()):
        field = mirror.schema.field(column_name(column.name))
        name = name_in_files(field) if through is Through.FILES else field.name
        # A column that was added and is NULL everywhere may be in none of the files.
        is_there = through is Through.DELTA or name in inside
        columns.append(RowsColumn(column.name, column.kind, name if is_there else None))
    relation: Relation | None = None
    preludes: list[str] = []
    if files or through is Through.DELTA:
        relation, preludes = relation_of(dialect, through, its_name, mirror.url, files)
    return (*schema_of(view, dialect), *preludes, rows_view(view, columns, relation, dialect))


def why_no_history(error: Usage) -> str:
    """Why files of a mirror cannot be read without its log."""
    return f"its mirror's files have dead rows, which `--through delta` leaves out; and {error.facts().message}"
