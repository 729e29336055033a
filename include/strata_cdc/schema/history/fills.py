"""The value that existing rows get in a column that an ALTER adds.
Not here: the whole statement (`effects.py`), the values in Arrow (`tables/convert.py`)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from strata_cdc.schema.ddl.literals import Literal, LiteralKind
from strata_cdc.schema.model.binary_defaults import filled, known_bytes
from strata_cdc.schema.model.charsets import MANY_TO_ONE, NOT_OF_ASCII
from strata_cdc.schema.model.row_times import FOREVER, ROW_END, ROW_START, WIDER_SINCE
from strata_cdc.schema.model.types import ColumnType, Family, TypeKind, parse_column_type

if TYPE_CHECKING:
    from strata_cdc.schema.ddl.context import DdlContext
    from strata_cdc.schema.model.definition import Column


class NoFill(Struct, frozen=True):
    """The value does not follow from the log."""

    reason: str


_ZERO_DATES: Final = frozenset({TypeKind.DATE, TypeKind.DATETIME, TypeKind.TIMESTAMP})
_NO_LITERAL: Final = frozenset({Family.GEOMETRY, Family.VECTOR})
_TEXT_ITSELF: Final = re.compile(r"\(?(?:_utf8mb4)?'([^'\\]*)'\)?", re.ASCII)
"""An expression that is only a text: the only constant default that a TEXT or BLOB can have."""
_ONE_FORM: Final = re.compile(r"[\w :/+*=#%&@!?<>]*", re.ASCII)
"""Texts that have only one form in any charset: a default is shown as Unicode, whatever its bytes are."""


_NEVER_STORED: Final = frozenset({Family.VECTOR, Family.GEOMETRY, Family.DOCUMENT})
"""Families of which only MariaDB has literal defaults."""


def fill_of(column: Column, literal: object = None, charset: str | None = None) -> str | NoFill | None:
    """The value as MySQL prints it, with bytes in hexadecimal after `0x`; None for NULL.

    Args:
        column: The new column.
        literal: Its default as the statement wrote it, if that is known.
        charset: Of the table, if that is known.
    """
    kind = parse_column_type(column.column_type)
    if column.generated is not None:
        return NoFill(f"{column.name} is computed by the server: {column.generation_expression}")
    if column.auto_increment:
        return NoFill(f"the server numbers the rows in the new column {column.name}")
    if column.default_is_expression:
        return _expression(column, kind)
    if column.default is None and column.nullable:
        return None
    if kind.kind is TypeKind.SET and "" in kind.labels and not _names_labels(literal):
        return NoFill(f"which labels the default of the new column {column.name} has is not known: one label is empty")
    if column.default is None:
        return _implicit(column, kind)
    written = literal if isinstance(literal, Literal) else None
    return _stored(column, kind, written, charset)


def _names_labels(literal: object) -> bool:
    """Whether the default of a SET was written as labels of which none is empty."""
    if not isinstance(literal, Literal) or literal.kind is not LiteralKind.TEXT:
        return False
    return all(part.rstrip(" ") for part in literal.text.split(","))


def times_of_rows(context: DdlContext) -> dict[str, str]:
    """What a statement that makes a table system-versioned gives to the rows that are there, by the generation
    expressions of the columns: their time begins with the statement (11.8 and 10.11, also with COMMIT ALTER). Empty if
    it is not known when that was."""
    if context.began_at is None:
        return {}
    end = FOREVER[context.flavour.is_mariadb(*WIDER_SINCE)]
    return {ROW_START: _moment(context.began_at), ROW_END: _moment(end)}


def _moment(microseconds: int) -> str:
    """A TIMESTAMP(6) as text, in UTC."""
    then = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
    return f"{then:%Y-%m-%d %H:%M:%S.%f}"


def _expression(column: Column, kind: ColumnType) -> str | NoFill:
    itself = _TEXT_ITSELF.fullmatch(column.default or "")
    if itself is not None and _has_other_forms(column, itself[1]):
        return _other_forms(column)
    if itself is not None and itself[1].isascii() and kind.kind.facts.family in {Family.TEXT, Family.BLOB}:
        return itself[1] if kind.kind.facts.family is Family.TEXT else "0x" + itself[1].encode().hex().upper()
    return NoFill(f"the server computes the default of the new column {column.name}: {column.default}")


def _implicit(column: Column, kind: ColumnType) -> str | NoFill | None:
    """The value of NOT NULL without a DEFAULT; zero dates are NULL in the lake."""
    family = kind.kind.facts.family
    if kind.kind is TypeKind.ENUM:
        return kind.labels[0]
    if kind.kind in _ZERO_DATES:
        return None
    if family is Family.DOCUMENT:
        return "null"
    if family in _NO_LITERAL:
        return NoFill(f"the new column {column.name} is NOT NULL without a default: its values are not known here")
    if family in {Family.BYTES, Family.BLOB}:
        return "0x" + "00" * (kind.length or 0 if kind.kind is TypeKind.BINARY else 0)
    if family is Family.DECIMAL and kind.decimals:
        return "0." + "0" * kind.decimals
    return kind.kind.facts.implicit_default


def _stored(column: Column, kind: ColumnType, literal: Literal | None, charset: str | None) -> str | NoFill | None:
    text = column.default or ""
    family = kind.kind.facts.family
    is_text = literal is not None and literal.kind is LiteralKind.TEXT
    if family in _NEVER_STORED or (family is Family.BLOB and is_text and charset in NOT_OF_ASCII):
        return NoFill(f"the bytes of the default of the new column {column.name} are not known here: {text}")
    if family in {Family.BYTES, Family.BLOB}:
        return _bytes(column, kind, literal)
    if family is Family.BITS:
        return str(int(text.removeprefix("b'").rstrip("'") or "0", 2))
    if family is Family.FLOATING:
        return _floating(column, kind, literal)
    return _shown(column, kind, text)


def _shown(column: Column, kind: ColumnType, text: str) -> str | NoFill:
    family = kind.kind.facts.family
    if family is Family.LABELS and not set(text.split(",") if text else ()) <= set(kind.labels):
        return NoFill(f"the default of the new column {column.name} is shown otherwise than its labels: {text}")
    if family in {Family.CHARACTERS, Family.TEXT} and _has_other_forms(column, text):
        return _other_forms(column)
    if kind.kind is TypeKind.TIMESTAMP and not text.startswith("0000"):
        return NoFill(f"the default of the new column {column.name} depends on the session's time zone: {text}")
    return text


def _has_other_forms(column: Column, text: str) -> bool:
    """Whether other bytes of the column's charset may give the same text."""
    return column.character_set in MANY_TO_ONE and _ONE_FORM.fullmatch(text) is None


