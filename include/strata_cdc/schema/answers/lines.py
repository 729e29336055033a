"""The JSON lines of `strata schema`: a contract, the same from every part of Strata. A field that is not set is not
printed.
Not here: their content (`tables.py`, `changes.py`, `differences.py`), printing for people (`cli/`)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal

from msgspec import UNSET, Struct, UnsetType, field
from msgspec.structs import replace

from strata_cdc.schema.apply.diff import facts_in_doubt
from strata_cdc.schema.history.versions import Session  # noqa: TC001  a field of a struct
from strata_cdc.schema.model.types import shown_text

if TYPE_CHECKING:
    from strata_cdc.schema.model.definition import Column, TableDefinition, TableName
    from strata_cdc.schema.model.row_effects import RowEffect

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
EVERY: Final = "*"
"""The name in a line that is about all tables."""


class ColumnLine(Struct, frozen=True):
    """A column of a table; its type is the text that `information_schema.COLUMNS.COLUMN_TYPE` has."""

    name: str
    column_type: str
    nullable: bool
    character_set: str | None
    collation: str | None
    generated: str | None
    """`virtual`, `stored`, or None."""
    invisible: bool


class TableLine(Struct, frozen=True, kw_only=True):
    """A line of `schema show`: a table at a position of the stream, or why it is not known there."""

    gtid_executed: str
    database: str
    table: str
    gap: str | UnsetType = UNSET
    columns: tuple[ColumnLine, ...] | UnsetType = UNSET
    primary_key: tuple[str, ...] | UnsetType = UNSET
    in_doubt: tuple[str, ...] | UnsetType = UNSET
    """Columns whose length depends on the server's build."""


class OnlineChangeLine(Struct, frozen=True):
    """A change that a tool made on a copy of the table, which was then swapped in."""

    tool: str
    copy: str
    statements: tuple[str, ...]


class EffectLine(Struct, frozen=True, omit_defaults=True):
    """What a change does to the existing rows."""

    kind: str
    """`none`, `metadata`, `fill`, `convert`, `remove`, `exchange` or `read_again`: the strongest of its parts."""
    reason: str = ""
    """Why rows must be read again."""
    filled: dict[str, str | None] = field(default_factory=dict)
    """New columns with the value of all rows, as MySQL prints it; bytes are in hexadecimal after `0x`."""
    converted: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Columns whose values are converted, with their types before and afterwards."""
    removed: str = ""
    """`all` if all rows are removed."""
    partitions: tuple[str, ...] = ()
    """Partitions whose rows are removed or exchanged."""
    exchanged_with: str = ""

    @classmethod
    def from_effect(cls, effect: RowEffect) -> EffectLine:
        """The line of an effect."""
        return cls(
            effect.kind.value,
            effect.reason,
            {filled.column: filled.value for filled in effect.filled},
            {converted.column: (converted.before, converted.after) for converted in effect.converted},
            "all" if effect.is_whole else "",
            effect.partitions,
            str(effect.exchanged_with or ""),
        )


class ChangeLine(TableLine, frozen=True, kw_only=True):
    """A line of `schema history`: the table after a change, and the statement."""

    dropped: Literal[True] | UnsetType = UNSET
    gtid: str | None
    ddl: str | None
    origin: str
    renamed_from: str | UnsetType = UNSET
    online_change: OnlineChangeLine | UnsetType = UNSET
    drift: tuple[str, ...] | UnsetType = UNSET
    """The differences between the server and the stream."""
    committed_at: str | None = None
    """UTC, as MySQL prints times; None for a change that is not a statement of the stream."""
    binlog_file: str | None = None
    binlog_pos: int | None = None
    """The offset of the statement's event in the server's file."""
    renamed_columns: dict[str, str] | UnsetType = UNSET
    """From the old name to the new one."""
    effect: EffectLine | UnsetType = UNSET
    """What it does to rows; not set if no statement made the change and the table was not known before."""
    session: Session | UnsetType = UNSET
    """Who ran the statement; not set for changes that were tracked before format 8 of the store."""


class DifferenceLine(Struct, frozen=True):
    """A line of `schema diff`."""

    database: str
    table: str
    change: str
    """`added`, `removed` or `changed`."""
    differences: tuple[str, ...]
    effect: EffectLine | UnsetType = UNSET
    """What the statements between the two positions did to rows; TRUNCATE and partition steps make no differences."""


def table_line(executed: str, name: TableName, known: TableDefinition | str | None) -> TableLine:
    """A line for a table.

    Args:
        executed: The GTID set of the position.
        name: The table; empty parts stand for all tables.
        known: Its definition, the reason why it is not known, or None if the table does not exist.
    """
    line = TableLine(gtid_executed=executed, database=name.database or EVERY, table=name.table or EVERY)
    if known is None:
        return line
    if isinstance(known, str):
        return replace(line, gap=known)
    doubts = facts_in_doubt(known)
    return replace(
        line,
        columns=tuple(_column_line(column) for column in known.columns),
        primary_key=tuple(known.primary_key),
        in_doubt=tuple(doubts) if doubts else UNSET,
    )


def written_time(micros: int) -> str | None:
    """A time of the commit clock (microseconds UTC) as MySQL prints it; None for 0, which is before every commit."""
    return f"{_EPOCH + timedelta(microseconds=micros):%Y-%m-%d %H:%M:%S.%f}" if micros else None


def _column_line(column: Column) -> ColumnLine:
    return ColumnLine(
        name=column.name,
        column_type=shown_text(column.column_type),
        nullable=column.nullable,
        character_set=column.character_set,
        collation=column.collation,
        generated=str(column.generated) if column.generated else None,
        invisible=column.invisible,
    )
