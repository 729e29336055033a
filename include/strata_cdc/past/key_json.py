"""A key as JSON, in the form that JSON lines have: `{"id": 7}`.
Not here: keys as words (`row_paths.py`), what a text means in a column (`key_texts.py`)."""

from __future__ import annotations

import base64
import binascii
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from strata_cdc.changes.arrow import arrow_type
from strata_cdc.errors import Usage
from strata_cdc.schema.model.folding import fold_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.schema.model.definition import Column


def words_of_json(text: str, columns: Sequence[Column]) -> list[str]:
    """The values of a key as the words of a command, in the order of its columns.

    Args:
        text: An object with a value for each column, whatever the case of its name: numbers, texts, and bytes in
            base64, as JSON lines have them. Or a list of the values; of a key of one column, the value alone.
        columns: Those of the key.

    Raises:
        Usage: It is no JSON, or has not exactly these columns.
    """
    names = ", ".join(column.name for column in columns)
    example = json.dumps({column.name: "..." for column in columns}, ensure_ascii=False)
    try:
        # Digits stay as they are written: a DECIMAL has more of them than a float.
        key = json.loads(text, parse_float=str, parse_int=str)
    except ValueError as error:
        raise Usage(f"the key {text!r} is no JSON: {error}", remedy=f"Write it as {example}.") from None
    if isinstance(key, dict):
        by_name = {fold_name(name): value for name, value in key.items()}
        wanted = [fold_name(column.name) for column in columns]
        values = [by_name[name] for name in wanted] if by_name.keys() == set(wanted) else []
    else:
        values = key if isinstance(key, list) else [key]
    if len(values) != len(columns):
        raise Usage(f"the key {text!r} has not the columns {names}", remedy=f"Write it as {example}.")
    return list(map(_word, columns, values))


def _word(column: Column, value: Any) -> str:
    if not isinstance(value, str):
        raise Usage(f"{json.dumps(value)} is no value of {column.name}, a column of the key")
    if not pa.types.is_binary(arrow_type(column)):
        return value
    try:
        return f"0x{base64.b64decode(value, validate=True).hex()}"
    except binascii.Error:
        raise Usage(
            f"{value!r} is no value of {column.name}, which is {column.column_type}",
            remedy="In JSON, bytes are in base64.",
        ) from None
