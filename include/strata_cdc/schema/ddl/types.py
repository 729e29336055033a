"""Column types as statements write them, with all their aliases.
Not here: the type that results under a charset (`apply/columns.py`), the attributes after it (`columns.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.schema.ddl.changes import WrittenType
from strata_cdc.schema.ddl.context import MAXDB, ORACLE
from strata_cdc.schema.ddl.ill_formed import has_kept_bytes
from strata_cdc.schema.ddl.lexer import STRING
from strata_cdc.schema.model.types import LABELLED, SPATIAL, STRINGS, Family, TypeKind

if TYPE_CHECKING:
    from strata_cdc.schema.ddl.cursor import TokenCursor
    from strata_cdc.schema.ddl.literals import Literal

_SINGLE_WORDS = {
    **{kind.value.upper(): kind for kind in TypeKind},
    **{alias: kind for kind in TypeKind for alias in kind.facts.aliases},
}
_NATIONAL_CHARSET = "utf8mb3"  # NCHAR, NATIONAL CHAR (sql/sql_yacc.yy, `national_charset_info`)
_NUMBERS = frozenset({Family.INTEGER, Family.DECIMAL, Family.FLOATING})
_OTHER_KINDS = {
    "mariadb_schema": {"JSON": TypeKind.LONGTEXT},
    "oracle_schema": {
        "JSON": TypeKind.LONGTEXT,
        "CLOB": TypeKind.LONGTEXT,
        "RAW": TypeKind.VARBINARY,
        "NUMBER": TypeKind.DECIMAL,
        "VARCHAR2": TypeKind.VARCHAR,
        "DATE": TypeKind.DATETIME,
    },
    "maxdb_schema": {"JSON": TypeKind.LONGTEXT, "TIMESTAMP": TypeKind.DATETIME},
}
"""Words of MariaDB that mean another type, by the schema before them, or by sql_mode (sql/sql_schema.cc)."""
_SCHEMAS = {ORACLE: "oracle_schema", MAXDB: "maxdb_schema"}


class ReadType(Struct, frozen=True):
    """A type, and what some of its names imply."""

    type: WrittenType
    collation: str | None = None
    serial: bool = False
    """SERIAL: NOT NULL AUTO_INCREMENT UNIQUE."""


def read_type(cursor: TokenCursor) -> ReadType:
    """Reads a type with its length and its own attributes."""
    if cursor.context.flavour.is_mariadb():
        written = _read_of_mariadb(cursor)
        if written is not None:
            return written
    word = cursor.word
    kind = _SINGLE_WORDS.get(word)
    if kind is None:
        return _read_special(cursor, word)
    cursor.at += 1
    if kind is TypeKind.CHAR and cursor.accept("VARYING"):
        kind = TypeKind.VARCHAR
    return _read_rest(cursor, kind, None)


def _read_of_mariadb(cursor: TokenCursor) -> ReadType | None:
    """Reads a type that another server reads otherwise, or does not have; None for all others."""
    is_oracle = bool(cursor.context.sql_mode & ORACLE)
    schema = next((name for mode, name in _SCHEMAS.items() if cursor.context.sql_mode & mode), "mariadb_schema")
    if cursor.ahead(1) == "." and cursor.tokens.value(cursor.at).lower() in _OTHER_KINDS:
        schema = cursor.value().lower()
        cursor.at += 1
    # After a dot a word is a name to the lexer.
    word = cursor.tokens.value(cursor.at).upper()
    kind = _OTHER_KINDS[schema].get(word, _SINGLE_WORDS.get(word))
    if is_oracle and word == "BLOB" and cursor.ahead(1) != "(":
        kind = TypeKind.LONGBLOB  # in whatever schema
    if kind is None or kind is _SINGLE_WORDS.get(cursor.word):
        return None
    cursor.at += 1
    if word == "JSON":
        # It is LONGTEXT with a CHECK; whether a column of that form is one makes no difference to rows.
        return ReadType(WrittenType(kind, compressed=_read_compressed(cursor)), collation="utf8mb4_bin")
    if word == "NUMBER" and cursor.word != "(":
        kind = TypeKind.DOUBLE
    return _read_rest(cursor, kind, None)


def _read_special(cursor: TokenCursor, word: str) -> ReadType:
    if word in {"BOOL", "BOOLEAN"}:
        cursor.at += 1
        return ReadType(WrittenType(TypeKind.TINYINT, 1))
    if word == "SERIAL":
        cursor.at += 1
        return ReadType(WrittenType(TypeKind.BIGINT, unsigned=True), serial=True)
    if word == "REAL":
        cursor.at += 1
        return _read_rest(cursor, TypeKind.FLOAT if cursor.context.real_as_float else TypeKind.DOUBLE, None)
    if word in {"NCHAR", "NATIONAL", "NVARCHAR"}:
        return _read_rest(cursor, _national_kind(cursor), _NATIONAL_CHARSET)
    if word != "LONG":
        cursor.fail("expected a column type")
    cursor.at += 1
    return _read_rest(cursor, _long_kind(cursor), None)


def _national_kind(cursor: TokenCursor) -> TypeKind:
    """NCHAR [VARCHAR | VARCHARACTER | VARYING], NVARCHAR, NATIONAL CHAR [VARYING], NATIONAL VARCHAR."""
    first = cursor.word
    cursor.at += 1
    if first == "NVARCHAR":
        return TypeKind.VARCHAR
    if first == "NATIONAL":
        if cursor.take_any("VARCHAR", "VARCHARACTER"):
            return TypeKind.VARCHAR
        if not cursor.take_any("CHAR", "CHARACTER"):
            cursor.fail("expected CHAR or VARCHAR after NATIONAL")
        return TypeKind.VARCHAR if cursor.accept("VARYING") else TypeKind.CHAR
    return TypeKind.VARCHAR if cursor.take_any("VARCHAR", "VARCHARACTER", "VARYING") else TypeKind.CHAR


def _long_kind(cursor: TokenCursor) -> TypeKind:
    """LONG [VARCHAR | CHAR VARYING | VARBINARY]."""
    if cursor.accept("VARBINARY"):
        return TypeKind.MEDIUMBLOB
    if cursor.take_any("CHAR", "CHARACTER"):
        cursor.expect("VARYING")
    else:
        cursor.take_any("VARCHAR", "VARCHARACTER")
    return TypeKind.MEDIUMTEXT


def _read_rest(cursor: TokenCursor, kind: TypeKind, charset: str | None) -> ReadType:
    """The text that may follow the name: PRECISION, lengths, labels, UNSIGNED, charsets."""
    if kind is TypeKind.DOUBLE:
        cursor.accept("PRECISION")
    labels: tuple[Literal, ...] = ()
    length = decimals = None
    if cursor.word == "(" and kind in LABELLED:
        labels = _read_labels(cursor)
    elif cursor.word == "(":
        length, decimals = _read_lengths(cursor)
    if kind.facts.family in _NUMBERS:
        return ReadType(_number(cursor, kind, length, decimals))
    if kind in STRINGS or kind in LABELLED:
        return _read_text(cursor, WrittenType(kind, length, labels=labels, charset=charset))
    if kind is TypeKind.YEAR:
        return _year(cursor, length)
    compressed = kind.facts.compressed_code is not None and _read_compressed(cursor)
    return ReadType(WrittenType(kind, _length(kind, length), compressed=compressed))


def _length(kind: TypeKind, written: int | None) -> int | None:
    """The length of a type; MariaDB accepts one of geometries and addresses, and ignores it."""
    if kind in SPATIAL or kind.facts.family is Family.FIXED_BYTES:
        return None
    return kind.facts.default_length if written is None else written


def _year(cursor: TokenCursor, length: int | None) -> ReadType:
    """YEAR accepts signs, and they have no effect on it; only MariaDB keeps a length of 2."""
    while cursor.take_any("UNSIGNED", "SIGNED", "ZEROFILL"):
        pass
    return ReadType(WrittenType(TypeKind.YEAR, 2 if length == 2 and cursor.context.flavour.is_mariadb() else None))


def _read_labels(cursor: TokenCursor) -> tuple[Literal, ...]:
    cursor.expect("(")
    begin = cursor.offset
    labels = cursor.listed(cursor.literal)
    if any("\ufffd" in label.text for label in labels) or has_kept_bytes(cursor.tokens.opened(begin, cursor.offset)):
        cursor.fail("a label is not text in the client's charset")
    cursor.expect(")")
    return labels


def _read_lengths(cursor: TokenCursor) -> tuple[int | None, int | None]:
    """`(n)` or `(n, m)`; `()` for types that may have no length."""
    cursor.expect("(")
    if cursor.accept(")"):
        return None, None
    length = cursor.integer()
    decimals = cursor.integer() if cursor.accept(",") else None
    cursor.expect(")")
    return length, decimals


def _number(cursor: TokenCursor, kind: TypeKind, length: int | None, decimals: int | None) -> WrittenType:
    unsigned = zerofill = False
    while flag := cursor.take_any("UNSIGNED", "SIGNED", "ZEROFILL"):
        unsigned |= flag != "SIGNED"  # ZEROFILL implies UNSIGNED
        zerofill |= flag == "ZEROFILL"
    if kind is TypeKind.FLOAT and length is not None and decimals is None:
        # FLOAT(p): the precision only selects the type; 24 is the limit of a single (sql/parse_tree_column_attrs.h).
        kind, length = (TypeKind.DOUBLE if length > 24 else TypeKind.FLOAT), None
    if kind is TypeKind.DECIMAL:
        length, decimals = length or kind.facts.default_length, decimals or 0
    return WrittenType(kind, length, decimals, unsigned=unsigned, zerofill=zerofill)


def _read_text(cursor: TokenCursor, written: WrittenType) -> ReadType:
    """Charset attributes, in any order: CHARACTER SET x, ASCII, UNICODE, BYTE, BINARY."""
    charset, binary, compressed = written.charset, False, False
    while True:
        word = cursor.word
        if _read_compressed(cursor):
            compressed = True
        elif word in {"CHARACTER", "CHAR"} and cursor.ahead(1) == "SET":
            cursor.at += 2
            charset = read_charset_name(cursor)
        elif word == "CHARSET":
            cursor.at += 1
            charset = read_charset_name(cursor)
        elif word == "BINARY":
            cursor.at += 1
            binary = True
        elif word in {"ASCII", "UNICODE", "BYTE"}:
            cursor.at += 1
            charset = {"ASCII": "latin1", "UNICODE": "ucs2", "BYTE": "binary"}[word]
        else:
            break
    return ReadType(
        WrittenType(
            written.kind,
            written.length,
            labels=written.labels,
            charset=charset,
            binary=binary,
            compressed=compressed,
        )
    )


def _read_compressed(cursor: TokenCursor) -> bool:
    """COMPRESSED [= zlib] of MariaDB."""
    if not cursor.accept("COMPRESSED"):
        return False
    if cursor.accept("="):
        cursor.skip()
    return True


def read_charset_name(cursor: TokenCursor) -> str:
    """The name of a charset or collation: a word or a string; BINARY is a keyword of the grammar."""
    if cursor.word == STRING:
        return cursor.string().lower()
    return cursor.name().lower()
