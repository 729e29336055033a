"""The encodings of a Parquet file's columns, chosen by the first of its rows.
Not here: row groups and compression (`row_groups.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence

_SAMPLE_ROWS = 512
_LEAST_VALUES = 64
"""With fewer values, nothing is known of a column, and nothing can be saved."""
_SAMPLE_BYTES = 1 << 20
"""Limit of a column's sample; longer texts stay plain: they have few lengths."""
_FEW = 32
"""A dictionary saves space if at most one of this many values is new."""
_DENSE = 0.4
"""Share of its size that zstd leaves of digits, hashes and keys, for whose characters it only finds shorter codes."""

_REPEATED = ("_op", "_source", "_binlog_file", "_schema_version", "_committed_at", "_interval")
_RISING = ("_seq", "_row", "_binlog_pos")


class Encodings(Struct, frozen=True):
    """Settings for a Parquet writer; columns that are not named are plain."""

    dictionary: list[str]
    """Paths of columns that begin with a dictionary; the writer stops using it when it becomes too large."""
    others: dict[str, str]
    """Encodings by the path of a column."""


def choose_encodings(rows: pa.Table) -> Encodings:
    """The encodings for change rows like these: the same rows always get the same encodings.

    Texts with few different values get a dictionary. Dense texts are stored separately from their lengths
    (DELTA_LENGTH_BYTE_ARRAY). With a length before each text, zstd would look for repetitions where there are none:
    this takes a third of the time of encoding a table of such texts, and some that it finds cost more than they save.

    Args:
        rows: The first rows of a file, with the columns of a change table. Images before are encoded as those after.
    """
    names = rows.schema.names
    chosen = Encodings(
        [name for name in _REPEATED if name in names],
        {name: "DELTA_BINARY_PACKED" for name in _RISING if name in names},
    )
    before = rows.schema.field("_before").type if "_before" in names else pa.struct([])
    sample = rows.slice(0, _SAMPLE_ROWS)
    for field in rows.schema:
        # In a path, a dot separates a column from the field in it; a column whose name has a dot stays plain.
        if field.name in chosen.dictionary or not _is_text(field.type) or "." in field.name:
            continue
        paths = [field.name]
        inside = f"_before.{field.name}"
        if before.get_field_index(field.name) >= 0 and inside not in names:
            paths.append(inside)
        values = _texts(sample.column(field.name))
        is_known = len(values) >= _LEAST_VALUES
        if is_known and len(set(values)) * _FEW < len(values):
            chosen.dictionary.extend(paths)
        elif field.name == "_gtid":
            chosen.others[field.name] = "DELTA_BYTE_ARRAY"
        elif is_known and _is_dense(values):
            chosen.others.update(dict.fromkeys(paths, "DELTA_LENGTH_BYTE_ARRAY"))
    return chosen


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _texts(column: pa.ChunkedArray) -> list[bytes]:
    if column.nbytes > _SAMPLE_BYTES:
        return []
    values = (value for value in column.to_pylist() if value is not None)
    return [value.encode() if isinstance(value, str) else value for value in values]


def _is_dense(values: Sequence[bytes]) -> bool:
    data = b"".join(values)
    return len(pa.compress(data, codec="zstd", asbytes=True)) > _DENSE * len(data)
