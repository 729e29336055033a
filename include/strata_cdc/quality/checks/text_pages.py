"""Columns of texts straight from their Parquet pages: such a page has its texts one after the other, as Arrow has them.
Not here: unpacking their lengths (`binlog/kernels/text_pages.py`), every other column, which Arrow reads. Arrow copies
each text of a page into an array of its own, which takes as long as to decompress the page. What is not known here in
each detail is left to Arrow, and so is what is damaged: its errors are the ones that a check reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from strata_cdc.binlog.kernels.text_pages import known_rows, place_texts, unpack_lengths

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    import pyarrow.parquet as pq

# Of parquet.thrift.
_KIND, _SIZE, _PACKED_SIZE, _DATA = 1, 2, 3, 5
_COUNT, _ENCODING, _LEVELS = 1, 2, 3
_DATA_PAGE = 0
_RLE = 3
_DELTA_LENGTH_BYTE_ARRAY = 6

_ENCODINGS = frozenset({"RLE", "DELTA_LENGTH_BYTE_ARRAY"})
_FRAME = b"\x28\xb5\x2f\xfd"
"""Begins what zstd has compressed (RFC 8878)."""
_CODEC: Final = pa.Codec("zstd")
_NO_BYTES = np.zeros(0, np.uint8)


class _UnknownFormError(Exception):
    """Arrow knows better."""


def texts_of_group(
    content: memoryview, parquet: pq.ParquetFile, group: int, wanted: Collection[str]
) -> dict[str, pa.ChunkedArray]:
    """Columns of a row group, by name, with a chunk for each page: those that are known here.

    Args:
        content: The file; the columns have none of its memory.
        parquet: The same file.
        group: Number of the row group.
        wanted: Names of columns.
    """
    columns = {}
    metadata = parquet.metadata.row_group(group)
    for at in range(metadata.num_columns):
        chunk, column = metadata.column(at), parquet.schema.column(at)
        if column.name not in wanted or not _is_known(chunk, column):
            continue
        kind = parquet.schema_arrow.field(column.name).type
        if kind not in (pa.string(), pa.binary()):
            continue
        try:
            pages = [_texts(page, kind, nullable=column.max_definition_level == 1) for page in _pages(content, chunk)]
        except (_UnknownFormError, IndexError, pa.ArrowException, OSError):
            continue
        texts = pa.chunked_array(pages, kind)
        if len(texts) == metadata.num_rows:
            columns[column.name] = texts
    return columns


def _is_known(chunk: pq.ColumnChunkMetaData, column: pq.ColumnSchema) -> bool:
    """Whether it is a column of texts at the top, not inside of another one, for which the footer has no other type."""
    return (
        chunk.physical_type == "BYTE_ARRAY"
        and chunk.compression == "ZSTD"
        and _ENCODINGS.issuperset(chunk.encodings)
        and not chunk.has_dictionary_page
        and chunk.statistics is None
        and column.max_repetition_level == 0
        and column.max_definition_level <= 1
        and column.path == column.name
        and "." not in column.name
    )


class _TextPage(NamedTuple):
    rows: int
    """With those that are NULL."""
    data: pa.Buffer


def _pages(content: memoryview, chunk: pq.ColumnChunkMetaData) -> Iterator[_TextPage]:
    at, end = chunk.data_page_offset, chunk.data_page_offset + chunk.total_compressed_size
    if not 0 <= at <= end <= len(content):
        raise _UnknownFormError
    content = content[:end]
    while at < end:
        header, at = _thrift_struct(content, at)
        data = header.get(_DATA)
        if header.get(_KIND) != _DATA_PAGE or not isinstance(data, dict):
            raise _UnknownFormError
        if (data.get(_ENCODING), data.get(_LEVELS)) != (_DELTA_LENGTH_BYTE_ARRAY, _RLE):
            raise _UnknownFormError
        size = header.get(_PACKED_SIZE, -1)
        packed = content[at : at + size]
        # zstd holds a frame to its size, but Arrow does not report how much it has decompressed.
        if len(packed) != size or _frame_size(packed) != header.get(_SIZE):
            raise _UnknownFormError
        yield _TextPage(data.get(_COUNT, -1), _CODEC.decompress(packed, header[_SIZE]))
        at += size


def _frame_size(packed: memoryview) -> int | None:
    """Bytes of what was compressed, if its frame has it."""
    if len(packed) < 14 or bytes(packed[:4]) != _FRAME:
        return None
    form = packed[4]
    is_single, width = form & 0x20, (0, 2, 4, 8)[form >> 6]
    if form & 3:
        return None  # a dictionary
    if is_single and not width:
        return int(packed[5])
    begin = 5 if is_single else 6
    size = int.from_bytes(packed[begin : begin + width], "little")
    return None if not width else size + 256 if width == 2 else size


def _texts(page: _TextPage, kind: pa.DataType, *, nullable: bool) -> pa.Array:
    data = np.frombuffer(page.data, np.uint8)
    known, count, begin = _NO_BYTES, page.rows, 0
    if count < 0:
        raise _UnknownFormError
    if nullable:
        known = np.empty(count, np.uint8)
        begin = 4 + int.from_bytes(data[:4].tobytes(), "little")
        count = int(known_rows(data, 4, begin, known))
        if count < 0:
            raise _UnknownFormError
    lengths = np.empty(count, np.int64)
    begin = int(unpack_lengths(data, begin, lengths))
    has_nulls = count < page.rows
    offsets = np.empty(page.rows + 1, np.int32)
    end = int(place_texts(lengths, known if has_nulls else _NO_BYTES, offsets))
    if begin < 0 or end < 0 or begin + end != len(data):
        raise _UnknownFormError
    validity = pa.py_buffer(np.packbits(known, bitorder="little")) if has_nulls else None
    buffers = [validity, pa.py_buffer(offsets), page.data.slice(begin)]
    return pa.Array.from_buffers(kind, page.rows, buffers, page.rows - count)


def _varint(content: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def _thrift_struct(content: memoryview, at: int) -> tuple[dict[int, Any], int]:
    """A struct of Thrift's compact protocol by numbers of fields, and where it ends."""
    fields: dict[int, Any] = {}
    number = 0
    while header := content[at]:
        at += 1
        step, kind = header >> 4, header & 15
        if step:
            number += step
        else:
            number, at = _varint(content, at)
            number = (number >> 1) ^ -(number & 1)
        fields[number], at = _thrift_value(content, at, kind)
    return fields, at + 1


def _thrift_value(content: memoryview, at: int, kind: int) -> tuple[Any, int]:
    """Structs and numbers of 32 bits; of what else is in the header of a page, nothing but where it ends."""
    if kind == 12:
        return _thrift_struct(content, at)
    if kind not in {5, 6, 8}:  # numbers of 32 and 64 bits, texts
        raise _UnknownFormError
    value, end = _varint(content, at)
    if kind == 5:
        return (value >> 1) ^ -(value & 1), end
    return None, end + (value if kind == 8 else 0)
