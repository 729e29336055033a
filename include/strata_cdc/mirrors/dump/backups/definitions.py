"""CREATE TABLE statements of backups, changed so that the server that loads them keeps values as they were printed.
Not here: loading (`scratch_server.py`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from strata_cdc.schema.model.definition import TableDefinition

_JSON: Final = re.compile(rb"^(  `(?:[^`]|``)+`) json\b")
_TEXT: Final = rb"\1 longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
LONGTEXT: Final = "longtext"


def keep_json_texts(lines: Iterable[bytes]) -> Iterator[bytes]:
    r"""Makes JSON columns text: a document that is read and printed again is not the same (1.10 becomes 1.1).

    Only lines of CREATE TABLE begin as a column does: mysqldump and MySQL Shell write newlines in values as `\n`.
    """
    is_table = False
    for line in lines:
        if line.startswith(b"CREATE TABLE"):
            is_table = True
        elif is_table and line.startswith(b")"):
            is_table = False
        yield _JSON.sub(_TEXT, line) if is_table else line


def with_json_texts(definition: TableDefinition) -> TableDefinition:
    """A table's definition as `keep_json_texts` makes it."""
    return replace(
        definition,
        columns=tuple(
            replace(column, column_type=LONGTEXT, character_set="utf8mb4", collation="utf8mb4_bin")
            if column.column_type == "json"
            else column
            for column in definition.columns
        ),
    )
