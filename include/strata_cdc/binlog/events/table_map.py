"""TABLE_MAP: the columns of a table as they are stored in rows, with what the server adds under MINIMAL and FULL
metadata. Not here: metadata and widths by type (`field_types.py`), the table's definition (`schema/`)."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from strata_cdc.binlog.bytes.codes import FieldType
from strata_cdc.binlog.bytes.cursor import ByteCursor
from strata_cdc.binlog.events.field_types import LOGGED_FIELDS, UNKNOWN_FIELD, MetadataForm
from strata_cdc.binlog.events.model import TableMap
from strata_cdc.errors import CorruptEventError
from strata_cdc.flavour import Vendor

if TYPE_CHECKING:
    from collections.abc import Callable

_MEMBERS = frozenset({FieldType.ENUM, FieldType.SET})
_CHARACTERS = frozenset(code for code, field in LOGGED_FIELDS.items() if field.has_charset)
_COUNTED = {Vendor.MYSQL: _CHARACTERS, Vendor.MARIADB: _CHARACTERS | {FieldType.GEOMETRY}}
"""The codes of the columns that the lists of charsets count: MariaDB counts geometries, with the charset binary."""


class _MetadataField(IntEnum):
    """Types of optional metadata (libs/mysql/binlog/event/rows_event.h, `Optional_metadata_field_type`)."""

    SIGNEDNESS = 1
    DEFAULT_CHARSET = 2
    COLUMN_CHARSET = 3
    COLUMN_NAME = 4
    SET_MEMBERS = 5
    ENUM_MEMBERS = 6
    GEOMETRY_TYPE = 7
    SIMPLE_PRIMARY_KEY = 8
    PRIMARY_KEY_WITH_PREFIX = 9
    MEMBER_DEFAULT_CHARSET = 10
    MEMBER_COLUMN_CHARSET = 11
    VISIBILITY = 12
    VECTOR_DIMENSIONS = 13


def parse_table_map(body: bytes, post_header: int = 8, vendor: Vendor = Vendor.MYSQL) -> TableMap:
    """Reads TABLE_MAP from what lies between its header and its checksum.

    Args:
        body: The event's bytes.
        post_header: Bytes of the post-header as the file's format has it: 8, or 6 before 5.1.4.
        vendor: Of the server that wrote it.

    Raises:
        CorruptEventError: A field runs beyond the end, or contradicts another.
    """
    cursor = ByteCursor(body)
    table_id = cursor.uint(4 if post_header == 6 else 6)
    flags = cursor.uint(2)
    cursor.next_bytes(max(0, post_header - 8))
    database = _name(cursor)
    table = _name(cursor)
    columns = cursor.lenenc()
    if columns > cursor.left():
        raise CorruptEventError(f"a TABLE_MAP of {columns} columns is too short")
    codes = tuple(cursor.next_bytes(columns))
    metadata = ByteCursor(cursor.next_bytes(cursor.lenenc()))
    resolved = [_metadata(metadata, code) for code in codes]
    if metadata.left():
        raise CorruptEventError(f"{metadata.left()} bytes of column metadata belong to no column")
    nullable = cursor.next_bytes((columns + 7) // 8)
    types = tuple(kind for kind, _ in resolved)
    optional = _read_optional(cursor, types)
    return TableMap(
        table_id=table_id,
        flags=flags,
        database=database,
        table=table,
        types=types,
        metadata=tuple(value for _, value in resolved),
        nullable=tuple(bool(nullable[at >> 3] >> (at & 7) & 1) for at in range(columns)),
        unsigned=_unsigned(optional, types),
        collations=_collations(optional, types, _COUNTED[vendor]),
        names=optional.names,
        labels=optional.labels(types),
        primary_key=optional.primary_key,
        visible=optional.visible,
        geometry_types=optional.geometry_types,
        vector_dimensions=optional.vector_dimensions,
        body=body[post_header:],
        vendor=vendor,
    )


def _name(cursor: ByteCursor) -> str:
    size = cursor.lenenc()
    name = _identifier(cursor, size)
    if cursor.uint(1) != 0:
        raise CorruptEventError(f"the name {name!r} in a TABLE_MAP has no end")
    return name


def _identifier(cursor: ByteCursor, size: int) -> str:
    """MySQL keeps names in utf8mb3, whatever the charset of the table (`system_charset_info`)."""
    raw = cursor.next_bytes(size)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise CorruptEventError(f"a name in a TABLE_MAP is not UTF-8: {raw.hex()}") from None


def _metadata(cursor: ByteCursor, code: int) -> tuple[int, int]:
    """The real type of a column and its metadata, in the form that `TableMap.metadata` has."""
    if code == FieldType.TYPED_ARRAY:
        raise CorruptEventError("a TABLE_MAP has a column of a multi-valued index, which is never logged")
    match LOGGED_FIELDS.get(code, UNKNOWN_FIELD).metadata:
        case MetadataForm.NONE:
            return code, 0
        case MetadataForm.ONE_BYTE:
            return code, cursor.uint(1)
        case MetadataForm.TWO_BYTES:
            return code, cursor.uint(2)
        case MetadataForm.PRECISION:
            return code, int.from_bytes(cursor.next_bytes(2), "big")
        case MetadataForm.REAL_TYPE:
            return _real_type(*cursor.next_bytes(2))


def _real_type(real: int, size: int) -> tuple[int, int]:
    if real in _MEMBERS:
        return real, size
    # Bits 8 and 9 of a CHAR's length hide, inverted, in bits 4 and 5 of the type
    # (5.1, `Field_string::do_save_field_metadata`).
    return real | 0x30, size | ((real & 0x30) ^ 0x30) << 4


class _Optional(Struct):
    """Optional metadata as it is written: lists for the columns that each field counts."""

    signs: bytes | None = None
    charsets: _Charsets | None = None
    member_charsets: _Charsets | None = None
    names: tuple[str, ...] | None = None
    sets: list[tuple[bytes, ...]] | None = None
    enums: list[tuple[bytes, ...]] | None = None
    primary_key: tuple[int, ...] | None = None
    visible: tuple[bool, ...] | None = None
    geometry_types: tuple[int, ...] | None = None
    vector_dimensions: tuple[int, ...] | None = None

    def labels(self, types: tuple[int, ...]) -> tuple[tuple[bytes, ...] | None, ...] | None:
        """Members per column; None if the server did not write them."""
        if self.sets is None and self.enums is None:
            return None
        given = {FieldType.SET: self.sets or [], FieldType.ENUM: self.enums or []}
        for kind, lists in given.items():
            if len(lists) != types.count(kind):
                raise CorruptEventError(f"a TABLE_MAP has {len(lists)} lists of members for its {kind.name} columns")
        lists_of = {kind: iter(lists) for kind, lists in given.items()}
        return tuple(next(lists_of[FieldType(code)]) if code in _MEMBERS else None for code in types)


class _Charsets(Struct):
    """Collation ids: of each column, or one for most and exceptions by the column's ordinal among its kind."""

    each: list[int] | None = None
    default: int = 0
    exceptions: dict[int, int] | None = None

    def per_column(self, count: int) -> list[int]:
        if self.each is not None:
            if len(self.each) != count:
                raise CorruptEventError(f"a TABLE_MAP has {len(self.each)} charsets for {count} columns")
            return self.each
        collations = [self.default] * count
        for at, collation in (self.exceptions or {}).items():
            if at >= count:
                raise CorruptEventError(f"a TABLE_MAP has a charset for character column {at} of {count}")
            collations[at] = collation
        return collations


