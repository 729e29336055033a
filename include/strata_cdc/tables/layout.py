"""Where change tables are in the lake, and the names of their columns.
Not here: opening files (`files/storage.py`), which column continues which (`continued.py`)."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strata_cdc.schema.model.definition import TableName

METADATA = (
    "_before",
    "_op",
    "_source",
    "_gtid",
    "_seq",
    "_row",
    "_committed_at",
    "_binlog_file",
    "_binlog_pos",
    "_schema_version",
    "_missing",
    "_invalid",
    "_interval",
)
"""Columns of every change table besides the table's own; they come after the table's own columns."""

INTERVAL = "_interval"
"""The partition column: start of the interval that owns the row."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KEY = "%Y%m%dT%H%M%S.%fZ"
_UNSAFE = re.compile(r"^_|[^A-Za-z0-9_-]")
_LONGEST = 200
"""Characters. File systems allow names of 255 bytes; MySQL's 64 characters in UTF-16 are 205 in base 32."""
_DENSE = "@@"
_METADATA_NAMES = frozenset(METADATA)


def column_name(name: str) -> str:
    """The name that a column of MySQL's table has in a change table.

    A column with a name like one of `METADATA` (in any case, because Delta and Spark compare names without case) gets
    one more underscore at the front. So does a column whose name is like the result of that. All other names stay.
    """
    if name.startswith("_") and "_" + name.lstrip("_").casefold() in _METADATA_NAMES:
        return f"_{name}"
    return name


def own_name(name: str) -> str:
    """Reverses `column_name`."""
    return name[1:] if name.startswith("__") and column_name(name[1:]) == name else name


def path_name(name: str) -> str:
    """A name as one part of a path; plain names stay readable.

    Other characters are written as in MySQL's file names, `@` and four hexadecimal digits (manual, "Mapping of
    Identifiers to File Names"), and so is a leading underscore, because Spark and Delta's vacuum skip such folders.
    This needs no `%`, which Delta's log would escape once more. A name that would become too long for a file system is
    written completely in base 32, after two `@`.
    """
    plain = _UNSAFE.sub(lambda match: "".join(f"@{unit:04x}" for unit in _utf16(match[0])), name)
    if len(plain) <= _LONGEST:
        return plain
    return _DENSE + base64.b32encode(name.encode("utf-16-be", "surrogatepass")).decode().rstrip("=").lower()


def name_of_path(part: str) -> str:
    """Reverses `path_name`."""
    if part.startswith(_DENSE):
        dense = part.removeprefix(_DENSE).upper()
        return base64.b32decode(dense + "=" * (-len(dense) % 8)).decode("utf-16-be", "surrogatepass")
    units = re.sub("@([0-9a-f]{4})", lambda match: chr(int(match[1], 16)), part)
    # Characters outside the basic plane are written as two surrogates.
    return units.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")


def _utf16(text: str) -> list[int]:
    raw = text.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(raw[at : at + 2], "big") for at in range(0, len(raw), 2)]


def table_url(lake: str, source: str, table: TableName) -> str:
    """URL of the change table: it has all rows, whatever types its columns have had."""
    return f"{changes_url(lake, source)}/{table_folder(table)}"


def table_folder(table: TableName) -> str:
    """The folder of a change table, relative to that of all of its source."""
    return f"{path_name(table.database)}/{path_name(table.table)}"


def changes_url(lake: str, source: str) -> str:
    """The folder of all change tables of a source."""
    return f"{lake.rstrip('/')}/changes/{path_name(source)}"


def staged_folder(staging: str, interval: int, table: TableName) -> str:
    """Where the files of a table and interval wait for their verdict, in a run's staging folder."""
    return "/".join((staging.rstrip("/"), interval_key(interval), table_folder(table)))


def data_path(interval: int, name: str) -> str:
    """A data file, relative to its change table. In a folder with an underscore, Delta's vacuum would never see it."""
    return f"data/{interval_key(interval)}/{name}"


def published_name(file_name: str, names: Mapping[str, str]) -> str:
    """The name of a staged file once it is published: equal names mean equal bytes.

    Args:
        file_name: Name of the staged file, or of a file that is already published.
        names: Columns that have another name in the published file -> that name.
    """
    if not names:
        return file_name
    stem, dot, suffix = file_name.rpartition(".")
    mark = hashlib.sha256(json.dumps(sorted(names.items())).encode()).hexdigest()[:8]
    return f"{stem}-{mark}{dot}{suffix}"


def interval_key(interval: int) -> str:
    """Start of an interval (microseconds UTC) as in paths: `20261121T033000.000000Z`; sorts as text."""
    return (_EPOCH + timedelta(microseconds=interval)).strftime(_KEY)


def interval_of_key(key: str) -> int:
    """Reverses `interval_key`."""
    return (datetime.strptime(key, _KEY).replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
