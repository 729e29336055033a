"""What a DDL does to the rows that are there, for which the binlog has no row events.
Not here: which conversions of values are known (`schema/model/conversions.py`), what new columns get (`fills.py`),
doing it to rows (`tables/convert.py`)."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace

from strata_cdc.schema.ddl.changes import (
    AddColumn,
    AlterTable,
    CreateTable,
    CreateTableLike,
    RemoveRows,
    RenameTables,
    RowsGone,
    SetOptions,
)
from strata_cdc.schema.ddl.context import STRICT_TRANS_TABLES
from strata_cdc.schema.history.column_lineage import ColumnLineage, added_columns, renamed_columns
from strata_cdc.schema.history.fills import NoFill, fill_of
from strata_cdc.schema.model.conversions import (
    PAD_CHAR_TO_FULL_LENGTH,
    TIME_TRUNCATE_FRACTIONAL,
    is_padded,
    keeps_values,
    looks_alike,
    unknown_conversion,
)
from strata_cdc.schema.model.definition import Generated, TableName
from strata_cdc.schema.model.engines import BLACKHOLE, ENGINES_WITH_ROWS, discards_rows
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.schema.model.partitions import HeldRows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from strata_cdc.schema.ddl.changes import AlterStep, Change
    from strata_cdc.schema.model.definition import Column, TableDefinition
    from strata_cdc.schema.model.partitions import Partitioning


class EffectKind(StrEnum):
    """What happens to rows, the strongest last."""

    NONE = "none"
    """They stay as they are."""
    METADATA = "metadata"
    """Columns are renamed, dropped or moved, or the table gets another name: no value changes."""
    FILL = "fill"
    """New columns have the same value in all rows."""
    CONVERT = "convert"
    """Values become others by a function of each alone."""
    REMOVE = "remove"
    """Rows go."""
    EXCHANGE = "exchange"
    """Rows change places with those of another table."""
    READ_AGAIN = "read_again"
    """Nothing in the log tells: they have to be read from the server, unless there are none."""


STRENGTH: Final = {kind: number for number, kind in enumerate(EffectKind)}


class Filled(Struct, frozen=True):
    """A new column, and what all rows get in it."""

    column: str
    value: str | None
    """As MySQL prints it, binary values in hexadecimal behind `0x`; None for NULL."""

    @property
    def shown(self) -> str:
        """The value for people."""
        return "NULL" if self.value is None else repr(self.value)


class Converted(Struct, frozen=True):
    """A column whose values become others."""

    column: str
    """Its name afterwards."""
    before: str
    """COLUMN_TYPE, with the charset where that differs."""
    after: str


class Effect(Struct, frozen=True, kw_only=True):
    """What a statement does to the rows of one table. Parts are done all at once: names may be swapped."""

    kind: EffectKind
    """The strongest of its parts."""
    reason: str = ""
    """Why they must be read again."""
    brings_rows: bool = False
    """Whether rows may come that were never in the log: a table without rows has to be read again, too."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """New name of a column -> old name, those in other case, too."""
    added: frozenset[str] = frozenset()
    """Columns that are new, whether or not there was one of the name before."""
    dropped: tuple[str, ...] = ()
    filled: tuple[Filled, ...] = ()
    converted: tuple[Converted, ...] = ()
    is_reordered: bool = False
    truncates_fractions: bool = False
    """Fractions of seconds for which there is no room are cut, not rounded (TIME_TRUNCATE_FRACTIONAL)."""
    time_zone: str | None = None
    """Of the session, where the statement used it."""
    numbers_zeros: bool = True
    """An AUTO_INCREMENT gives numbers to zeros, not only to NULLs (unless NO_AUTO_VALUE_ON_ZERO)."""
    makes_table: bool = False
    """Whether it is a CREATE: there were no rows before it."""
    is_whole: bool = False
    """Whether all rows go."""
    partitions: tuple[str, ...] = ()
    """Whose rows go, or change places."""
    held: HeldRows | None = None
    """The rows that these partitions hold, where that is known."""
    exchanged_with: TableName | None = None
    takes_partition: bool = False
    """Whether it is the table that has the partition's rows afterwards, not the one that gave them."""
    came_from: TableName | None = None
    """The table that had the rows before."""

    @property
    def is_known(self) -> bool:
        """Whether the log tells what the rows are afterwards, but for values that a conversion refuses."""
        return self.kind is not EffectKind.READ_AGAIN and not (self.reason or self.brings_rows)

    @property
    def text(self) -> str:
        """In one line, for people; empty where rows stay as they are, which the differences of columns say as well."""
        if STRENGTH[self.kind] <= STRENGTH[EffectKind.METADATA]:
            return ""
        said = [f"all get {', '.join(f'{one.column} = {one.shown}' for one in self.filled)}" if self.filled else ""]
        said += [f"{one.column} changes from {one.before} to {one.after}" for one in self.converted]
        which = "all" if self.is_whole else f"those of partition {', '.join(self.partitions)}"
        if self.exchanged_with is not None:
            said.append(f"{which} change places with those of {self.exchanged_with}")
        elif self.is_whole or self.partitions:
            said.append(f"{which} are removed")
        if self.kind is EffectKind.READ_AGAIN or self.reason:
            said.append(f"must be read from the server again{self.reason and f': {self.reason}'}")
        return "; ".join(filter(None, said))

    @property
    def parts(self) -> tuple[EffectKind, ...]:
        """Everything that happens, the weakest first."""
        found = {
            EffectKind.METADATA: bool(self.renamed or self.dropped or self.is_reordered or self.came_from),
            EffectKind.FILL: bool(self.filled),
            EffectKind.CONVERT: bool(self.converted),
        }
        return (*(kind for kind, happens in found.items() if happens and kind is not self.kind), self.kind)


