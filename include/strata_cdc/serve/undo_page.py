"""The SQL that takes a transaction's changes of one row, or of one table, back: text to copy, never executed here.
Not here: the script (`past/undo/`), the row through time (`row_page.py`)."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from strata_cdc.errors import QueryError
from strata_cdc.schema.history.shell_words import table_word
from strata_cdc.serve.row_page import hidden_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    import sqlalchemy as sa

    from strata_cdc.config.settings import Source
    from strata_cdc.schema.model.definition import TableName

_MOST_LINES: Final = 2000


class UndoView(Struct, frozen=True):
    """A script."""

    text: str
    is_cut: bool
    """Whether there are more lines than the page shows."""


def undo_view(source: Source, engine: sa.Engine, name: TableName, gtid: str, key: Sequence[str]) -> UndoView:
    """The script of one transaction.

    Args:
        gtid: The transaction.
        key: The row's key; empty: all rows of the table that the transaction changed.

    Raises:
        Usage: Nothing is chosen, or the table has values that no page shows.
        PastUnknownError: Some of the changes may not be known.
        StrataError: The lake or the store does not answer.
    """
    # Imported here: Airflow's web server loads them with the first such page.
    from strata_cdc.past.undo.choice import Choice, ChosenGtids  # noqa: PLC0415  see above
    from strata_cdc.past.undo.script import script_lines  # noqa: PLC0415  as above
    from strata_cdc.past.undo.undo import ChangeScript  # noqa: PLC0415  as above

    if hidden_columns(source, engine, name):
        raise QueryError(
            "the script would have values of columns that the settings call sensitive",
            remedy=f"`strata undo --source {source.name} --table {table_word(name)} --gtid {gtid}` prints it.",
        )
    choice = Choice((name,), ChosenGtids.parse(gtid), keys=(tuple(key),) if key else ())
    with ChangeScript(source, choice) as made:
        lines = list(islice(script_lines(made), _MOST_LINES + 1))
    return UndoView("\n".join(lines[:_MOST_LINES]), len(lines) > _MOST_LINES)
