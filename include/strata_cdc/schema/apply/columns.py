"""A written column as the table has it: exact type, charset, nullability, default.
Not here: the order of columns (`alter.py`), the text of literal defaults (`defaults.py`)."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from strata_cdc.errors import DdlError
from strata_cdc.schema.apply.charset import DEFAULT, charset_of, collation_for, known_charset
from strata_cdc.schema.apply.defaults import default_text, exact_bytes
from strata_cdc.schema.apply.labels import hidden_bytes, label_bytes, shown_label
from strata_cdc.schema.ddl.changes import CurrentTimestamp, ExpressionDefault, NullDefault, WrittenColumn
from strata_cdc.schema.ddl.literals import Literal, LiteralKind
from strata_cdc.schema.model.binary_defaults import hidden_default, is_blob, may_hide_bytes
from strata_cdc.schema.model.definition import Column
from strata_cdc.schema.model.types import (
    AS_BINARY,
    BLOBS,
    INTEGERS,
    LABELLED,
    SPATIAL,
    STRINGS,
    TEMPORAL_WITH_FRACTION,
    TEXTS,
    ColumnType,
    Family,
    TypeKind,
    parse_column_type,
)

if TYPE_CHECKING:
    from strata_cdc.flavour import Flavour
    from strata_cdc.schema.ddl.changes import WrittenType
    from strata_cdc.schema.ddl.context import DdlContext

WrittenDefault = Literal | CurrentTimestamp | NullDefault | ExpressionDefault
"""A default as a statement has it."""
# Display widths are not shown since 8.0.19, except for tinyint(1) and ZEROFILL.
WIDTHS_HIDDEN_SINCE = (8, 0, 19)

_SIZED_BY_CHARSET = frozenset({Family.CHARACTERS, Family.TEXT, Family.BYTES, Family.BLOB})
_TEXT_SIZES = ((0xFF, TypeKind.TINYTEXT), (0xFFFF, TypeKind.TEXT), (0xFFFFFF, TypeKind.MEDIUMTEXT))
_LONGEST_COMMENT = 1024  # characters; outside strict mode the server cuts it (sql/sql_const.h)


def longest_varchar(flavour: Flavour) -> int:
    """The most bytes of a VARCHAR; a longer one becomes a text (sql/sql_const.h, `MAX_FIELD_VARCHARLENGTH`)."""
    return 65532 if flavour.is_mariadb() else 65535


def column_from(
    written: WrittenColumn, table_collation: str | None, context: DdlContext, converted_to: str | None = None
) -> Column:
    """The column that a definition makes in a table with that default collation.

    Args:
        written: The column as written in the statement.
        table_collation: Canonical; None if it is not known, which is an error only if the column needs it.
        context: The session.
        converted_to: The collation of a CONVERT TO in the same statement. It overrides the column's own collation,
            except for the charset binary (sql/sql_table.cc, `get_sql_field_charset`).

    Raises:
        DdlError: A charset is not known, or no server accepts the type.
    """
    if context.flavour.is_mariadb():
        written = _as_mariadb_reads(written)
    collation = _collation(written, table_collation, context, converted_to)
    if written.type.kind in LABELLED and context.has_wide_literals:
        raise DdlError(
            f"the labels of column {written.name} are written in {context.client_charset}, which is not read"
        )
    if collation is not None and charset_of(collation).name == "filename" and context.flavour.is_mariadb():
        raise DdlError(f"column {written.name} is in the charset of file names, in which types have other lengths")
    column_type = resolve_type(written.type, collation, longest_varchar(context.flavour))
    has_charset = column_type.kind in STRINGS or (column_type.kind in LABELLED and collation != "binary")
    column = Column(
        name=written.name,
        column_type=column_text(column_type, context.flavour),
        nullable=_nullable(written, context),
        character_set=charset_of(collation).name if has_charset and collation else None,
        collation=collation if has_charset else None,
        auto_increment=written.auto_increment,
        on_update=str(written.on_update) if written.on_update else None,
        generated=written.generated,
        generation_expression=written.generation_expression,
        invisible=written.invisible,
        comment=written.comment[:_LONGEST_COMMENT].replace("\ufffd", "?"),
        srid=written.srid if column_type.kind in SPATIAL else None,
        label_bytes=_hidden_labels(written.type, collation),
    )
    return with_default(column, written.default, context)


def _as_mariadb_reads(written: WrittenColumn) -> WrittenColumn:
    """The column as text if bytes have a COLLATE; ON UPDATE, and CURRENT_TIMESTAMP without a precision, with that of
    the column."""
    kind, length = written.type.kind, written.type.length or 0
    if written.collation is not None and kind in _AS_TEXT:
        return replace(written, type=replace(written.type, kind=_AS_TEXT[kind]))
    if kind not in TEMPORAL_WITH_FRACTION:
        return written
    if written.on_update is not None:
        written = replace(written, on_update=CurrentTimestamp(length))
    if written.default == CurrentTimestamp(0):
        written = replace(written, default=CurrentTimestamp(length))
    return written


_AS_TEXT = {binary: text for text, binary in AS_BINARY.items() if text is not TypeKind.XMLTYPE}


def _hidden_labels(written: WrittenType, collation: str | None) -> tuple[str, ...] | None:
    """The bytes of labels; only labels that are written as bytes can differ from the text that is shown."""
    if not written.labels or all(label.kind is LiteralKind.TEXT for label in written.labels):
        return None
    charset = charset_of(collation or "binary").name
    return hidden_bytes(label_bytes(written.labels, charset), charset)


def _collation(
    written: WrittenColumn, table_collation: str | None, context: DdlContext, converted_to: str | None
) -> str | None:
    """The collation of the column; None for types that have none."""
    kind = written.type.kind
    if kind not in STRINGS and kind not in LABELLED:
        return None
    type_text = written.type
    if type_text.binary and type_text.charset and not written.collation:
        collation: str | None = known_charset(type_text.charset, context).binary_collation
    else:
        collation = collation_for(type_text.charset, written.collation, table_collation, context)
    if collation is None:
        raise DdlError(f"the default charset that column {written.name} inherits is not known")
    if converted_to is not None and collation != "binary":
        is_default = (written.collation or "").lower() == DEFAULT
        collation = context.default_collation(charset_of(converted_to).name) if is_default else converted_to
    # BINARY without a charset overrides COLLATE and CONVERT TO; after a charset it is part of the charset.
    is_binary = type_text.binary and not type_text.charset and not collation.endswith("_nopad_bin")
    return charset_of(collation).binary_collation if is_binary else collation


def resolve_type(written: WrittenType, collation: str | None, longest: int) -> ColumnType:
    """The type that results under a charset: sizes of texts, binary forms, labels. A VARCHAR above `longest` bytes is a
    text."""
    kind = written.kind
    if kind in LABELLED:
        charset = charset_of(collation or "binary").name
        raw = label_bytes(written.labels, charset)
        return ColumnType(kind, labels=tuple(shown_label(label, charset) for label in raw))
    if kind.facts.family in _SIZED_BY_CHARSET:
        return replace(_string_type(kind, written.length, collation, longest), compressed=written.compressed)
    length = kind.facts.zero_length if written.length == 0 else written.length
    return ColumnType(kind, length, written.decimals, unsigned=written.unsigned, zerofill=written.zerofill)


def _string_type(kind: TypeKind, length: int | None, collation: str | None, longest: int) -> ColumnType:
    wide = charset_of(collation).max_bytes if collation else 1
    if length is not None and _is_sized(kind, length * wide, longest):
        kind = sized_text(length * wide)
        kind = AS_BINARY[kind] if collation is None else kind
    if kind in TEXTS or kind in BLOBS:
        length = None
    elif length is None:
        length = kind.facts.default_length
    if collation == "binary":
        kind = AS_BINARY.get(kind, kind)
    return ColumnType(kind, length)


def _is_sized(kind: TypeKind, size: int, longest: int) -> bool:
    """Whether the type's length in bytes decides which text type is used; outside strict mode the server also converts
    a long VARCHAR to a text (sql/sql_table.cc, `prepare_blob_field`)."""
    if kind in {TypeKind.VARCHAR, TypeKind.VARBINARY}:
        return size > longest
    return kind in {TypeKind.TEXT, TypeKind.BLOB}


def sized_text(size: int) -> TypeKind:
    """The smallest text type that holds `size` bytes (sql/field.cc, `get_blob_type_from_length`)."""
    return next((kind for limit, kind in _TEXT_SIZES if size <= limit), TypeKind.LONGTEXT)


@lru_cache(maxsize=4096)
def column_text(column_type: ColumnType, flavour: Flavour) -> str:
    """COLUMN_TYPE as a server of that version shows it."""
    kind = column_type.kind
    if kind in INTEGERS:
        return _integer_text(column_type, flavour)
    if kind is TypeKind.YEAR:
        return "year" if flavour.is_mysql(*WIDTHS_HIDDEN_SINCE) else f"year({column_type.length or 4})"
    if kind.facts.old_name is not None and not flavour.is_mysql(8):
        return kind.facts.old_name
    return column_type.text


def _integer_text(column_type: ColumnType, flavour: Flavour) -> str:
    width = column_type.length
    shows = (
        not flavour.is_mysql(*WIDTHS_HIDDEN_SINCE)
        or column_type.zerofill
        or (column_type.kind is TypeKind.TINYINT and width == 1 and not column_type.unsigned)
    )
    if shows and width is None and column_type.kind.facts.display_widths is not None:
        width = column_type.kind.facts.display_widths[column_type.unsigned]
    shown = width if shows else None
    return ColumnType(column_type.kind, shown, unsigned=column_type.unsigned, zerofill=column_type.zerofill).text


def _nullable(written: WrittenColumn, context: DdlContext) -> bool:
    if written.primary and context.flavour.is_mariadb():
        return False  # also if IF EXISTS leaves the key out
    if written.nullable is not None:
        return written.nullable
    return written.type.kind is not TypeKind.TIMESTAMP or context.explicit_defaults_for_timestamp


def with_changed_default(column: Column, default: WrittenDefault | None, context: DdlContext) -> Column:
    """The column after ALTER COLUMN ... SET DEFAULT, or DROP DEFAULT (None). In MariaDB, ON UPDATE goes with a default
    of CURRENT_TIMESTAMP (sql/sql_table.cc, `mysql_prepare_alter_table`)."""
    is_now = column.on_update_in_doubt or (column.default or "").startswith("CURRENT_TIMESTAMP")
    if is_now and context.flavour.is_mariadb():
        column = replace(column, on_update=None, on_update_in_doubt=False)
    return with_default(column, default, context)


def with_default(column: Column, default: WrittenDefault | None, context: DdlContext) -> Column:
    """The column with the default that a statement gives it; None for no default."""
    if (default is None and column.default is None) or column.generated is not None:
        return column  # MariaDB accepts ALTER COLUMN ... SET DEFAULT for a generated column, and ignores it
    column = replace(column, default_bytes=None)
    if default is None or isinstance(default, NullDefault):
        return replace(column, default=None, default_is_expression=False)
    if isinstance(default, CurrentTimestamp):
        kind = parse_column_type(column.column_type)
        if context.flavour.is_mariadb() and kind.kind in TEMPORAL_WITH_FRACTION:
            default = CurrentTimestamp(min(default.decimals, kind.length or 0))
        return replace(column, default=str(default), default_is_expression=True)
    if isinstance(default, ExpressionDefault):
        # Distinguished from CURRENT_TIMESTAMP without parentheses, which the server does not treat as an expression.
        text = f"({default.text})" if default.text.startswith("CURRENT_TIMESTAMP") else default.text
        return replace(column, default=text, default_is_expression=True)
    if column.auto_increment:
        return replace(column, default=None, default_is_expression=False)  # the server ignores SET DEFAULT there
    column = replace(column, default=default_text(default, column, context), default_is_expression=False)
    # MariaDB converts a BLOB's text to the charset that the table has when a row is made (11.8 and 10.11).
    is_converted = is_blob(column) and default.kind is LiteralKind.TEXT and not default.text.isascii()
    raw = exact_bytes(default, context) if may_hide_bytes(column) and not is_converted else None
    return column if raw is None else replace(column, default_bytes=hidden_default(column, raw))