NO_EFFECT: Final = Effect(kind=EffectKind.NONE)
NEW_TABLE: Final = Effect(kind=EffectKind.NONE, makes_table=True)
ALL_ROWS_GO: Final = Effect(kind=EffectKind.REMOVE, is_whole=True)

_NO_AUTO_VALUE_ON_ZERO: Final = 0x80000
_STRICT_ALL_TABLES: Final = 0x400000


def read_again(reason: str) -> Effect:
    """The effect of what is not known, whether or not there were rows."""
    return Effect(kind=EffectKind.READ_AGAIN, reason=reason, brings_rows=True)


def effect_of(
    before: TableDefinition | None,
    after: TableDefinition | None,
    asked: Iterable[Change] = (),
    *,
    name: TableName | None = None,
    came_from: TableName | None = None,
) -> Effect:
    """What a statement does to the rows of one table.

    Args:
        before: The table whose rows these are; None if there was none, or nobody knew it.
        after: What it is afterwards; None if it is gone.
        asked: What the statement asks for, as read from its text; nothing where no statement made the difference.
        name: The table's name afterwards, or the one that it has lost.
        came_from: The table's name before, if it had another.
    """
    changes = tuple(asked)
    if after is None:
        return Effect(kind=EffectKind.METADATA) if name is not None and name.lower() in _left(changes) else ALL_ROWS_GO
    if came_from is not None and changes and all(isinstance(change, RenameTables) for change in changes):
        return Effect(kind=EffectKind.METADATA, came_from=came_from)
    if before is None:
        return _of_new_table(changes)
    if not changes:
        is_same = before.with_defaults_of(after) == after
        return NO_EFFECT if is_same else read_again("no statement that is in the log made it so")
    alters = [change for change in changes if isinstance(change, AlterTable)]
    if not alters:
        return ALL_ROWS_GO  # CREATE OR REPLACE
    steps = [step for alter in alters for step in alter.steps]
    context = alters[0].context
    found = effect_of_shapes(
        before, after, steps, sql_mode=context.sql_mode, time_zone=context.time_zone, came_from=came_from
    )
    return _beside_columns(found, before, alters)


def effect_of_shapes(
    before: TableDefinition,
    after: TableDefinition,
    steps: Sequence[AlterStep] = (),
    *,
    renamed: Mapping[str, str] | None = None,
    added: Iterable[str] | None = None,
    sql_mode: int = 0,
    time_zone: str | None = None,
    came_from: TableName | None = None,
) -> Effect:
    """As `effect_of`, of an ALTER TABLE that changes columns.

    Args:
        before: The older definition.
        after: The newer one.
        steps: Of the statement.
        renamed: New name -> old name; by default what the steps say.
        added: New columns; by default what the steps say, and those whose name is new.
        sql_mode: Of the session.
        time_zone: Likewise, where the statement used it.
        came_from: The table's name before, if it had another.
    """
    renames = dict(renamed) if renamed is not None else renamed_columns(steps)
    fresh = {fold_name(name) for name in (added if added is not None else added_columns(steps))}
    columns = ColumnLineage(before, after, renames, fresh)
    found = _Columns(
        columns,
        {fold_name(s.column.name): s for s in steps if isinstance(s, AddColumn)},
        is_strict=_is_strict(after, sql_mode),
        time_zone=time_zone,
    )
    found.run(sql_mode)
    kept = [fold_name(one.name) for one, _ in columns.kept]
    order = [fold_name(column.name) for column in before.columns if fold_name(column.name) in set(kept)]
    parts = Effect(
        kind=EffectKind.NONE,
        renamed={new.name: old.name for old, new in columns.kept if new.name != old.name},
        added=frozenset(column.name for column in columns.added),
        dropped=columns.dropped,
        filled=tuple(found.filled),
        converted=tuple(found.converted),
        is_reordered=order != kept,
        truncates_fractions=bool(sql_mode & TIME_TRUNCATE_FRACTIONAL),
        time_zone=time_zone,
        numbers_zeros=not sql_mode & _NO_AUTO_VALUE_ON_ZERO,
        came_from=came_from,
        reason="; ".join(found.reasons),
    )
    strongest = EffectKind.READ_AGAIN if found.reasons else max(parts.parts, key=STRENGTH.__getitem__)
    return _with_kind(parts, strongest)


