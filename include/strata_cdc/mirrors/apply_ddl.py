"""What a DDL does to a mirror: its effect on the existing rows in one commit; or the mirror is blocked before it.
Not here: which effect a statement has (`schema/history/effects.py`), changes of rows (`apply.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from strata_cdc.changes.arrow import is_calendar, may_be_invalid
from strata_cdc.errors import ReadAgainError, StrataError, Usage
from strata_cdc.mirrors.actions import has_invalid
from strata_cdc.mirrors.data_files import read_file_rows, write_rows
from strata_cdc.mirrors.layout import SEQ
from strata_cdc.mirrors.log import now_ms
from strata_cdc.mirrors.modes import protocol_of
from strata_cdc.mirrors.renames import (
    Renames,
    first_columns,
    highest_number,
    name_in_files,
    next_columns,
    origins_of,
    same_as,
    with_invalid,
    without_invalid,
)
from strata_cdc.mirrors.schema_text import schema_text
from strata_cdc.mirrors.table import BEGUN, GONE_COLUMNS, STOPPED, Mirror
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.schema.model.row_effects import EffectKind
from strata_cdc.tables.convert import convert_exact_rows, exact_schema
from strata_cdc.tables.partition_rows import in_partitions
from strata_cdc.tables.verbatim import INVALID_COLUMN, exact_changes, verbatim_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from strata_cdc.mirrors.position import MirrorPosition
    from strata_cdc.schema.history.versions import TableChange
    from strata_cdc.schema.model.definition import Column, TableDefinition
    from strata_cdc.schema.model.partitions import HeldRows
    from strata_cdc.schema.model.row_effects import RowEffect

_MOVES_ROWS: Final = (EffectKind.EXCHANGE, EffectKind.READ_AGAIN)


class CannotFollowError(StrataError):
    """The mirror has to stay before a statement; the message has the reason."""


def altered(mirror: Mirror, change: TableChange, position: MirrorPosition, renames: Renames = Renames.COPY) -> Mirror:
    """The mirror after an ALTER TABLE, or after anything else that gave its table another definition.

    Args:
        mirror: The mirror before the statement.
        change: The statement.
        position: The position after the statement.
        renames: What happens to columns that get another name.

    Raises:
        CannotFollowError: The log does not show what the rows have become.
        CommitConflictError: Another program has committed meanwhile.
        LakeUnavailableError: The storage does not answer.
    """
    definition = _definition_of(change)
    effect = change.effect
    refuse_unknown(effect, is_empty=mirror.snapshot.live_rows == 0)
    if effect.kind is EffectKind.REMOVE:
        return emptied(mirror, position, definition, renames)
    columns = next_columns(mirror.schema, mirror.definition, change, renames)
    if _only_schema_changes(mirror, columns, change, effect):
        if INVALID_COLUMN in mirror.schema.names:
            columns = with_invalid(columns, mirror.schema, highest_number(mirror.snapshot.properties))
        gone = (mirror.gone_columns | _in_files(mirror.schema)) - _in_files(columns)
        changed = {GONE_COLUMNS: "\n".join(sorted(gone)) or None, STOPPED: None}
        return mirror.commit(
            [protocol_of(mirror.mode, schema_text(columns)), mirror.metadata(changed, definition, columns)],
            position,
            operation="ALTER TABLE",
            about={"strata.effect": effect.kind.value},
        )
    return _rewritten(mirror, change, position, columns)


def emptied(
    mirror: Mirror, position: MirrorPosition, definition: TableDefinition, renames: Renames = Renames.COPY
) -> Mirror:
    """The mirror of a table of this definition after a TRUNCATE.

    Raises:
        CommitConflictError: Another program has committed meanwhile.
        LakeUnavailableError: The storage does not answer.
    """
    now = now_ms()
    is_same = definition == mirror.definition
    columns = without_invalid(mirror.schema) if is_same else first_columns(definition, renames)
    return mirror.commit(
        [
            *([] if is_same else [protocol_of(mirror.mode, schema_text(columns))]),
            mirror.metadata(BEGUN, definition, columns),
            *(file.removed(now) for file in mirror.snapshot.files.values()),
        ],
        position,
        operation="DELETE",
        about={"strata.effect": EffectKind.REMOVE.value},
    )


def rearranged(
    mirror: Mirror,
    position: MirrorPosition,
    held: HeldRows,
    brought: Iterable[pa.Table] = (),
    operation: str = "DELETE",
) -> Mirror:
    """The mirror without the rows of some partitions, and with the rows that replaced them.

    Args:
        mirror: The mirror before the statement.
        position: The position after the statement.
        held: The partitions.
        brought: The new rows, in the columns of the mirror.
        operation: The name of the operation in the commit.

    Raises:
        CannotFollowError: It is not known which rows the partitions have.
        CommitConflictError: Another program has committed meanwhile.
        LakeUnavailableError: The storage does not answer.
    """
    now, actions, added = now_ms(), [], list(write_rows(mirror.url, mirror.schema, brought, limits=mirror.limits))
    for file in mirror.snapshot.files.values():
        parts = [*read_file_rows(mirror.url, file, mirror.exact_schema, mirror.dead_rows(file))]
        kept = [part.filter(pc.invert(pa.array(_held(part, mirror, held)))) for part in parts]
        if sum(part.num_rows for part in kept) < sum(part.num_rows for part in parts):
            actions.append(file.removed(now))
            added += write_rows(mirror.url, mirror.schema, kept, limits=mirror.limits)
    actions += [file.added() for file in added]
    columns = mirror.schema
    if has_invalid(added):
        columns = with_invalid(columns, None, highest_number(mirror.snapshot.properties))
    about = {"strata.effect": (EffectKind.EXCHANGE if operation != "DELETE" else EffectKind.REMOVE).value}
    actions.append(mirror.metadata({STOPPED: None}, schema=columns))
    return mirror.commit(actions, position, operation=operation, about=about)


def rows_held(mirror: Mirror, held: HeldRows) -> Iterator[pa.Table]:
    """The rows of some partitions.

    Raises:
        CannotFollowError: It is not known which rows these are.
    """
    for rows in mirror.exact_batches():
        yield rows.filter(pa.array(_held(rows, mirror, held)))


def _held(rows: pa.Table, mirror: Mirror, held: HeldRows) -> NDArray[np.bool_]:
    try:
        return in_partitions(rows, mirror.definition, held)
    except ReadAgainError as error:
        raise CannotFollowError(error.facts().message) from error


def converted_rows(mirror: Mirror, change: TableChange) -> Iterator[pa.Table]:
    """The rows of a mirror in the form that the table has after a change, a batch at a time.

    Raises:
        CannotFollowError: The log does not show what the rows have become.
    """
    definition = _definition_of(change)
    refuse_unknown(change.effect, is_empty=mirror.snapshot.live_rows == 0)
    names = exact_schema(mirror.definition).names
    for rows in mirror.exact_batches():
        try:
            converted = convert_exact_rows(rows.select(names), mirror.definition, definition, change.effect)
        except Usage as error:
            raise CannotFollowError(error.facts().message) from error
        yield converted.append_column(SEQ, rows[SEQ])


def refuse_unknown(effect: RowEffect, *, is_empty: bool) -> None:
    """Refuses an effect that the log does not show; if the table has no rows, every effect is known.

    Raises:
        CannotFollowError: The log does not show the effect, and the table has rows.
    """
    if is_empty and not effect.brings_rows and effect.kind is not EffectKind.EXCHANGE:
        return
    if effect.held is not None:
        return
    if effect.brings_rows:
        raise CannotFollowError(effect.reason or "a statement brought rows that no log has")
    if effect.kind is EffectKind.REMOVE and not effect.is_whole:
        names = ", ".join(effect.partitions)
        raise CannotFollowError(
            f"a statement removed the rows of partitions ({names}), and no log says which they were; {effect.reason}"
        )
    if effect.kind in _MOVES_ROWS:
        raise CannotFollowError(effect.reason or "a statement exchanged rows with another table")


def _definition_of(change: TableChange) -> TableDefinition:
    if change.definition is None:
        raise CannotFollowError(change.gap or "the table is gone")
    return change.definition


def _only_schema_changes(mirror: Mirror, columns: pa.Schema, change: TableChange, effect: RowEffect) -> bool:
    """Whether the files can stay: each column is in them under its name in files and with its type; or it is NULL in
    all rows, and no file has a column of its name."""
    if effect.kind not in (EffectKind.NONE, EffectKind.METADATA, EffectKind.FILL):
        return False
    if any(filled.value is not None for filled in effect.filled):
        return False
    if not _keeps_texts(mirror, change):
        return False
    there = {name_in_files(field): field for field in mirror.schema}
    used = mirror.gone_columns | _in_files(mirror.schema)
    came_from = origins_of(mirror.definition, change)
    for field in columns:
        known, old = there.get(name_in_files(field)), came_from.get(same_as(field))
        is_kept = known is not None and old is not None and same_as(known) == old and known.type == field.type
        if not is_kept and (old is not None or fold_name(name_in_files(field)) in used):
            return False
    return True


def _keeps_texts(mirror: Mirror, change: TableChange) -> bool:
    """Whether the values that no column holds stay the same in the files, under the names of their columns."""
    if change.definition is None:
        return True
    origins = change.effect.columns(mirror.definition, change.definition)
    if any(_gets_texts(new, old) for new, old in origins):
        return mirror.snapshot.live_rows == 0
    if INVALID_COLUMN not in mirror.schema.names:
        return True
    stays = {old.name for new, old in origins if old and (new.name, new.column_type) == (old.name, old.column_type)}
    return stays >= verbatim_names(mirror.definition).keys()


def _gets_texts(new: Column, old: Column | None) -> bool:
    """Whether existing rows may get values that a column does not hold."""
    if old is None:
        return is_calendar(new) and not new.nullable
    return may_be_invalid(new) and (not may_be_invalid(old) or (old.nullable and not new.nullable))


def _in_files(columns: pa.Schema) -> frozenset[str]:
    return frozenset(fold_name(name_in_files(field)) for field in columns)


def _rewritten(mirror: Mirror, change: TableChange, position: MirrorPosition, schema: pa.Schema) -> Mirror:
    added = list(write_rows(mirror.url, schema, converted_rows(mirror, change), limits=mirror.limits))
    if has_invalid(added):
        schema = with_invalid(schema, mirror.schema, highest_number(mirror.snapshot.properties))
    now = now_ms()
    return mirror.commit(
        [
            protocol_of(mirror.mode, schema_text(schema)),
            mirror.metadata({GONE_COLUMNS: None, STOPPED: None}, _definition_of(change), schema),
            *(file.removed(now) for file in mirror.snapshot.files.values()),
            *(file.added() for file in added),
        ],
        position,
        operation="ALTER TABLE",
        about={"strata.effect": change.effect.kind.value},
    )


def put_rows(changes: pa.Table, definition: TableDefinition) -> pa.Table:
    """The rows that inserts have added, with `_seq`."""
    return exact_changes(changes, definition).select([*exact_schema(definition).names, SEQ])
