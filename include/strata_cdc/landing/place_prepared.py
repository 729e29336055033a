"""What a range of the stream has of prepared transactions beside rows: tables whose rows nobody can tell, statements.
Not here: the rows (`landing/prepared.py`), what becomes of the tables (`pipeline/plan/pending.py`,
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
"""Stands for the tables of a change that does not tell them; always wanted, and never anything to commit."""


def lost_rows(placement: PreparedPlacement) -> Iterator[tuple[TableName, StrataError]]:
    """Tables of which the stream does not have, or does not tell of, rows that may have been committed; and why."""
    for lost in placement.lost():
        for table in [TableName(*names) for names in lost.tables] or [UNNAMED]:
            yield table, lost.error


def statement_changes(store: SchemaStore, source: str, placement: PreparedPlacement) -> list[StatementChange]:
    """Statements that changed rows and take effect in a range: those of what was prepared with its XA COMMIT."""
    committed = placement.committed()
    changes = store.statement_changes(source, placement.after_seq, placement.last_seq)
    found = [change for change in changes if change.seq not in placement.prepares or change.seq in committed]
    for seq in sorted(seq for seq in committed if seq <= placement.after_seq):
        found += store.statement_changes(source, seq - 1, seq)
    return found
