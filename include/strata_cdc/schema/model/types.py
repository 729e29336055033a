"""Column types of MySQL and MariaDB: one entry for each type, and the text of `information_schema.COLUMNS.COLUMN_TYPE`.
Not here: types in statements (`schema/ddl/types.py`), their Arrow types (`changes/arrow.py`)."""

from __future__ import annotations

from enum import Enum, StrEnum, auto
from functools import lru_cache
from typing import TYPE_CHECKING, Self

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.binlog.bytes.codes import FieldType
from strata_cdc.binlog.events.field_types import bit_length
from strata_cdc.errors import BadData

if TYPE_CHECKING:
    from collections.abc import Callable


LONGEST = 0xFFFFFFFF
"""The maximum number of bytes of LONGTEXT, LONGBLOB, JSON and geometries."""
NO_DIMENSIONS = 0xFFFFFFFF
"""The dimensions that 9.7 shows for VECTOR(0), which holds nothing."""
COMPRESSED = " /*M!100301 COMPRESSED*/"
"""The end of the COLUMN_TYPE of a compressed column of MariaDB."""


class Family(Enum):
    """Groups of types that most code treats in the same way."""

    INTEGER = auto()
    DECIMAL = auto()
    FLOATING = auto()
    BITS = auto()
    CHARACTERS = auto()
    """CHAR and VARCHAR: always with a charset, like TEXT."""
    TEXT = auto()
    BYTES = auto()
    BLOB = auto()
    LABELS = auto()
    TEMPORAL = auto()
    YEAR = auto()
    DOCUMENT = auto()
    GEOMETRY = auto()
    VECTOR = auto()
    FIXED_BYTES = auto()
    """UUID and addresses of MariaDB: a fixed number of bytes in rows, text in results."""


class Metadata(Struct, frozen=True):
    """The metadata that a TABLE_MAP has for a type besides its code."""

    of: Callable[[ColumnType, int], int]
    """Computes it from the type, and from the bytes of its charset's longest character."""
    size: Callable[[int, int], tuple[int | None, int | None]] = lambda _metadata, _wide: (None, None)
    """Computes the type's length and decimals from it."""


def _constant(value: int) -> Metadata:
    return Metadata(lambda _type, _wide: value)


def _length_of(column_type: ColumnType) -> int:
    return 1 if column_type.length is None else column_type.length


