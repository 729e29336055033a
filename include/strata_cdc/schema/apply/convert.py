"""ALTER TABLE ... CONVERT TO CHARACTER SET: every text column gets another charset.
Not here: `ALTER TABLE ... CHARSET`, which changes only the default for later columns (`alter.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.errors import DdlError
from strata_cdc.schema.apply.charset import charset_of, collation_for
from strata_cdc.schema.apply.columns import column_text, longest_varchar, sized_text
from strata_cdc.schema.apply.defaults import shown_bytes
from strata_cdc.schema.apply.labels import codec_of, hidden_bytes, raw_labels, shown_label
from strata_cdc.schema.apply.widths import characters_of
from strata_cdc.schema.model.binary_defaults import hidden_default, may_hide_bytes
from strata_cdc.schema.model.charsets import CHARSETS
from strata_cdc.schema.model.types import (
    AS_BINARY,
    BLOBS,
    LABELLED,
    TEXTS,
    ColumnType,
    TypeKind,
    parse_column_type,
)

if TYPE_CHECKING:
    from strata_cdc.flavour import Flavour
    from strata_cdc.schema.ddl.changes import ConvertCharset, WrittenType
    from strata_cdc.schema.ddl.context import DdlContext
    from strata_cdc.schema.model.definition import Column

_ALWAYS_LONG = frozenset({TypeKind.LONGTEXT, TypeKind.LONGBLOB})


class Conversion(Struct, frozen=True):
    """The charset to which a table is converted."""

    collation: str
    flavour: Flavour

    def converted(self, column: Column) -> Column:
        """A column that the statement does not redefine, in the new charset; columns of charset binary do not
        change."""
        if column.character_set is None:
            return column
        column_type = parse_column_type(column.column_type)
        if column_type.kind in LABELLED:
            return self._relabelled(column, column_type)
        kind, length = column_type.kind, column_type.length
        if kind in TEXTS:
            kind = sized_text(characters_of(column) * self._width)
        elif kind is TypeKind.VARCHAR and (length or 0) * self._width > longest_varchar(self.flavour):
            kind, length = sized_text((length or 0) * self._width), None
        if self.collation == "binary":
            kind = AS_BINARY.get(kind, kind)
        return self._with_type(column, replace(column_type, kind=kind, length=length))

    def modified(self, column: Column, old: Column, written: WrittenType) -> Column:
        """A column that the statement redefines: the size of a text or blob without a length depends on the old
        column."""
        column_type = parse_column_type(column.column_type)
        unsized = column_type.kind in TEXTS or column_type.kind in BLOBS
        if self.flavour.is_mariadb() or not unsized or written.kind in _ALWAYS_LONG or written.length is not None:
            return column
        wide = CHARSETS[column.character_set].max_bytes if column.character_set is not None else 1
        kind = sized_text(_characters_counted_twice(old) * wide)
        if column_type.kind in BLOBS:
            kind = AS_BINARY[kind]
        return replace(column, column_type=column_text(replace(column_type, kind=kind), self.flavour))

    def _relabelled(self, column: Column, column_type: ColumnType) -> Column:
        """The bytes of labels stay, whatever they mean in the new charset (only written labels are converted)."""
        charset = charset_of(self.collation).name
        raw = raw_labels(column) or ()
        labels = tuple(shown_label(label, charset) for label in raw)
        shown = dict(zip(column_type.labels, labels, strict=True))
        if column.default:
            shown_default = ",".join(shown.get(label, label) for label in column.default.split(","))
            column = replace(column, default=shown_default)
        changed = self._with_type(column, replace(column_type, labels=labels))
        return replace(changed, label_bytes=hidden_bytes(raw, charset))

    def _with_type(self, column: Column, column_type: ColumnType) -> Column:
        is_text = self.collation != "binary"
        default = column.default
        if default is not None and not is_text and not column.default_is_expression:
            default = shown_bytes(default.encode(codec_of(column.character_set or "binary")), column_type)
        changed = replace(
            column,
            column_type=column_text(column_type, self.flavour),
            character_set=charset_of(self.collation).name if is_text else None,
            collation=self.collation if is_text else None,
            default=default,
        )
        if may_hide_bytes(changed) and (column.default or "").isascii():
            raw = (column.default or "").encode(codec_of(column.character_set or "binary"))
            return replace(changed, default_bytes=hidden_default(changed, raw))
        return changed

    @property
    def _width(self) -> int:
        return charset_of(self.collation).max_bytes


def _characters_counted_twice(old: Column) -> int:
    """The length in characters of an old column that becomes a text: the server divides it by the bytes of the longest
    character, although it already counts characters (measured on 9.7)."""
    count = characters_of(old)
    if old.character_set is None or parse_column_type(old.column_type).kind in TEXTS:
        return count
    return count // CHARSETS[old.character_set].max_bytes


def conversion_of(step: ConvertCharset, database_collation: str | None, context: DdlContext) -> Conversion:
    """The conversion that a step requests; the charset DEFAULT is that of the database.

    Raises:
        DdlError: The database's charset is requested and not known.
    """
    collation = collation_for(step.charset, step.collation, database_collation, context)
    if collation is None:
        raise DdlError("the default charset of the database is not known")
    return Conversion(collation, context.flavour)