def effect_of_removal(change: RemoveRows, name: TableName, partitioning: Partitioning | str = "") -> Effect:
    """What a statement that removes rows of whole partitions, or all, does to those of one of its tables.

    Args:
        change: The statement.
        name: The table.
        partitioning: What the partitions are of the table that the statement alters; a text says why nobody knows.
    """
    if change.gone is RowsGone.ALL:
        return ALL_ROWS_GO
    if change.gone is RowsGone.IMPORTED:
        return read_again("IMPORT TABLESPACE brings rows that no log has")
    held, reason = None, f"which rows partition {', '.join(change.partitions)} held is in no log"
    if not isinstance(partitioning, str) and partitioning.names(change.partitions):
        held, reason = HeldRows(partitioning, change.partitions), ""
    elif isinstance(partitioning, str) and partitioning:
        reason = f"{reason}: {partitioning}"
    if change.gone is not RowsGone.EXCHANGED:
        return Effect(kind=EffectKind.REMOVE, partitions=change.partitions, reason=reason, held=held)
    return Effect(
        kind=EffectKind.EXCHANGE,
        partitions=change.partitions,
        reason=reason,
        held=held,
        brings_rows=True,
        exchanged_with=next((one for one in change.names if one != name), None),
        takes_partition=name != change.names[0],
    )


def together(effects: Sequence[Effect]) -> Effect:
    """Several statements, one behind the other, as one: its kind is the strongest of theirs. Columns have the names
    that they had when they were filled or converted."""
    if not effects:
        return NO_EFFECT
    strongest = max((effect.kind for effect in effects), key=STRENGTH.__getitem__)
    return Effect(
        kind=strongest,
        reason="; ".join(dict.fromkeys(effect.reason for effect in effects if effect.reason)),
        filled=tuple(one for effect in effects for one in effect.filled),
        converted=tuple(one for effect in effects for one in effect.converted),
        is_whole=any(effect.is_whole for effect in effects),
        brings_rows=any(effect.brings_rows for effect in effects),
        partitions=tuple(name for effect in effects for name in effect.partitions),
    )


# Columns ----------------------------------------------------------------------------------------