def _read_optional(cursor: ByteCursor, types: tuple[int, ...]) -> _Optional:
    optional = _Optional()
    while cursor.left():
        field = cursor.uint(1)
        # A type that a later server added is skipped: its length comes before it.
        _read_field(optional, field, ByteCursor(cursor.next_bytes(cursor.lenenc())), types)
    return optional


def _read_field(optional: _Optional, field: int, value: ByteCursor, types: tuple[int, ...]) -> None:
    if field in _READERS:
        name, read = _READERS[_MetadataField(field)]
        setattr(optional, name, read(value, len(types)))


def _numbers(value: ByteCursor) -> list[int]:
    numbers = []
    while value.left():
        numbers.append(value.lenenc())
    return numbers


def _default_charset(value: ByteCursor) -> _Charsets:
    default, *pairs = _numbers(value) or [0]
    if len(pairs) % 2:
        raise CorruptEventError("a TABLE_MAP has a column without its charset")
    return _Charsets(default=default, exceptions=dict(zip(pairs[::2], pairs[1::2], strict=True)))


def _names(value: ByteCursor, count: int) -> tuple[str, ...]:
    names = []
    while value.left():
        names.append(_identifier(value, value.lenenc()))
    if len(names) != count:
        raise CorruptEventError(f"a TABLE_MAP has {len(names)} names for {count} columns")
    return tuple(names)


