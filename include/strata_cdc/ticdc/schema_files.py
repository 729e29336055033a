"""The schema files of a sink: a version of a table, with the DDL that made it, checked against its name.
Not here: the types of columns (`column_types.py`), which version is valid when (`history.py`)."""

from __future__ import annotations

import json
import re
import zlib
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from strata_cdc.errors import DamagedFileError
from strata_cdc.files.storage import content_digest

if TYPE_CHECKING:
    from strata_cdc.ticdc.paths import SchemaPath

_GO_ESCAPES: Final = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)
"""What Go's encoder escapes and Python's does not (encoding/json, `HTMLEscape`)."""
_KEPT: Final = "\ue000"
"""Marks a number with a fraction, whose text is kept as it is."""
_KEPT_NUMBER: Final = re.compile(f'"{_KEPT}([^"]*)"')
_REMEDY: Final = "Nothing was read from it. Compare it with the bucket's older versions: no consumer may write there."


class SinkColumn(Struct, frozen=True, rename="pascal", forbid_unknown_fields=True):
    """A column of a schema file; what is absent has its default."""

    column_name: str
    column_type: str
    """In upper case: `BIGINT UNSIGNED`."""
    column_id: str | None = None
    """Only with `output-column-id`."""
    column_default: Any = None
    column_precision: str | None = None
    column_scale: str | None = None
    column_nullable: str | None = None
    """`false`, or absent."""
    column_is_pk: str | None = None
    """`true`, or absent."""
    column_elems: tuple[str, ...] = ()
    """The labels of ENUM and SET; older versions of TiCDC do not write them."""


class SchemaFile(Struct, frozen=True, rename="pascal"):
    """The content of a schema file."""

    table: str
    """Empty for a database."""
    schema: str
    version: int
    table_version: int
    query: str
    """Empty for the state of a table when the feed began or the table moved."""
    type: int
    """The number of the DDL's kind (TiDB, `model.ActionType`); 0 with an empty query."""
    table_columns: tuple[SinkColumn, ...] | None
    table_columns_total: int
    path: str = ""
    digest: str = ""
    """Of the content: a file never changes once it is written."""


def read_schema_file(path: SchemaPath, content: bytes) -> SchemaFile:
    """The content of a file.

    Raises:
        DamagedFileError: It is no schema file, or contradicts its name.
    """
    try:
        file = msgspec.json.decode(content, type=SchemaFile)
        plain = json.loads(content, parse_float=lambda text: f"{_KEPT}{text}")
    except (msgspec.DecodeError, ValueError) as error:
        raise DamagedFileError(f"it is no schema file: {error}", file=path.path, remedy=_REMEDY) from error
    for what, written, named in (
        ("version", file.table_version, path.version),
        ("number of columns", len(file.table_columns or ()), file.table_columns_total),
    ):
        if written != named:
            raise DamagedFileError(f"its {what} is {written}, not {named}", file=path.path, remedy=_REMEDY)
    if path.checksum not in checksums(plain):
        raise DamagedFileError("its columns do not have the checksum of its name", file=path.path, remedy=_REMEDY)
    return msgspec.structs.replace(file, path=path.path, digest=content_digest(content))


def checksums(plain: dict[str, Any]) -> set[int]:
    """The checksums that TiCDC gives to the content of a schema file: CRC-32 of its names and columns, sorted by name.

    A file of a database has two: its columns are `null`, or `[]` before 2026 (pkg/cloudstorage/schema_file.go).
    """
    columns = plain["TableColumns"]
    forms: list[Any] = [None, []]
    if columns:
        forms = [sorted(columns, key=lambda column: str(column["ColumnName"]))]
    names = {name: plain[name] for name in ("Table", "Schema")} | {"Version": 0}
    total = plain["TableColumnsTotal"]
    return {zlib.crc32(_go_json({**names, "TableColumns": form, "TableColumnsTotal": total})) for form in forms}


def _go_json(value: Any) -> bytes:
    """The bytes that Go's `json.MarshalIndent` writes."""
    text = json.dumps(value, indent=4, ensure_ascii=False).translate(_GO_ESCAPES)
    return _KEPT_NUMBER.sub(r"\1", text).encode()
