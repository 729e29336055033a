"""What somebody types into a shell: the words of commands that messages suggest, quoted where they need it.
Not here: reading them back (`cli/table_name.py`, `schema/model/patterns.py`)."""

from __future__ import annotations

from glob import escape
from shlex import quote
from typing import TYPE_CHECKING

from strata_cdc.schema.history.name_columns import name_to_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.schema.model.definition import TableName


def word(text: object) -> str:
    """Any text as one word: a path, a position."""
    return quote(str(text))


def table_word(table: TableName) -> str:
    """A table for a command that takes one table: `schema`, `row` and `undo`."""
    return quote(name_to_text(table))


def row_words(table: TableName, key: Iterable[object]) -> str:
    """A row as the arguments of `row history`; after `--` if one could be taken for an option."""
    texts = [name_to_text(table), *map(str, key)]
    words = " ".join(map(quote, texts))
    return f"-- {words}" if any(text.startswith("-") for text in texts) else words


def pattern_word(table: TableName | str) -> str:
    """A table for a command that takes patterns of tables; a text is `database.table`."""
    return quote(escape(str(table)))
