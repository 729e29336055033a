"""The rows of a query as text: JSON values, JSON lines, CSV.
Not here: the query (`query.py`), how each type is written (`changes/jsonl.py`)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from strata_cdc.changes.jsonl import JSON_VALUES
from strata_cdc.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.past.query import Answer


def json_rows(answer: Answer) -> Iterator[tuple[Any, ...]]:
    """The rows with their values as JSON has them: numbers as numbers, decimals and dates as the texts that MySQL
    prints, bytes as base64."""
    columns = [
        JSON_VALUES[kind.column_type.kind](kind.column_type)(array.combine_chunks())
        for kind, array in zip(answer.kinds, answer.rows.columns, strict=True)
    ]
    return zip(*columns, strict=True)


def distinct_names(answer: Answer) -> list[str]:
    """The names of the columns, for a form that holds each name once.

    Raises:
        QueryError: Two columns have one name.
    """
    names: list[str] = answer.rows.column_names
    twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if twice is not None:
        raise QueryError(f"two columns are called {twice}", remedy="Name one of them by AS, or take --format csv.")
    return names


def json_lines(answer: Answer) -> Iterator[str]:
    """A line for each row, without its end.

    Raises:
        QueryError: Two columns have one name.
    """
    names = distinct_names(answer)
    return (json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) for row in json_rows(answer))


def csv_lines(answer: Answer) -> Iterator[str]:
    """A line of names, and a line for each row (RFC 4180). NULL is an empty field; every text has quotes."""
    yield ",".join(map(_csv_field, answer.rows.column_names))
    for row in json_rows(answer):
        yield ",".join(map(_csv_field, row))


def _csv_field(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value)
    return '"' + text.replace('"', '""') + '"' if isinstance(value, (str, list)) else text
