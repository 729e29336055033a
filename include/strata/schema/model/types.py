"""Column types of MySQL: the text of `information_schema.COLUMNS.COLUMN_TYPE` and what it says.
Not here: types as statements write them (`schema/ddl/types.py`), their Arrow types (`strata.rows`)."""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache

from msgspec import Struct

from strata.errors import BadData


class TypeKind(StrEnum):
    """The name that COLUMN_TYPE begins with."""

    TINYINT = "tinyint"
    SMALLINT = "smallint"
    MEDIUMINT = "mediumint"
    INT = "int"
    BIGINT = "bigint"
    DECIMAL = "decimal"
    FLOAT = "float"
    DOUBLE = "double"
    BIT = "bit"
    CHAR = "char"
    VARCHAR = "varchar"
    TINYTEXT = "tinytext"
    TEXT = "text"
    MEDIUMTEXT = "mediumtext"
    LONGTEXT = "longtext"
    BINARY = "binary"
    VARBINARY = "varbinary"
    TINYBLOB = "tinyblob"
    BLOB = "blob"
    MEDIUMBLOB = "mediumblob"
    LONGBLOB = "longblob"
    ENUM = "enum"
    SET = "set"
    DATE = "date"
    DATETIME = "datetime"
    TIMESTAMP = "timestamp"
    TIME = "time"
    YEAR = "year"
    JSON = "json"
    VECTOR = "vector"
    GEOMETRY = "geometry"
    POINT = "point"
    LINESTRING = "linestring"
    POLYGON = "polygon"
    MULTIPOINT = "multipoint"
    MULTILINESTRING = "multilinestring"
    MULTIPOLYGON = "multipolygon"
    GEOMCOLLECTION = "geomcollection"


INTEGERS = frozenset({TypeKind.TINYINT, TypeKind.SMALLINT, TypeKind.MEDIUMINT, TypeKind.INT, TypeKind.BIGINT})
TEXTS = frozenset({TypeKind.TINYTEXT, TypeKind.TEXT, TypeKind.MEDIUMTEXT, TypeKind.LONGTEXT})
BLOBS = frozenset({TypeKind.TINYBLOB, TypeKind.BLOB, TypeKind.MEDIUMBLOB, TypeKind.LONGBLOB})
STRINGS = frozenset({TypeKind.CHAR, TypeKind.VARCHAR}) | TEXTS
"""Types of text: always with a charset."""
LABELLED = frozenset({TypeKind.ENUM, TypeKind.SET})
GEOMETRIES = (
    TypeKind.GEOMETRY,
    TypeKind.POINT,
    TypeKind.LINESTRING,
    TypeKind.POLYGON,
    TypeKind.MULTIPOINT,
    TypeKind.MULTILINESTRING,
    TypeKind.MULTIPOLYGON,
    TypeKind.GEOMCOLLECTION,
)
"""By the numbers of `Field::geometry_type` (sql/field.h)."""
SPATIAL = frozenset(GEOMETRIES)
AS_BINARY = {
    TypeKind.CHAR: TypeKind.BINARY,
    TypeKind.VARCHAR: TypeKind.VARBINARY,
    TypeKind.TINYTEXT: TypeKind.TINYBLOB,
    TypeKind.TEXT: TypeKind.BLOB,
    TypeKind.MEDIUMTEXT: TypeKind.MEDIUMBLOB,
    TypeKind.LONGTEXT: TypeKind.LONGBLOB,
}
"""What the charset binary makes of a type of text."""
AS_TEXT = {binary: text for text, binary in AS_BINARY.items()}
TEXT_BYTES = {
    TypeKind.TINYTEXT: 0xFF,
    TypeKind.TEXT: 0xFFFF,
    TypeKind.MEDIUMTEXT: 0xFFFFFF,
    TypeKind.LONGTEXT: 0xFFFFFFFF,
}
"""Capacity of the text types in bytes; the blob types have the same."""
NO_DIMENSIONS = 0xFFFFFFFF
"""What 9.7 shows for the dimensions of VECTOR(0), which holds nothing."""
TEMPORAL_WITH_FRACTION = frozenset({TypeKind.TIME, TypeKind.DATETIME, TypeKind.TIMESTAMP})

# Servers before 8.0 write it out.
_SPELLINGS = {"geometrycollection": TypeKind.GEOMCOLLECTION}


