"""Decoded changes of a table in the columns that hold the rows of several of its versions, each column once, as
`read_changes` has them.
Not here: which versions these are (`pipeline/plan/landed_range.py`), columns of published tables (`united.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from strata_cdc.arrow_columns import repeated_text
from strata_cdc.changes.arrow import BEFORE, ROW_FIELDS, ChangeColumns, image_fields
from strata_cdc.errors import Usage
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.tables.common_types import common_type
from strata_cdc.tables.layout import column_name
from strata_cdc.tables.named_columns import published

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strata_cdc.changes.port import ChangeBatch
    from strata_cdc.schema.model.definition import TableDefinition

SOURCE = "_source"


def range_schema(definitions: Iterable[TableDefinition]) -> pa.Schema:
    """The columns of changes that these definitions decode: the table's own, each in a type for the values of all
    definitions; `_before` with the same columns; and what a change table has of each change, except `_interval`.

    Raises:
        Usage: A column has types without a common one.
    """
    own: dict[str, pa.Field] = {}
    for definition in definitions:
        for field in image_fields(definition):
            name = column_name(field.name)
            known = own.setdefault(fold_name(name), pa.field(name, field.type))
            kind = common_type(known.type, field.type)
            if kind is None:
                raise Usage(
                    f"column {name} has had types without a common one: {known.type} and {field.type}",
                    remedy="Read a range with one of them, or other columns alone.",
                )
            own[fold_name(name)] = pa.field(known.name, kind)
    operation, *facts = ROW_FIELDS
    images = list(own.values())
    return pa.schema([*images, pa.field(BEFORE, pa.struct(images)), operation, pa.field(SOURCE, pa.string()), *facts])


def own_columns(schema: pa.Schema) -> list[str]:
    """The names of the table's own columns in a part of a `range_schema`: those after the change and those before."""
    facts = {BEFORE, SOURCE, *(field.name for field in ROW_FIELDS)}
    inside = schema.field(BEFORE).type.fields if BEFORE in schema.names else ()
    return list(
        dict.fromkeys([*(name for name in schema.names if name not in facts), *(child.name for child in inside)])
    )


def in_range_columns(change: ChangeBatch, source: str, schema: pa.Schema) -> pa.RecordBatch:
    """A batch of changes in some columns.

    Args:
        source: The source's name, for `_source`.
        schema: `range_schema` of definitions with the batch's, or some columns of it; a column that the batch's
            definition lacks is NULL.
    """
    batch = published(change.batch)
    parts = ChangeColumns(batch)
    own = dict(zip(map(fold_name, parts.names), parts.own, strict=True))
    facts = {**parts.facts, SOURCE: repeated_text(source, batch.num_rows)}
    columns = []
    for field in schema:
        if field.name == BEFORE:
            columns.append(_images(parts.before, field.type))
        elif field.name in facts:
            columns.append(facts[field.name].cast(field.type))
        else:
            columns.append(_of(own, field, batch.num_rows))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _images(before: pa.StructArray, kind: pa.StructType) -> pa.StructArray:
    own = {fold_name(before.type.field(at).name): before.field(at) for at in range(before.type.num_fields)}
    children = [_of(own, field, len(before)) for field in kind.fields]
    return pa.StructArray.from_arrays(children, fields=kind.fields, mask=before.is_null())


def _of(own: dict[str, pa.Array], field: pa.Field, rows: int) -> pa.Array:
    values = own.get(fold_name(field.name))
    return pa.nulls(rows, field.type) if values is None else values.cast(field.type)


def some_columns(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """Some columns of a `range_schema`, in this order; `_before` has those of the table's own columns that are named.

    Raises:
        Usage: There is no such column.
    """
    known = {fold_name(field.name): field for field in schema}
    unknown = [name for name in names if fold_name(name) not in known]
    if unknown:
        raise Usage(
            f"there is no column {unknown[0]} in this range; there are {', '.join(schema.names)}",
            remedy="Name others, or leave `columns` out.",
        )
    wanted = [known[fold_name(name)] for name in names]
    own = set(own_columns(pa.schema([field for field in wanted if field.name != BEFORE])))
    inside = [field for field in schema.field(BEFORE).type.fields if field.name in own]
    return pa.schema(
        [pa.field(BEFORE, pa.struct(inside)) if field.name == BEFORE and own else field for field in wanted]
    )
