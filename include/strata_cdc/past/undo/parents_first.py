"""The order of rows that come back together: what a foreign key deleted comes after the row that it references.
Not here: which keys there are (`foreign_keys.py`), the order of everything else (`undo.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strata_cdc.past.undo.row_changes import LoggedChange
from strata_cdc.schema.model.folding import fold_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from strata_cdc.past.timeline import TableEvent
    from strata_cdc.past.undo.foreign_keys import CascadingKey
    from strata_cdc.past.undo.table_outcomes import TableOutcomes

    Item = tuple[tuple[int, int], TableOutcomes, LoggedChange | TableEvent]
    """Ordinal of a transaction and number of a change in it; the table; what is taken back."""


def parents_first(items: Sequence[Item], keys: Sequence[CascadingKey]) -> list[Item]:
    """Changes in the order in which they can be taken back.

    MySQL (from 9.6 on) logs a row that a foreign key deletes before the rows that this row's own deletion deletes, and
    the row of the statement last: 2, 3, 1 for a chain of three. Neither this order nor its reverse has each parent
    before its children.

    Args:
        items: The newest first.
        keys: The foreign keys by which rows may have been deleted.
    """
    if not keys:
        return list(items)
    return [item for run in _runs(items) for item in (_ordered(run, keys) if len(run) > 1 else run)]


def _runs(items: Sequence[Item]) -> Iterator[list[Item]]:
    """Parts within which rows that come back may change places: of one transaction, and without rows that go."""
    run: list[Item] = []
    for item in items:
        (seq, _), _, change = item
        is_border = not isinstance(change, LoggedChange) or change.op == "insert"
        if run and (is_border or run[-1][0][0] != seq):
            yield run
            run = []
        run.append(item)
        if is_border:
            yield run
            run = []
    if run:
        yield run


def _ordered(run: Sequence[Item], keys: Sequence[CascadingKey]) -> Iterator[Item]:
    parents = {
        (key, values): at
        for at, (_, table, change) in enumerate(run)
        for key in keys
        if key.parent == table.survey.timeline.table and (values := _deleted(change, key.referenced)) is not None
    }
    placed: set[int] = set()
    for begin in range(len(run)):
        chain, waiting = [begin], {begin}
        while chain:
            _, table, change = run[chain[-1]]
            ahead = (
                parents.get((key, values))
                for key in keys
                if key.child == table.survey.timeline.table and (values := _deleted(change, key.columns)) is not None
            )
            missing = next((at for at in ahead if at is not None and at not in placed and at not in waiting), None)
            if missing is not None:
                chain.append(missing)
                waiting.add(missing)
                continue
            at = chain.pop()
            waiting.discard(at)
            if at not in placed:
                placed.add(at)
                yield run[at]


def _deleted(change: LoggedChange | TableEvent, columns: Sequence[str]) -> tuple[Any, ...] | None:
    """The values of columns of a deleted row; None of another change, and if one is NULL or not known."""
    if not isinstance(change, LoggedChange) or change.op != "delete":
        return None
    known = {fold_name(name): cell.value for name, cell in change.before.items()}
    values = tuple(known.get(fold_name(name)) for name in columns)
    return None if not values or None in values else values
