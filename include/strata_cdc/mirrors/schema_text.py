"""Columns in the form of Delta's log (Delta protocol, "Schema Serialization Format").
Not here: which columns a mirror has (`layout.py`), their names in files (`renames.py`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa

from strata_cdc.changes.arrow import INVALID
from strata_cdc.mirrors.layout import SEQ, mirror_schema
from strata_cdc.mirrors.renames import IN_FILES, NUMBER, SAME_AS
from strata_cdc.tables.verbatim import INVALID_COLUMN

if TYPE_CHECKING:
    from strata_cdc.schema.model.definition import TableDefinition

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
_ID: Final = "delta.columnMapping.id"
_PHYSICAL: Final = IN_FILES.decode()
_SAME: Final = SAME_AS.decode()
_HAS_INVALID: Final = re.compile(rf'"name"\s*:\s*"{INVALID_COLUMN}"')
"""No column of MySQL has that name here, and quotes in names are escaped."""


def schema_text(columns: pa.Schema) -> str:
    """The `schemaString` of a table with these columns, all of which may be NULL."""
    return msgspec.json.encode({"type": "struct", "fields": [_field(field) for field in columns]}).decode()


def has_mapping(text: str) -> bool:
    """Whether a `schemaString` has the names of columns in files. No name looks so: its quotes are escaped."""
    return f'"{_PHYSICAL}":' in text


def columns_of(definition: TableDefinition, text: str) -> pa.Schema:
    """The columns of a mirror with what its `schemaString` has of them, including former names."""
    own = mirror_schema(definition)
    if _HAS_INVALID.search(text):
        own = own.append(pa.field(INVALID_COLUMN, INVALID))
    if not has_mapping(text) and f'"{_SAME}":' not in text:
        return own
    by_name = {field["name"]: field for field in msgspec.json.decode(text)["fields"]}
    former = [
        pa.field(name, own.field(stored["metadata"][_SAME]).type)
        for name, stored in by_name.items()
        if _SAME in stored["metadata"]
    ]
    at = own.get_field_index(SEQ)
    fields = list(own)
    return pa.schema([_as_stored(field, by_name[field.name]) for field in [*fields[:at], *former, *fields[at:]]])


def _as_stored(field: pa.Field, stored: dict[str, Any]) -> pa.Field:
    kind, metadata = field.type, stored["metadata"]
    if pa.types.is_struct(kind):
        inside = {field["name"]: field for field in stored["type"]["fields"]}
        kind = pa.struct([_as_stored(kind.field(at), inside[kind.field(at).name]) for at in range(kind.num_fields)])
    known = {
        NUMBER: str(metadata.get(_ID, "")),
        IN_FILES: metadata.get(_PHYSICAL, ""),
        SAME_AS: metadata.get(_SAME, ""),
    }
    return pa.field(field.name, kind, metadata={key: value for key, value in known.items() if value})


def _field(field: pa.Field) -> dict[str, Any]:
    return {"name": field.name, "type": _type(field.type), "nullable": True, "metadata": _metadata(field)}


def _metadata(field: pa.Field) -> dict[str, Any]:
    known = field.metadata or {}
    metadata: dict[str, Any] = {}
    if IN_FILES in known:
        metadata |= {_ID: int(known[NUMBER]), _PHYSICAL: known[IN_FILES].decode()}
    if SAME_AS in known:
        column = known[SAME_AS].decode()
        metadata |= {_SAME: column, "comment": f"the former name of {column}"}
    return metadata


def _type(kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind):
        return {"type": "struct", "fields": [_field(kind.field(at)) for at in range(kind.num_fields)]}
    if pa.types.is_list(kind):
        return {"type": "array", "elementType": _type(kind.value_type), "containsNull": True}
    if pa.types.is_map(kind):
        inside = {"keyType": _type(kind.key_type), "valueType": _type(kind.item_type)}
        return {"type": "map", **inside, "valueContainsNull": True}
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return _NAMES[kind]
