"""The effect of a DDL on the rows of a table, for which the binlog has no row events: a value, stored with each version
of a table and with each statement that removed rows.
Not here: deciding it (`schema/history/effects.py`), applying it to rows (`tables/convert.py`)."""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from strata_cdc.errors import DamagedFileError
from strata_cdc.schema.model.definition import TableName  # noqa: TC001  msgspec asks for it when it reads
from strata_cdc.schema.model.partitions import HeldRows  # noqa: TC001  likewise

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TypeVar

    from strata_cdc.schema.model.definition import Column, TableDefinition

    Found = TypeVar("Found")


class EffectKind(StrEnum):
    """Effects on rows; the strongest comes last."""

    NONE = "none"
    """The rows stay as they are."""
    METADATA = "metadata"
    """Columns are renamed, dropped or moved, or the table gets another name: no value changes."""
    FILL = "fill"
    """New columns get the same value in all rows."""
    CONVERT = "convert"
    """Values are converted, each by a function of this value alone."""
    REMOVE = "remove"
    """Rows are removed."""
    EXCHANGE = "exchange"
    """Rows are exchanged with those of another table."""
    READ_AGAIN = "read_again"
    """The log does not have the result: the rows have to be read from the server or, of a sink, from an export, unless
    there are none."""


IGNORES: Final = "ALTER IGNORE drops rows that break a key, and changes values that do not fit"
"""Of `RowEffect.ignores`, a part of the reason."""
STRENGTH: Final = {kind: number for number, kind in enumerate(EffectKind)}


class ZeroedDate(StrEnum):
    """Dates that become zero when a server copies a table."""

    ON_NO_CALENDAR = "on no calendar"
    """Such as 2024-02-31."""
    IN_PARTS = "without a month or a day"
    """Such as 2024-00-10."""


class FilledColumn(Struct, frozen=True):
    """A new column, and the value that all rows get in it."""

    column: str
    value: str | None
    """As MySQL prints it, binary values in hexadecimal after `0x`; None for NULL."""

    @property
    def shown(self) -> str:
        """The value for people."""
        return "NULL" if self.value is None else repr(self.value)


class ConvertedColumn(Struct, frozen=True):
    """A column whose values are converted."""

    column: str
    """Its name afterwards."""
    before: str
    """COLUMN_TYPE, with the charset if the charset changes."""
    after: str


