"""What a DDL does to a mirror, as a plan that can be printed; or why the mirror cannot follow it.
Not here: doing it (`apply_ddl.py`), which effect a statement has (`schema/history/effects.py`)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from strata_cdc.changes.arrow import is_calendar, may_be_invalid
from strata_cdc.errors import ReadAgainError, StrataError
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
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.schema.model.row_effects import EffectKind
from strata_cdc.tables.values.verbatim import refuse_zeroed
from strata_cdc.tables.verbatim import INVALID_COLUMN, verbatim_name, verbatim_names

if TYPE_CHECKING:
    import pyarrow as pa

    from strata_cdc.mirrors.table import Mirror
    from strata_cdc.schema.history.versions import TableChange
    from strata_cdc.schema.model.definition import Column, TableDefinition
    from strata_cdc.schema.model.row_effects import RowEffect

_MOVES_ROWS: Final = (EffectKind.EXCHANGE, EffectKind.READ_AGAIN)


class CannotFollowError(StrataError):
    """The mirror has to stay before a statement; the message has the reason."""


class FilesAction(StrEnum):
    """What happens to a mirror's files."""

    KEEP = "the files stay"
    REWRITE = "all rows are written again"
    REMOVE = "all rows go"


class DdlPlan(Struct, frozen=True):
    """The files, definition and columns of a mirror after a DDL."""

    effect: EffectKind
    """The statement's effect on rows, which the log of the mirror keeps."""
    action: FilesAction
    definition: TableDefinition
    columns: pa.Schema
    gone_columns: frozenset[str] = frozenset()
    """Folded names in files of the columns that files have and that the table no longer has."""


def plan_alter(mirror: Mirror, change: TableChange, renames: Renames) -> DdlPlan:
    """The plan for an ALTER TABLE, or for anything else that gave the table another definition.

    Args:
        mirror: The mirror before the statement.
        change: The statement.
        renames: What happens to columns that get another name.

    Raises:
        CannotFollowError: The log does not show what the rows have become.
    """
    definition = definition_after(change)
    refuse_unknown(change.effect, is_empty=mirror.snapshot.live_rows == 0)
    if change.effect.kind is EffectKind.REMOVE:
        return plan_removal(mirror, definition, renames)
    columns = next_columns(mirror.schema, mirror.definition, change, renames)
    if not _keeps_files(mirror, columns, change):
        return DdlPlan(change.effect.kind, FilesAction.REWRITE, definition, columns)
    if INVALID_COLUMN in mirror.schema.names:
        _refuse_zeroed(mirror, change.effect)
        columns = with_invalid(columns, mirror.schema, highest_number(mirror.snapshot.properties))
    gone = (mirror.gone_columns | _in_files(mirror.schema)) - _in_files(columns)
    return DdlPlan(change.effect.kind, FilesAction.KEEP, definition, columns, gone)


def plan_removal(mirror: Mirror, definition: TableDefinition, renames: Renames) -> DdlPlan:
    """The plan for a statement that removes all rows of a table, which then has this definition."""
    is_same = definition == mirror.definition
    columns = without_invalid(mirror.schema) if is_same else first_columns(definition, renames)
    return DdlPlan(EffectKind.REMOVE, FilesAction.REMOVE, definition, columns)


def refuse_unknown(effect: RowEffect, *, is_empty: bool) -> None:
    """Refuses an effect that the log does not show, and one on rows of partitions (`rearranged` removes those that are
    known); if the table has no rows, every effect is known.

    Raises:
        CannotFollowError: The log does not show the effect, and the table has rows.
    """
    if is_empty and not effect.brings_rows and effect.kind is not EffectKind.EXCHANGE:
        return
    if effect.brings_rows:
        raise CannotFollowError(effect.reason or "a statement brought rows that no log has")
    if effect.kind is EffectKind.REMOVE and not effect.is_whole:
        names = ", ".join(effect.partitions)
        why = f", and no log says which they were; {effect.reason}" if effect.held is None else " and altered the table"
        raise CannotFollowError(f"a statement removed the rows of partitions ({names}){why}")
    if effect.kind in _MOVES_ROWS:
        raise CannotFollowError(effect.reason or "a statement exchanged rows with another table")


def definition_after(change: TableChange) -> TableDefinition:
    """The table's definition after a change.

    Raises:
        CannotFollowError: It has none, or it is not known.
    """
    if change.definition is None:
        raise CannotFollowError(change.gap or "the table is gone")
    return change.definition


def _keeps_files(mirror: Mirror, columns: pa.Schema, change: TableChange) -> bool:
    """Whether the files can stay: each column is in them under its name in files and with its type; or it is NULL in
    all rows, and no file has a column of its name."""
    effect = change.effect
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


def _refuse_zeroed(mirror: Mirror, effect: RowEffect) -> None:
    """Refuses an effect on dates in the files of a mirror, which looks at no rows otherwise.

    Raises:
        CannotFollowError: The rows have such dates.
    """
    dates = [column for column in mirror.definition.columns if is_calendar(column)]
    names = [verbatim_name(column.name) for column in dates]
    for rows in mirror.exact_batches(names) if effect.zeroed_dates else ():
        for column, name in zip(dates, names, strict=True):
            try:
                refuse_zeroed(rows[name], column, effect.zeroed_dates)
            except ReadAgainError as error:
                raise CannotFollowError(error.facts().message) from error


def _gets_texts(new: Column, old: Column | None) -> bool:
    """Whether existing rows may get values that a column does not hold."""
    if old is None:
        return is_calendar(new) and not new.nullable
    return may_be_invalid(new) and (not may_be_invalid(old) or (old.nullable and not new.nullable))


def _in_files(columns: pa.Schema) -> frozenset[str]:
    return frozenset(fold_name(name_in_files(field)) for field in columns)
