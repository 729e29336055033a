"""The result of one pass over a staged file: small values, sent from the process that read the file to the one that
judges.
Not here: reading files (`one_pass.py`), the verdict on all of them (`pass_engine.py`)."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, Final

from msgspec import Struct

EXAMPLES: Final = 20
"""Offending rows that a verdict has."""
EXAMPLE_LENGTH: Final = 200
"""Characters of one of them."""
POSITION: Final = ("_gtid", "_seq", "_row")
"""The columns with a row's position."""


def example_text(example: Any) -> str:
    """An offending row as a verdict quotes it."""
    text = json.dumps(example, ensure_ascii=False, default=_value_text)
    return text if len(text) <= EXAMPLE_LENGTH else f"{text[: EXAMPLE_LENGTH - 3]}..."


def _value_text(value: Any) -> str:
    """A value that JSON does not know; a decimal as the server writes it, with all digits and no exponent."""
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


class Example(Struct, frozen=True, order=True):
    """One of the rows that break a rule."""

    seq: int
    row: int
    text: str
    """Its position and value as JSON."""


class RuleFound(Struct, frozen=True):
    """What a rule met in some rows."""

    rows: int
    """It is about these."""
    unexpected: int = 0
    """These break it."""
    examples: tuple[Example, ...] = ()
    """The first of them, in the order of the stream."""


class FileFault(Struct, frozen=True):
    """What is wrong with a file as a whole."""

    check: str
    message: str
    rows: int | None = None


class FileProfile(Struct, frozen=True):
    """One staged file."""

    url: str
    rows: int = 0
    damage: str | None = None
    """How it differs from what was decoded, or why it cannot be read; nothing else is known then."""
    error: str | None = None
    """Which unforeseen exception its pass ended with; nothing else is known then."""
    columns: tuple[str, ...] = ()
    is_unlike: bool = False
    """Whether its columns are not those of its schema version; then only the rules of the stream were judged."""
    found: tuple[RuleFound, ...] = ()
    """For each rule of the stream, then for each of its schema version; rules across rows are judged elsewhere."""
    first: tuple[int, int] | None = None
    last: tuple[int, int] | None = None
    """`_seq` and `_row` of its first and last row; None where rows have none."""
    is_ordered: bool = True
    """Whether `_seq` and `_row` rise from row to row."""
    chain: RuleFound | None = None
    """What the images of one key are to each other within the file."""
    faults: tuple[FileFault, ...] = ()