def _members(value: ByteCursor) -> list[tuple[bytes, ...]]:
    lists = []
    while value.left():
        lists.append(tuple(value.next_bytes(value.lenenc()) for _ in range(value.lenenc())))
    return lists


def _key(columns: list[int], count: int) -> tuple[int, ...]:
    if any(column >= count for column in columns):
        raise CorruptEventError(f"a TABLE_MAP has a primary key beyond its {count} columns")
    return tuple(columns)


def _bits(value: bytes, count: int) -> tuple[bool, ...]:
    """One bit a column, the first in the highest bit."""
    if len(value) * 8 < count:
        raise CorruptEventError(f"a TABLE_MAP has {len(value) * 8} bits for {count} columns")
    return tuple(bool(value[at >> 3] << (at & 7) & 0x80) for at in range(count))


def _unsigned(optional: _Optional, types: tuple[int, ...]) -> tuple[bool, ...] | None:
    numeric = [LOGGED_FIELDS.get(code, UNKNOWN_FIELD).has_sign for code in types]
    if optional.signs is None:
        return None if any(numeric) else (False,) * len(types)
    signs = iter(_bits(optional.signs, sum(numeric)))
    return tuple(is_numeric and next(signs) for is_numeric in numeric)


def _collations(optional: _Optional, types: tuple[int, ...], counted: frozenset[int]) -> tuple[int, ...] | None:
    collations = [0] * len(types)
    characters = [at for at, code in enumerate(types) if code in counted]
    if characters and optional.charsets is None:
        return None
    for columns, charsets in (
        (characters, optional.charsets),
        ([at for at, code in enumerate(types) if code in _MEMBERS], optional.member_charsets),
    ):
        if charsets is not None:
            for at, collation in zip(columns, charsets.per_column(len(columns)), strict=True):
                collations[at] = collation
    return tuple(collations)


_READERS: dict[_MetadataField, tuple[str, Callable[[ByteCursor, int], Any]]] = {
    _MetadataField.SIGNEDNESS: ("signs", lambda value, _: value.rest()),
    _MetadataField.DEFAULT_CHARSET: ("charsets", lambda value, _: _default_charset(value)),
    _MetadataField.COLUMN_CHARSET: ("charsets", lambda value, _: _Charsets(each=_numbers(value))),
    _MetadataField.MEMBER_DEFAULT_CHARSET: ("member_charsets", lambda value, _: _default_charset(value)),
    _MetadataField.MEMBER_COLUMN_CHARSET: ("member_charsets", lambda value, _: _Charsets(each=_numbers(value))),
    _MetadataField.COLUMN_NAME: ("names", _names),
    _MetadataField.SET_MEMBERS: ("sets", lambda value, _: _members(value)),
    _MetadataField.ENUM_MEMBERS: ("enums", lambda value, _: _members(value)),
    _MetadataField.GEOMETRY_TYPE: ("geometry_types", lambda value, _: tuple(_numbers(value))),
    _MetadataField.SIMPLE_PRIMARY_KEY: ("primary_key", lambda value, count: _key(_numbers(value), count)),
    _MetadataField.PRIMARY_KEY_WITH_PREFIX: ("primary_key", lambda value, count: _key(_numbers(value)[::2], count)),
    _MetadataField.VISIBILITY: ("visible", lambda value, count: _bits(value.rest(), count)),
    _MetadataField.VECTOR_DIMENSIONS: ("vector_dimensions", lambda value, _: tuple(_numbers(value))),
}
"""For each field its meaning, and how it is read; the number is of columns."""
