"""Which key orders a table's rows for reading in ranges, its values as literals, and conditions on them.

Only the server compares values, in SQL: no order of any collation is imitated here.
Not here: reading (`rows.py`), how long a range is (`mirrors/dump/`)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from strata_cdc.binlog.kernels.result_rows import DATE, DECIMAL, TIME
from strata_cdc.changes.select.calendar import day_text, moment_text
from strata_cdc.schema.model.create_sql import quoted
from strata_cdc.schema.model.definition import KeyKind
from strata_cdc.schema.model.types import INTEGERS, LABELLED, STRINGS, Family, TypeKind, parse_column_type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strata_cdc.changes.region import Region
    from strata_cdc.changes.select.forms import SelectColumn
    from strata_cdc.schema.model.definition import Column, Key, TableDefinition

_BORDERLESS: Final = frozenset({Family.DOCUMENT, Family.GEOMETRY, Family.VECTOR})


class SelectKey(Struct, frozen=True):
    """A key that distinguishes all rows, and whose order allows to read them in ranges."""

    index: str
    columns: tuple[str, ...]
    descending: tuple[bool, ...]

    @property
    def order(self) -> str:
        """ORDER BY its parts."""
        parts = zip(self.columns, self.descending, strict=True)
        return "ORDER BY " + ", ".join(f"{quoted(name)}{' DESC' if down else ''}" for name, down in parts)

    def hint(self) -> str:
        """Makes the server read by this index: it need not sort then, and begins to send immediately."""
        return f"FORCE INDEX ({quoted(self.index)})"

    def after(self, border: Sequence[str]) -> str:
        """The condition that a row comes after these values; nothing for an empty border.

        Row constructors are not used: the server's range optimizer does not read `(a, b) > (1, 2)`.
        """
        return self._beyond(border, ("<", ">"))

    def up_to(self, border: Sequence[str]) -> str:
        """The condition that a row comes before these values, or has them."""
        beyond = self._beyond(border, (">", "<"))
        return f"({beyond} OR ({self.equal(border)}))" if border else ""

    def equal(self, border: Sequence[str]) -> str:
        """The condition that a row has these values."""
        return " AND ".join(f"{quoted(name)} = {value}" for name, value in zip(self.columns, border, strict=True))

    def _beyond(self, border: Sequence[str], signs: tuple[str, str]) -> str:
        if not border:
            return ""
        alternatives = []
        for at, (name, down) in enumerate(zip(self.columns, self.descending, strict=True)):
            same = [f"{quoted(self.columns[k])} = {border[k]}" for k in range(at)]
            alternatives.append(" AND ".join([*same, f"{quoted(name)} {signs[not down]} {border[at]}"]))
        return "(" + " OR ".join(f"({alternative})" for alternative in alternatives) + ")"


def select_key(definition: TableDefinition) -> SelectKey | None:
    """The key to read by: the primary key, else a unique key of whole NOT NULL columns; None if there is none."""
    keys = [key for key in definition.keys if _serves(key, definition)]
    primary = [key for key in keys if key.kind is KeyKind.PRIMARY]
    for key in primary or keys:
        return SelectKey(
            key.name,
            tuple(part.column or "" for part in key.parts),
            tuple(part.descending for part in key.parts),
        )
    return None


def _serves(key: Key, definition: TableDefinition) -> bool:
    # A hash has no order.
    if key.kind not in (KeyKind.PRIMARY, KeyKind.UNIQUE) or key.invisible or key.hashed is not False:
        return False
    for part in key.parts:
        column = None if part.column is None else definition.column(part.column)
        if column is None or column.nullable or part.prefix_length is not None or part.lengths_in_doubt:
            return False
        kind = parse_column_type(column.column_type)
        # MariaDB orders YEAR(2) by all digits of the year, and compares it by the last two.
        if kind.kind.facts.family in _BORDERLESS or (kind.kind is TypeKind.YEAR and kind.length == 2):
            return False
    return True


def literal(column: Column, plan: SelectColumn, region: Region, cell_at: int) -> str:
    """The value of a cell as an SQL literal in the column's charset, which the server reads as the same value.

    Args:
        column: The column of the definition.
        plan: How the column was read.
        region: Where the cell lies.
        cell_at: Position of the cell in the region; it is neither NULL nor absent.
    """
    kind = parse_column_type(column.column_type)
    if kind.kind in INTEGERS or kind.kind in LABELLED or kind.kind is TypeKind.YEAR:
        unsigned = kind.unsigned or kind.kind not in INTEGERS
        return str(int.from_bytes(region.cell(cell_at, plan.size), "little", signed=not unsigned))
    if kind.kind is TypeKind.BIT:
        return str(int.from_bytes(region.cell(cell_at, plan.size), "big"))
    if kind.kind in STRINGS:
        # Compared by the column's collation, which is stronger than that of a literal (manual, "Coercibility").
        return f"_{column.character_set} x'{_text(region, cell_at).hex()}'"
    return _OTHERS[kind.kind.facts.family](plan, region, cell_at)


def _text(region: Region, cell_at: int) -> bytes:
    size = int.from_bytes(region.cell(cell_at, 4), "little")
    return region.cell(cell_at + 4, size)


def _bytes(_: SelectColumn, region: Region, cell_at: int) -> str:
    return f"x'{_text(region, cell_at).hex()}'"


def _quoted(_: SelectColumn, region: Region, cell_at: int) -> str:
    return f"'{_text(region, cell_at).decode('ascii')}'"


def _floating(plan: SelectColumn, region: Region, cell_at: int) -> str:
    [value] = struct.unpack("<f" if plan.size == 4 else "<d", region.cell(cell_at, plan.size))
    text = repr(float(value))
    # With an exponent it is read as a double; without an exponent it would be a decimal.
    return text if "e" in text else f"{text}e0"


def _decimal(plan: SelectColumn, region: Region, cell_at: int) -> str:
    if plan.form != DECIMAL:
        return _text(region, cell_at).decode("ascii")
    number = int.from_bytes(region.cell(cell_at, 16), "little", signed=True)
    digits = f"{abs(number):0{plan.size + 1}}"
    whole, fraction = digits[: len(digits) - plan.size], digits[len(digits) - plan.size :]
    return f"{'-' if number < 0 else ''}{whole}{'.' + fraction if fraction else ''}"


def _temporal(plan: SelectColumn, region: Region, cell_at: int) -> str:
    if plan.form == DATE:
        return f"DATE'{day_text(int.from_bytes(region.cell(cell_at, 4), 'little', signed=True))}'"
    micros = int.from_bytes(region.cell(cell_at, 8), "little", signed=True)
    if plan.form == TIME:
        seconds, fraction = divmod(abs(micros), 1_000_000)
        sign = "-" if micros < 0 else ""
        return f"TIME'{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}'"
    return f"TIMESTAMP'{moment_text(micros, _MOST_DIGITS)}'"


_MOST_DIGITS: Final = 6
_OTHERS: Final[dict[Family, Callable[[SelectColumn, Region, int], str]]] = {
    Family.FLOATING: _floating,
    Family.DECIMAL: _decimal,
    Family.TEMPORAL: _temporal,
    Family.BYTES: _bytes,
    Family.BLOB: _bytes,
    Family.FIXED_BYTES: _quoted,
}
