"""Renames columns of a finished Parquet file: its pages stay as they are, and the names in its footer are exchanged.
Not here: which names (`continued.py`).

The footer is Thrift in the compact protocol (parquet.thrift, `FileMetaData`). Names are in three parts of it: the
schema, the path of each column chunk, and the Arrow schema that pyarrow stores in addition. Lists and structs do not
store their length in bytes, so a name can be replaced by a longer one at its position.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec import Struct

from strata_cdc.changes.arrow import BEFORE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_MAGIC = b"PAR1"
_ARROW_SCHEMA = b"ARROW:schema"

# Types of the compact protocol (thrift-compact-protocol.md).
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12

# Fields of parquet.thrift.
_SCHEMA, _ROW_GROUPS, _KEY_VALUES = 2, 4, 5
_ELEMENT_NAME, _ELEMENT_CHILDREN = 4, 5
_GROUP_COLUMNS, _CHUNK_META, _META_PATH = 1, 3, 3
_KEY, _VALUE = 1, 2


def rename_columns(content: bytes, names: Mapping[str, str]) -> tuple[Any, ...]:
    """A Parquet file with other names for columns at the top level and in `_before`.

    Args:
        content: The file.
        names: Name -> new name; other columns keep theirs.

    Returns:
        The new file in parts, the first of which shares memory with `content`.
    """
    if not names:
        return (content,)
    end = len(content) - 8
    begin = end - int.from_bytes(content[end : end + 4], "little")
    footer = memoryview(content)[begin:end]
    parts: list[Any] = []
    at = 0
    for text, new in sorted(_exchanges(_ThriftReader(footer).struct(), names), key=lambda pair: pair[0].start):
        parts += [footer[at : text.start], _varint(len(new)), new]
        at = text.end
    renamed = b"".join((*parts, footer[at:]))
    return memoryview(content)[:begin], renamed, len(renamed).to_bytes(4, "little"), _MAGIC


class _Text(Struct, frozen=True):
    """A text or bytes in the footer, including the length before it."""

    start: int
    end: int
    value: bytes


def _exchanges(footer: dict[int, Any], names: Mapping[str, str]) -> Iterator[tuple[_Text, bytes]]:
    encoded = {old.encode(): new.encode() for old, new in names.items()}
    paths = [chunk[_CHUNK_META][_META_PATH] for group in footer[_ROW_GROUPS] for chunk in group[_GROUP_COLUMNS]]
    for path in (*_schema_paths(footer[_SCHEMA]), *paths):
        for text in _renamable(path):
            if text is not None and text.value in encoded:
                yield text, encoded[text.value]
    for entry in footer.get(_KEY_VALUES, ()):
        if entry[_KEY].value == _ARROW_SCHEMA:
            yield entry[_VALUE], _renamed_arrow_schema(entry[_VALUE].value, names)


def _renamable(path: Sequence[_Text | None]) -> Sequence[_Text | None]:
    """The part of the path that names a column: the first part, or the part below `_before`."""
    first = path[0]
    inside = first is None or first.value == BEFORE.encode()
    return path[1:2] if inside else path[:1]


def _schema_paths(elements: Sequence[dict[int, Any]]) -> Iterator[tuple[_Text | None, ...]]:
    """The schema's columns as paths. The schema is a tree, listed with each node before its children.

    Below the children of the root, only the columns in `_before` are returned; None stands for `_before` itself.
    """
    rest = iter(elements)

    def skip(count: int) -> None:
        for _ in range(count):
            skip(next(rest).get(_ELEMENT_CHILDREN, 0))

    for _ in range(next(rest).get(_ELEMENT_CHILDREN, 0)):
        element = next(rest)
        children = element.get(_ELEMENT_CHILDREN, 0)
        if element[_ELEMENT_NAME].value != BEFORE.encode():
            yield (element[_ELEMENT_NAME],)
            skip(children)
            continue
        for _ in range(children):
            inner = next(rest)
            yield None, inner[_ELEMENT_NAME]
            skip(inner.get(_ELEMENT_CHILDREN, 0))


def _renamed_arrow_schema(value: bytes, names: Mapping[str, str]) -> bytes:
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(value)))
    fields = []
    for field in schema:
        if field.name == BEFORE:
            inner = [child.with_name(names.get(child.name, child.name)) for child in field.type]
            fields.append(field.with_type(pa.struct(inner)))
        else:
            fields.append(field.with_name(names.get(field.name, field.name)))
    renamed = pa.schema(fields, schema.metadata)
    return base64.b64encode(renamed.serialize().to_pybytes())


class _ThriftReader:
    """Reads values of the compact protocol: structs as field id -> value, texts with their positions."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    def struct(self) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while header := self._byte():
            step, kind = header >> 4, header & 15
            number = number + step if step else self._signed()
            # In a struct, the type has the value of a boolean; elsewhere, a boolean has its own byte.
            fields[number] = kind == _TRUE if kind in {_TRUE, _FALSE} else self._value(kind)
        return fields

    def _value(self, kind: int) -> Any:
        if kind == _STRUCT:
            return self.struct()
        if kind == _BINARY:
            return self._text()
        if kind in {_LIST, _SET}:
            header = self._byte()
            count = header >> 4
            count = self._unsigned() if count == 15 else count
            return [self._value(header & 15) for _ in range(count)]
        if kind == _MAP:
            count = self._unsigned()
            kinds = self._byte() if count else 0
            return [(self._value(kinds >> 4), self._value(kinds & 15)) for _ in range(count)]
        if kind == _DOUBLE:
            self._at += 8
            return None
        return self._byte() if kind in {_TRUE, _FALSE, _BYTE} else self._signed()

    def _text(self) -> _Text:
        start = self._at
        length = self._unsigned()
        self._at += length
        return _Text(start, self._at, bytes(self._data[self._at - length : self._at]))

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    def _signed(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 128:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes((*out, number))
