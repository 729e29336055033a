"""Rows that were changed, but are not in the log: a statement changed them, or the server lost them.
Not here: where that is in the log (`blocks.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.errors import StatementFormatError, StreamHoleError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.binlog.bytes.format import FormatDescription
    from strata_cdc.binlog.events.model import Query
    from strata_cdc.changes.decode_plans import DecodePlans


def unlogged_rows(query: Query, form: FormatDescription, plans: DecodePlans) -> Iterator[StatementFormatError]:
    """One error for each wanted table that a statement changed.

    Args:
        query: The statement.
        form: The format of its file.
        plans: Which rows are wanted.
    """
    # Imported here: the grammar takes long to load, and most slices have no statement.
    from strata_cdc.schema.ddl.context import context_of, statement_text  # noqa: PLC0415  see above
    from strata_cdc.schema.ddl.dml import tables_changed_by  # noqa: PLC0415  see above

    for table in tables_changed_by(statement_text(query, form.flavour), context_of(query, form)) or ():
        if plans.is_decoded(table):
            yield StatementFormatError(
                f"rows of {table} were changed by a statement, so the binlog does not hold them",
                table=str(table),
                remedy="Set `binlog_format=ROW` on the server; take a new baseline after this point.",
            )


def reported_loss(message: str) -> StreamHoleError:
    """The error for a loss that the server reports."""
    return StreamHoleError(
        f"the server reports that it lost events here: {message}",
        remedy="The changed rows are not in the binlog: take a new baseline after this point.",
    )
