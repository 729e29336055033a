"""DDL around which a sink may lack values that users wrote.
Not here: what becomes of rows that are there (`quadrants.py`).

TiDB shows users what these DDL made before they are done, and TiCDC decodes each row with the schema of DDL that is
done (`docs/which-schema-fits-which-data.md`; pingcap/ticdc#5548). The rows that are concerned look like all others, and
no file says when the DDL began.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from strata_cdc.errors import StreamHoleError
from strata_cdc.schema.model.quadrants import DdlKind
from strata_cdc.ticdc.quadrants import is_exact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.schema.model.definition import Column
    from strata_cdc.ticdc.history import SinkHistory, SinkVersion


def unlogged_values(history: SinkHistory) -> Iterator[tuple[int, StreamHoleError]]:
    """What may be missing, with the timestamp of the DDL before whose end it was written."""
    for table in history.tables.values():
        for before, after in pairwise(table.versions):
            what = _lacking(before, after)
            if what:
                yield after.ts, _error(after, what)


def _lacking(before: SinkVersion, after: SinkVersion) -> str:
    if after.kind is DdlKind.PARTITIONS:
        return "rows of the new partitions"
    columns = [column.name for column in _written_early(before, after)]
    return f"values of {', '.join(columns)}" if columns else ""


def _written_early(before: SinkVersion, after: SinkVersion) -> Iterator[Column]:
    """The columns that users could write before the DDL was done, and that the schema before it does not have."""
    if after.kind not in {DdlKind.CHANGE_COLUMN, DdlKind.MULTIPLE}:
        return
    known = {column.name: column for column in before.definition.columns}
    gone = [known[name] for name in known.keys() - {column.name for column in after.definition.columns}]
    has_drop = after.kind is DdlKind.MULTIPLE and "DROP" in after.query.upper()
    for column in after.definition.columns:
        if column.name in known:
            is_early = not is_exact(known[column.name], column)
        else:
            # Several changes end together; only one with a drop goes on after users see the columns of the others.
            is_early = has_drop or (bool(gone) and not any(is_exact(source, column) for source in gone))
        if is_early:
            yield column


def _error(version: SinkVersion, what: str) -> StreamHoleError:
    return StreamHoleError(
        f"{what} that were committed before {version.kind.value} ended at {version.ts} may be missing: TiCDC decodes "
        f"with the schema of DDL that is done",
        table=str(version.table),
        file=version.path,
        remedy=f"Compare {version.table} with TiDB's rows, or read it again.",
    )
