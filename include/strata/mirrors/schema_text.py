"""Columns as Delta's log writes them (Delta protocol, "Schema Serialization Format").
Not here: which columns a mirror has (`layout.py`)."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa

_NAMES = {
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp_ntz",
    pa.timestamp("us", tz="UTC"): "timestamp",
}


def schema_text(columns: pa.Schema) -> str:
    """The `schemaString` of a table with these columns, all of which may be NULL."""
    return msgspec.json.encode({"type": "struct", "fields": [_field(field) for field in columns]}).decode()


def column_names(text: str) -> list[str]:
    """The names in a `schemaString`, in order."""
    return [field["name"] for field in msgspec.json.decode(text)["fields"]]


def _field(field: pa.Field) -> dict[str, Any]:
    return {"name": field.name, "type": _type(field.type), "nullable": True, "metadata": {}}


def _type(kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind):
        return {"type": "struct", "fields": [_field(kind.field(at)) for at in range(kind.num_fields)]}
    if pa.types.is_list(kind):
        return {"type": "array", "elementType": _type(kind.value_type), "containsNull": True}
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return _NAMES[kind]
