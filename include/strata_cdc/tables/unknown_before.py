"""Updates of which nothing is known before the change, as TiCDC writes them in CSV without old values.
Not here: images that lack some columns (`state.py`, `mirrors/complete.py`).

Such an update is applied by the key of its image after, which is whole. This is exact if each of these keys was there
before the transaction, and was not deleted in it: then the new keys of a transaction's updates are among their old
keys. They are as many, and all different, so that they are the same keys: no row is left under a key that an update has
given up. A key that was not there shows that an update changed it, and that TiCDC did not split it into a DELETE and an
INSERT: then the row that it had is not known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata_cdc.errors import Usage
from strata_cdc.tables.layout import column_name
from strata_cdc.tables.state import apply_changes, in_order, row_codes
from strata_cdc.tables.verbatim import exact_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from strata_cdc.schema.model.definition import TableDefinition

    Mask = NDArray[np.bool_]

KEY_MAY_BE_NEW: Final = (
    "the updates have no images before: TiCDC did not split an update of a key, and wrote no old values "
    "(`output-old-value = true` does)"
)


def apply_by_own_keys(state: pa.Table, changes: pa.Table, definition: TableDefinition) -> pa.Table:
    """As `apply_changes`, which refuses such updates.

    Raises:
        Usage: As `apply_changes`; or an update has changed a key.
    """
    if changes.num_rows == 0:
        return state
    key = list(exact_names(definition, [column_name(name) for name in definition.primary_key]))
    key = [name for name in key if name in state.schema.names]
    return apply_changes(state, with_keys_before(in_order(changes), definition, key, state), definition)


def with_keys_before(
    changes: pa.Table, definition: TableDefinition, key: Sequence[str], state: pa.Table | None = None
) -> pa.Table:
    """The changes, where updates of which nothing is known before have the key that their image after has.

    Args:
        changes: Rows of the change table, in order, of one schema version.
        definition: The definition of that version.
        key: Columns that identify a row.
        state: The rows before; None if the caller checks that the keys are there before the first change of each.

    Returns:
        The same object if there are no such updates.

    Raises:
        Usage: The key of such an update was not there: an update has changed a key.
    """
    is_unknown = _are_unknown(changes, definition) if key else np.zeros(0, np.bool_)
    if not is_unknown.any():
        return changes
    before = changes["_before"].combine_chunks()
    names = [field.name for field in before.type]
    there = pa.array(is_unknown)
    columns = [
        pc.if_else(there, changes[name].combine_chunks(), before.field(name)) if name in key else before.field(name)
        for name in names
    ]
    filled = pa.StructArray.from_arrays(columns, fields=list(before.type), mask=before.is_null())
    known = changes.set_column(names_at(changes, "_before"), changes.schema.field("_before"), filled)
    _check(known, filled, is_unknown, key, state)
    return known.set_column(
        names_at(changes, "_missing"), changes.schema.field("_missing"), _still_missing(changes, definition, key, there)
    )


def names_at(rows: pa.Table, name: str) -> int:
    """The place of a column."""
    return int(rows.schema.get_field_index(name))


def _are_unknown(changes: pa.Table, definition: TableDefinition) -> Mask:
    """Which changes are updates whose image before lacks every column."""
    missing = changes["_missing"].combine_chunks()
    if missing.null_count == len(missing):
        return np.zeros(len(missing), np.bool_)
    names = pa.array([f"_before.{column.name}" for column in definition.columns], pa.string())
    is_before = pc.is_in(pc.list_flatten(missing), names).to_numpy(zero_copy_only=False)
    parents = pc.list_parent_indices(missing).to_numpy()
    lacking = np.bincount(parents[is_before], minlength=len(missing))
    is_update = pc.equal(changes["_op"], "update").to_numpy()
    return np.asarray(is_update & (lacking == len(definition.columns)), np.bool_)


def _still_missing(changes: pa.Table, definition: TableDefinition, key: Sequence[str], there: pa.Array) -> pa.Array:
    """`_missing` without the columns of the key, where they are filled."""
    missing = changes["_missing"].combine_chunks()
    kept = [f"_before.{column.name}" for column in definition.columns if column_name(column.name) not in key]
    both = pa.concat_arrays([missing, pa.array([kept], missing.type)])
    return both.take(pc.if_else(there, pa.scalar(len(missing)), pa.array(np.arange(len(missing)))))


def _check(changes: pa.Table, before: pa.Array, is_unknown: Mask, key: Sequence[str], state: pa.Table | None) -> None:
    """Checks that each key was there before the transaction of such an update, and was not deleted in it."""
    old = pa.Table.from_arrays([before.field(name) for name in key], names=list(key))
    state_rows = 0 if state is None else state.num_rows
    parts = [old, changes.select(list(key)), *([] if state is None else [state.select(list(key))])]
    codes, count = row_codes(pa.concat_tables([part.cast(old.schema) for part in parts])), changes.num_rows
    op, seqs = changes["_op"], changes["_seq"].to_numpy()
    removals = np.flatnonzero(pc.not_equal(op, "insert").to_numpy())
    puts = np.flatnonzero(pc.not_equal(op, "delete").to_numpy())
    # Of each change first what it takes, then what it puts; before them what was there.
    times = np.concatenate([2 * removals, 2 * puts + 1, np.full(state_rows, -1)])
    of = np.concatenate([removals, count + puts, np.arange(2 * count, 2 * count + state_rows)])
    is_put = np.concatenate([np.zeros(len(removals), np.bool_), np.ones(len(puts) + state_rows, np.bool_)])
    seq = np.concatenate([seqs[removals], seqs[puts], np.full(state_rows, -1)])
    needs = np.concatenate([is_unknown[removals], np.zeros(len(puts) + state_rows, np.bool_)])
    order = np.lexsort((times, codes[of]))
    follows = np.append(False, codes[of][order][1:] == codes[of][order][:-1])
    is_there = np.append(False, is_put[order][:-1] & (seq[order][:-1] < seq[order][1:]))
    wrong = needs[order] & np.where(follows, ~is_there, state is not None)
    if wrong.any():
        row = int(times[order][wrong].min()) // 2
        shown = ", ".join(f"{name} = {str(old[name][row].as_py())[:40]}" for name in key)
        raise Usage(f"an update at transaction {int(seqs[row])} has a key that no row had, {shown}; {KEY_MAY_BE_NEW}")
