"""Completes images after changes that lack columns (MINIMAL, NOBLOB, partial JSON), from the rows before the changes.
Not here: which rows the mirror has (`apply.py`), complete images (`reduce.py`)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from strata_cdc.changes.partial_json import differences_of, rebuilt
from strata_cdc.errors import Usage
from strata_cdc.tables.distinct import distinct
from strata_cdc.tables.state import filled, refuse_unkeyed, refuse_unlogged_values, row_codes, with_values

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strata_cdc.schema.model.definition import TableDefinition
    from strata_cdc.tables.state import ImageChanges

    Row = dict[str, Any]


def completed(
    events: ImageChanges,
    definition: TableDefinition,
    key: Sequence[str],
    missing: pa.ChunkedArray,
    rows_of: Callable[[pa.Table], pa.Table],
) -> pa.Table:
    """The images after the changes, complete.

    Args:
        events: The changes, in order.
        definition: The definition of the version that decoded them.
        key: Columns that identify a row.
        missing: The column `_missing` of the changes.
        rows_of: Returns the mirror's rows with the given keys.

    Raises:
        Usage: The value of a column is not known.
    """
    refuse_unkeyed(definition, key, missing)
    if not events.absent:
        return events.after
    refuse_unlogged_values(events, definition, missing)
    if not key:
        return _from_before(events)
    state = rows_of(_distinct(events.before.select(key))).select(events.after.schema.names)
    return _one_by_one(events, key, state) if _changes_keys(events, key) else filled(state, events, key)


def _from_before(events: ImageChanges) -> pa.Table:
    """In a table without a key, an image before a change is complete, whatever row image the server has."""
    after = events.after
    if events.differences:
        raise Usage(f"partial updates of JSON ({', '.join(events.differences)}) in a table without a key")
    for name, absent in events.absent.items():
        updates = absent[np.isin(events.after_at[absent], events.before_at)]
        at = np.searchsorted(events.before_at, events.after_at[updates])
        after = with_values(after, name, updates, events.before[name].take(pa.array(at)))
    return after


def _distinct(keys: pa.Table) -> pa.Table:
    return keys.take(pa.array(np.unique(row_codes(keys), return_index=True)[1]))


def _changes_keys(events: ImageChanges, key: Sequence[str]) -> bool:
    """Whether an update whose image after is partial gives its row another key."""
    partial = distinct(np.concatenate(list(events.absent.values())))
    partial = partial[np.isin(events.after_at[partial], events.before_at)]
    before = events.before.take(pa.array(np.searchsorted(events.before_at, events.after_at[partial])))
    after = events.after.take(pa.array(partial))
    for name in key:
        lacking = np.isin(partial, events.absent.get(name, ()))
        codes = row_codes(pa.concat_tables([before.select([name]), after.select([name])]))
        if np.any((codes[: len(partial)] != codes[len(partial) :]) & ~lacking):
            return True
    return False


def _one_by_one(events: ImageChanges, key: Sequence[str], state: pa.Table) -> pa.Table:
    """Completes row by row, each image from the row that had its key before; a row that moved keeps its values."""

    def key_of(row: Row) -> str:
        return repr([row[name] for name in key])

    rows = {key_of(row): row for row in state.to_pylist()}
    lacking: dict[int, list[str]] = {}
    for name, rows_at in events.absent.items():
        for at in rows_at.tolist():
            lacking.setdefault(at, []).append(name)
    before = deque(zip(events.before_at.tolist(), events.before.select(key).to_pylist(), strict=True))
    after = events.after.to_pylist()
    for at, (number, row) in enumerate(zip(events.after_at.tolist(), after, strict=True)):
        old: Row | None = {}
        while before and before[0][0] <= number:
            removed_at, image = before.popleft()
            gone = rows.pop(key_of(image), None)
            old = gone if removed_at == number else old
        # An insert has no row before it, and the defaults of what it lacks already (`ImageChanges.from_changes`).
        if old != {}:
            row.update(_values(old, lacking.get(at, ()), events, at))
        rows[key_of(row)] = row
    return pa.Table.from_pylist(after, schema=events.after.schema)


def _values(old: Row | None, names: Sequence[str], events: ImageChanges, at: int) -> Row:
    """The values that an image lacks, from the row before the change."""
    if names and old is None:
        raise Usage("an image lacks columns, and there is no earlier row to take them from")
    return {name: _document((old or {})[name], events, name, at) for name in names}


def _document(old: Any, events: ImageChanges, name: str, at: int) -> Any:
    difference = events.differences.get(name, {}).get(at)
    if difference is None:
        return old
    try:
        return rebuilt(old, differences_of(difference))
    except (LookupError, ValueError, TypeError) as error:
        raise Usage(f"a partial update of JSON does not fit its document: {error}") from None
