"""Keys and constraints as statements write them.
Not here: names of unnamed keys and which foreign key gets an index (`apply/keys.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.schema.ddl.changes import WrittenKey, WrittenKeyPart
from strata_cdc.schema.model.definition import KeyKind

if TYPE_CHECKING:
    from strata_cdc.schema.ddl.cursor import TokenCursor

_KEY_STARTS = frozenset({"CONSTRAINT", "PRIMARY", "UNIQUE", "KEY", "INDEX", "FULLTEXT", "SPATIAL", "FOREIGN", "CHECK"})
"""Reserved words that begin a key or constraint at a position where a column could begin too."""
_VECTOR_RESERVED_SINCE = (11, 7, 1)  # MariaDB


def key_is_next(cursor: TokenCursor) -> bool:
    """Whether a key or constraint comes next, at a position where a column could begin too."""
    word = cursor.word
    return word in _KEY_STARTS or (word == "VECTOR" and cursor.context.flavour.is_mariadb(*_VECTOR_RESERVED_SINCE))


def read_constraint_or_key(cursor: TokenCursor) -> WrittenKey | None:
    """Reads a table-level key or constraint; None for a check, which has no effect on columns."""
    name, conditional = _read_constraint(cursor)
    word = cursor.word
    if word == "CHECK":
        cursor.at += 1
        cursor.skip_parentheses()
        cursor.accept("ENFORCED") or cursor.take_all("NOT", "ENFORCED")
        return None
    if word == "PRIMARY":
        cursor.at += 1
        cursor.expect("KEY")
        return _read_key(cursor, KeyKind.PRIMARY, None, conditional=conditional)
    if word == "FOREIGN":
        return _read_foreign_key(cursor, name, conditional=conditional)
    if word in {"UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR"}:
        cursor.at += 1
        cursor.take_any("KEY", "INDEX")
        return _read_key(cursor, KeyKind(word.lower()), name, conditional=conditional)
    if not cursor.take_any("KEY", "INDEX"):
        cursor.fail("expected a key")
    return _read_key(cursor, KeyKind.INDEX, name, conditional=conditional)


def _read_constraint(cursor: TokenCursor) -> tuple[str | None, bool]:
    """CONSTRAINT [IF NOT EXISTS] [name]: the name, and whether it has the condition."""
    if not cursor.accept("CONSTRAINT"):
        return None, False
    conditional = cursor.take_all("IF", "NOT", "EXISTS")
    return None if key_is_next(cursor) else cursor.name(), conditional


def _read_key(cursor: TokenCursor, kind: KeyKind, constraint: str | None, *, conditional: bool) -> WrittenKey:
    conditional |= cursor.take_all("IF", "NOT", "EXISTS")
    name = constraint
    if cursor.word not in {"(", "USING"}:
        name = cursor.name()
        if cursor.accept("TYPE"):
            cursor.skip()
    using_hash = None
    if cursor.accept("USING"):
        using_hash = cursor.word == "HASH"
        cursor.skip()
    parts = read_key_parts(cursor)
    begin = cursor.at
    options = read_key_options(cursor)
    return WrittenKey(
        kind,
        parts,
        "PRIMARY" if kind is KeyKind.PRIMARY else name,
        invisible=options.invisible,
        using_hash=using_hash if options.using_hash is None else options.using_hash,
        conditional=conditional,
        options=cursor.at > begin and not (cursor.at == begin + 1 and cursor.ahead(-1) in {"VISIBLE", "INVISIBLE"}),
    )


def read_key_parts(cursor: TokenCursor) -> tuple[WrittenKeyPart, ...]:
    """Reads `(a, b(10) DESC, (expression))`."""
    cursor.expect("(")
    parts = cursor.listed(lambda: _read_part(cursor))
    cursor.expect(")")
    return parts


def _read_part(cursor: TokenCursor) -> WrittenKeyPart:
    if cursor.word == "(":
        expression = cursor.parenthesized()
        return WrittenKeyPart(None, expression, descending=_is_descending(cursor))
    column = cursor.name()
    if cursor.take_all("WITHOUT", "OVERLAPS"):
        return WrittenKeyPart(column, is_period=True)
    length = None
    if cursor.accept("("):
        length = cursor.integer()
        cursor.expect(")")
    return WrittenKeyPart(column, None, length, _is_descending(cursor))


def _is_descending(cursor: TokenCursor) -> bool:
    return cursor.take_any("ASC", "DESC") == "DESC"


class KeyOptions(Struct):
    """The options after a key's parts that have a meaning here."""

    invisible: bool = False
    using_hash: bool | None = None
    """None if no algorithm is written."""