class _Columns:
    """What becomes of the columns of one statement."""

    def __init__(
        self, columns: ColumnLineage, written: Mapping[str, AddColumn], *, is_strict: bool, time_zone: str | None
    ) -> None:
        self.is_strict = is_strict
        self.time_zone = time_zone
        self.columns = columns
        self.written = written
        self.filled: list[Filled] = []
        self.converted: list[Converted] = []
        self.reasons: list[str] = []

    def run(self, sql_mode: int) -> None:
        for new in self.columns.added:
            self.add(new)
        for old, new in self.columns.kept:
            if new.generated is None and not self.keeps(old, new, sql_mode):
                self.convert(old, new, sql_mode)
        for old, new in self.columns.kept:
            if new.generated is not None or old.generated is not None:
                self.generate(old, new, sql_mode)

    def add(self, column: Column) -> None:
        step = self.written.get(fold_name(column.name))
        literal = step.column.default if step is not None else None
        found = fill_of(column, literal)
        if isinstance(found, NoFill):
            self.reasons.append(found.reason)
        else:
            self.filled.append(Filled(column.name, found))

    def keeps(self, old: Column, new: Column, sql_mode: int) -> bool:
        """Whether all values stay."""
        return not is_padded(old, new, sql_mode) and keeps_values(self.without_null(old, new), new)

    def without_null(self, old: Column, new: Column) -> Column:
        """The column as it was. In strict mode no ALTER that is logged has found a NULL where none may be."""
        is_checked = self.is_strict and not new.column_type.startswith("timestamp")
        return replace(old, nullable=new.nullable) if is_checked else old

    def convert(self, old: Column, new: Column, sql_mode: int) -> None:
        reason = unknown_conversion(old, new, sql_mode, self.time_zone)
        if reason is not None:
            self.reasons.append(reason)
        else:
            self.converted.append(Converted(new.name, *_both(old, new)))

    def generate(self, old: Column, new: Column, sql_mode: int) -> None:
        """A column becomes generated, or ordinary, or may be computed anew."""
        if new.generated is None:
            if old.generated is Generated.VIRTUAL:
                self.reasons.append(f"{new.name} was computed, and has values of its own now")
        elif old.generated is None or _expression(old) != _expression(new) or not keeps_values(old, new):
            self.reasons.append(f"{new.name} is computed by the server: {new.generation_expression}")
        elif sql_mode & PAD_CHAR_TO_FULL_LENGTH and new.generated is Generated.STORED:
            self.reasons.append(f"{new.name} is computed anew with PAD_CHAR_TO_FULL_LENGTH")
        else:
            used = [name for name in self.altered() if _is_named(name, new.generation_expression or "")]
            if used:
                self.reasons.append(f"{new.name} is computed by the server, from {', '.join(used)}")

    def altered(self) -> list[str]:
        """Columns of which an expression may make something else than before."""
        return [
            *(new.name for old, new in self.columns.kept if not looks_alike(self.without_null(old, new), new)),
            *(new.name for new in self.columns.added),
        ]


def _is_named(column: str, expression: str) -> bool:
    return re.search(rf"(?<![\w$]){re.escape(fold_name(column))}(?![\w$])", fold_name(expression)) is not None


def _is_strict(table: TableDefinition, sql_mode: int) -> bool:
    """Whether values that do not fit fail the statement; engines without transactions need STRICT_ALL_TABLES."""
    is_transactional = (table.engine or "InnoDB").upper() == "INNODB"
    return bool(sql_mode & (_STRICT_ALL_TABLES | (STRICT_TRANS_TABLES if is_transactional else 0)))


def _expression(column: Column) -> str:
    return (column.generation_expression or "").replace("`", "").replace(" ", "").lower()


def _both(old: Column, new: Column) -> tuple[str, str]:
    """The two types in words, with what else differs."""
    before, after = old.column_type, new.column_type
    if old.character_set != new.character_set and old.character_set and new.character_set:
        before, after = f"{before} {old.character_set}", f"{after} {new.character_set}"
    if old.nullable and not new.nullable:
        after = f"{after} not null"
    return before, after if not (new.auto_increment and not old.auto_increment) else f"{after} auto_increment"


# The rest ---------------------------------------------------------------------------------------


def _left(changes: Sequence[Change]) -> set[TableName]:
    """Names, in lower case, whose rows go on under another name."""
    pairs = [pair for change in changes if isinstance(change, RenameTables) for pair in change.pairs]
    moved = [one.name for one in changes if isinstance(one, AlterTable) and one.new_name is not None]
    return {name.lower() for name in (*(old for old, _ in pairs), *moved)}


def _of_new_table(changes: Sequence[Change]) -> Effect:
    if not changes:
        return read_again("the table was there before anything is known of it")
    if not any(isinstance(change, (CreateTable, CreateTableLike)) for change in changes):
        return read_again("what the table was before is not known")
    return NEW_TABLE


def _beside_columns(found: Effect, before: TableDefinition, alters: Sequence[AlterTable]) -> Effect:
    """What other parts of the statement do to rows."""
    engines = [s.options.engine for one in alters for s in one.steps if isinstance(s, SetOptions) and s.options.engine]
    if engines and (engines[-1].upper() == BLACKHOLE or discards_rows(before)):
        return ALL_ROWS_GO
    if engines and engines[-1].upper() not in ENGINES_WITH_ROWS:
        unknown = _unknown(found, f"what an engine {engines[-1]} has of the rows is not known here")
        return replace(unknown, brings_rows=True)
    if any(alter.ignore for alter in alters):
        return _unknown(found, "ALTER IGNORE drops rows that break a key, and changes values that do not fit")
    return found


def _unknown(found: Effect, reason: str) -> Effect:
    reasons = "; ".join(filter(None, (found.reason, reason)))
    return _with_kind(found, EffectKind.READ_AGAIN, reasons)


def _with_kind(found: Effect, kind: EffectKind, reason: str | None = None) -> Effect:
    return replace(found, kind=kind, reason=found.reason if reason is None else reason)
