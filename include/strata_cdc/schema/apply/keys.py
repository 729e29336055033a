"""Keys of a table from what is written: names, prefixes, indexes for foreign keys, the order in which they are kept.
Not here: which keys an ALTER keeps (`alter.py`)."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Self

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.errors import DdlError
from strata_cdc.schema.apply.limits import CAN_BE_CUT, FULL_LENGTH_COUNTS, cut_to, longest_unique_keys, unique_key_fits
from strata_cdc.schema.apply.widths import characters_of
from strata_cdc.schema.model.definition import Key, KeyKind, KeyPart
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.schema.model.types import BLOBS, SPATIAL, TEXTS, TypeKind, parse_column_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strata_cdc.flavour import Flavour
    from strata_cdc.schema.ddl.changes import WrittenKey, WrittenKeyPart
    from strata_cdc.schema.model.definition import ApplicationPeriod, Column, TableDefinition

_ORDERED = frozenset({KeyKind.PRIMARY, KeyKind.UNIQUE, KeyKind.INDEX})
_LONGEST_NAME = 64
_BYTES_OF_POINT = 25  # sql/spatial.h, `MAX_LEN_GEOM_POINT_FIELD`


def with_keys(
    present: Iterable[Key],
    written: Iterable[WrittenKey],
    columns: Sequence[Column],
    limits: frozenset[int],
    mariadb: MariadbKeys | None = None,
) -> tuple[Key, ...]:
    """The keys of a table that already has `present` and gets `written`, in the order in which they are kept.

    Parts of plain indexes that are too long for the engine are cut to a prefix; for `limits` see `possible_limits`;
    `mariadb` has the rules of that server.

    Raises:
        DdlError: A key names a column that the table does not have, two columns or keys have one name, or no column is
            left.
    """
    by_name = {fold_name(column.name): column for column in columns}
    if len(by_name) < len(columns) or not columns:
        raise DdlError("two columns would have the same name" if columns else "no column would be left")
    # Fulltext keys are last in a table (sql/sql_table.cc, `sort_keys`).
    stored = sorted(present, key=lambda key: key.kind is KeyKind.FULLTEXT)
    every = [*stored, *(_unnamed(key, by_name, mariadb) for key in written)]
    kept = _without_redundant(every, mariadb.compared(every, by_name, limits) if mariadb else every, mariadb)
    of_its_kind = [_of_its_kind(key, by_name, mariadb) for key in kept]
    keys = cut_to(limits, _named([_with_prefixes(key, by_name, mariadb) for key in of_its_kind]), by_name)
    if mariadb is not None:
        keys = [mariadb.marked(key, by_name) for key in keys]
    if len({fold_name(key.name) for key in keys}) < len(keys):
        raise DdlError("two keys would have the same name")
    return in_order(keys)


class MariadbKeys(Struct, frozen=True):
    """What differs in the keys of a table of MariaDB: unique keys that no index can hold are kept by a hash, indexes of
    geometries are plain ones, and an index serves a foreign key whatever its order is."""

    engine: str | None
    limits: frozenset[int]
    """Bytes, from `longest_unique_keys`."""

    @classmethod
    def from_engine(cls, engine: str | None, flavour: Flavour) -> Self | None:
        """Those of a table with that engine; None for other servers."""
        return cls(engine, longest_unique_keys(engine)) if flavour.is_mariadb() else None

    @property
    def is_memory(self) -> bool:
        """Whether it is an engine whose indexes are hashes if nothing else is written."""
        return _is_memory(self.engine)

    @staticmethod
    def is_memory_left(before: str | None, after: str | None) -> bool:
        """Whether an ALTER gives a MEMORY table another engine."""
        return _is_memory(before) and not _is_memory(after)

    def marked(self, key: Key, columns: dict[str, Column]) -> Key:
        """The key with `hashed`; before, that says whether the statement has USING HASH. A hash has no order."""
        hashed = self._is_hashed(key, columns) if key.kind is KeyKind.UNIQUE else False
        if key.kind in _ORDERED:
            key = replace(key, parts=tuple(_with_length_of_point(part, columns) for part in key.parts))
        return replace(key, hashed=hashed, parts=key.parts if hashed is False else _without_order(key.parts))

    def compared(self, keys: list[Key], columns: dict[str, Column], limits: frozenset[int]) -> list[Key]:
        """The keys as they are when indexes of foreign keys are compared with others: it is known which are kept by a
        hash, and where a text, a blob or a point is cut; lengths that are written stay as they are."""
        cut = cut_to(limits, [_with_prefixes(key, columns, self) for key in keys], columns)
        return [
            replace(key, hashed=kept.hashed, parts=tuple(map(_compared_part, key.parts, kept.parts, repeat(columns))))
            for key, kept in zip(keys, (self.marked(key, columns) for key in cut), strict=True)
        ]

    def _is_hashed(self, key: Key, columns: dict[str, Column]) -> bool | None:
        if key.hashed:  # MEMORY has such indexes itself
            return None if self.engine is None else not self.is_memory
        if any(_is_spatial(part, columns) for part in key.parts):
            return None  # the next ALTER makes it an index of the first bytes
        fits = {unique_key_fits(key, columns, limit) for limit in self.limits}
        return None if len(fits) == 2 else False in fits


def _is_memory(engine: str | None) -> bool:
    return (engine or "").lower() in {"memory", "heap"}


def in_order(keys: Iterable[Key]) -> tuple[Key, ...]:
    """The primary key first, the others by name: equal keys have an equal order, whatever statements made them."""
    return tuple(sorted(keys, key=lambda key: (key.kind is not KeyKind.PRIMARY, fold_name(key.name))))


def _unnamed(written: WrittenKey, columns: dict[str, Column], mariadb: MariadbKeys | None) -> Key:
    """The key as it is written; if it has no name, its name is '' until all names are known."""
    parts = tuple(_part(part, columns) for part in written.parts)
    if mariadb is not None and (mariadb.is_memory if written.using_hash is None else written.using_hash):
        parts = _without_order(parts)
    return Key(
        written.name or "",
        written.kind,
        parts,
        invisible=written.invisible,
        generated=written.foreign,
        hashed=bool(written.using_hash) and written.kind is KeyKind.UNIQUE,
        without_overlaps=any(part.is_period for part in written.parts),
    )


def _of_its_kind(key: Key, columns: dict[str, Column], mariadb: MariadbKeys | None) -> Key:
    """The key as the server keeps it: an index on a geometry is a spatial index, and a fulltext index covers whole
    columns, whatever is written. Until this step, the written form distinguishes keys."""
    if key.kind is KeyKind.FULLTEXT:
        return replace(key, parts=tuple(KeyPart(part.column) for part in key.parts))
    if key.kind is KeyKind.INDEX and mariadb is None and _is_spatial(key.parts[0], columns):
        return replace(key, kind=KeyKind.SPATIAL)
    return key


def _is_spatial(part: KeyPart, columns: dict[str, Column]) -> bool:
    if part.column is None:
        return False
    return parse_column_type(columns[fold_name(part.column)].column_type).kind in SPATIAL


def _with_length_of_point(part: KeyPart, columns: dict[str, Column]) -> KeyPart:
    """A whole POINT is a prefix of its bytes, which stays if the column gets another type."""
    is_point = columns[fold_name(part.column or "")].column_type == TypeKind.POINT
    return replace(part, prefix_length=_BYTES_OF_POINT) if is_point and part.lengths == (None,) else part


def _compared_part(written: KeyPart, kept: KeyPart, columns: dict[str, Column]) -> KeyPart:
    """The part with the length that a whole text, blob or point gets."""
    kind = parse_column_type(columns[fold_name(written.column or "")].column_type).kind
    is_cut = written.lengths == (None,) and kind in TEXTS | BLOBS | SPATIAL
    return replace(kept, descending=written.descending) if is_cut else written


def _without_order(parts: tuple[KeyPart, ...]) -> tuple[KeyPart, ...]:
    return tuple(replace(part, descending=False) if part.descending else part for part in parts)


def _part(written: WrittenKeyPart, columns: dict[str, Column]) -> KeyPart:
    if written.column is None:
        return KeyPart(None, written.expression, descending=written.descending)
    column = columns.get(fold_name(written.column))
    if column is None:
        raise DdlError(f"a key names column {written.column}, which the table does not have")
    return KeyPart(column.name, None, written.length or None, descending=written.descending)


def _with_prefixes(key: Key, columns: dict[str, Column], mariadb: MariadbKeys | None) -> Key:
    """The key without lengths that cover the whole column. Until this step, these lengths distinguish keys."""
    if all(part.lengths == (None,) for part in key.parts):
        return key
    parts = tuple(
        part
        if part.column is None
        else part.with_lengths(
            prefix_of(columns[fold_name(part.column)], length, mariadb=mariadb is not None) for length in part.lengths
        )
        for part in key.parts
    )
    return key if parts == key.parts else replace(key, parts=parts)


def prefix_of(column: Column, length: int | None, *, mariadb: bool) -> int | None:
    """The length of an indexed prefix; None if it is the whole column. `mariadb`: the longest prefix of a text is its
    number of bytes, whatever characters it has (11.8)."""
    if not length:
        return None
    column_type = parse_column_type(column.column_type)
    if column_type.kind not in CAN_BE_CUT:
        return None  # the server accepts a length there only if it is that of the whole column
    if column_type.kind in FULL_LENGTH_COUNTS:
        return None if column_type.length == length else length
    longest = column_type.kind.facts.capacity if mariadb else None
    return min(length, characters_of(column) if longest is None else longest(column_type))


def with_period_columns(written: Iterable[WrittenKey], period: ApplicationPeriod | None) -> list[WrittenKey]:
    """The keys, with the columns of the period where they name it (`p WITHOUT OVERLAPS`): first its end.

    Raises:
        DdlError: A key names a period, and the table has none.
    """
    return [
        replace(key, parts=tuple(each for part in key.parts for each in _of_period(part, period)))
        if any(part.is_period for part in key.parts)
        else key
        for key in written
    ]


def _of_period(part: WrittenKeyPart, period: ApplicationPeriod | None) -> tuple[WrittenKeyPart, ...]:
    if not part.is_period:
        return (part,)
    if period is None or fold_name(period.name) != fold_name(part.column or ""):
        raise DdlError(f"a key names period {part.column}, which the table does not have")
    return replace(part, column=period.end), replace(part, column=period.start)


def _without_redundant(keys: list[Key], compared: list[Key], mariadb: MariadbKeys | None) -> list[Key]:
    """Drops indexes of foreign keys that another key can replace (sql/sql_table.cc, `count_keys`). Of two keys the
    server checks only for the earlier one whether it is ordered: so a later fulltext or spatial key replaces such an
    index. `compared` has the keys in the form in which they are compared."""
    dropped: set[int] = set()
    for number, key in enumerate(compared):
        for earlier in range(number):
            other = compared[earlier]
            if earlier in dropped or other.kind not in _ORDERED or not _one_serves_both(key, other, mariadb):
                continue
            if not other.generated or (key.generated and len(key.parts) < len(other.parts)):
                dropped.add(number)
            else:
                dropped.add(earlier)
            break
    return [key for number, key in enumerate(keys) if number not in dropped]


def copied(definition: TableDefinition, flavour: Flavour) -> tuple[Key, ...]:
    """The keys of a copy (CREATE TABLE ... LIKE): the server makes them anew from the stored keys."""
    mariadb = MariadbKeys.from_engine(definition.engine, flavour)
    stored = sorted(definition.keys, key=lambda key: key.kind is KeyKind.FULLTEXT)
    if mariadb is not None:
        columns = {fold_name(column.name): column for column in definition.columns}
        stored = [mariadb.marked(replace(key, hashed=False), columns) for key in stored]
    return in_order(_without_redundant(stored, stored, mariadb))


def _one_serves_both(left: Key, right: Key, mariadb: MariadbKeys | None) -> bool:
    """Whether one of them was made for a foreign key and is the beginning of the other (sql/key_spec.cc,
    `foreign_key_prefix`)."""
    short, long = left, right
    if left.generated:
        if right.generated and len(left.parts) > len(right.parts):
            short, long = right, left
    elif right.generated:
        short, long = right, left
    else:
        return False
    if len(short.parts) > len(long.parts) or True in {short.hashed, long.hashed}:
        return False  # a hash serves no foreign key
    same = all(_same_part(part, other, mariadb) for part, other in zip(short.parts, long.parts, strict=False))
    if same and None in {short.hashed, long.hashed}:
        raise DdlError(f"whether key {long.name!r} serves a foreign key depends on its engine, which no binlog holds")
    return same


def _same_part(key_part: KeyPart, other: KeyPart, mariadb: MariadbKeys | None) -> bool:
    if key_part.column is None or other.column is None:
        return False
    has_other_order = mariadb is None and key_part.descending != other.descending
    if fold_name(key_part.column) != fold_name(other.column) or has_other_order:
        return False
    if key_part.lengths != other.lengths and set(key_part.lengths) & set(other.lengths):
        raise DdlError(
            f"whether an index of column {key_part.column} serves a foreign key depends on its length, which no "
            "binlog holds"
        )
    return key_part.lengths == other.lengths


def _named(keys: list[Key]) -> list[Key]:
    """Gives names to keys without a name: that of the first column, with a number if it is used
    (`make_unique_key_name`)."""
    taken: set[str] = set()
    named_keys = []
    for key in keys:
        named = key if key.name else replace(key, name=_free_name(_stem(key), taken))
        taken.add(fold_name(named.name))
        named_keys.append(named)
    return named_keys


def _stem(key: Key) -> str:
    first = key.parts[0].column
    return "functional_index" if first is None else first


def _free_name(stem: str, taken: set[str]) -> str:
    if fold_name(stem) not in taken and fold_name(stem) != "primary":
        return stem
    number = 2
    while fold_name(f"{stem[: _LONGEST_NAME - 3]}_{number}") in taken:
        number += 1
    return f"{stem[: _LONGEST_NAME - 3]}_{number}"


def primary_columns(keys: Iterable[Key]) -> frozenset[str]:
    """Folded names of the columns of the primary key."""
    return frozenset(
        fold_name(part.column)
        for key in keys
        if key.kind is KeyKind.PRIMARY
        for part in key.parts
        if part.column is not None
    )
