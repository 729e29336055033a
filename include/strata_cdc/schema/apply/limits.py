"""How long a part of a key can be, and what the server makes of one that is longer.
Not here: which keys there are (`keys.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from strata_cdc.schema.apply.widths import key_length
from strata_cdc.schema.model.charsets import CHARSETS
from strata_cdc.schema.model.definition import Key, KeyKind
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.schema.model.types import BLOBS, TEXTS, Family, kinds_of, parse_column_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from strata_cdc.flavour import Flavour
    from strata_cdc.schema.ddl.context import DdlContext
    from strata_cdc.schema.model.definition import Column, KeyPart

FULL_LENGTH_COUNTS: Final = kinds_of(Family.CHARACTERS, Family.BYTES)
CAN_BE_CUT: Final = FULL_LENGTH_COUNTS | TEXTS | BLOBS

_LONGEST: Final = 3072
_MYISAM: Final = 1000
"""Of a part, and of a whole key."""
_ANTELOPE: Final = 767
"""InnoDB's row formats COMPACT and REDUNDANT."""
_LIMITED_KINDS: Final = frozenset({KeyKind.PRIMARY, KeyKind.UNIQUE, KeyKind.INDEX})


def possible_limits(engine: str | None, row_format: str | None, context: DdlContext) -> frozenset[int]:
    """Bytes to which the server may have cut the parts of a table's plain indexes; empty where it cuts none.

    There is more than one where no engine is named, or one that the server does not have: the session's
    `default_storage_engine` takes its place, and no binlog holds it. Not so `innodb_default_row_format`: what is too
    long for that is refused by InnoDB, not cut (9.7).
    """
    if context.refuses_long_keys:
        return frozenset()
    # MEMORY and BLACKHOLE (since 8.0.27) take what InnoDB takes at most.
    named = (engine or "").lower()
    if named in {"myisam", "mrg_myisam", "merge"}:
        return frozenset({_MYISAM})
    if named in {"memory", "heap"} or (named == "blackhole" and context.flavour.is_mysql(8, 0, 27)):
        return frozenset({_LONGEST})
    innodb = _limits_of_innodb(row_format, context.flavour)
    return innodb if named == "innodb" else innodb | {_MYISAM, _LONGEST}


def _limits_of_innodb(row_format: str | None, flavour: Flavour) -> frozenset[int]:
    """`ha_innobase::max_supported_key_part_length`; before 8.0 `innodb_large_prefix`, a global setting, decides."""
    if row_format in {"compact", "redundant"}:
        return frozenset({_ANTELOPE})
    return frozenset({_LONGEST} if flavour.is_mysql(8) else {_ANTELOPE, _LONGEST})


def cut_to(limits: frozenset[int], keys: Sequence[Key], columns: Mapping[str, Column]) -> list[Key]:
    """The keys with their parts cut (sql/sql_table.cc, `prepare_key_column`): to what it comes to under each limit.

    Args:
        limits: As of `possible_limits`.
        keys: As they are written.
        columns: Of the table, by folded name.
    """
    # A limit under which the server would have refused a key is not the table's.
    possible = {limit for limit in limits if all(_is_taken(key, columns, limit) for key in keys)} or limits
    return [_cut(key, columns, possible) for key in keys]


def _cut(key: Key, columns: Mapping[str, Column], limits: frozenset[int] | set[int]) -> Key:
    if key.kind is not KeyKind.INDEX or not limits:
        return key  # a unique key that is too long is refused, in every engine
    parts = tuple(_cut_part(part, columns, limits) for part in key.parts)
    return key if parts == key.parts else replace(key, parts=parts)


def _cut_part(part: KeyPart, columns: Mapping[str, Column], limits: frozenset[int] | set[int]) -> KeyPart:
    if part.column is None:
        return part
    column = columns[fold_name(part.column)]
    if parse_column_type(column.column_type).kind not in CAN_BE_CUT:
        return part
    width = _width(column)
    return part.with_lengths(
        limit // width if _bytes(column, length) > limit else length for length in part.lengths for limit in limits
    )


def _is_taken(key: Key, columns: Mapping[str, Column], limit: int) -> bool:
    """Whether an engine with that limit takes the key: a part of a unique one is not cut, and all parts have a limit
    together (`max_supported_key_length`). What a part in doubt takes is at least its shortest length."""
    if key.kind not in _LIMITED_KINDS:
        return True
    named = [(columns[fold_name(part.column)], part) for part in key.parts if part.column is not None]
    sizes = [min(_bytes(column, length) for length in part.lengths) for column, part in named]
    if key.kind is KeyKind.INDEX:
        sizes = [min(size, limit) for size in sizes]
    return max(sizes, default=0) <= limit and sum(sizes) <= (_MYISAM if limit == _MYISAM else _LONGEST)


def _bytes(column: Column, length: int | None) -> int:
    """What an index on a column, or on a prefix of it, takes."""
    return (length or key_length(column)) * _width(column)


def _width(column: Column) -> int:
    return CHARSETS[column.character_set].max_bytes if column.character_set else 1
