"""A column's definition: name, type, attributes.
Not here: types (`types.py`), the effect of the attributes on a column (`apply/columns.py`)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from strata_cdc.schema.ddl.changes import (
    CurrentTimestamp,
    ExpressionDefault,
    NullDefault,
    WrittenColumn,
    WrittenKey,
    WrittenKeyPart,
)
from strata_cdc.schema.ddl.cursor import LITERALS
from strata_cdc.schema.ddl.keys import read_references, skip_engine_attribute
from strata_cdc.schema.ddl.lexer import NAME, NUMBER, STRING
from strata_cdc.schema.ddl.literals import Literal, LiteralKind
from strata_cdc.schema.ddl.types import read_charset_name, read_type
from strata_cdc.schema.model.definition import GeneratedKind, KeyKind

if TYPE_CHECKING:
    from strata_cdc.schema.ddl.cursor import TokenCursor

NOW_NAMES = frozenset({"NOW", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP"})
_INLINE_FOREIGN_KEYS_SINCE = (9, 0, 0)


def read_column(cursor: TokenCursor) -> WrittenColumn:
    """Reads `name type attributes`; stops before the end of a definition (`,`, `)`, FIRST, AFTER, the end)."""
    name = cursor.column_name()
    read = read_type(cursor)
    column = WrittenColumn(name, read.type, collation=read.collation)
    if read.serial:
        column = replace(column, **_SERIAL)
    while (attribute := _read_attribute(cursor)) is not None:
        column = replace(column, **attribute)
    if column.references is not None:
        column = replace(column, references=replace(column.references, parts=(WrittenKeyPart(name),)))
    # To MariaDB a column that is the primary key needs no other key.
    is_once = column.unique and column.primary and cursor.context.flavour.is_mariadb()
    return replace(column, unique=False) if is_once else column


_Attribute = dict[str, Any]
"""What an attribute says of a `WrittenColumn`, by field."""
_SERIAL: Final[_Attribute] = {"nullable": False, "auto_increment": True, "unique": True}


def _read_attribute(cursor: TokenCursor) -> _Attribute | None:
    """Reads one attribute; None if the next token begins none."""
    reader = _ATTRIBUTES.get(cursor.word)
    if reader is None:
        return {} if skip_engine_attribute(cursor) else None
    cursor.at += 1
    return reader(cursor)


def _null(_cursor: TokenCursor) -> _Attribute:
    return {"nullable": True}


def _not(cursor: TokenCursor) -> _Attribute:
    if cursor.accept("SECONDARY"):
        return {}
    cursor.expect("NULL")
    return {"nullable": False}


def _default(cursor: TokenCursor) -> _Attribute:
    return {"default": read_default(cursor)}


def _on(cursor: TokenCursor) -> _Attribute:
    cursor.expect("UPDATE")
    if cursor.word not in NOW_NAMES:
        cursor.fail("expected CURRENT_TIMESTAMP")
    return {"on_update": _read_now(cursor)}


def _auto_increment(_cursor: TokenCursor) -> _Attribute:
    # Of AUTO_INCREMENT, NULL and NOT NULL, the last decides whether the column may be NULL (sql/sql_yacc.yy).
    return {"auto_increment": True, "nullable": False}


def _serial(cursor: TokenCursor) -> _Attribute:
    cursor.expect("DEFAULT")
    cursor.expect("VALUE")
    return _SERIAL


def _primary(cursor: TokenCursor) -> _Attribute:
    cursor.expect("KEY")
    return {"primary": True}


def _key(_cursor: TokenCursor) -> _Attribute:
    return {"primary": True}


def _unique(cursor: TokenCursor) -> _Attribute:
    cursor.accept("KEY")
    return {"unique": True}


def _comment(cursor: TokenCursor) -> _Attribute:
    return {"comment": cursor.string()}


def _collate(cursor: TokenCursor) -> _Attribute:
    return {"collation": read_charset_name(cursor)}


def _skip_value(cursor: TokenCursor) -> _Attribute:
    """COLUMN_FORMAT x, STORAGE x, ENGINE_ATTRIBUTE [=] 'x'."""
    cursor.accept("=")
    cursor.skip()
    return {}


def _masking(cursor: TokenCursor) -> _Attribute:
    """MASKING POLICY x: who sees which value (MySQL 9.7, WL#16525). What is stored and logged is the same for all."""
    skip_masking_policy(cursor)
    return {}


def skip_masking_policy(cursor: TokenCursor) -> None:
    """Skips what follows MASKING: POLICY and its name."""
    cursor.expect("POLICY")
    cursor.name()


def _srid(cursor: TokenCursor) -> _Attribute:
    return {"srid": cursor.integer()}


def _visible(_cursor: TokenCursor) -> _Attribute:
    return {"invisible": False}


def _invisible(_cursor: TokenCursor) -> _Attribute:
    return {"invisible": True}


def _generated(cursor: TokenCursor) -> _Attribute:
    cursor.expect("ALWAYS")
    cursor.expect("AS")
    return _as(cursor)


def _as(cursor: TokenCursor) -> _Attribute:
    row_time = "ROW START" if cursor.take_all("ROW", "START") else "ROW END" if cursor.take_all("ROW", "END") else None
    if row_time is not None:
        return {"generation_expression": row_time, "generated": GeneratedKind.STORED, "nullable": False}
    expression = cursor.parenthesized()
    generated = GeneratedKind.STORED if cursor.take_any("STORED", "PERSISTENT") else GeneratedKind.VIRTUAL
    cursor.accept("VIRTUAL")
    return {"generation_expression": expression, "generated": generated}


def _with(cursor: TokenCursor) -> _Attribute:
    """WITH SYSTEM VERSIONING."""
    cursor.expect("SYSTEM")
    cursor.expect("VERSIONING")
    return {"versioned": True}


def _without(cursor: TokenCursor) -> _Attribute:
    """WITHOUT SYSTEM VERSIONING: the column makes no history, but its values are in rows like all others."""
    _with(cursor)
    return {"versioned": False}


def _constraint(cursor: TokenCursor) -> _Attribute:
    name = cursor.name() if cursor.word not in {"CHECK", "REFERENCES"} else None
    if cursor.accept("REFERENCES"):
        return _references(cursor, name)
    cursor.expect("CHECK")
    return _check(cursor)


def _check(cursor: TokenCursor) -> _Attribute:
    cursor.skip_parentheses()
    cursor.accept("ENFORCED") or cursor.take_all("NOT", "ENFORCED")
    return {}


def _references(cursor: TokenCursor, name: str | None = None) -> _Attribute:
    cascades = read_references(cursor)
    # To MariaDB it is a foreign key since 10.5, and its name is that of the constraint.
    if cursor.context.flavour.is_mysql(*_INLINE_FOREIGN_KEYS_SINCE) or cursor.context.flavour.is_mariadb(10, 5):
        return {"references": WrittenKey(KeyKind.INDEX, (), name, foreign=True, cascades=cascades)}
    return {}


_ATTRIBUTES = {
    "NULL": _null,
    "NOT": _not,
    "DEFAULT": _default,
    "ON": _on,
    "AUTO_INCREMENT": _auto_increment,
    "SERIAL": _serial,
    "PRIMARY": _primary,
    "KEY": _key,
    "UNIQUE": _unique,
    "COMMENT": _comment,
    "COLLATE": _collate,
    "COLUMN_FORMAT": _skip_value,
    "STORAGE": _skip_value,
    "ENGINE_ATTRIBUTE": _skip_value,
    "SECONDARY_ENGINE_ATTRIBUTE": _skip_value,
    "MASKING": _masking,
    "SRID": _srid,
    "REF_SYSTEM_ID": _skip_value,
    "WITH": _with,
    "WITHOUT": _without,
    "VISIBLE": _visible,
    "INVISIBLE": _invisible,
    "GENERATED": _generated,
    "AS": _as,
    "CONSTRAINT": _constraint,
    "CHECK": _check,
    "REFERENCES": _references,
}


def read_default(cursor: TokenCursor) -> Literal | CurrentTimestamp | NullDefault | ExpressionDefault:
    """Reads the text after DEFAULT: a literal, NULL, CURRENT_TIMESTAMP, or an expression in parentheses."""
    word = cursor.word
    if word == "(":
        return _read_parenthesized(cursor)
    if cursor.accept("NULL"):
        return NullDefault()
    if word in NOW_NAMES:
        return _read_now(cursor)
    if cursor.context.flavour.is_mariadb():
        default = _read_pi(cursor) or _read_bare_expression(cursor)
        if default is not None:
            return default
    return _read_literal(cursor)


_TYPES_OF_LITERALS = frozenset({"DATE", "TIME", "TIMESTAMP"})


def _read_literal(cursor: TokenCursor) -> Literal:
    word = cursor.word
    if word in {"TRUE", "FALSE"}:
        cursor.at += 1
        return Literal(LiteralKind.NUMBER, "1" if word == "TRUE" else "0")
    if word in _TYPES_OF_LITERALS and cursor.ahead(1) == STRING:
        cursor.at += 1
        return cursor.literal()
    if cursor.accept("{"):  # {d '2020-01-02'}, the form of ODBC
        cursor.skip()
        literal = cursor.literal()
        cursor.expect("}")
        return literal
    if word in {"+", "-", NUMBER}:
        return Literal(LiteralKind.NUMBER, read_signed_number(cursor))
    return cursor.literal()


def _read_parenthesized(cursor: TokenCursor) -> Literal | CurrentTimestamp | NullDefault | ExpressionDefault:
    """An expression in parentheses; to MariaDB a literal or CURRENT_TIMESTAMP in them is like one without."""
    begin = cursor.at
    if cursor.context.flavour.is_mariadb():
        constant = _read_constant(cursor)
        if constant is not None:
            return constant
        cursor.at = begin
    return ExpressionDefault(cursor.parenthesized())


def _read_constant(cursor: TokenCursor) -> Literal | CurrentTimestamp | NullDefault | None:
    """A constant with any signs and parentheses; None for all else, and then the place of the cursor has no meaning."""
    if cursor.accept("("):
        inner = _read_constant(cursor)
        return inner if cursor.accept(")") else None
    if sign := cursor.take_any("+", "-"):
        number = _read_constant(cursor)
        return _signed(sign, number) if isinstance(number, Literal) and number.kind is LiteralKind.NUMBER else None
    if cursor.word in NOW_NAMES:
        return _read_now(cursor)
    if cursor.accept("NULL"):
        return NullDefault()
    return _read_pi(cursor) or _read_bare_constant(cursor)


def _read_bare_constant(cursor: TokenCursor) -> Literal | None:
    if cursor.word == NUMBER:
        return Literal(LiteralKind.NUMBER, read_signed_number(cursor))
    is_typed = cursor.word in _TYPES_OF_LITERALS and cursor.ahead(1) == STRING
    if is_typed or cursor.word in {"TRUE", "FALSE", "{"}:
        return _read_literal(cursor)
    is_literal = cursor.word in LITERALS or (cursor.word.startswith("_") and cursor.ahead(1) in LITERALS)
    return cursor.literal() if is_literal else None


def _read_pi(cursor: TokenCursor) -> Literal | None:
    """PI(), which is a literal to MariaDB."""
    return Literal(LiteralKind.NUMBER, str(math.pi)) if cursor.take_all("PI", "(", ")") else None


def _signed(sign: str, number: Literal) -> Literal:
    if sign == "+":
        return number
    negative = number.text.startswith("-")
    return Literal(LiteralKind.NUMBER, number.text[1:] if negative else f"-{number.text}")


def _read_bare_expression(cursor: TokenCursor) -> ExpressionDefault | None:
    """An expression without parentheses, which MariaDB accepts: a column, a function, CASE, NEXT VALUE FOR a sequence;
    None for a literal."""
    begin = cursor.at
    if cursor.take_all("NEXT", "VALUE", "FOR") or cursor.take_all("PREVIOUS", "VALUE", "FOR"):
        cursor.skip_qualified_name()
    elif cursor.accept("CASE"):
        _skip_case(cursor)
    elif cursor.word == "@":
        _skip_variable(cursor)
    else:
        cursor.take_any("-")
        if not cursor.sees_name() or _is_literal(cursor):
            cursor.at = begin
            return None
        cursor.skip()
        while cursor.accept("."):
            cursor.skip()
        if cursor.word == "(":
            cursor.skip_parentheses()
    return ExpressionDefault(cursor.tokens.expression(begin, cursor.at - 1))


def _is_literal(cursor: TokenCursor) -> bool:
    """Whether a literal comes next, maybe with its charset or its type: `_latin1 'a'`, `DATE '2020-01-01'`."""
    word = cursor.word
    if word in LITERALS or word in {"TRUE", "FALSE"} or word[:1].isdigit():
        return True
    return cursor.ahead(1) in LITERALS and word != NAME


def _skip_variable(cursor: TokenCursor) -> None:
    """@variable, with its value in `@variable := value`, or @@variable."""
    while cursor.accept("@"):
        pass
    cursor.skip()
    if cursor.accept(":="):
        read_default(cursor)


def _skip_case(cursor: TokenCursor) -> None:
    depth = 1
    while depth and not cursor.at_end():
        depth += {"CASE": 1, "END": -1}.get(cursor.word, 0)
        cursor.at += 1


def read_signed_number(cursor: TokenCursor) -> str:
    """A number with its sign; `.5` as `0.5`."""
    sign = ""
    while mark := cursor.take_any("+", "-"):
        sign = ("" if sign else "-") if mark == "-" else sign
    if cursor.word != NUMBER:
        cursor.fail("expected a number")
    text = cursor.value()
    return f"{sign}{'0' if text.startswith('.') else ''}{text}"


def _read_now(cursor: TokenCursor) -> CurrentTimestamp:
    cursor.at += 1
    decimals = 0
    if cursor.accept("("):
        decimals = cursor.integer() if cursor.word == NUMBER else 0
        cursor.expect(")")
    return CurrentTimestamp(decimals)