def read_key_options(cursor: TokenCursor) -> KeyOptions:
    """Reads the options after a key's parts."""
    options = KeyOptions()
    while True:
        word = cursor.word
        if word in _VISIBILITY:
            cursor.at += 1
            options.invisible = _VISIBILITY[word]
        elif cursor.take_all("NOT", "IGNORED"):
            options.invisible = False
        elif word in {"USING", "TYPE"}:
            cursor.at += 1
            cursor.accept("=")
            options.using_hash = cursor.word == "HASH"
            cursor.skip()
        elif not _skip_key_option(cursor, word):
            return options


def _skip_key_option(cursor: TokenCursor, word: str) -> bool:
    """Skips an option without a meaning here; false if none comes next."""
    if word in {"KEY_BLOCK_SIZE", "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE"}:
        cursor.at += 1
        cursor.accept("=")
        cursor.skip()
    elif cursor.take_all("WITH", "PARSER"):
        cursor.name()
    elif cursor.accept("COMMENT"):
        cursor.string()
    else:
        return skip_engine_attribute(cursor)
    return True


_VISIBILITY = {"VISIBLE": False, "INVISIBLE": True, "IGNORED": True}
"""IGNORED is MariaDB's word for an invisible key."""


def skip_engine_attribute(cursor: TokenCursor) -> bool:
    """Skips `name = value`, an attribute of a storage engine of MariaDB; false if none comes next."""
    if cursor.ahead(1) != "=" or not cursor.sees_name():
        return False
    cursor.at += 2
    cursor.skip()
    return True


def _read_foreign_key(cursor: TokenCursor, constraint: str | None, *, conditional: bool) -> WrittenKey:
    cursor.expect("FOREIGN")
    cursor.expect("KEY")
    conditional |= cursor.take_all("IF", "NOT", "EXISTS")
    name = None
    if cursor.word != "(":
        name = cursor.name()
    parts = read_key_parts(cursor)
    cursor.expect("REFERENCES")
    cascades = read_references(cursor)
    # The index of a foreign key gets the constraint's name before the key's name (8.0, sql/parse_tree_nodes.cc).
    return WrittenKey(
        KeyKind.INDEX, parts, constraint or name, foreign=True, cascades=cascades, conditional=conditional
    )


def read_references(cursor: TokenCursor) -> bool:
    """Skips the text after REFERENCES; returns whether changes of the other table change rows of this one."""
    cascades = False
    cursor.skip_qualified_name()
    if cursor.word == "(":
        cursor.skip_parentheses()
    while True:
        if cursor.accept("MATCH"):
            cursor.skip()
        elif cursor.word == "ON" and cursor.ahead(1) in {"DELETE", "UPDATE"}:
            cursor.at += 2
            cascades |= _read_action(cursor)
        else:
            return cascades


def _read_action(cursor: TokenCursor) -> bool:
    """CASCADE, SET NULL and SET DEFAULT change rows; RESTRICT and NO ACTION do not."""
    if cursor.take_all("SET", "NULL") or cursor.take_all("SET", "DEFAULT"):
        return True
    if cursor.take_all("NO", "ACTION"):
        return False
    cascades = cursor.word == "CASCADE"
    cursor.skip()
    return cascades
