"""What an expression of a query is for DuckDB: its SQL, and what MySQL knows of its values.
Not here: reading expressions (`expressions.py`), comparing them (`comparing.py`)."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from msgspec import Struct

from strata_cdc.changes.arrow import MOST_DIGITS, arrow_type_of
from strata_cdc.schema.model.types import ColumnType, TypeKind

if TYPE_CHECKING:
    from sqlglot import exp


class ValueType(Enum):
    """The types as which DuckDB holds values."""

    NULL = auto()
    INTEGER = auto()
    """BIGINT, or UBIGINT if it is unsigned. What MySQL calls true and false are integers too."""
    DECIMAL = auto()
    DOUBLE = auto()
    TEXT = auto()
    BYTES = auto()
    DATE = auto()
    DATETIME = auto()
    """TIMESTAMP without a zone; of a TIMESTAMP of MySQL in UTC."""
    TIME = auto()
    """BIGINT microseconds."""
    YEAR = auto()
    BIT = auto()
    """BOOLEAN of BIT(1), or a whole number without a sign."""
    ENUM = auto()
    SET = auto()
    JSON = auto()
    """The document's text; it is shown, and `->>` reads it."""
    SHOWN = auto()
    """Only shown: nothing is known of what operators do with it."""


EXACT: Final = frozenset({ValueType.INTEGER, ValueType.DECIMAL})
TEMPORAL: Final = frozenset({ValueType.DATE, ValueType.DATETIME})


class Strength(Enum):
    """Whose collation counts if two texts are compared (manual, "Collation Coercibility in Expressions")."""

    EXPLICIT = 0
    COLUMN = 2
    LITERAL = 4


class Kind(Struct, frozen=True):
    """What MySQL knows of an expression's values."""

    type: ValueType
    unsigned: bool = False
    digits: int = 0
    """Of an exact number: all digits; at most 38."""
    scale: int = 0
    """Digits after the point."""
    collation: str | None = None
    strength: Strength = Strength.COLUMN
    labels: tuple[str, ...] = ()
    fraction: int = 0
    """Digits of a second that are shown."""
    shown_as: ColumnType | None = None
    """The type of a column of a table; None for what is calculated."""
    is_quotient: bool = False
    """Whether the server calculates with more digits than it shows."""
    is_padded: bool = False
    """Whether it is a column with ZEROFILL, or a value of it: its text has zeros that the number lacks."""
    is_of_year: bool = False
    """Whether it is calculated from YEAR(), which has no sign in some versions of the server: there, negative results
    are errors."""

    @property
    def is_number(self) -> bool:
        """Whether its values are numbers."""
        return self.type in {*EXACT, ValueType.DOUBLE, ValueType.YEAR}

    @property
    def column_type(self) -> ColumnType:
        """The type of the result's column in MySQL."""
        if self.shown_as is not None:
            return self.shown_as
        if self.type is ValueType.DECIMAL:
            return ColumnType(TypeKind.DECIMAL, min(max(self.digits, self.scale, 1), MOST_DIGITS), self.scale)
        if self.type is ValueType.INTEGER:
            return ColumnType(TypeKind.BIGINT, unsigned=self.unsigned)
        return ColumnType(_TYPES[self.type], self.fraction)

    @property
    def arrow(self) -> pa.DataType:
        """The type of the result's column."""
        return pa.null() if self.type is ValueType.NULL else arrow_type_of(self.column_type)


_TYPES: Final = {
    ValueType.NULL: TypeKind.VARCHAR,
    ValueType.DOUBLE: TypeKind.DOUBLE,
    ValueType.TEXT: TypeKind.VARCHAR,
    ValueType.BYTES: TypeKind.VARBINARY,
    ValueType.DATE: TypeKind.DATE,
    ValueType.DATETIME: TypeKind.DATETIME,
    ValueType.TIME: TypeKind.TIME,
    ValueType.YEAR: TypeKind.YEAR,
    ValueType.BIT: TypeKind.BIT,
    ValueType.ENUM: TypeKind.ENUM,
    ValueType.SET: TypeKind.SET,
    ValueType.JSON: TypeKind.JSON,
    ValueType.SHOWN: TypeKind.VARCHAR,
}
NULL: Final = Kind(ValueType.NULL)
INTEGER: Final = Kind(ValueType.INTEGER, digits=19)
UNSIGNED: Final = Kind(ValueType.INTEGER, unsigned=True, digits=20)
BOOLEAN: Final = Kind(ValueType.INTEGER, digits=1)
DOUBLE: Final = Kind(ValueType.DOUBLE)
DATE: Final = Kind(ValueType.DATE)
DATETIME: Final = Kind(ValueType.DATETIME)


class QueryValue(Struct, frozen=True):
    """An expression."""

    sql: str
    kind: Kind
    literal: str | int | None = None
    """The value, if the statement has it as a text or a whole number."""
    exact: str | None = None
    """For a quotient: the SQL of its digits before they are rounded, as a HUGEINT, and how many of them are after the
    point."""
    exact_scale: int = 0
    unchecked: str | None = None
    """For a floating-point number: the SQL without the check that it is finite. A sum or product of what is not finite
    is not finite either, so one check is enough for it: checks within checks would be three times as long each."""
    name: str = ""
    """What it is called in errors."""

    @property
    def type(self) -> ValueType:
        """The type of its values."""
        return self.kind.type


def integer(sql: str, **facts: Any) -> QueryValue:
    """A whole number with a sign."""
    return QueryValue(f"CAST({sql} AS BIGINT)", INTEGER, **facts)


def boolean(sql: str) -> QueryValue:
    """A condition as MySQL's 1 and 0."""
    return QueryValue(f"CAST(({sql}) AS BIGINT)", BOOLEAN)


def decimal(digits: int, scale: int) -> Kind:
    """The kind of decimals."""
    return Kind(ValueType.DECIMAL, digits=min(digits, MOST_DIGITS), scale=scale)


def as_decimal(value: QueryValue, scale: int) -> str:
    """The SQL of an exact number in all digits that DuckDB has, with these after the point."""
    return f"CAST({value.sql} AS DECIMAL({MOST_DIGITS},{scale}))"


def name_of(node: exp.Expr) -> str:
    """What an expression is called in errors."""
    return node.sql(dialect="mysql")[:60]
