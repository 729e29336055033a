"""The documents of row events with their types, found in the landed bytes by their texts.

A change table has the text of a document, which does not show whether a number is a DECIMAL or unsigned, and whether a
text is a date. The binary form in the row event does.
Not here: the binary form (`json_tree.py`), which event it is (`past/client_statements.py`).
"""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct, field

from strata_cdc.binlog.bytes.codes import EventType
from strata_cdc.binlog.bytes.files import open_extents
from strata_cdc.binlog.bytes.payload import read_payload
from strata_cdc.errors import StrataError
from strata_cdc.past.undo.json_tree import (
    NotADocumentError,
    document_sql,
    has_types,
    read_tree,
    shown_tree,
    tree_of_text,
)
from strata_cdc.past.undo.literals import InexactError, literal
from strata_cdc.schema.model.types import TypeKind, parse_column_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from strata_cdc.past.client_statements import ClientStatements
    from strata_cdc.past.undo.row_changes import ChangeOrigin
    from strata_cdc.schema.model.definition import Column

_KEPT: Final = 8
_SIZES: Final = {4: 2, 5: 3, 6: 3, 7: 5, 8: 5, 9: 9, 10: 9, 11: 9}
"""Length of a document that is only a literal or a number, by its type."""
_STRING, _OPAQUE = 12, 15
_BYTES: Final = re.compile(r"base64:type\d+:")
_HEAD: Final = 13
"""Bytes that are looked at: the length of a cell, the type, the count and the size of a large container."""
_SIZE_OF_HEADER_LENGTH: Final = 9
Trees = dict[Any, list[Any]]
"""By what their texts show; several if the types differ."""


class LoggedDocuments(Struct):
    """Writes values, documents with the types that the log has."""

    events: ClientStatements
    unknown: dict[str, None] = field(default_factory=dict)
    """Columns of which documents were written by their texts alone."""
    _known: OrderedDict[tuple[str, int], Trees] = field(default_factory=OrderedDict)

    def literal(self, origin: ChangeOrigin, column: Column, value: Any) -> str:
        """As `literals.literal`, for a value of a change.

        Raises:
            InexactError: The value has no exact form in SQL.
        """
        if not isinstance(value, str) or parse_column_type(column.column_type).kind is not TypeKind.JSON:
            return literal(column, value)
        shown = tree_of_text(value)
        if not _may_have_types(shown):
            return literal(column, value)
        trees = self._trees(origin).get(shown_tree(shown), [])
        if len(trees) > 1:
            raise InexactError("the log has several documents with this text, whose values have different types")
        if not trees:
            _require_text(shown)
            self.unknown[column.name] = None
        return document_sql(trees[0]) if trees and has_types(trees[0]) else literal(column, value)

    def _trees(self, origin: ChangeOrigin) -> Trees:
        """The documents of the event of a change; none if its bytes are gone."""
        if origin.binlog_file is None or origin.binlog_pos is None:
            return {}
        key = (origin.binlog_file, origin.binlog_pos)
        if key not in self._known:
            self._known[key] = self._read(origin.seq, *key)
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return self._known[key]

    def _read(self, seq: int, binlog_file: str, binlog_pos: int) -> Trees:
        trees: Trees = {}
        try:
            event = self.events.transaction(seq, binlog_file, binlog_pos)
            if event is None:
                return trees
            segment, record = event
            with open_extents(segment.url, ()) as binlog:
                at = binlog_pos - record.binlog_pos + record.begin
                for data in _row_bytes(binlog, at):
                    for tree in documents_in(data):
                        same = trees.setdefault(shown_tree(tree), [])
                        if tree not in same:
                            same.append(tree)
        except StrataError:
            return {}
        return trees


def _may_have_types(shown: Any) -> bool:
    """Whether a document has more than literals and texts without digits."""
    if isinstance(shown, dict):
        return any(map(_may_have_types, shown.values()))
    if isinstance(shown, list):
        return any(map(_may_have_types, shown))
    if isinstance(shown, str):
        return shown.startswith("base64:") or ((shown[:1] in "-0123456789" and ":" in shown) or shown[4:5] == "-")
    return shown is not None and not isinstance(shown, bool)


def _require_text(shown: Any) -> None:
    """Refuses what the server prints for bytes, where the bytes themselves are gone."""
    if isinstance(shown, dict | list):
        for value in shown.values() if isinstance(shown, dict) else shown:
            _require_text(value)
    elif isinstance(shown, str) and _BYTES.match(shown):
        raise InexactError("the document has bytes in it, which no text of JSON has, and the log is not there any more")


def _row_bytes(binlog: Any, at: int) -> Iterator[NDArray[np.uint8]]:
    """The bytes of a row event, or of all events of a compressed transaction."""
    buffer = binlog.buffer
    binlog.load_event(at)
    length = int.from_bytes(buffer[at + _SIZE_OF_HEADER_LENGTH : at + _SIZE_OF_HEADER_LENGTH + 4].tobytes(), "little")
    if buffer[at + 4] != EventType.TRANSACTION_PAYLOAD:
        yield buffer[at : at + length]
        return
    for chunk in read_payload(buffer, at, length, binlog.format):
        yield chunk.buffer


def documents_in(data: NDArray[np.uint8]) -> Iterator[Any]:
    """Everything in some bytes that is the cell of a document: four bytes of length, and a document of this length."""
    raw = data.tobytes()
    padded = np.concatenate([data, np.zeros(_HEAD, np.uint8)]).astype(np.int64)
    heads = [padded[at : at + len(data)] for at in range(_HEAD)]
    length = _number(heads[:4])
    kind = heads[4]
    small, large = _number(heads[7:9]), _number(heads[9:13])
    is_cell = ((kind == 0) | (kind == 2)) & (small == length - 1)
    is_cell |= ((kind == 1) | (kind == 3)) & (large == length - 1)
    for number, size in _SIZES.items():
        is_cell |= (kind == number) & (length == size)
    is_cell |= ((kind == _STRING) | (kind == _OPAQUE)) & (length >= 2)
    is_cell &= length <= len(data) - 4 - np.arange(len(data))
    for at in np.flatnonzero(is_cell).tolist():
        try:
            yield read_tree(raw[at + 4 : at + 4 + int(length[at])])
        except NotADocumentError:
            continue


def _number(heads: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    total = heads[0].copy()
    for ordinal, head in enumerate(heads[1:], start=1):
        total += head << (8 * ordinal)
    return total