class ColumnType(Struct, frozen=True):
    """A column's type, taken apart."""

    kind: TypeKind
    length: int | None = None
    """Characters of CHAR and VARCHAR, bytes of BINARY and VARBINARY, bits of BIT, digits of DECIMAL, FLOAT and DOUBLE
    where written, dimensions of VECTOR, fraction digits of TIME, DATETIME and TIMESTAMP (0 if none), display width
    of integers where shown."""
    decimals: int | None = None
    """Digits behind the point of DECIMAL, and of FLOAT and DOUBLE where written."""
    unsigned: bool = False
    zerofill: bool = False
    labels: tuple[str, ...] = ()
    """Members of ENUM and SET in the order of their numbers."""

    @property
    def text(self) -> str:
        """COLUMN_TYPE again."""
        size = ""
        if self.kind in LABELLED:
            size = "(" + ",".join(map(quoted_label, self.labels)) + ")"
        elif self.decimals is not None:
            size = f"({self.length},{self.decimals})"
        elif self.length is not None and (self.length or self.kind not in TEMPORAL_WITH_FRACTION):
            size = f"({self.length})"
        return f"{self.kind}{size}{' unsigned' if self.unsigned else ''}{' zerofill' if self.zerofill else ''}"


_ESCAPED = str.maketrans({"\0": "\\0", "\n": "\\n", "\r": "\\r", "\\": "\\\\", "'": "''"})


def shown_text(text: str) -> str:
    """A text of a definition as information_schema shows it, which knows no characters beyond U+FFFF. The definition
    has them: they are in rows."""
    return text if text.isascii() else "".join(ch if ch <= "\uffff" else "?" for ch in text)


def quoted_label(label: str) -> str:
    """A member of ENUM or SET as COLUMN_TYPE has it (sql-common/sql_string.cc, `append_unescaped`).

    Bytes of a binary label that are no UTF-8 (here: escaped as surrogates) make it a hexadecimal literal.
    """
    if label.isascii() or not any("\udc80" <= ch <= "\udcff" for ch in label):
        return f"'{label.translate(_ESCAPED)}'"
    return f"x'{label.encode('utf_8', errors='surrogateescape').hex()}'"


@lru_cache(maxsize=4096)
def parse_column_type(text: str) -> ColumnType:
    """Reads a COLUMN_TYPE as the server writes it.

    Raises:
        BadData: The text is no column type.
    """
    name, bracket, rest = text.partition("(")
    words = name.split()
    inside, flags = "", words[1:]
    if bracket:
        inside, flags = _split_size(rest, text)
    kind = _kind_named(words[0] if words else "", text)
    if kind in LABELLED:
        return ColumnType(kind, labels=_labels(inside, text))
    length, decimals = _numbers(inside, text)
    if kind in TEMPORAL_WITH_FRACTION:
        length = length or 0
    known = {"unsigned", "zerofill"}
    if not known.issuperset(flags):
        raise BadData(f"{text!r} is not a column type")
    return ColumnType(kind, length, decimals, unsigned="unsigned" in flags, zerofill="zerofill" in flags)


def _kind_named(name: str, text: str) -> TypeKind:
    if name in _SPELLINGS:
        return _SPELLINGS[name]
    try:
        return TypeKind(name)
    except ValueError:
        raise BadData(f"{text!r} is not a column type") from None


def _split_size(rest: str, text: str) -> tuple[str, list[str]]:
    end = rest.rfind(")")
    if end < 0:
        raise BadData(f"{text!r} is not a column type")
    return rest[:end], rest[end + 1 :].split()


def _numbers(inside: str, text: str) -> tuple[int | None, int | None]:
    if not inside:
        return None, None
    parts = [part.strip() for part in inside.split(",")]
    if len(parts) > 2 or not all(part.isascii() and part.isdigit() for part in parts):
        raise BadData(f"{text!r} is not a column type")
    return int(parts[0]), int(parts[1]) if len(parts) == 2 else None


_UNESCAPED = {"0": "\0", "n": "\n", "r": "\r", "\\": "\\"}


def _labels(inside: str, text: str) -> tuple[str, ...]:
    found: list[str] = []
    at = 0
    while at < len(inside):
        if inside.startswith("x'", at):
            end = inside.find("'", at + 2)
            found.append(bytes.fromhex(inside[at + 2 : end]).decode("utf_8", errors="replace"))
            at = end + 1
        elif inside[at] == "'":
            label, at = _label(inside, at + 1, text)
            found.append(label)
        else:
            raise BadData(f"{text!r} is not a column type")
        if at < len(inside):
            if inside[at] != ",":
                raise BadData(f"{text!r} is not a column type")
            at += 1
    return tuple(found)


def _label(inside: str, at: int, text: str) -> tuple[str, int]:
    """The label that begins behind the quote at `at - 1`, and the place behind its closing quote."""
    label = ""
    while at < len(inside):
        ch = inside[at]
        if ch == "'":
            if inside[at + 1 : at + 2] != "'":
                return label, at + 1
            label += "'"
            at += 2
        elif ch == "\\":
            label += _UNESCAPED.get(inside[at + 1 : at + 2], inside[at + 1 : at + 2])
            at += 2
        else:
            label += ch
            at += 1
    raise BadData(f"{text!r} is not a column type")
