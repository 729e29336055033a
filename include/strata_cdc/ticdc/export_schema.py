"""Whether a table of an export has the columns that it has in the sink at that timestamp.
Not here: the files of the export (`export_folder.py`), their rows (`export_rows.py`).

The sink's definition is that of the mirror. A schema file has no charsets and no keys but the primary one, so only what
decides values and their identity is compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strata_cdc.errors import BadData
from strata_cdc.schema.model.create_sql import quoted
from strata_cdc.schema.model.definition import KeyKind
from strata_cdc.schema.model.types import LABELLED, TEMPORAL_WITH_FRACTION, Family, parse_column_type
from strata_cdc.schema.replay.baseline import read_baseline
from strata_cdc.ticdc.export_folder import COPY_REMEDY

if TYPE_CHECKING:
    from strata_cdc.schema.model.definition import Column, TableDefinition, TableName
    from strata_cdc.schema.model.types import ColumnType
    from strata_cdc.ticdc.export_folder import ExportedTable

_SIZED: Final = frozenset({Family.CHARACTERS, Family.BYTES})
_REMEDY: Final = (
    "Export the table again, at a timestamp at which no DDL of it runs, from the cluster of this changefeed."
)


def exported_definition(name: TableName, table: ExportedTable) -> TableDefinition:
    """The definition of a table by its CREATE TABLE.

    Raises:
        BadData: It is that of another table, or cannot be read.
        LakeUnavailableError: The storage does not answer.
    """
    content = b"".join(table.create.blocks())
    path = table.create.path
    try:
        made = read_baseline(f"USE {quoted(name.database)};\n{content.decode()}", path).tables
    except UnicodeDecodeError as error:
        raise BadData("the CREATE TABLE is not UTF-8", file=path, remedy=COPY_REMEDY) from error
    created = next((change for change in made if change.name == name), None)
    if created is None or created.definition is None:
        reason = created.gap if created is not None and created.gap else f"it makes no table {name}"
        raise BadData(f"the CREATE TABLE cannot be taken: {reason}", file=path, remedy=COPY_REMEDY)
    return created.definition


def refuse_other(exported: TableDefinition, sink: TableDefinition) -> None:
    """Checks that the rows of an export have the columns of the sink.

    Args:
        exported: By the export's CREATE TABLE.
        sink: The version of the sink that is valid at the export's timestamp.

    Raises:
        BadData: A column or the primary key is another one, or a column is generated, so that the export
            lacks its values.
    """
    mine = {column.name: column for column in sink.columns}
    theirs = {column.name: column for column in exported.columns if column.generated is None}
    for column in exported.columns:
        if column.generated is not None and column.name in mine:
            raise BadData(
                f"column {column.name} is generated, and an export by Dumpling has no values of generated columns",
                remedy="Leave the table out of the mirrors.",
            )
    if list(theirs) != list(mine):
        raise _other(f"the columns {', '.join(theirs)}", f"the columns {', '.join(mine)}")
    if _primary(exported) != _primary(sink):
        raise _other(f"the primary key {_names(exported)}", _names(sink))
    for name, column in theirs.items():
        if _essence(column, mine[name]) != _essence(mine[name], column):
            raise _other(f"column {name} as {_shown(column)}", _shown(mine[name]))


def _other(theirs: str, mine: str) -> BadData:
    return BadData(f"the export has {theirs}, and the sink has {mine} at its timestamp", remedy=_REMEDY)


def _shown(column: Column) -> str:
    return f"{column.column_type}{'' if column.nullable else ' NOT NULL'}"


def _names(definition: TableDefinition) -> str:
    return f"({', '.join(sorted(_primary(definition)))})"


def _primary(definition: TableDefinition) -> set[str]:
    """The order of the columns in a key is not in the sink."""
    keys = [key for key in definition.keys if key.kind is KeyKind.PRIMARY]
    return {part.column or "" for key in keys for part in key.parts}


def _essence(column: Column, other: Column) -> tuple[object, ...]:
    """What decides which values a column may have, and which they are."""
    kind, beside = parse_column_type(column.column_type), parse_column_type(other.column_type)
    return kind.kind, kind.unsigned, column.nullable, *_sizes(kind), *_labels(kind, beside)


def _sizes(kind: ColumnType) -> tuple[int, ...]:
    family = kind.kind.facts.family
    if family is Family.DECIMAL:
        return kind.length or 10, kind.decimals or 0
    if kind.kind in TEMPORAL_WITH_FRACTION or family in _SIZED:
        return (kind.length or 0,)
    return (kind.length or 1,) if family is Family.BITS else ()


def _labels(kind: ColumnType, other: ColumnType) -> tuple[str, ...]:
    """Older versions of TiCDC write none."""
    return kind.labels if kind.kind in LABELLED and kind.labels and other.labels else ()