def _other_forms(column: Column) -> NoFill:
    return NoFill(
        f"the bytes of the default of the new column {column.name} are not known: {column.character_set} has several "
        f"for one text: {column.default}"
    )


def _bytes(column: Column, kind: ColumnType, literal: Literal | None) -> str | NoFill:
    """The full bytes: COLUMN_DEFAULT shows them up to the first zero; the statement has all of them, in the client's
    charset."""
    raw = known_bytes(column)
    if raw is not None:
        pass
    elif literal is not None and literal.kind in {LiteralKind.HEX, LiteralKind.BITS}:
        raw = literal.raw_bytes()
    elif literal is not None and literal.kind is LiteralKind.TEXT and literal.text.isascii():
        raw = literal.text.encode()
    if raw is None:
        return NoFill(f"the bytes of the default of the new column {column.name} are not known: {column.default}")
    return "0x" + filled(raw, kind).hex().upper()


def _floating(column: Column, kind: ColumnType, literal: Literal | None) -> str | NoFill:
    """The exact number: COLUMN_DEFAULT shows six digits of a FLOAT; the statement has all digits."""
    text = literal.text if literal is not None and literal.kind in {LiteralKind.NUMBER, LiteralKind.TEXT} else None
    if text is None:
        text = column.default or "0"
        if kind.kind is TypeKind.FLOAT and sum(ch.isdigit() for ch in text.partition("e")[0]) >= 6:
            return NoFill(f"all digits of the default of the new column {column.name} are not known: {text}")
    elif kind.decimals is not None:
        return NoFill(f"how {column.column_type} rounds the default of the new column {column.name} is not known here")
    try:
        return repr(float(text))
    except ValueError:
        return NoFill(f"the default of the new column {column.name} is no number: {text}")