class RowEffect(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The effect of a statement on the rows of one table. All parts take effect at once: names may be swapped."""

    kind: EffectKind
    """The strongest of its parts."""
    reason: str = ""
    """Why the rows must be read again."""
    brings_rows: bool = False
    """Whether rows may be added that were never in the log: then a table without rows has to be read again too."""
    ignores: bool = False
    """Whether it was an ALTER IGNORE, so that rows may be gone: no other change of columns drops rows."""
    renamed: dict[str, str] = field(default_factory=dict)
    """New name of a column -> old name, including names that differ only in case."""
    added: tuple[str, ...] = ()
    """New columns, whether or not there was a column of that name before."""
    dropped: tuple[str, ...] = ()
    filled: tuple[FilledColumn, ...] = ()
    converted: tuple[ConvertedColumn, ...] = ()
    is_reordered: bool = False
    truncates_fractions: bool = False
    """Fractions of seconds are cut, not rounded, if they are too long for the new type."""
    time_zone: str | None = None
    """Of the session, if the statement used it."""
    numbers_zeros: bool = True
    """An AUTO_INCREMENT gives numbers to zeros too, not only to NULLs (unless NO_AUTO_VALUE_ON_ZERO)."""
    refuses_nulls: bool = False
    """For a statement that converts values: whether it would have failed if there had been a NULL in a column that is
    NOT NULL afterwards."""
    zeroed_dates: tuple[ZeroedDate, ...] = ()
    """Dates that became zero if the server copied the table, which depends on more than the log has: its engine,
    `old_alter_table`. Rows without such dates have stayed."""
    makes_table: bool = False
    """Whether it is a CREATE: the rows after it are those that it adds."""
    is_whole: bool = False
    """Whether all rows are removed."""
    partitions: tuple[str, ...] = ()
    """Partitions whose rows are removed or exchanged."""
    fits_nowhere: bool = False
    """Whether only those rows of the partitions are removed whose values no partition takes."""
    held: HeldRows | None = None
    """The rows of these partitions, if that is known."""
    exchanged_with: TableName | None = None
    takes_partition: bool = False
    """Whether this table has the partition's rows afterwards; else it is the table that gave them."""
    came_from: TableName | None = None
    """The table that had the rows before."""
    makes_cascade: bool = False
    """Whether the statement added a foreign key by which the server changes rows without row events."""

    def to_text(self) -> str:
        """The stored form: JSON; empty if rows stay as they are."""
        return "" if self == NO_EFFECT else msgspec.json.encode(self).decode()

    @staticmethod
    def from_text(text: str) -> RowEffect:
        """The inverse of `to_text`.

        Raises:
            DamagedFileError: The text is not a stored effect.
        """
        return _from_text(text)

    def columns(self, before: TableDefinition, after: TableDefinition) -> list[tuple[Column, Column | None]]:
        """Each column of the table afterwards, in order, with the column that it was before; None for a new one."""
        return [(column, self.column_before(column, before)) for column in after.columns]

    def column_before(self, column: Column, before: TableDefinition) -> Column | None:
        """The column in the definition before the statement; None if the statement added it."""
        return None if column.name in self.added else before.column(self.renamed.get(column.name, column.name))

    @property
    def keeps_rows(self) -> bool:
        """Whether all rows stay as they are, whatever their values are."""
        return self.kind is EffectKind.NONE and not self.zeroed_dates

    @property
    def is_known(self) -> bool:
        """Whether the rows afterwards follow from the log, except for values that a conversion refuses."""
        return self.kind is not EffectKind.READ_AGAIN and not (self.reason or self.brings_rows)

    @property
    def text(self) -> str:
        """The effect in one line, for people; empty if rows stay as they are, which the differences of columns already
        show."""
        if STRENGTH[self.kind] <= STRENGTH[EffectKind.METADATA]:
            return ""
        parts = [f"all get {', '.join(f'{fill.column} = {fill.shown}' for fill in self.filled)}" if self.filled else ""]
        parts += [
            f"{conversion.column} changes from {conversion.before} to {conversion.after}"
            for conversion in self.converted
        ]
        which = "all" if self.is_whole else f"those of partition {', '.join(self.partitions)}"
        if self.fits_nowhere:
            which += " whose values no partition takes"
        if self.exchanged_with is not None:
            parts.append(f"{which} change places with those of {self.exchanged_with}")
        elif self.is_whole or self.partitions:
            parts.append(f"{which} are removed")
        if self.kind is EffectKind.READ_AGAIN or self.reason:
            parts.append(f"must be read again{self.reason and f': {self.reason}'}")
        return "; ".join(filter(None, parts))

    @property
    def parts(self) -> tuple[EffectKind, ...]:
        """All parts of the effect, the weakest first."""
        kinds = {
            EffectKind.METADATA: bool(self.renamed or self.dropped or self.is_reordered or self.came_from),
            EffectKind.FILL: bool(self.filled),
            EffectKind.CONVERT: bool(self.converted),
        }
        return (*(kind for kind, happens in kinds.items() if happens and kind is not self.kind), self.kind)


NO_EFFECT: Final = RowEffect(kind=EffectKind.NONE)
NEW_TABLE: Final = RowEffect(kind=EffectKind.NONE, makes_table=True)
ALL_ROWS_GO: Final = RowEffect(kind=EffectKind.REMOVE, is_whole=True)
REPLACED: Final = RowEffect(kind=EffectKind.REMOVE, makes_table=True, is_whole=True)
"""CREATE OR REPLACE: all rows go, and those that the same statement adds are in its transaction."""


@lru_cache(maxsize=4096)
def _from_text(text: str) -> RowEffect:
    if not text:
        return NO_EFFECT
    effect = _decoded(text, RowEffect, "table_version.effect")
    # Effects that were stored before they had `ignores` have only the reason.
    return replace(effect, ignores=True) if IGNORES in effect.reason else effect


def effects_to_text(effects: Iterable[RowEffect]) -> str:
    """The stored form of effects on several tables."""
    return msgspec.json.encode(list(effects)).decode()


def effects_from_text(text: str) -> tuple[RowEffect, ...]:
    """The inverse of `effects_to_text`.

    Raises:
        DamagedFileError: The text is not such a list.
    """
    return _decoded(text, tuple[RowEffect, ...], "row_removal.effects")


def _decoded(text: str, kind: type[Found], column: str) -> Found:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise DamagedFileError(
            f"the column has no effect on rows: {error}",
            file=column,
            remedy="The store was changed by hand, or is damaged: restore it from a backup.",
        ) from None


def read_again(reason: str) -> RowEffect:
    """The effect if the result is not known, whether or not there were rows."""
    return RowEffect(kind=EffectKind.READ_AGAIN, reason=reason, brings_rows=True)


def together(effects: Sequence[RowEffect]) -> RowEffect:
    """Several statements in their order, as one effect: its kind is the strongest of theirs. Columns have the names
    that they had when they were filled or converted."""
    if not effects:
        return NO_EFFECT
    strongest = max((effect.kind for effect in effects), key=STRENGTH.__getitem__)
    return RowEffect(
        kind=strongest,
        reason="; ".join(dict.fromkeys(effect.reason for effect in effects if effect.reason)),
        filled=tuple(filled for effect in effects for filled in effect.filled),
        converted=tuple(converted for effect in effects for converted in effect.converted),
        is_whole=any(effect.is_whole for effect in effects),
        brings_rows=any(effect.brings_rows for effect in effects),
        ignores=any(effect.ignores for effect in effects),
        partitions=tuple(name for effect in effects for name in effect.partitions),
    )
