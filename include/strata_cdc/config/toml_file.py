"""The lines of a TOML file.
Not here: reading its values (`fields.py`), which settings there are (`settings.py`)."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.fields import Path


def key_lines(text: str) -> dict[Path, int]:
    """The line, from 1, on which each key of a valid TOML file is first named.

    A statement of TOML may span several lines, and no part of it that ends with a line is valid. So lines are joined
    until they are valid, and the parser itself says which keys they hold.
    """
    lines_of_keys: dict[Path, int] = {}
    table: Path = ()
    statement, first = "", 1
    for number, line in enumerate(text.split("\n"), 1):
        statement += line + "\n"
        try:
            values = tomllib.loads(statement)
        except tomllib.TOMLDecodeError:
            continue
        paths = list(_paths(values))
        if statement.lstrip().startswith("["):
            table = max(paths, key=len)
        else:
            paths = [(*table, *path) for path in paths]
        for path in paths:
            lines_of_keys.setdefault(path, first)
        statement, first = "", number + 1
    return lines_of_keys


def _paths(values: Any, path: Path = ()) -> Iterator[Path]:
    """The keys of all tables in some values, each with its path."""
    if isinstance(values, list):
        for item in values:
            yield from _paths(item, path)
    if isinstance(values, dict):
        for key, value in values.items():
            yield (*path, key)
            yield from _paths(value, (*path, key))
