"""Prepared transactions in a range of the stream, without their rows: tables whose rows are not known, statements.
Not here: the rows (`landing/prepared.py`), what is done with the tables (`pipeline/plan/pending.py`,
`pipeline/plan/plan_slices.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strata_cdc.schema.model.definition import TableName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.errors import StrataError
    from strata_cdc.landing.prepared import PreparedPlacement
    from strata_cdc.schema.history.sql_store import SchemaStore
    from strata_cdc.schema.history.versions import StatementChange

UNNAMED: Final = TableName("", "*")
"""Means the tables of a change that does not name them; always wanted, and it never has anything to commit."""


def lost_rows(placement: PreparedPlacement) -> Iterator[tuple[TableName, StrataError]]:
    """Tables with rows that may have been committed and that the stream does not have or does not name; and why."""
    for lost in placement.lost():
        for table in [TableName(*names) for names in lost.tables] or [UNNAMED]:
            yield table, lost.error


def statement_changes(store: SchemaStore, source: str, placement: PreparedPlacement) -> list[StatementChange]:
    """Statements that changed rows and take effect in a range: those of a prepared transaction, at its XA COMMIT."""
    committed = placement.committed()
    changes = store.statement_changes(source, placement.after_seq, placement.last_seq)
    in_effect = [change for change in changes if change.seq not in placement.prepares or change.seq in committed]
    for seq in sorted(seq for seq in committed if seq <= placement.after_seq):
        in_effect += store.statement_changes(source, seq - 1, seq)
    return in_effect
