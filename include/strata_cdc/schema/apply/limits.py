"""The maximum length of a part of a key, and what the server does with a longer one.
Not here: which keys a table has (`keys.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from strata_cdc.schema.apply.widths import key_length
from strata_cdc.schema.model.charsets import CHARSETS
from strata_cdc.schema.model.definition import Key, KeyKind
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.schema.model.types import BLOBS, SPATIAL, TEXTS, Family, TypeKind, kinds_of, parse_column_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from strata_cdc.flavour import Flavour
    from strata_cdc.schema.ddl.context import DdlContext
    from strata_cdc.schema.model.definition import Column, KeyPart

FULL_LENGTH_COUNTS: Final = kinds_of(Family.CHARACTERS, Family.BYTES)
CAN_BE_CUT: Final = FULL_LENGTH_COUNTS | TEXTS | BLOBS

_LONGEST: Final = 3072
_MYISAM: Final = 1000
"""For a part, and for a whole key."""
_ARIA: Final = 2300
"""Of MariaDB, for a part and for a whole key."""
_ANTELOPE: Final = 767
"""InnoDB's row formats COMPACT and REDUNDANT."""
_NEVER_WHOLE: Final = TEXTS | BLOBS | (SPATIAL - {TypeKind.POINT})
"""Types of which an index can hold no whole value."""
_LIMITED_KINDS: Final = frozenset({KeyKind.PRIMARY, KeyKind.UNIQUE, KeyKind.INDEX})


def possible_limits(engine: str | None, row_format: str | None, context: DdlContext) -> frozenset[int]:
    """The limits in bytes to which the server may have cut the parts of a table's plain indexes; empty if it cuts none.

    There is more than one limit if no engine is named, or an engine that the server does not have: then the session's
    `default_storage_engine` is used, which no binlog has. This does not apply to `innodb_default_row_format`: if a part
    is too long for it, InnoDB refuses the key and does not cut it (9.7).
    """
    if context.refuses_long_keys:
        return frozenset()
    if context.flavour.is_mariadb():
        return _limits_of_mariadb((engine or "").lower())
    # MEMORY and BLACKHOLE (since 8.0.27) have the largest limit of InnoDB.
    named = (engine or "").lower()
    if named in {"myisam", "mrg_myisam", "merge"}:
        return frozenset({_MYISAM})
    if named in {"memory", "heap"} or (named == "blackhole" and context.flavour.is_mysql(8, 0, 27)):
        return frozenset({_LONGEST})
    innodb = _limits_of_innodb(row_format, context.flavour)
    return innodb if named == "innodb" else innodb | {_MYISAM, _LONGEST}


def _limits_of_mariadb(engine: str) -> frozenset[int]:
    """The same in every row format: InnoDB refuses a part that is too long for the format (10.11 and 11.8)."""
    if engine in {"innodb", "memory", "heap"}:
        return frozenset({_LONGEST})
    if engine in {"myisam", "mrg_myisam", "merge"}:
        return frozenset({_MYISAM})
    return frozenset({_ARIA}) if engine == "aria" else frozenset({_LONGEST, _MYISAM, _ARIA})


def longest_unique_keys(engine: str | None) -> frozenset[int]:
    """The possible limits in bytes above which MariaDB keeps a unique key by a hash."""
    return _limits_of_mariadb((engine or "").lower())


def unique_key_fits(key: Key, columns: Mapping[str, Column], limit: int) -> bool:
    """Whether an index can hold the unique key itself; a part without a length of a text never fits."""
    sizes = []
    for part in key.parts:
        column = columns[fold_name(part.column or "")]
        if part.prefix_length is None and parse_column_type(column.column_type).kind in _NEVER_WHOLE:
            return False
        sizes.append(_bytes(column, part.prefix_length))
    return sum(sizes) <= limit


def _limits_of_innodb(row_format: str | None, flavour: Flavour) -> frozenset[int]:
    """`ha_innobase::max_supported_key_part_length`; before 8.0 it depends on `innodb_large_prefix`, a global
    setting."""
    if row_format in {"compact", "redundant"}:
        return frozenset({_ANTELOPE})
    return frozenset({_LONGEST} if flavour.is_mysql(8) else {_ANTELOPE, _LONGEST})


def cut_to(limits: frozenset[int], keys: Sequence[Key], columns: Mapping[str, Column]) -> list[Key]:
    """The keys with their parts cut (sql/sql_table.cc, `prepare_key_column`), with the results for all possible limits.

    Args:
        limits: See `possible_limits`.
        keys: As they are written.
        columns: Of the table, by folded name.
    """
    # If the server would have refused a key under a limit, this limit is not that of the table.
    possible = {limit for limit in limits if all(_is_accepted(key, columns, limit) for key in keys)} or limits
    return [_cut(key, columns, possible) for key in keys]


def _cut(key: Key, columns: Mapping[str, Column], limits: frozenset[int] | set[int]) -> Key:
    if key.kind is not KeyKind.INDEX or not limits:
        return key  # every engine refuses a unique key that is too long
    parts = tuple(_cut_part(part, columns, limits) for part in key.parts)
    return key if parts == key.parts else replace(key, parts=parts)


def _cut_part(part: KeyPart, columns: Mapping[str, Column], limits: frozenset[int] | set[int]) -> KeyPart:
    if part.column is None:
        return part
    column = columns[fold_name(part.column)]
    if parse_column_type(column.column_type).kind not in CAN_BE_CUT:
        return part
    width = _width(column)
    lengths = part.lengths if part.lengths != (None,) else (_whole(column),)
    return part.with_lengths(
        limit // width if _bytes(column, length) > limit else length for length in lengths for limit in limits
    )


def _whole(column: Column) -> int | None:
    """The length of a part without a length; of TEXT and BLOB, which only MariaDB accepts, their capacity."""
    column_type = parse_column_type(column.column_type)
    if column_type.kind not in TEXTS | BLOBS or column_type.kind.facts.capacity is None:
        return None
    return column_type.kind.facts.capacity(column_type)


def _is_accepted(key: Key, columns: Mapping[str, Column], limit: int) -> bool:
    """Whether an engine with that limit accepts the key: a part of a unique key is not cut, and all parts together have
    a limit too (`max_supported_key_length`). For a part in doubt, its shortest length is used."""
    if key.kind not in _LIMITED_KINDS:
        return True
    named = [(columns[fold_name(part.column)], part) for part in key.parts if part.column is not None]
    sizes = [min(_bytes(column, length) for length in part.lengths) for column, part in named]
    if key.kind is KeyKind.INDEX:
        sizes = [min(size, limit) for size in sizes]
    return max(sizes, default=0) <= limit and sum(sizes) <= (_MYISAM if limit == _MYISAM else _LONGEST)


def _bytes(column: Column, length: int | None) -> int:
    """The bytes that an index on a column, or on a prefix of it, uses."""
    return (length or key_length(column)) * _width(column)


def _width(column: Column) -> int:
    return CHARSETS[column.character_set].max_bytes if column.character_set else 1
