"""The rows of a query as text: JSON values, JSON lines, CSV.
Not here: the query (`query.py`), how each type is written (`changes/jsonl.py`)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from strata_cdc.changes.jsonl import JSON_VALUES

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


def json_lines(answer: Answer) -> Iterator[str]:
    """A line for each row, without its end. Of columns with the same name, the line has the last."""
    names = answer.rows.column_names
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
