"""Decides what a DDL does to the existing rows, for which the binlog has no row events.
Not here: the effect as a value (`schema/model/row_effects.py`), which conversions of values are known
(`schema/model/conversions.py`), the values of new columns (`fills.py`), applying it to rows (`tables/convert.py`)."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from strata_cdc.schema.ddl.changes import (
    AddColumn,
    AddKey,
    AlterTable,
    ConvertPartition,
    CreateTable,
    CreateTableLike,
    RemoveRows,
    RenameTables,
    RowsGone,
    SetOptions,
)
from strata_cdc.schema.ddl.context import STRICT_TRANS_TABLES
from strata_cdc.schema.ddl.fitting import fitting
from strata_cdc.schema.history.fills import NoFill, fill_of, times_of_rows
from strata_cdc.schema.history.mariadb_conversions import unknown_on_mariadb
from strata_cdc.schema.model.conversions import (
    PAD_CHAR_TO_FULL_LENGTH,
    STRICT_MODES,
    is_padded,
    keeps_values,
    looks_alike,
    other_labels,
    unknown_conversion,
)
from strata_cdc.schema.model.definition import GeneratedKind
from strata_cdc.schema.model.engines import BLACKHOLE, CASCADES_LOGGED_SINCE, ENGINES_WITH_ROWS, discards_rows
from strata_cdc.schema.model.expressions import computes_same, names_column, new_names
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.schema.model.partitions import HeldRows
from strata_cdc.schema.model.row_effects import (
    ALL_ROWS_GO,
    IGNORES,
    NEW_TABLE,
    NO_EFFECT,
    REPLACED,
    STRENGTH,
    ConvertedColumn,
    EffectKind,
    FilledColumn,
    RowEffect,
    ZeroedDate,
    read_again,
)
from strata_cdc.schema.model.types import TypeKind, parse_column_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from strata_cdc.schema.ddl.changes import AlterStep, Change, WrittenKey
    from strata_cdc.schema.model.definition import Column, TableDefinition, TableName
    from strata_cdc.schema.model.partitions import Partitioning


_NO_AUTO_VALUE_ON_ZERO: Final = 0x80000
_STRICT_ALL_TABLES: Final = 0x400000
_NO_ZERO_IN_DATE: Final = 1 << 23
_NO_ZERO_DATE: Final = 1 << 24
_ALLOW_INVALID_DATES: Final = 1 << 25
_BY_SYSTEM_TIME: Final = re.compile(r"\s*PARTITION\s+BY\s+SYSTEM_TIME\b", re.IGNORECASE)
_UNKNOWN: Mapping[str, str] = MappingProxyType({})


def effect_of(
    before: TableDefinition | None,
    after: TableDefinition | None,
    requested: Iterable[Change] = (),
    *,
    origins: Sequence[int | None] | None,
    name: TableName | None = None,
    came_from: TableName | None = None,
) -> RowEffect:
    """The effect of a statement on the rows of one table.

    Args:
        before: The table that has these rows; None if there was none, or if its definition was not known.
        after: The table afterwards; None if it was dropped.
        requested: The changes that the statement requests, read from its text; empty if no statement made
            the difference.
        origins: See `effect_of_columns`; None if one of the two definitions does not exist.
        name: The table's name afterwards, or the name that it has lost.
        came_from: The table's name before, if it was another name.
    """
    changes = tuple(requested)
    if after is None:
        is_left = name is not None and name.lower() in _left(changes)
        return RowEffect(kind=EffectKind.METADATA) if is_left else ALL_ROWS_GO
    if came_from is not None and changes and all(isinstance(change, RenameTables) for change in changes):
        return RowEffect(kind=EffectKind.METADATA, came_from=came_from)
    if before is None:
        return _of_new_table(changes)
    if not changes:
        is_same = before.with_defaults_of(after) == after
        return NO_EFFECT if is_same else read_again("no statement that is in the log made it so")
    alters = [change for change in changes if isinstance(change, AlterTable)]
    if not alters:
        return REPLACED
    alters = [fitting(alter, before) for alter in alters]
    steps = [step for alter in alters for step in alter.steps]
    context = alters[0].context
    effect = effect_of_columns(
        before,
        after,
        steps,
        origins=origins,
        sql_mode=context.sql_mode,
        time_zone=context.time_zone,
        row_times=times_of_rows(context),
        came_from=came_from,
    )
    zeroed, truncates = _zeroed_dates(before, alters), context.truncates_fractions
    effect = replace(effect, zeroed_dates=zeroed, truncates_fractions=truncates)
    if context.flavour.is_mariadb():
        effect = _on_mariadb(effect, before, after)
    return _beside_columns(effect, before, alters)


def effect_of_columns(
    before: TableDefinition,
    after: TableDefinition,
    steps: Sequence[AlterStep] = (),
    *,
    origins: Sequence[int | None] | None = None,
    sql_mode: int = 0,
    time_zone: str | None = None,
    row_times: Mapping[str, str] = _UNKNOWN,
    came_from: TableName | None = None,
) -> RowEffect:
    """Like `effect_of`, for an ALTER TABLE that changes columns.

    Args:
        before: The older definition.
        after: The newer one.
        steps: Of the statement.
        origins: For each column of the newer definition its index in the older one; None for a new column. Ids of
            columns give it (`ColumnIds.origins_in`); by default, columns of the same name are the same column.
        sql_mode: Of the session.
        time_zone: Of the session, if the statement used it.
        row_times: See `times_of_rows`.
        came_from: The table's name before, if it was another name.
    """
    origins_of = origins_by_name(before, after) if origins is None else origins
    pairs = [
        (column, None if ordinal is None else before.columns[ordinal])
        for column, ordinal in zip(after.columns, origins_of, strict=True)
    ]
    columns = _ColumnEffects(
        pairs,
        {fold_name(step.column.name): step for step in steps if isinstance(step, AddColumn)},
        charset=after.character_set,
        is_strict=_is_strict(after, sql_mode),
        time_zone=time_zone,
        row_times=row_times,
    )
    columns.run(sql_mode)
    kept = [ordinal for ordinal in origins_of if ordinal is not None]
    parts = RowEffect(
        kind=EffectKind.NONE,
        renamed={new.name: old.name for old, new in columns.kept if new.name != old.name},
        added=tuple(column.name for column in columns.added),
        dropped=tuple(column.name for at, column in enumerate(before.columns) if at not in kept),
        filled=tuple(columns.filled),
        converted=tuple(columns.converted),
        is_reordered=kept != sorted(kept),
        time_zone=time_zone,
        numbers_zeros=not sql_mode & _NO_AUTO_VALUE_ON_ZERO,
        refuses_nulls=columns.is_strict and bool(columns.converted),
        came_from=came_from,
        reason="; ".join(columns.reasons),
    )
    strongest = EffectKind.READ_AGAIN if columns.reasons else max(parts.parts, key=STRENGTH.__getitem__)
    return _with_kind(parts, strongest)


def origins_by_name(before: TableDefinition, after: TableDefinition) -> list[int | None]:
    """For each column of a newer definition the index of the older column with its name."""
    ordinals = {fold_name(column.name): at for at, column in enumerate(before.columns)}
    return [ordinals.get(fold_name(column.name)) for column in after.columns]


def makes_cascade(changes: Iterable[Change]) -> bool:
    """Whether a statement makes a foreign key by which the server changes rows without row events."""
    return any(
        key.cascades and not change.context.flavour.is_mysql(*CASCADES_LOGGED_SINCE)
        for change in changes
        if isinstance(change, (CreateTable, AlterTable))
        for key in _keys_of(change)
    )


def _keys_of(change: CreateTable | AlterTable) -> Iterable[WrittenKey]:
    if isinstance(change, CreateTable):
        return change.keys
    return [step.key for step in change.steps if isinstance(step, AddKey)]


def removes_current_rows(change: RemoveRows, table: TableDefinition) -> bool:
    """Whether a statement may remove rows that a SELECT of the table gives. PARTITION BY SYSTEM_TIME has one partition
    for all current rows, which the server refuses to drop (MariaDB's error 4128).

    Args:
        change: The statement.
        table: The table that it alters.
    """
    return change.gone is not RowsGone.DROPPED or not _BY_SYSTEM_TIME.match(table.options)


def effect_of_removal(change: RemoveRows, name: TableName, partitioning: Partitioning | str = "") -> RowEffect:
    """The effect of a statement that removes rows of whole partitions, or all rows, on one of its tables.

    Args:
        change: The statement.
        partitioning: The partitions of the table that the statement alters; a text says why they are not known.
    """
    if change.gone is RowsGone.ALL:
        return ALL_ROWS_GO
    if change.gone is RowsGone.CONVERTED:
        return read_again("CONVERT TABLE brings the rows of another table")
    if change.gone is RowsGone.IMPORTED:
        return read_again("IMPORT TABLESPACE brings rows that no log has")
    held, reason = None, f"which rows partition {', '.join(change.partitions)} contained is in no log"
    if not isinstance(partitioning, str) and partitioning.names(change.partitions):
        held, reason = HeldRows(partitioning.around(change.partitions), change.partitions), ""
    elif isinstance(partitioning, str) and partitioning:
        reason = f"{reason}: {partitioning}"
    if change.gone is not RowsGone.EXCHANGED:
        return RowEffect(kind=EffectKind.REMOVE, partitions=change.partitions, reason=reason, held=held)
    return RowEffect(
        kind=EffectKind.EXCHANGE,
        partitions=change.partitions,
        reason=reason,
        held=held,
        brings_rows=True,
        exchanged_with=next((other for other in change.names if other != name), None),
        takes_partition=name != change.names[0],
    )


def effect_of_misfits(names: tuple[str, ...], lost: Partitioning | str) -> RowEffect | None:
    """The effect of a statement that copies the rows of partitions: the server drops those that fit into none.

    Args:
        names: The partitions that had them.
        lost: By LIST, these partitions with only these values; a text says why they are not known.

    Returns:
        None if there are no such values.
    """
    if isinstance(lost, str):
        reason = f"which rows of partition {', '.join(names)} fit into no partition is in no log: {lost}"
        return RowEffect(kind=EffectKind.REMOVE, partitions=names, fits_nowhere=True, reason=reason)
    if not lost.partitions:
        return None
    own = tuple(partition.name for partition in lost.partitions)
    return RowEffect(kind=EffectKind.REMOVE, partitions=own, fits_nowhere=True, held=HeldRows(lost, own))


# Columns ----------------------------------------------------------------------------------------


class _ColumnEffects:
    """Computes the effect of one statement on columns."""

    def __init__(
        self,
        pairs: Sequence[tuple[Column, Column | None]],
        written: Mapping[str, AddColumn],
        *,
        charset: str | None,
        is_strict: bool,
        time_zone: str | None,
        row_times: Mapping[str, str],
    ) -> None:
        self.charset = charset
        self.row_times = row_times
        self.is_strict = is_strict
        self.time_zone = time_zone
        self.kept = [(old, new) for new, old in pairs if old is not None]
        self.new_names = new_names(self.kept)
        self.added = [new for new, old in pairs if old is None]
        self.written = written
        self.filled: list[FilledColumn] = []
        self.converted: list[ConvertedColumn] = []
        self.reasons: list[str] = []

    def run(self, sql_mode: int) -> None:
        for new in self.added:
            self.add(new)
        for old, new in self.kept:
            if new.generated is None and not self.keeps(old, new, sql_mode):
                self.convert(old, new, sql_mode)
        for old, new in self.kept:
            if new.generated is not None or old.generated is not None:
                self.generate(old, new, sql_mode)

    def add(self, column: Column) -> None:
        step = self.written.get(fold_name(column.name))
        literal = step.column.default if step is not None else None
        fill = self.row_times.get(column.generation_expression or "") or fill_of(column, literal, self.charset)
        if isinstance(fill, NoFill):
            self.reasons.append(fill.reason)
        else:
            self.filled.append(FilledColumn(column.name, fill))

    def keeps(self, old: Column, new: Column, sql_mode: int) -> bool:
        """Whether all values stay."""
        if old == new:
            return True
        if is_padded(old, new, sql_mode) or other_labels(old, new, sql_mode) is not None:
            return False
        return keeps_values(self.without_null(old, new), new)

    def without_null(self, old: Column, new: Column) -> Column:
        """The column as it was. In strict mode an ALTER is logged only if it has found no NULL in a column that is NOT
        NULL."""
        is_checked = self.is_strict and not new.column_type.startswith("timestamp")
        return replace(old, nullable=new.nullable) if is_checked else old

    def convert(self, old: Column, new: Column, sql_mode: int) -> None:
        reason = other_labels(old, new, sql_mode) or unknown_conversion(old, new, sql_mode, self.time_zone)
        if reason is not None:
            self.reasons.append(reason)
        else:
            self.converted.append(ConvertedColumn(new.name, *_both(old, new)))

    def generate(self, old: Column, new: Column, sql_mode: int) -> None:
        """A column becomes generated, or ordinary, or may be computed anew."""
        if new.generated is None:
            if old.generated is GeneratedKind.VIRTUAL:
                self.reasons.append(f"{new.name} was computed, and has values of its own now")
        elif old.generated is None or not computes_same(old, new, self.new_names) or not keeps_values(old, new):
            self.reasons.append(f"{new.name} is computed by the server: {new.generation_expression}")
        elif sql_mode & PAD_CHAR_TO_FULL_LENGTH and new.generated is GeneratedKind.STORED:
            self.reasons.append(f"{new.name} is computed anew with PAD_CHAR_TO_FULL_LENGTH")
        else:
            used = [name for name in self.altered() if names_column(new.generation_expression or "", name)]
            if used:
                self.reasons.append(f"{new.name} is computed by the server, from {', '.join(used)}")

    def altered(self) -> list[str]:
        """Columns for which the result of an expression may change."""
        return [
            *(new.name for old, new in self.kept if not looks_alike(self.without_null(old, new), new)),
            *(new.name for new in self.added),
        ]


def _is_strict(table: TableDefinition, sql_mode: int) -> bool:
    """Whether values that do not fit make the statement fail; engines without transactions need STRICT_ALL_TABLES."""
    is_transactional = (table.engine or "InnoDB").upper() == "INNODB"
    return bool(sql_mode & (_STRICT_ALL_TABLES | (STRICT_TRANS_TABLES if is_transactional else 0)))


def _zeroed_dates(before: TableDefinition, alters: Sequence[AlterTable]) -> tuple[ZeroedDate, ...]:
    """Which dates become zero if the server copies the table (MySQL 9.7, MariaDB 11.8; in a strict mode, it fails)."""
    context, sql_mode = alters[0].context, alters[0].context.sql_mode
    kinds = {parse_column_type(column.column_type).kind for column in before.columns}
    has_dates = bool(kinds & {TypeKind.DATE, TypeKind.DATETIME})
    if sql_mode & STRICT_MODES or not has_dates or not any(alter.steps for alter in alters):
        return ()
    if context.flavour.is_mariadb() and not sql_mode & (_NO_ZERO_DATE | _NO_ZERO_IN_DATE):
        return ()
    zeroed = {
        ZeroedDate.ON_NO_CALENDAR: not sql_mode & _ALLOW_INVALID_DATES,
        ZeroedDate.IN_PARTS: bool(sql_mode & _NO_ZERO_IN_DATE),
    }
    return tuple(date for date, happens in zeroed.items() if happens)


def _both(old: Column, new: Column) -> tuple[str, str]:
    """The two types in words, with other differences."""
    before, after = old.column_type, new.column_type
    if old.character_set != new.character_set and old.character_set and new.character_set:
        before, after = f"{before} {old.character_set}", f"{after} {new.character_set}"
    if old.nullable and not new.nullable:
        after = f"{after} not null"
    return before, after if not (new.auto_increment and not old.auto_increment) else f"{after} auto_increment"


# The rest ---------------------------------------------------------------------------------------


def _left(changes: Sequence[Change]) -> set[TableName]:
    """Names, in lower case, whose rows continue under another name."""
    pairs = [pair for change in changes if isinstance(change, RenameTables) for pair in change.pairs]
    moved = [change.name for change in changes if isinstance(change, AlterTable) and change.new_name is not None]
    return {name.lower() for name in (*(old for old, _ in pairs), *moved)}


def _of_new_table(changes: Sequence[Change]) -> RowEffect:
    if not changes:
        return read_again("the table was there before anything is known of it")
    if any(isinstance(change, ConvertPartition) for change in changes):
        return read_again("the table has the rows that were in a partition of another table")
    if not any(isinstance(change, (CreateTable, CreateTableLike)) for change in changes):
        return read_again("the table's definition before is not known")
    return NEW_TABLE


def _beside_columns(effect: RowEffect, before: TableDefinition, alters: Sequence[AlterTable]) -> RowEffect:
    """The effect of other parts of the statement on rows."""
    engines = [
        s.options.engine for table in alters for s in table.steps if isinstance(s, SetOptions) and s.options.engine
    ]
    if engines and (engines[-1].upper() == BLACKHOLE or discards_rows(before)):
        return ALL_ROWS_GO
    if engines and engines[-1].upper() not in ENGINES_WITH_ROWS:
        unknown = _unknown(effect, f"what an engine {engines[-1]} has of the rows is not known here")
        return replace(unknown, brings_rows=True)
    if any(alter.ignore for alter in alters):
        return replace(_unknown(effect, IGNORES), ignores=True)
    return effect


def _on_mariadb(effect: RowEffect, before: TableDefinition, after: TableDefinition) -> RowEffect:
    """The effect, of which only what MariaDB does like MySQL is known."""
    for converted in effect.converted:
        name = converted.column
        old, new = before.column(effect.renamed.get(name, name)), after.column(name)
        if old is not None and new is not None:
            reason = unknown_on_mariadb(old, new, truncates_fractions=effect.truncates_fractions)
            effect = effect if reason is None else _unknown(effect, reason)
    return effect


def _unknown(effect: RowEffect, reason: str) -> RowEffect:
    reasons = "; ".join(filter(None, (effect.reason, reason)))
    return _with_kind(effect, EffectKind.READ_AGAIN, reasons)


def _with_kind(effect: RowEffect, kind: EffectKind, reason: str | None = None) -> RowEffect:
    return replace(effect, kind=kind, reason=effect.reason if reason is None else reason)