_NO_METADATA = _constant(0)
_PRECISION = Metadata(
    lambda kind, _: _length_of(kind) << 8 | (kind.decimals or 0), lambda metadata, _: (metadata >> 8, metadata & 0xFF)
)
_BITS = Metadata(
    lambda kind, _: _length_of(kind) // 8 << 8 | _length_of(kind) % 8, lambda metadata, _: (bit_length(metadata), None)
)
_BYTES = Metadata(lambda kind, wide: _length_of(kind) * wide, lambda metadata, wide: (metadata // wide, None))
_ENUM = Metadata(lambda kind, _: 1 if len(kind.labels) < 256 else 2)
_SET = Metadata(lambda kind, _: 8 if len(kind.labels) > 32 else (len(kind.labels) + 7) // 8)
_FRACTION = Metadata(lambda kind, _: kind.length or 0, lambda metadata, _: (metadata, None))


class TypeFacts(Struct, frozen=True, kw_only=True):
    """The facts of one MySQL type: its entry in the registry."""

    family: Family
    code: FieldType
    """In a TABLE_MAP; `binlog/events/field_types.py` has the facts of each code: widths, signs, charset lists."""
    metadata: Metadata = _NO_METADATA
    old_code: FieldType | None = None
    """The code in tables that an older server made, without metadata; in MySQL also without a fraction."""
    compressed_code: FieldType | None = None
    """The code of compressed columns of MariaDB; None for types that cannot be compressed."""
    logged_as_bytes: int | None = None
    """In MariaDB the type is logged as VARBINARY, with this number of bytes for each unit of its length."""
    aliases: tuple[str, ...] = ()
    """Other single words for it in statements."""
    old_name: str | None = None
    """Its name in COLUMN_TYPE of a server before 8.0, if that is another word."""
    default_length: int | None = None
    """The length if a statement gives none."""
    zero_length: int | None = 0
    """The meaning of a length of 0 in a statement."""
    display_widths: tuple[int, int] | None = None
    """For integers: signed, unsigned."""
    capacity: Callable[[ColumnType], int] | None = None
    """The maximum number of bytes of a value, for types that are stored as BLOBs: these have no literal default."""
    binary: str | None = None
    """The type that the charset binary makes of it."""
    has_idle_charset: bool = False
    """TABLE_MAPs give it a charset that has no meaning."""
    implicit_default: str | None = ""
    """The value that existing rows get for NOT NULL without a DEFAULT; None for zero dates, which no column of the lake
    can express, and for the first label of an ENUM."""


def _integer(code: FieldType, signed: int, unsigned: int, *aliases: str) -> TypeFacts:
    widths = (signed, unsigned)
    return TypeFacts(
        family=Family.INTEGER, code=code, display_widths=widths, aliases=aliases, zero_length=None, implicit_default="0"
    )


def _floating(code: FieldType, size: int, alias: str) -> TypeFacts:
    return TypeFacts(
        family=Family.FLOATING, code=code, metadata=_constant(size), aliases=(alias,), implicit_default="0"
    )


def _string(family: Family, code: FieldType, *aliases: str, binary: str | None = None) -> TypeFacts:
    return TypeFacts(
        family=family,
        code=code,
        metadata=_BYTES,
        compressed_code=FieldType.VARCHAR_COMPRESSED if code is FieldType.VARCHAR else None,
        aliases=aliases,
        default_length=1,
        binary=binary,
    )


def _long(family: Family, length_bytes: int, binary: str | None = None) -> TypeFacts:
    """A TEXT or BLOB with this number of bytes for its length."""
    return TypeFacts(
        family=family,
        code=FieldType.BLOB,
        metadata=_constant(length_bytes),
        compressed_code=FieldType.BLOB_COMPRESSED,
        capacity=lambda _: 256**length_bytes - 1,
        binary=binary,
    )


def _temporal(code: FieldType, old_code: FieldType, implicit_default: str | None) -> TypeFacts:
    return TypeFacts(
        family=Family.TEMPORAL,
        code=code,
        metadata=_FRACTION,
        old_code=old_code,
        default_length=0,
        implicit_default=implicit_default,
    )


def _fixed_bytes(size: int, zero: str) -> TypeFacts:
    """A type of MariaDB that is a BINARY of `size` bytes in rows; `zero` is the text of zeros."""
    return TypeFacts(family=Family.FIXED_BYTES, code=FieldType.STRING, metadata=_constant(size), implicit_default=zero)


def _longest(_: ColumnType) -> int:
    return LONGEST


def _geometry(*aliases: str, old_name: str | None = None) -> TypeFacts:
    return TypeFacts(
        family=Family.GEOMETRY,
        code=FieldType.GEOMETRY,
        metadata=_constant(4),
        capacity=_longest,
        aliases=aliases,
        old_name=old_name,
    )


class TypeKind(StrEnum):
    """The types, by the name with which COLUMN_TYPE begins. To add a type, add its entry here."""

    facts: TypeFacts

    def __new__(cls, name: str, facts: TypeFacts) -> Self:
        """A name with its facts."""
        kind = str.__new__(cls, name)
        kind._value_ = name
        kind.facts = facts
        return kind

    TINYINT = "tinyint", _integer(FieldType.TINY, 4, 3, "INT1")
    SMALLINT = "smallint", _integer(FieldType.SHORT, 6, 5, "INT2")
    MEDIUMINT = "mediumint", _integer(FieldType.INT24, 9, 8, "INT3", "MIDDLEINT")
    INT = "int", _integer(FieldType.LONG, 11, 10, "INT4", "INTEGER")
    BIGINT = "bigint", _integer(FieldType.LONGLONG, 20, 20, "INT8")
    DECIMAL = (
        "decimal",
        TypeFacts(
            family=Family.DECIMAL,
            code=FieldType.NEWDECIMAL,
            metadata=_PRECISION,
            aliases=("DEC", "NUMERIC", "FIXED"),
            default_length=10,
            zero_length=10,
            implicit_default="0",
        ),
    )
    FLOAT = "float", _floating(FieldType.FLOAT, 4, "FLOAT4")
    DOUBLE = "double", _floating(FieldType.DOUBLE, 8, "FLOAT8")
    BIT = (
        "bit",
        TypeFacts(
            family=Family.BITS,
            code=FieldType.BIT,
            metadata=_BITS,
            default_length=1,
            zero_length=1,
            implicit_default="0",
        ),
    )
    CHAR = "char", _string(Family.CHARACTERS, FieldType.STRING, "CHARACTER", binary="binary")
    VARCHAR = "varchar", _string(Family.CHARACTERS, FieldType.VARCHAR, "VARCHARACTER", binary="varbinary")
    TINYTEXT = "tinytext", _long(Family.TEXT, 1, binary="tinyblob")
    TEXT = "text", _long(Family.TEXT, 2, binary="blob")
    MEDIUMTEXT = "mediumtext", _long(Family.TEXT, 3, binary="mediumblob")
    LONGTEXT = "longtext", _long(Family.TEXT, 4, binary="longblob")
    BINARY = "binary", _string(Family.BYTES, FieldType.STRING)
    VARBINARY = "varbinary", _string(Family.BYTES, FieldType.VARCHAR)
    TINYBLOB = "tinyblob", _long(Family.BLOB, 1)
    BLOB = "blob", _long(Family.BLOB, 2)
    MEDIUMBLOB = "mediumblob", _long(Family.BLOB, 3)
    LONGBLOB = "longblob", _long(Family.BLOB, 4)
    ENUM = "enum", TypeFacts(family=Family.LABELS, code=FieldType.ENUM, metadata=_ENUM, implicit_default=None)
    SET = "set", TypeFacts(family=Family.LABELS, code=FieldType.SET, metadata=_SET)
    DATE = (
        "date",
        TypeFacts(family=Family.TEMPORAL, code=FieldType.DATE, old_code=FieldType.NEWDATE, implicit_default=None),
    )
    DATETIME = "datetime", _temporal(FieldType.DATETIME2, FieldType.DATETIME, None)
    TIMESTAMP = "timestamp", _temporal(FieldType.TIMESTAMP2, FieldType.TIMESTAMP, None)
    TIME = "time", _temporal(FieldType.TIME2, FieldType.TIME, "")
    YEAR = "year", TypeFacts(family=Family.YEAR, code=FieldType.YEAR, implicit_default="0")
    JSON = (
        "json",
        TypeFacts(family=Family.DOCUMENT, code=FieldType.JSON, metadata=_constant(4), capacity=_longest),
    )
    VECTOR = (
        "vector",
        TypeFacts(
            family=Family.VECTOR,
            code=FieldType.VECTOR,
            metadata=_constant(4),
            default_length=2048,  # sql/field.h, `default_vector_dimensions`
            zero_length=NO_DIMENSIONS,
            logged_as_bytes=4,
            capacity=lambda kind: 0 if kind.length == NO_DIMENSIONS else (kind.length or 0) * 4,
            has_idle_charset=True,
        ),
    )
    # Only MariaDB has these.
    UUID = "uuid", _fixed_bytes(16, "00000000-0000-0000-0000-000000000000")
    INET4 = "inet4", _fixed_bytes(4, "0.0.0.0")  # noqa: S104 - a value, not an address to bind
    INET6 = "inet6", _fixed_bytes(16, "::")
    XMLTYPE = "xmltype", _long(Family.TEXT, 4)
    # In the order of the numbers of `Field::geometry_type` (sql/field.h).
    GEOMETRY = "geometry", _geometry()
    POINT = "point", _geometry()
    LINESTRING = "linestring", _geometry()
    POLYGON = "polygon", _geometry()
    MULTIPOINT = "multipoint", _geometry()
    MULTILINESTRING = "multilinestring", _geometry()
    MULTIPOLYGON = "multipolygon", _geometry()
    GEOMCOLLECTION = "geomcollection", _geometry("GEOMETRYCOLLECTION", old_name="geometrycollection")


def kinds_of(*families: Family) -> frozenset[TypeKind]:
    """All types of some families."""
    return frozenset(kind for kind in TypeKind if kind.facts.family in families)


INTEGERS = kinds_of(Family.INTEGER)
TEXTS = kinds_of(Family.TEXT)
BLOBS = kinds_of(Family.BLOB)
STRINGS = kinds_of(Family.CHARACTERS, Family.TEXT)
"""Types of text: always with a charset."""
LABELLED = kinds_of(Family.LABELS)
GEOMETRIES = tuple(kind for kind in TypeKind if kind.facts.family is Family.GEOMETRY)
"""In the order of the numbers of `Field::geometry_type`."""
SPATIAL = frozenset(GEOMETRIES)
_NAMED = {name: kind for kind in TypeKind for name in (kind.value, kind.facts.old_name)}
AS_BINARY = {kind: _NAMED[kind.facts.binary] for kind in TypeKind if kind.facts.binary is not None}
"""The type that the charset binary makes of each type of text."""
TEMPORAL_WITH_FRACTION = frozenset(kind for kind in TypeKind if kind.facts.metadata is _FRACTION)


class ColumnType(Struct, frozen=True):
    """A parsed column type."""

    kind: TypeKind
    length: int | None = None
    """Characters of CHAR and VARCHAR, bytes of BINARY and VARBINARY, bits of BIT, digits of DECIMAL, FLOAT and DOUBLE
    if written, dimensions of VECTOR, fraction digits of TIME, DATETIME and TIMESTAMP (0 if none), display width of
    integers if shown."""
    decimals: int | None = None
    """Digits after the point of DECIMAL, and of FLOAT and DOUBLE if written."""
    unsigned: bool = False
    zerofill: bool = False
    labels: tuple[str, ...] = ()
    """Members of ENUM and SET in the order of their numbers."""
    compressed: bool = False
    """MariaDB compresses each value."""

    @property
    def text(self) -> str:
        """The text of COLUMN_TYPE."""
        size = ""
        if self.kind in LABELLED:
            size = "(" + ",".join(map(quoted_label, self.labels)) + ")"
        elif self.decimals is not None:
            size = f"({self.length},{self.decimals})"
        elif self.length is not None and (self.length or self.kind not in TEMPORAL_WITH_FRACTION):
            size = f"({self.length})"
        flags = f"{' unsigned' if self.unsigned else ''}{' zerofill' if self.zerofill else ''}"
        return f"{self.kind}{size}{flags}{COMPRESSED if self.compressed else ''}"


ESCAPED = str.maketrans({"\0": "\\0", "\n": "\\n", "\r": "\\r", "\\": "\\\\", "'": "''"})


def shown_text(text: str) -> str:
    """A text of a definition as information_schema shows it: with `?` for characters beyond U+FFFF. The definition
    keeps these characters, because rows contain them."""
    return text if text.isascii() else "".join(ch if ch <= "\uffff" else "?" for ch in text)


def quoted_label(label: str) -> str:
    """A member of ENUM or SET as COLUMN_TYPE writes it (sql-common/sql_string.cc, `append_unescaped`).

    Bytes of a binary label that are not UTF-8 (here: escaped as surrogates) make it a hexadecimal literal.
    """
    if label.isascii() or not any("\udc80" <= ch <= "\udcff" for ch in label):
        return f"'{label.translate(ESCAPED)}'"
    return f"x'{label.encode('utf_8', errors='surrogateescape').hex()}'"


@lru_cache(maxsize=4096)
def parse_column_type(text: str) -> ColumnType:
    """Reads a COLUMN_TYPE as the server writes it.

    Raises:
        BadData: The text is not a column type.
    """
    if text.endswith(COMPRESSED):
        return replace(parse_column_type(text.removesuffix(COMPRESSED)), compressed=True)
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
    if name not in _NAMED:
        raise BadData(f"{text!r} is not a column type")
    return _NAMED[name]


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
    labels: list[str] = []
    at = 0
    while at < len(inside):
        if inside.startswith("x'", at):
            end = inside.find("'", at + 2)
            labels.append(bytes.fromhex(inside[at + 2 : end]).decode("utf_8", errors="replace"))
            at = end + 1
        elif inside[at] == "'":
            label, at = _label(inside, at + 1, text)
            labels.append(label)
        else:
            raise BadData(f"{text!r} is not a column type")
        if at < len(inside):
            if inside[at] != ",":
                raise BadData(f"{text!r} is not a column type")
            at += 1
    return tuple(labels)


def _label(inside: str, at: int, text: str) -> tuple[str, int]:
    """The label that begins after the quote at `at - 1`, and the offset after its closing quote."""
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
