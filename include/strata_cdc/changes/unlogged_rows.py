"""Rows that were changed, but are not in the log: a statement changed them, or the server lost them.
Not here: where that is in the log (`blocks.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strata_cdc.errors import StatementFormatError, StreamHoleError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.binlog.bytes.format import FormatDescription
    from strata_cdc.binlog.events.model import Query
    from strata_cdc.changes.decode_plans import DecodePlans

_REMEDY: Final = "Set `binlog_format=ROW` on the server, and read again, as it is after this point,"


def unlogged_rows(query: Query, form: FormatDescription, plans: DecodePlans) -> Iterator[StatementFormatError]:
    """One error for each wanted table that a statement changed; one without a table for a statement that names none,
    as a call of a function does, and may have changed any.

    Args:
        query: The statement.
        form: The format of its file.
        plans: Which rows are wanted.
    """
    # Imported here: the grammar takes long to load, and most slices have no statement.
    from strata_cdc.schema.ddl.context import context_of, statement_text  # noqa: PLC0415  see above
    from strata_cdc.schema.ddl.dml import tables_changed_by, without_values  # noqa: PLC0415  see above

    text = statement_text(query, form.flavour)
    tables = tables_changed_by(text, context_of(query, form))
    if tables == ():
        yield StatementFormatError(
            f"rows were changed by a statement that names no table ({without_values(text)}), so the binlog does not "
            "hold them",
            remedy=f"{_REMEDY} the tables that it may have changed.",
        )
    for table in tables or ():
        if plans.is_decoded(table):
            yield StatementFormatError(
                f"rows of {table} were changed by a statement, so the binlog does not hold them",
                table=str(table),
                remedy=f"{_REMEDY} the table. With `--table` of other tables nothing is missing here.",
            )


def reported_loss(message: str) -> StreamHoleError:
    """The error for a loss that the server reports."""
    return StreamHoleError(
        f"the server reports that it lost events here: {message}",
        remedy="The changed rows are not in the binlog: read the tables again, as they are after this point.",
    )
