"""Names of tables in columns of the store: `database.table`, quoted if it is ambiguous; one name or a JSON list.
Not here: storing them (`appending.py`), other JSON in columns (`store/json_columns.py`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from strata_cdc.errors import DamagedFileError
from strata_cdc.schema.model.definition import TableName

if TYPE_CHECKING:
    from collections.abc import Iterable

_QUOTED: Final = re.compile(r"`((?:[^`]|``)*)`\.`((?:[^`]|``)*)`")


def names_to_column(names: Iterable[TableName]) -> str:
    """The text of some names."""
    return msgspec.json.encode([name_to_text(name) for name in names]).decode()


def names_from_column(text: str, column: str) -> tuple[TableName, ...]:
    """The inverse of `names_to_column`.

    Args:
        text: The text of the row.
        column: `table.column`, for errors.

    Raises:
        DamagedFileError: The text is not valid.
    """
    try:
        return tuple(name_from_text(name) for name in msgspec.json.decode(text, type=tuple[str, ...]))
    except (msgspec.DecodeError, ValueError) as error:
        raise DamagedFileError(
            f"the column has no list of tables: {error}",
            file=column,
            remedy="The store was changed by hand, or is damaged: restore it from a backup.",
        ) from None


def name_to_text(name: TableName) -> str:
    """`database.table`, in backticks if the first dot may not be the one between the two names."""
    if "." not in name.database and "`" not in name.database:
        return str(name)
    return ".".join(f"`{part.replace('`', '``')}`" for part in (name.database, name.table))


def name_from_text(text: str) -> TableName:
    """The inverse of `name_to_text`.

    Raises:
        ValueError: The text has no dot.
    """
    quoted = _QUOTED.fullmatch(text)
    if quoted:
        return TableName(*(part.replace("``", "`") for part in quoted.groups()))
    database, dot, table = text.partition(".")
    if not dot:
        raise ValueError(f"{text!r} is not database.table")
    return TableName(database, table)
